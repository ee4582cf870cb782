"""Site policy: which predictor is used for which jobs, and whether predictions are set in PBS.

Waiting jobs (at submission and alter) and running jobs (at start) have separate predictors: underestimating a waiting
job costs little and allows backfilling, underestimating a running job breaks the promised starts of others.
``walltime`` for running jobs raises the soft walltime to the walltime at start (Tang et al. 2013, selective
adjustment).
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field, model_validator

from softwalltime.core.errors import OptionError
from softwalltime.core.jobs import Submission
from softwalltime.core.validation import Strict, validate
from softwalltime.predict.policy.clamp import MIN_SOFT_WALLTIME_S
from softwalltime.predict.policy.presets import PRESETS, PresetName, resolved
from softwalltime.predict.predictors.registry import make

WALLTIME = "walltime"
KEEP = "keep"
Mode = Literal["off", "shadow", "on"]
_MODES: tuple[Mode, ...] = ("off", "shadow", "on")
Exclusive = Literal["walltime", "waiting"]
"""Estimate of a waiting job with exclusive placement: its walltime, or the value for waiting jobs."""


def _check(spec: str) -> str:
    if spec not in (WALLTIME, KEEP):
        try:
            make(spec)
        except OptionError as error:
            raise ValueError(str(error)) from error
    return spec


Spec = Annotated[str, AfterValidator(_check)]
"""Specification of a predictor, or ``walltime``, or ``keep``."""


class Rule(Strict):
    """Exceptions for the jobs that match all of the given queue, user and project."""

    queue: str | None = None
    user: str | None = None
    project: str | None = None
    mode: Mode | None = None
    waiting: Spec | None = None
    running: Spec | None = None
    ordering: Spec | None = None
    exclusive: Exclusive | None = None
    minimum: int | None = Field(default=None, ge=60)

    def applies(self, job: Submission) -> bool:
        return self.queue in (None, job.queue) and self.user in (None, job.user) and self.project in (None, job.project)


class SitePolicy(Strict):
    """The whole policy; matching rules override its values, later rules override earlier ones.

    ``preset`` gives ``mode``, ``waiting``, ``running`` and ``ordering`` (:mod:`.presets`); the fields are what results.
    Under the presets off and shadow no rule can give a job a stronger mode.
    """

    preset: PresetName = Field(
        default="custom", description="off, shadow, safe, balanced, order, or custom: the values below"
    )
    mode: Mode = Field(default="shadow", description="off: predict nothing; shadow: predict, record, set nothing; on")
    waiting: Spec = Field(default="percentile", description="predictor for waiting jobs, with options")
    running: Spec = Field(default=WALLTIME, description="predictor for running jobs, or walltime, or keep")
    ordering: Spec | None = Field(
        default=None, description="predictor for the resource by which job_sort_formula orders; default: it is not set"
    )
    exclusive: Exclusive = Field(
        default="walltime", description="soft walltime of waiting jobs with place=excl: walltime, or waiting as others"
    )
    minimum: int = Field(default=MIN_SOFT_WALLTIME_S, ge=60, description="least soft walltime in seconds")
    share: float = Field(default=1.0, ge=0, le=1, description="share of the users for whom mode on is on")
    rules: tuple[Rule, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, values: Any) -> Any:
        return resolved(values) if isinstance(values, Mapping) else values

    def __str__(self) -> str:
        preset = f"preset {self.preset}: " if self.preset != "custom" else ""
        ordering = f", ordering {self.ordering}" if self.ordering is not None else ""
        share = f", for {self.share:.0%} of the users" if self.share < 1 else ""
        rules = f", {len(self.rules)} rules" if self.rules else ""
        return (
            f"{preset}mode {self.mode}{share}, waiting {self.waiting}, running {self.running}{ordering}, "
            f"minimum {self.minimum} s{rules}"
        )

    def specs(self) -> set[str]:
        every: tuple[SitePolicy | Rule, ...] = (self, *self.rules)
        named = {
            spec for values in every for spec in (values.waiting, values.running, values.ordering) if spec is not None
        }
        return named - {WALLTIME, KEEP}

    def terms(self, job: Submission) -> "JobPolicy":
        mode, waiting, running, minimum = self.mode, self.waiting, self.running, self.minimum
        ordering, exclusive = self.ordering, self.exclusive
        for rule in self.rules:
            if rule.applies(job):
                mode = rule.mode or mode
                waiting, running = rule.waiting or waiting, rule.running or running
                ordering, exclusive = rule.ordering or ordering, rule.exclusive or exclusive
                minimum = rule.minimum or minimum
        most = PRESETS[self.preset].most
        if most != "on":
            mode = min(mode, most, key=_MODES.index)
        if mode == "on" and user_rank(job.user) >= self.share:
            mode = "shadow"
        return JobPolicy(mode, waiting, running, minimum, None if ordering == KEEP else ordering, exclusive == WALLTIME)


def site_policy(values: Mapping[str, object]) -> SitePolicy:
    """Return the policy of the table ``[policy]``.

    :raises UsageError: names the key and what is wrong with its value.
    """
    return validate(SitePolicy, "policy", values)


class JobPolicy(NamedTuple):
    """The effective policy for one job.

    ``waiting``, ``running`` and ``ordering`` are specifications of the predictors for the soft walltime before and
    after the start, and for the ordering value (``None``: none).  All may be ``walltime``; the first two may be
    ``keep``.  ``minimum`` is in seconds.  ``exclusive``: waiting jobs with exclusive placement are planned with their
    walltime.  ``guarded``: all waiting jobs are, because the top job is late
    (:mod:`softwalltime.service.live.promise_ledger`).
    """

    mode: Mode
    waiting: str
    running: str
    minimum: int
    ordering: str | None = None
    exclusive: bool = False
    guarded: bool = False


def user_rank(user: str) -> float:
    """Return a user's fixed position between 0 and 1, for gradual rollouts: users included at 10% stay at 20%."""
    digest = hashlib.blake2b(user.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
