"""Owns the device and the work done on it. Knows no HTTP."""
