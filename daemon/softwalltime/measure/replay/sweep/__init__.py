"""Evaluate many predictors for sweep and tune, on all cores or a cluster; results are saved as they are computed."""
