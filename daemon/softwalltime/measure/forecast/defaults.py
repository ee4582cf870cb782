"""Defaults of forecasts; without numpy, because help imports them."""

PREDICTOR = "calibrated:statistic=median"
"""The predictor of runtimes by default: softwalltime replay-starts found the least errors with it."""
RUNS, FEWER_RUNS = 150, 60
"""Number of runs with drawn runtimes, and the lower number for expensive models."""
LOOK = 60.0
"""Maximum seconds that PBS may take for one answer while a snapshot is taken."""
