"""From a job to its soft walltime: predictors, the driver that teaches and asks them, and the site's policy."""
