"""What the site runs, as options: machine, scheduler, and the walltimes that PBS gives to jobs without one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softwalltime.cli.queue_walltimes import walltimes_option
from softwalltime.errors import UsageError
from softwalltime.simulation.names import BASELINES

if TYPE_CHECKING:
    from softwalltime.forecast.site_scheduler import SiteScheduler
    from softwalltime.policy.plan_file import Plan
    from softwalltime.reports.candidates import Baseline


@dataclass(frozen=True, slots=True)
class SiteOptions:
    """What the site runs.

    ``processors``: ``None`` where no option gives the machine's size.  ``walltimes``: seconds by queue.  ``name``: of
    one of the usual baselines; a ``scheduler`` that was read from a snapshot replaces it.  ``plan``: a candidate.
    """

    processors: int | None = None
    walltimes: Mapping[str, int] = field(default_factory=dict)
    name: str = BASELINES[0]
    scheduler: "SiteScheduler | None" = None
    plan: "Plan | None" = None

    def baseline(self, minimum: int) -> "Baseline":
        """Return what others are compared with.

        :param minimum: least soft walltime in seconds.
        """
        # Help does not wait for numpy.
        from softwalltime.reports.candidates import Baseline, usual_baseline

        site = usual_baseline(self.name, minimum)
        if self.scheduler is not None:
            policy = replace(self.scheduler.policy, minimum=minimum)
            site = Baseline(self.scheduler.name, policy, self.scheduler.remarks)
        return replace(site, plan=self.plan)


def site_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that describe the site; the command gets them as ``site``."""

    @click.option(
        "--site",
        "snapshot",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="What the site runs, from a file of softwalltime snapshot: the scheduler, the machine's size, and the "
        "default walltimes.  The options below replace parts of it.",
    )
    @click.option(
        "--baseline",
        type=click.Choice(BASELINES),
        help=f"What the site runs, with which the others are compared.  Default: {BASELINES[0]}.",
    )
    @click.option(
        "--processors",
        type=click.IntRange(1),
        metavar="N",
        help="Machine size.  Default: that of --site or in the header of a trace, else the most in use at one time.",
    )
    @click.option(
        "--pbsnodes",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Machine size of the vnodes that are up in this output of pbsnodes -a -F json.",
    )
    @click.option(
        "--plan",
        "plan_file",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Also simulate the policy of this plan, such as one of softwalltime tune --order.",
    )
    @walltimes_option
    @wraps(command)
    def wrapper(
        *args: Any, snapshot: Path | None, baseline: str | None, processors: int | None, pbsnodes: Path | None,
        plan_file: Path | None, walltimes: dict[str, int], **kwargs: Any,
    ) -> Any:  # fmt: skip
        if pbsnodes is not None:
            from softwalltime.simulation.vnodes import read_vnodes

            if processors is not None:
                raise UsageError("--processors and --pbsnodes both describe the machine: give one of them")
            processors = sum(vnode.resources[0] for vnode in read_vnodes(pbsnodes))
        site = SiteOptions(processors, walltimes, baseline or BASELINES[0])
        if snapshot is not None:
            from softwalltime.forecast.site_scheduler import site_scheduler
            from softwalltime.forecast.snapshot import load_snapshot

            read = site_scheduler(load_snapshot(snapshot))
            site = SiteOptions(
                processors or read.processors or None, {**read.walltimes, **walltimes}, site.name,
                None if baseline else read,
            )  # fmt: skip
        if plan_file is not None:
            from softwalltime.policy.plan_file import read_plan

            site = replace(site, plan=_simulable(read_plan(plan_file), plan_file))
        return command(*args, site=site, **kwargs)

    return wrapper


def _simulable(plan: "Plan", file: Path) -> "Plan":
    """Return the plan.

    :raises UsageError: if its formula cannot be simulated.
    """
    from softwalltime.reports.candidates import planned_candidate
    from softwalltime.simulation.engine import check

    try:
        check(planned_candidate(plan).policy)
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from error
    return plan
