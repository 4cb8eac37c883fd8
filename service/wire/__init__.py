"""Bytes to host arrays and back. Knows neither HTTP nor devices."""
