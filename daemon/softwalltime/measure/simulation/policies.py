"""Scheduling policies: the settings of a simulation."""

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from softwalltime.core.errors import OptionError, SourceError
from softwalltime.core.validation import hint, plain, read_toml
from softwalltime.measure.simulation.resources import RunLimit, Vnodes
from softwalltime.measure.simulation.shares import FairShareSettings
from softwalltime.predict.policy.clamp import MIN_SOFT_WALLTIME_S
from softwalltime.predict.policy.site import Exclusive
from softwalltime.predict.predictors.registry import contents_of, make

Distortion = Callable[[int, float, float], float]
"""Function (position, runtime, walltime), in seconds, that returns the value."""
_PREFIX = "runtime:"
_FACTOR = "factor="


def is_distorted(spec: str) -> bool:
    return spec.startswith(_PREFIX)


def distortion(spec: str) -> Distortion:
    """The value of ``runtime:factor=2``, ``runtime:random`` or ``runtime:inverse``.

    They measure a policy's robustness against bad predictions (M. Purohit, Z. Svitkina & R. Kumar, "Improving online
    algorithms via ML predictions", NeurIPS 2018).  ``random`` is 1 s to the walltime, uniform in the logarithm;
    ``inverse`` is walltime / runtime.

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


WALLTIME = "walltime"
"""The specification of a value that is the walltime."""
RUNTIME = "runtime"
"""The specification of a value that is the job's runtime, which no real scheduler knows: a bound."""
SOFT_WALLTIME = "soft_walltime"
"""The specification of a value that is the soft walltime of the job's record, or the walltime where it has none."""
FIXED = (WALLTIME, RUNTIME, SOFT_WALLTIME)
"""Specifications that need no predictor, besides distorted runtimes (:func:`distortion`)."""


def is_known(spec: str) -> bool:
    return spec in FIXED or is_distorted(spec)


@dataclass(frozen=True, slots=True)
class SchedulerPolicy:
    """Order, backfilling and estimates of a simulation (:mod:`orders`, :mod:`backfilling`, :mod:`corrections`)."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    order: str = "fcfs"
    """Order of the queue."""
    backfill: str = "easy"
    """Backfilling algorithm."""
    waiting: str = WALLTIME
    """Value of waiting jobs: walltime, runtime, runtime:factor=2, runtime:random, runtime:inverse, soft_walltime or a
    predictor."""
    running: str = WALLTIME
    """Value of running jobs."""
    ordering: str = WALLTIME
    """Value that the order uses."""
    guard: Annotated[int, Field(ge=0)] | None = None
    """Seconds by which the top job must be late for walltimes to be used; null: no guard."""
    keep_promises: Annotated[int, Field(ge=0)] | None = None
    """Seconds after its submission from which a job with a promised start comes first in the queue; null: never."""
    correction: str = "pbs"
    """Rule for a running job that outlives its value."""
    depth: Annotated[int, Field(ge=1)] | None = None
    """Number of jobs that get a reservation, of pbs, conservative and slack; null: 1, 300 and 1000 of them."""
    queue_depths: tuple[tuple[str, Annotated[int, Field(ge=0)]], ...] = ()
    """Queues of pbs with a backfill_depth of their own, as pairs; depth is that of all others together."""
    slack: Annotated[int, Field(ge=0)] | None = None
    """Seconds from the start that first come, first served would give a job at its submission to its bound, which slack
    keeps and other backfillings measure; null: 14400 of slack, no bounds of others."""
    slack_share: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.25
    """The slack is at least this share of that planned wait."""
    raise_lead: Annotated[int, Field(ge=0)] | None = None
    """Seconds before its bound, at most the slack, from which a job comes first in the queue, and the guard counts it
    as late; null: never."""
    live: Annotated[int, Field(ge=1)] | None = None
    """Seconds between two estimates of a job; null: one estimate."""
    formula: str = ""
    """Expression of the order formula."""
    queue_priorities: tuple[tuple[str, int], ...] = ()
    """Priorities of queues for the formula, as pairs; other queues have 0."""
    limits: tuple[RunLimit, ...] = ()
    """Limits on running jobs, of the backfillings none and pbs."""
    vnodes: tuple[Vnodes, ...] = ()
    """Vnodes of the machine, for queues with vnodes of their own and for jobs that get whole ones; none: processors."""
    queues: tuple[str, ...] = ()
    """Queues that the scheduler goes through one after the other (by_queue), others last; none: all are one queue."""
    fair_share: FairShareSettings | None = None
    """Entities, shares and decay of the order fairshare, and of a formula with terms of fair share; null: equal shares
    of users."""
    strict_ordering: bool = True
    """PBS's strict_ordering."""
    classes_by_value: bool = False
    """Whether PBS's cycle puts jobs with different values in different classes."""
    kill_at_walltime: bool = True
    """Whether jobs end at their walltime at the latest."""
    kill_at_estimate: bool = False
    """Whether jobs end at their running value, as set at their start, at the latest."""
    minimum: Annotated[int, Field(ge=1)] = MIN_SOFT_WALLTIME_S
    """Least value in seconds."""
    exclusive: Exclusive = "walltime"
    """Value of waiting jobs with exclusive placement: walltime, or waiting as others."""

    @property
    def given(self) -> dict[str, Any]:
        default = asdict(SchedulerPolicy())
        return {key: value for key, value in asdict(self).items() if value != default[key]}

    @property
    def name(self) -> str:
        """Order and backfilling, then all values other than the default: ``fcfs+easy waiting=factor:0.5``."""
        others = ("order", "backfill", "kill_at_walltime", "kill_at_estimate")
        rest = [f"{key}={value}" for key, value in self.given.items() if key not in others]
        if self.kill_at_estimate:
            rest.append("kill-at-estimate")
        elif not self.kill_at_walltime:
            rest.append("run-as-recorded")
        return " ".join([f"{self.order}+{self.backfill}", *rest])

    @property
    def contents(self) -> dict[str, str]:
        """Digests of the files that its predictors read, by their specification."""
        specs = sorted({self.waiting, self.running, self.ordering})
        return {spec: digest for spec in specs if not is_known(spec) and (digest := contents_of(spec))}


_ADAPTER = TypeAdapter(SchedulerPolicy)


def policy_of(values: dict[str, Any], where: str, predictors: Collection[str] = ()) -> SchedulerPolicy:
    """A policy from plain values.

    :param predictors: names that need not be in the registry.
    :param where: what the message of an error begins with.
    :raises OptionError: names the key, its value and what is allowed.
    """
    try:
        policy = _ADAPTER.validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            known = asdict(FairShareSettings() if "." in key else SchedulerPolicy())
            raise OptionError(f"{where}: unknown key {key}; {hint(key.rpartition('.')[2], known)}") from error
        raise OptionError(f"{where}: {key} = {first['input']!r}: {plain(first['msg'])}") from error
    for spec in (policy.waiting, policy.running, policy.ordering):
        if is_distorted(spec):
            distortion(spec)
        elif spec not in FIXED and spec not in predictors:
            make(spec)
    return policy


def read_policies(path: Path, defaults: dict[str, Any]) -> dict[str, SchedulerPolicy]:
    """The policies of a TOML file, a table each, by the table's name and in the file's order.

    :param defaults: values of keys that a table does not have.
    :raises SourceError: if the file cannot be read, is not TOML, or holds no policy.
    :raises OptionError: if a policy is wrong.
    """
    document = read_toml(path, str(path))
    for name, table in document.items():
        if not isinstance(table, dict):
            raise SourceError(f"{path}: {name} is outside a table: each policy is a table such as [{name}]")
    if not document:
        raise SourceError(f"{path}: holds no policy: each one is a table such as [half] with waiting = 'factor:0.5'")
    return {name: policy_of(defaults | table, f"{path}: [{name}]") for name, table in document.items()}
