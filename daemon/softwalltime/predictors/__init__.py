"""The predictors, one module for each family; :mod:`softwalltime.predictors.registry` finds them."""
