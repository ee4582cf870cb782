"""Predict runtimes and decide soft walltimes: predictors, their driver, and the site's policy."""
