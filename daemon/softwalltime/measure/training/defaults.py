"""Defaults of training; without numpy, because help imports them."""

JOBS, EPOCHS, SEED = 80_000, 3, 1
"""Most jobs of one log to train on, passes over them, and seed of all random choices."""
