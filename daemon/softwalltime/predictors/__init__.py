"""The predictors: one file per family, found by :mod:`softwalltime.predictors.registry`."""
