"""Values that are wrong on purpose, made from the runtime: what a policy loses where predictions fail.

(M. Purohit, Z. Svitkina & R. Kumar, "Improving online algorithms via ML predictions", NeurIPS 2018, call what a policy
gains with true predictions its consistency, and what it keeps with any its robustness.)
"""

from collections.abc import Callable
from random import Random

from softwalltime.errors import OptionError

Distortion = Callable[[int, float, float], float]
"""Takes a job's position, its runtime and its walltime in seconds; returns the value."""
_PREFIX = "runtime:"
_FACTOR = "factor="


def is_distorted(spec: str) -> bool:
    """Whether a specification names a value that is made from the runtime."""
    return spec.startswith(_PREFIX)


def distortion(spec: str) -> Distortion:
    """The value of ``runtime:factor=2``, ``runtime:random`` or ``runtime:inverse``.

    ``random`` is 1 s to the walltime, uniform in the logarithm.  ``inverse`` is walltime / runtime: of two jobs with
    the same walltime the shorter one has the greater value.

    >>> distortion("runtime:inverse")(0, 1, 3600)
    3600.0

    :raises OptionError: for another specification.
    """
    text = spec.removeprefix(_PREFIX)
    if text == "random":
        return lambda job, _, walltime: float(walltime ** Random(job).random())  # noqa: S311  # no secret
    if text == "inverse":
        return lambda _, runtime, walltime: walltime / runtime
    try:
        factor = float(text.removeprefix(_FACTOR)) if text.startswith(_FACTOR) else 0.0
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise OptionError(f"{spec!r}: there are runtime:factor=2, runtime:random and runtime:inverse")
    return lambda _, runtime, __: runtime * factor
