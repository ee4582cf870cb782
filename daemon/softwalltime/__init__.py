"""Soft walltimes for PBS: how long will this job really run?

The names of :mod:`softwalltime.api` can be imported from here, and are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str

    from softwalltime.api import (
        CompletedJob,
        NoPrediction,
        Options,
        Prediction,
        Predictor,
        Replayed,
        SchedulerPolicy,
        Simulated,
        Submission,
        generate,
        read_jobs,
        replay,
        simulate,
    )

__all__ = [
    "CompletedJob", "NoPrediction", "Options", "Prediction", "Predictor", "Replayed", "SchedulerPolicy", "Simulated",
    "Submission", "__version__", "generate", "read_jobs", "replay", "simulate",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # The daemon and most commands need none of these, and numpy takes a tenth of a second.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "__version__":
        # Looking for it in the installed packages takes as long as printing help.
        return import_module("importlib.metadata").version("pbs-softwalltime")
    return getattr(import_module("softwalltime.api"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
