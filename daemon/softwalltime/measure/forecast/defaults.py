"""Defaults and names of forecasts: help prints them without importing numpy."""

PREDICTOR = "calibrated:statistic=median"
"""The predictor of runtimes by default: softwalltime replay-starts found the least errors with it."""
RUNS, FEWER_RUNS = 150, 60
"""Runs with drawn runtimes; fewer where a run is expensive."""
LOOK = 60.0
"""Seconds that PBS's commands may take together to show the server's state."""
