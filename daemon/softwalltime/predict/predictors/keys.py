"""Fields of a submission by which predictors find like jobs; without pydantic, because help imports it."""

from collections.abc import Iterable

from softwalltime.core.errors import meant

KEYS = ("user", "group", "project", "account", "queue", "job_name", "walltime", "ncpus", "nodect", "ngpus")
"""Fields of a submission that may be keys."""
SIGNATURE = ("user", "project", "job_name", "queue", "ncpus", "walltime")
"""The default keys: everything that identifies like jobs at submission."""


def wrong_keys(keys: Iterable[str]) -> str:
    """Raise an error that names the wrong keys and the valid ones."""
    questions = [question for key in keys if key not in KEYS and (question := meant(key, KEYS))]
    return " ".join([*questions, f"keys are one or more of {', '.join(KEYS)}, joined by +, each once"])
