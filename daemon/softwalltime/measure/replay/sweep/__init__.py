"""Predictors tried on workloads for sweep and tune, on all cores or a cluster; results are saved as they come."""
