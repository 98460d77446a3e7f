"""Benchmarks: speed against the machine's limits and against other ways to do the same."""
