"""Kernels: what a statistic averages over pairs of users, and the grids that values are put on."""
