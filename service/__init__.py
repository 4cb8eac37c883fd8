"""KV-canary plans over HTTP. Importing this package does nothing; see service.plan for the in-process API."""
