"""Options that describe the site: machine, scheduler, and default walltimes."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softwalltime.cli.options import WALLTIMES
from softwalltime.cli.parameters import option, options
from softwalltime.core.errors import UsageError
from softwalltime.measure.simulation.names import BASELINES

if TYPE_CHECKING:
    from softwalltime.predict.policy.plan_file import Plan
    from softwalltime.reports.candidates import Baseline

ASSUMED = (
    "the scheduler: strict ordering in order of arrival is assumed, and PBS is delivered without strict ordering; "
    "--site or --baseline says what the site runs"
)
"""Remark where no option says what the site runs."""


@options
class SiteOptions:
    """What the site runs: a group of options, with what was read from the files that they name.

    ``processors``: ``None`` where no option gives the machine's size.  ``scheduler``: one that was read from a snapshot
    and replaces the usual baselines, a ``SiteScheduler``.  ``plan``: that of ``plan_file``, a candidate.
    """

    snapshot: Path | None = option(
        "What the site runs, from a file of softwalltime snapshot: the scheduler, the machine's size, and the "
        "default walltimes.  The options below replace parts of it.",
        "--site", metavar="FILE",
    )  # fmt: skip
    name: str | None = option(
        f"What the site runs, with which the others are compared.  Default: {BASELINES[0]}.",
        "--baseline", type=click.Choice(BASELINES),
    )  # fmt: skip
    processors: int | None = option(
        "Machine size.  Default: that of --site or in the header of a trace, else the most in use at one time.",
        least=1, metavar="N",
    )  # fmt: skip
    plan_file: Path | None = option(
        "Also simulate the policy of this plan, such as one of softwalltime tune --order.", "--plan", metavar="FILE"
    )
    walltimes: Mapping[str, int] = WALLTIMES
    scheduler: Any = None
    plan: Any = None

    @classmethod
    def given(cls, **values: Any) -> "SiteOptions":
        """Return the options, with the contents of the files that they name."""
        site = cls(**values)
        if site.plan_file is not None:
            site = replace(site, plan=_simulable(site.plan_file))
        if site.snapshot is None:
            return site
        from softwalltime.measure.forecast.site_scheduler import site_scheduler
        from softwalltime.measure.forecast.snapshot import load_snapshot

        read = site_scheduler(load_snapshot(site.snapshot))
        return replace(
            site, processors=site.processors or read.processors or None,
            walltimes={**read.walltimes, **site.walltimes}, scheduler=None if site.name else read,
        )  # fmt: skip

    def baseline(self, minimum: int) -> "Baseline":
        """Return what others are compared with.

        :param minimum: least soft walltime in seconds.
        """
        # Help does not wait for numpy.
        from softwalltime.reports.candidates import Baseline, usual_baseline

        site = usual_baseline(self.name or BASELINES[0], minimum)
        if self.name is None:
            site = replace(site, remarks=(ASSUMED,))
        if self.scheduler is not None:
            policy = replace(self.scheduler.policy, minimum=minimum)
            site = Baseline(self.scheduler.name, policy, self.scheduler.remarks)
        return replace(site, plan=self.plan)


def _simulable(file: Path) -> "Plan":
    from softwalltime.measure.simulation.engine import check
    from softwalltime.predict.policy.plan_file import read_plan
    from softwalltime.reports.candidates import planned_candidate

    plan = read_plan(file)
    try:
        check(planned_candidate(plan).policy)
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from error
    return plan
