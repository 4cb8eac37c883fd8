"""The HTTP surface: what is refused, what is bounded, and what happens under load."""
