"""What :mod:`softwalltime.predictors.calibrated` is made of: distributions, similar jobs, priors, prices, evidence."""
