"""The contract over HTTP: every recorded case, in process and over a socket."""
