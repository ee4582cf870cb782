"""The predictors to try: all of the registry, with the options that each one names."""

from softwalltime.predictors.registry import BASELINE, available
from softwalltime.replay.sweep.grid import expand_all


def candidates() -> list[str]:
    """Return the specifications to try, the baseline first."""
    grids = [
        f"{predictor.name}:{options}" if options else predictor.name
        for predictor in available()
        for options in predictor.tried_options
    ]
    return expand_all([BASELINE, *grids])
