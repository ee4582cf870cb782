"""Fields of a submission by which predictors find like jobs: help prints them without importing pydantic."""

KEYS = ("user", "group", "project", "account", "queue", "job_name", "walltime", "ncpus", "nodect", "ngpus")
"""Fields of a submission that may be keys."""
SIGNATURE = ("user", "project", "job_name", "queue", "ncpus", "walltime")
"""The keys that say what is known of a job at its submission."""
