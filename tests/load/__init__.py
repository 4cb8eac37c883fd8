"""What the benchmark measures the service against."""
