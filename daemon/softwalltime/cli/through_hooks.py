"""The options of ``softwalltime replay --through-hooks``."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from softwalltime.cli.completing import complete_predictor
from softwalltime.errors import UsageError

MIN_SOFT_WALLTIME_S = 60
"""Least soft walltime that the hook sets, in seconds."""
_KINDS = {"daemon": ("kill-daemon", "suspend-daemon", "stop-postgres", "garbage"), "postgres": ("stop-postgres",)}
"""Faults that can be injected, by transport."""


@dataclass(frozen=True, slots=True)
class HooksOptions:
    """Options of a replay through the hooks."""

    transport: str
    faults: tuple[str, ...]
    seed: int
    postqueuejob: bool
    ordering: str | None = None


def hooks_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; pass them as ``hooks``, ``None`` for a fast replay."""

    @click.option("--through-hooks", is_flag=True, help="Run the PBS hook and a daemon for every job, and compare.")
    @click.option(
        "--transport", type=click.Choice(list(_KINDS)), default="daemon", show_default=True,
        help="What the hook queries: the daemon, or the SQL functions in PostgreSQL.",
    )  # fmt: skip
    @click.option(
        "--faults", "kinds", metavar="LIST", default="",
        help=f"Faults to inject, separated by commas: {', '.join(_KINDS['daemon'])}.",
    )  # fmt: skip
    @click.option(
        "--seed", type=click.IntRange(0), default=1, show_default=True, help="Random seed for the times of the faults."
    )
    @click.option(
        "--without-postqueuejob",
        is_flag=True,
        help="Emulate a server before OpenPBS 23, which has no postqueuejob event.",
    )
    @click.option(
        "--ordering",
        metavar="SPEC",
        shell_complete=complete_predictor,
        help="Set and compare an ordering value too, by this predictor.",
    )
    @wraps(command)
    def wrapped(
        *args: Any, through_hooks: bool, transport: str, kinds: str, seed: int, without_postqueuejob: bool,
        ordering: str | None, **more: Any,
    ) -> Any:  # fmt: skip
        faults = tuple(dict.fromkeys(filter(None, (kind.strip() for kind in kinds.split(",")))))
        for kind in faults:
            if kind not in _KINDS[transport]:
                raise UsageError(f"--faults: {kind!r}: with the transport {transport} {_among(_KINDS[transport])}")
        if through_hooks and more["minimum"] < MIN_SOFT_WALLTIME_S:
            raise UsageError(f"--min-soft-walltime {more['minimum']}: the hook sets none below {MIN_SOFT_WALLTIME_S} s")
        hooks = HooksOptions(transport, faults, seed, not without_postqueuejob, ordering)
        if not through_hooks and hooks != HooksOptions("daemon", (), seed, True):
            raise UsageError("--transport, --faults, --ordering and --without-postqueuejob need --through-hooks")
        if ordering is not None and transport == "postgres":
            raise UsageError("--ordering: only the daemon answers with an ordering value: use --transport daemon")
        if ordering is not None:
            from softwalltime.policy.site import WALLTIME
            from softwalltime.predictors.registry import make

            if ordering != WALLTIME:
                make(ordering)
        return command(*args, hooks=hooks if through_hooks else None, **more)

    return wrapped


def _among(kinds: tuple[str, ...]) -> str:
    return f"there is {kinds[0]}" if len(kinds) == 1 else f"there are {', '.join(kinds)}"
