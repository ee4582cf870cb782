"""Features, classes and the Tobit fit of the predictors that are regressions over classes of jobs; they need numpy."""
