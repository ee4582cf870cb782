"""The parts of the predictor ``calibrated``: distributions, similar jobs, priors, prices, evidence."""
