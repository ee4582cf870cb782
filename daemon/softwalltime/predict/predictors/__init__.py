"""The predictors, one module for each family; :mod:`softwalltime.predict.predictors.registry` finds them."""
