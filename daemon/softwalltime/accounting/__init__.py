"""Recorded jobs: PBS accounting logs and Standard Workload Format traces, read and written."""
