"""Fields of a submission by which predictors find like jobs: help prints them without importing pydantic."""

from collections.abc import Iterable

from softwalltime.core.errors import meant

KEYS = ("user", "group", "project", "account", "queue", "job_name", "walltime", "ncpus", "nodect", "ngpus")
"""Fields of a submission that may be keys."""
SIGNATURE = ("user", "project", "job_name", "queue", "ncpus", "walltime")
"""The keys that say what is known of a job at its submission."""


def wrong_keys(keys: Iterable[str]) -> str:
    """Say what is wrong with these keys, and which ones there are."""
    questions = [question for key in keys if key not in KEYS and (question := meant(key, KEYS))]
    return " ".join([*questions, f"keys are one or more of {', '.join(KEYS)}, joined by +, each once"])
