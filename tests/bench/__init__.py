"""The benchmark: what it counts, what it refuses, what it leaves behind. No test says how fast anything is."""
