"""Defaults of a training; help names them without importing numpy."""

JOBS, EPOCHS, SEED = 80_000, 3, 1
"""Most jobs of one log to train on, passes over them, and seed of all random choices."""
