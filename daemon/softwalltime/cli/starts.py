"""``softwalltime starts``: forecast the starts of waiting jobs, and of a job before its submission."""

import getpass
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from softwalltime.cli.command import Result, command
from softwalltime.cli.completing import complete_source
from softwalltime.cli.options import RUNTIMES, TIMEOUT, StoreOptions
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import argument, option, options
from softwalltime.cli.start_rows import StartDocument, StartsDocument, matches, print_table
from softwalltime.core.errors import UsageError
from softwalltime.core.formatting import local_time, plural, printable
from softwalltime.measure.forecast.defaults import FEWER_RUNS, RUNS

if TYPE_CHECKING:
    from softwalltime.measure.forecast.queue_model import ModelledQueue
    from softwalltime.measure.forecast.snapshot import ServerSnapshot


@options
class StartSelection:
    """Selection of jobs; an empty text selects all."""

    user: str = option("Only jobs of this user.", default="", metavar="NAME")
    group: str = option("Only jobs of this group.", default="", metavar="NAME")
    project: str = option("Only jobs of this project.", default="", metavar="NAME")
    queue: str = option("Only jobs of this queue.", default="", metavar="NAME")

    def jobs(self, names: Sequence[str], snapshot: "ServerSnapshot") -> frozenset[str]:
        """Return the ids of the waiting jobs that are wanted.

        :param names: those that were named; none for all.
        :raises UsageError: if no job that waits has a name.
        """
        wanted = {name: value for name, value in vars(self).items() if value}
        chosen = _chosen(names, snapshot)
        return frozenset(
            job.submission.job_id
            for job in snapshot.jobs
            if job.submission.job_id in chosen
            and all(getattr(job.submission, name) == value for name, value in wanted.items())
        )


@options
class StartsOptions:
    jobs: tuple[str, ...] = argument("[JOB]...")
    file: Path | None = option(
        "State of the server from softwalltime snapshot, instead of the PBS server's own.", "--snapshot"
    )
    from_store: bool = option("Print what the daemon forecast last, from the store ([starts]).")
    of: StartSelection
    probes: tuple[str, ...] = option(
        "A job not yet submitted, as user=alice,ncpus=64,walltime=4:00:00,queue=long; repeatable.", "--if",
        metavar="JOB",
    )  # fmt: skip
    logs: tuple[str, ...] = option(
        "Learn runtimes from this log, folder of logs or trace, or store; repeatable.  Default: the store of the "
        "settings, if they name one.",
        "--log", metavar="SOURCE", shell_complete=complete_source,
    )  # fmt: skip
    spec: str = RUNTIMES
    runs: int | None = option(
        f"Runs for the ranges; 0: no ranges.  Default: {RUNS}; of many jobs with limits or a formula {FEWER_RUNS}.",
        least=0, metavar="N",
    )  # fmt: skip
    seed: int = option("Seed of the drawn runtimes.", default=0)
    timeout: float = TIMEOUT
    output: Output
    settings: StoreOptions


@command("a job")
def starts(options: StartsOptions) -> Result[StartsDocument]:
    """Forecast when waiting jobs will start.

    The command simulates the scheduler many times from the state of the server on, with runtimes drawn from the
    predicted distributions.  The expected start is the median of these runs.  With --runs 0 there is one run with
    median runtimes, and there are no ranges.  The reason why a job waits comes from the run with median runtimes.  The
    forecast does not know jobs that are submitted later: starts are too early on average and ranges too narrow.  The
    output names each property of the server that is only approximated.

    --from-store asks neither PBS nor the simulator: it prints the daemon's newest forecasts, which are corrected by the
    errors of past ones.

    --if adds a job that has not been submitted, behind all others of its queue, to compare walltimes, sizes or queues.

    \b
    Example:
      softwalltime starts
      softwalltime starts --from-store --project chem --format json
      softwalltime starts 812 --log /var/spool/pbs/server_priv/accounting
      softwalltime starts --snapshot queue.json --if ncpus=64,walltime=4:00:00 --if ncpus=32,walltime=8:00:00
    """
    if options.from_store:
        from softwalltime.cli.start_rows import stored_starts

        if options.file is not None or options.probes or options.logs:
            raise UsageError("--from-store goes with neither --snapshot, --if nor --log: it prints what is stored")
        return stored_starts(options.jobs, vars(options.of), options.settings)

    from softwalltime.cli.runtime_history import learn
    from softwalltime.cli.snapshot import look
    from softwalltime.measure.forecast.expected import expected_starts
    from softwalltime.measure.forecast.queue_model import model_of
    from softwalltime.measure.forecast.snapshot import load_snapshot
    from softwalltime.measure.forecast.what_if import PROBE, probe_job, probe_of
    from softwalltime.measure.simulation.policies import SOFT_WALLTIME
    from softwalltime.predict.policy.site import WALLTIME, site_policy
    from softwalltime.predict.predictors.registry import make

    wanted = [probe_of(text, getpass.getuser()) for text in options.probes]
    make(options.spec)
    snapshot = load_snapshot(options.file) if options.file is not None else look(options.timeout)
    chosen = options.of.jobs(options.jobs, snapshot) if options.jobs or not wanted else frozenset()
    policy = site_policy(options.settings().policy)
    running = WALLTIME if policy.mode == "on" and policy.running == WALLTIME else SOFT_WALLTIME
    queue = model_of(snapshot, running=running)
    models = [
        model_of(snapshot, [probe_job(text, probe, snapshot)], running)
        for text, probe in zip(options.probes, wanted, strict=True)
    ]
    learnt, basis = learn(options.logs, options.spec, options.settings, snapshot)
    runs = options.runs
    if runs is None:
        runs = min(modelled.model.affordable_runs() for modelled in (queue, *models))
    rows: list[StartDocument] = []
    with progress_bar("forecasting", runs * (bool(chosen) + len(models))) as progress:
        waiting = expected_starts(queue, learnt, chosen, runs, options.seed, progress)
        rows += [StartDocument.of(start.job.submission.job_id, start) for start in waiting]
        for text, model in zip(options.probes, models, strict=True):
            answers = expected_starts(model, learnt, frozenset((PROBE,)), runs, options.seed, progress)
            rows += [StartDocument.of(f"if {text}", start) for start in answers]
    remarks = (*snapshot.remarks, *queue.remarks)
    document = StartsDocument(snapshot.taken, snapshot.server, runs, basis, remarks, tuple(rows))
    return Result(document, partial(_text, queue=queue), remarks=remarks if options.output.form == "table" else ())


def _chosen(jobs: Sequence[str], snapshot: "ServerSnapshot") -> frozenset[str]:
    """The ids of the jobs that the arguments name, whole arrays among them; all waiting jobs without arguments.

    :raises UsageError: if no job that waits has a name.
    """
    waiting = [job.submission.job_id for job in snapshot.jobs if not job.occupies]
    if not jobs:
        return frozenset(waiting)
    named: set[str] = set()
    for name in jobs:
        matching = {job_id for job_id in waiting if matches(job_id, name)}
        if not matching:
            runs = next((job for job in snapshot.jobs if job.occupies and job.submission.job_id.startswith(name)), None)
            what = "it runs already" if runs is not None else "no such job waits"
            raise UsageError(f"{name}: {what}: softwalltime starts without a job lists those that wait")
        named |= matching
    return frozenset(named)


def _text(output: Output, document: StartsDocument, queue: "ModelledQueue") -> None:
    model = queue.model
    waiting = len(model.jobs) - model.running + len(queue.impossible)
    output.paragraph(
        f"{printable(document.server)} at {local_time(document.taken, 0)}: {plural(model.running, 'running job')}, "
        f"{waiting:,} waiting, {model.processors:,} processors"
    )
    output.paragraph(document.runtimes, "faint")
    print_table(output, document.jobs, document.taken)
