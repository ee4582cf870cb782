"""``softwalltime simulate``: simulate scheduling policies on recorded jobs."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softwalltime.cli.command import Result, command
from softwalltime.cli.options import KEEP, MINIMUM_OPTION, PROCESSORS, WALLTIMES, WorkerOptions, numbers, predictor
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import option, options
from softwalltime.cli.recommendation_output import print_advice
from softwalltime.cli.sources import RecordedJobs, problems
from softwalltime.core.errors import UsageError
from softwalltime.core.formatting import plural
from softwalltime.measure.simulation.names import BACKFILLS, CLASSES, ORDERS, SHAKES
from softwalltime.predict.policy.power_order import NAME as POWERS

if TYPE_CHECKING:
    from softwalltime.measure.simulation.policies import SchedulerPolicy
    from softwalltime.reports.simulation_document import SimulationDocument

SEEDS = tuple(range(31, 41))
_KINDS = "walltime, runtime (a bound: no scheduler knows it), or a predictor"


class OrderName(click.Choice[str]):
    """An order by name; the family of powers with options after a colon, which the policy checks."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value) if str(value).startswith(f"{POWERS}:") else super().convert(value, param, ctx)


@options
class PolicyOptions:
    order: str | None = option(
        "Order of the queue; powers takes options, as powers:wait=2,length=1,days=4.  Default: fcfs.",
        type=OrderName(ORDERS),
    )
    backfill: str | None = option("Backfilling.  Default: easy.", type=click.Choice(BACKFILLS))
    waiting: str | None = predictor(f"Value of waiting jobs: {_KINDS}.  Default: walltime.")
    running: str | None = predictor("Value of running jobs.  Default: walltime.")
    ordering: str | None = predictor("Value that the order uses.  Default: walltime.")
    guard: int | None = option("Backfill by walltimes while the top job is that late.", least=0, metavar="SECONDS")
    keep_promises: int | None = option(
        "Put jobs with a promised start first in the order, from so long after their submission on.", least=0,
        metavar="SECONDS",
    )  # fmt: skip
    formula: str | None = option("PBS's job_sort_formula, for the order formula.", metavar="TEXT")
    depth: int | None = option(
        "Jobs that get a reservation: PBS's backfill_depth.  Default: 1, 300 of conservative, 1000 of slack.", least=1,
        metavar="N",
    )  # fmt: skip
    slack: int | None = option(
        "Bound of each job: the start that fcfs would give it when it is submitted, plus so much.  --backfill slack "
        "keeps it, others measure it.  Default: 14400 of slack.", least=0, metavar="SECONDS",
    )  # fmt: skip
    slack_share: float | None = option(
        "Bound by a share of that planned wait too, the later of both.  Default: 0.25.", least=0, metavar="SHARE"
    )
    live: int | None = option("Set values anew every so many minutes.", least=1, metavar="MINUTES")

    def values(self) -> dict[str, Any]:
        given = {name: value for name, value in vars(self).items() if value is not None}
        return given | ({"live": 60 * self.live} if self.live is not None else {})


@options
class SimulateOptions:
    processors: int | None = PROCESSORS
    policy: PolicyOptions
    file: Path | None = option("TOML file with a table for each policy; the first one is the baseline.", "--policies")
    run_as_recorded: bool = option("Do not kill jobs at their walltime.")
    kill_at_estimate: bool = option("Kill jobs at the running value that they start with.")
    shake: str | None = option("Simulate shaken workloads, for confidence intervals.", type=click.Choice(SHAKES))
    seeds: tuple[int, ...] | None = option("A shaken workload for each.  Default: 31-40.", type=numbers, metavar="LIST")
    by: tuple[str, ...] = option("Figures by class too; may be given again.", type=click.Choice(CLASSES), multiple=True)
    keep: Path | None = KEEP
    workers: WorkerOptions
    walltimes: Mapping[str, int] = WALLTIMES
    minimum: int = MINIMUM_OPTION
    output: Output
    recorded: RecordedJobs

    def check(self) -> None:
        """Refuse options that contradict each other."""
        if self.seeds is not None and self.shake is None:
            raise UsageError("--seeds is for shaken workloads: add --shake week, or omit it")


@command("a policy; with --by also a policy and class")
def simulate(options: SimulateOptions) -> Result["SimulationDocument"]:
    """Schedule recorded jobs under a policy.

    A SOURCE is the same as for replay; several sources are one workload.  Each job is submitted at its recorded
    time and starts when the policy would have started it.  The policy of the options is compared with first come, first
    served, EASY backfilling and walltimes.

    One schedule depends on chance.  With --shake, each policy runs on the same shaken workloads, and changes are given
    with a 95% confidence interval.

    \b
    Example:
      softwalltime simulate accounting --processors 128 --waiting factor:0.5
      softwalltime simulate LOGS --order xf --ordering v3 --waiting v3 --guard 3600 --shake week --seeds 31-40
      softwalltime simulate LOGS --backfill pbs --order formula --formula '(eligible_time + 3600) / predicted'
      softwalltime simulate LOGS --policies policies.toml --shake week --format json --by user
    """
    options.check()
    given = options.policy.values() | {
        "kill_at_walltime": not options.run_as_recorded, "kill_at_estimate": options.kill_at_estimate,
        "minimum": options.minimum,
    }  # fmt: skip
    return simulated(options, checked_policies(options.file, given))


def simulated(options: SimulateOptions, policies: dict[str, "SchedulerPolicy"]) -> Result["SimulationDocument"]:
    """Simulate the policies on the jobs of the sources."""
    from softwalltime.measure.simulation.engine import one_pool
    from softwalltime.measure.simulation.runs import Experiment, SimulationPlan, run_simulations
    from softwalltime.reports.simulation_document import SimulationDocument

    first = next(iter(policies.values()))
    jobs, tally = options.recorded.simulable(options.walltimes, first.vnodes)
    size = options.processors or tally.machine or jobs.peak()
    jobs, refused = jobs.that_fit(size)
    if not len(jobs):
        raise UsageError(f"every job is larger than {plural(size, 'processor')}: correct --processors")
    by, shake = tuple(dict.fromkeys(options.by)), options.shake or ""
    seeds, teaching = (options.seeds or SEEDS) if shake else (0,), options.recorded.settings().teaching
    plan = SimulationPlan(Experiment("", size, first, shake, by), policies, seeds, jobs, tuple(sorted(teaching)))
    runs = run_simulations(plan, progress_bar, options.keep, **vars(options.workers))
    document = SimulationDocument.of(
        plan, runs, by, source=options.recorded.source, refused=refused, selection=options.recorded.selected
    )
    text = partial(print_schedules, label=options.recorded.label)
    pooled = dict.fromkeys(filter(None, (one_pool(jobs, size, policy) for policy in policies.values())))
    return Result(document, text, 1 if tally.broken else 0, [*problems(tally), *pooled])


def checked_policies(file: Path | None, given: dict[str, Any]) -> dict[str, "SchedulerPolicy"]:
    from softwalltime.measure.simulation.engine import check
    from softwalltime.measure.simulation.policies import policy_of, read_policies

    if file is not None:
        policies = read_policies(file, given)
    else:
        common = {key: given[key] for key in ("kill_at_walltime", "kill_at_estimate", "minimum")}
        both = (policy_of(common, "the options"), policy_of(given, "the options"))
        policies = {policy.name: policy for policy in both}
    for name, policy in policies.items():
        try:
            check(policy)
        except UsageError as error:
            raise type(error)(f"{file}: [{name}]: {error}" if file else str(error)) from error
    return policies


def print_schedules(output: Output, document: "SimulationDocument", label: str) -> None:
    from softwalltime.reports.simulation_document import (
        BOUNDS_LEGEND,
        CHANGES_LEGEND,
        LEGEND,
        TAILS_LEGEND,
        bounds_table,
        changes_table,
        schedules_table,
        tails_table,
        unscored_line,
    )

    counts = [f"{count:,} left out ({reason})" for reason, count in document.left_out.items()]
    counts += [f"{document.refused:,} refused (larger than the machine)"] if document.refused else []
    size = plural(document.processors, "processor")
    output.paragraph(", ".join([f"{label}: {document.jobs:,} jobs on {size}", *counts]))
    if unscored := unscored_line(document.scored, document.jobs, document.scored_processor_time):
        output.paragraph(unscored)
    if document.shake:
        output.paragraph(f"means over {len(document.seeds)} shaken workloads ({document.shake})")
    output.section(schedules_table(document.policies), LEGEND)
    if any(metrics.past_bound is not None for metrics in document.policies.values()):
        output.section(bounds_table(document.policies), BOUNDS_LEGEND)
    if document.relative_changes:
        output.section(changes_table(document.relative_changes, document.differences), CHANGES_LEGEND)
        baseline, today = next(iter(document.policies.items()))
        output.section(tails_table(baseline, today, document.relative_changes), TAILS_LEGEND)
        if document.caution:
            output.paragraph(document.caution, "warning")
    if document.advice is not None:
        print_advice(output, document.advice)
    for kind, policies in (document.classes or {}).items():
        for name, figures in policies.items():
            output.line()
            output.paragraph(f"{name}, by {kind}:")
            output.section(schedules_table(figures, kind))
