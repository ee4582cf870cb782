"""``softwalltime replay``: measure predictors on recorded jobs."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from softwalltime.cli.command import Result, command
from softwalltime.cli.options import LIMIT, MINIMUM_OPTION, WALLTIMES, PredictorOptions, predictor
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import option, options
from softwalltime.cli.selection import period
from softwalltime.cli.sources import RecordedJobs, problems
from softwalltime.cli.through_hooks import HooksOptions, HooksResult, replay_through_hooks
from softwalltime.core.errors import UsageError
from softwalltime.core.garbage import rare_collections

if TYPE_CHECKING:
    from softwalltime.measure.replay.accuracy_metrics import Scores
    from softwalltime.measure.replay.fast_replay import ReplayResult
    from softwalltime.measure.replay.workload import Recorded
    from softwalltime.reports.replay_document import ReplayDocument


QUEUES = 8
"""Queues named in the advice for logs without walltimes, at most."""


@options
class PolicyPredictors(PredictorOptions):
    """Predictors as a site's policy names them: for waiting jobs, and for running ones."""

    waiting: str | None = predictor("The predictor for waiting jobs, in place of --predictors.")
    at_start: str | None = predictor(
        "Predict at the start too, by this predictor, or walltime, or keep.  Default with --waiting: walltime.",
        "--running",
    )

    def __post_init__(self) -> None:
        from softwalltime.predict.policy.site import KEEP, WALLTIME
        from softwalltime.predict.predictors.registry import make

        super().__post_init__()
        if self.waiting is not None and self.listed:
            raise UsageError("--waiting: cannot be combined with --predictors or --predictor")
        if self.running not in (None, WALLTIME, KEEP):
            make(self.running)

    @property
    def specs(self) -> tuple[str, ...]:
        """The predictors for waiting jobs without duplicates, the baseline first."""
        from softwalltime.predict.predictors.registry import BASELINE

        return super().specs if self.waiting is None else tuple(dict.fromkeys((BASELINE, self.waiting)))

    @property
    def running(self) -> str | None:
        """The predictor for running jobs, ``walltime`` or ``keep``; ``None`` where neither option was given."""
        return self.at_start or (None if self.waiting is None else "walltime")


@options
class ReplayOptions:
    predictors: PolicyPredictors
    limit: int | None = LIMIT
    walltimes: Mapping[str, int] = WALLTIMES
    scored: tuple[int, int] | None = option(
        "Score only jobs submitted in this period; predictors learn from all.", "--score", type=period,
        metavar="FROM..TO",
    )  # fmt: skip
    never_ran: bool = option("Score the jobs that never ran too, with a runtime of 0 s.")
    minimum: int = MINIMUM_OPTION
    processes: int = option(
        "Processes, each for a share of the users: for a file of export and predictors that know each user alone.",
        least=1, default=1, metavar="N",
    )  # fmt: skip
    hooks: HooksOptions
    output: Output
    recorded: RecordedJobs


@command("a predictor; with --running another one for each predictor, with the event start")
@rare_collections()
def replay(options: ReplayOptions) -> Result["ReplayDocument"]:
    """Measure predictors on recorded jobs.

    A SOURCE is an accounting log or a folder of logs, a trace in Standard Workload Format, a table of Slurm's "sacct
    -aXP", a file of "softwalltime export", or the word "store" for the ingested jobs.  Each predictor predicts a job at
    its submission and learns from it at its end, as it would have at the time.  The command changes nothing.

    With --through-hooks each submission, start and alter of a job runs the PBS hook, which asks a daemon that follows
    an accounting log.  Daemon and PostgreSQL are started for the run and removed afterwards.  The exit status is 1 if a
    soft walltime differs from the fast replay's or a job was not accepted.

    \b
    Example:
      softwalltime replay accounting
      softwalltime replay /var/spool/pbs/server_priv/accounting
      softwalltime replay KTH-SP2.swf.gz --predictors v1,v3,percentile:p=95,keys=user
      softwalltime replay metacentrum.swf --walltime-from "q_2h=2:00:00,*=24:00:00"
      softwalltime replay KTH-SP2.swf.gz --through-hooks
    """
    from softwalltime.measure.replay.fast_replay import drive_specs
    from softwalltime.measure.replay.job_columns import JobColumns
    from softwalltime.measure.replay.workload import Scoring, Workload
    from softwalltime.predict.policy.site import WALLTIME

    # Fail before minutes of work.
    options.hooks.check(options.minimum)
    specs, running = options.predictors.specs, options.predictors.running or WALLTIME
    if options.processes > 1:
        from softwalltime.measure.replay.user_shares import drive_shares, require_by_user

        require_by_user([*specs, running])
    since, until = options.scored or (None, None)
    workload, tally = options.recorded.workload(
        options.walltimes, options.limit, Scoring(since, until, options.never_ran), in_memory=options.hooks.wanted
    )
    if isinstance(workload, Workload) and options.hooks.wanted:
        from softwalltime.emulation.through_hooks.timeline import complete

        # Both replays get the jobs as PBS has them.
        workload.jobs = JobColumns.of(map(complete, workload.jobs))
    with progress_bar("replaying", len(workload) * len(specs)) as progress:
        if options.processes > 1:
            results = drive_shares(workload, specs, running, options.minimum, options.processes, progress)
        else:
            results = drive_specs(workload, specs, running, options.minimum, progress)
    hooked: dict[str, HooksResult] = {}
    if isinstance(workload, Workload) and options.hooks.wanted:
        hooked = replay_through_hooks(options.hooks, workload, results, options.recorded, options.minimum, running)
    results |= {spec: hooked_run.result.replayed for spec, hooked_run in hooked.items()}
    sound = all(hooked_run.comparison.sound for hooked_run in hooked.values())
    document = _document(options, workload, results, hooked)
    nothing = [] if document.scored else [_nothing_scored(workload)]
    text = partial(_text, label=options.recorded.label, hooked=hooked)
    return Result(document, text, 1 if tally.broken or not sound else 0, [*nothing, *problems(tally)])


def _document(
    options: ReplayOptions, workload: "Recorded", results: "Mapping[str, ReplayResult]",
    hooked: Mapping[str, HooksResult],
) -> "ReplayDocument":  # fmt: skip
    from softwalltime.measure.replay.accuracy_metrics import WARM_UP_SHARE, score
    from softwalltime.predict.predictors.registry import BASELINE
    from softwalltime.reports.replay_document import ReplayDocument, ReplayScores, RunningScores

    running, skipped = options.predictors.running, workload.skipped()
    at_start = {spec: result.at_start for spec, result in results.items() if spec != BASELINE and running is not None}
    return ReplayDocument(
        source=options.recorded.source,
        jobs=len(workload),
        scored=len(workload) - sum(skipped.values()),
        skipped=skipped,
        predictors={
            spec: ReplayScores(
                **asdict(score(workload, result.soft_walltimes)), jobs_per_second=round(result.jobs_per_second)
            )
            for spec, result in results.items()
        },
        after_warm_up={spec: score(workload, result.soft_walltimes, WARM_UP_SHARE) for spec, result in results.items()},
        selection=options.recorded.selected,
        running=None if running is None else RunningScores(
            running,
            {spec: score(workload, values) for spec, values in at_start.items()},
            {spec: score(workload, values, WARM_UP_SHARE) for spec, values in at_start.items()},
        ),
        through_hooks={spec: run.figures() for spec, run in hooked.items()} if options.hooks.wanted else None,
    )  # fmt: skip


def _nothing_scored(workload: "Recorded") -> str:
    """Say why no job can be scored, and what to do."""
    from softwalltime.accounting.queue_limits import OTHERS
    from softwalltime.measure.replay.workload import NO_WALLTIME, OTHER_DAYS, SCORED

    skipped = workload.skipped()
    if OTHER_DAYS in skipped:
        return "No job can be scored: correct --score."
    if NO_WALLTIME not in skipped:
        return "No job can be scored, because none ran."
    rows = (row for part in workload.parts((*SCORED, "queue")) for row in part.jobs.rows("queue", "runtime"))
    queues = sorted({queue or OTHERS for queue, runtime in rows if runtime > 0})
    pairs = ",".join(f"{queue}=HH:MM:SS" for queue in (queues if len(queues) <= QUEUES else [OTHERS]))
    return (
        "No job can be scored, because none that ran has a walltime.  "
        f"Give the limits of the queues: --walltime-from {pairs}"
    )


def _text(output: Output, document: "ReplayDocument", label: str, hooked: Mapping[str, HooksResult]) -> None:
    from softwalltime.reports.replay_document import LEGEND, scores_table

    def both(overall: "Mapping[str, Scores]", warmed_up: "Mapping[str, Scores]") -> "dict[str, tuple[Scores, Scores]]":
        return {spec: (scores, warmed_up[spec]) for spec, scores in overall.items()}

    left_out = "".join(f", {count:,} {reason}" for reason, count in document.skipped.items())
    output.paragraph(f"{label}: {document.jobs:,} jobs, {document.scored:,} scored{left_out}")
    output.section(scores_table(both(document.predictors, document.after_warm_up)))
    output.line()
    if document.running is not None:
        output.paragraph(f"From the start on, running jobs by {document.running.predictor}:")
        output.section(scores_table(both(document.running.predictors, document.running.after_warm_up)))
        output.line()
    output.paragraph(LEGEND, "faint")
    for spec, hooked_run in hooked.items():
        output.paragraph(f"\nthrough the hooks, {spec}: {hooked_run.summary()}")
