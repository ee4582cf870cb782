"""``softwalltime starts``: when will waiting jobs start, and when would a job that is not yet submitted?"""

import getpass
from collections.abc import Sequence
from pathlib import Path

import click

from softwalltime.cli.completing import complete_source
from softwalltime.cli.live import SECONDS, look
from softwalltime.cli.options import LazySettings, store_options
from softwalltime.cli.output import Output, output_options
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.runtime_history import learn, runtimes_option
from softwalltime.cli.start_rows import StartDocument, StartsDocument, print_csv, print_table, start_document
from softwalltime.cli.stored_starts import StartSelection, matches, print_stored
from softwalltime.errors import UsageError
from softwalltime.forecast.calibration_file import load_calibration
from softwalltime.forecast.expected import expected_starts
from softwalltime.forecast.probes import PROBE, probe_job, probe_of
from softwalltime.forecast.queue_model import FEWER_RUNS, FEWEST_RUNS, RUNS, ModelledQueue, model_of
from softwalltime.forecast.snapshot import ServerSnapshot, load_snapshot
from softwalltime.formatting import local_time, plural, printable
from softwalltime.policy.site import WALLTIME, site_policy
from softwalltime.predictors.registry import make
from softwalltime.simulation.policies import SOFT_WALLTIME


@click.command()
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@click.option(
    "--snapshot", "file", type=click.Path(dir_okay=False, path_type=Path),
    help="State of the server from softwalltime snapshot, instead of the PBS server's own.",
)  # fmt: skip
@click.option("--from-store", is_flag=True, help="Print what the daemon forecast last, from the store ([starts]).")
@click.option("--user", default="", metavar="NAME", help="Only jobs of this user.")
@click.option("--group", default="", metavar="NAME", help="Only jobs of this group.")
@click.option("--project", default="", metavar="NAME", help="Only jobs of this project.")
@click.option("--queue", "queue_name", default="", metavar="NAME", help="Only jobs of this queue.")
@click.option(
    "--if", "probes", multiple=True, metavar="JOB",
    help="A job not yet submitted, as user=alice,ncpus=64,walltime=4:00:00,queue=long; repeatable.",
)  # fmt: skip
@click.option(
    "--log", "logs", multiple=True, metavar="SOURCE", shell_complete=complete_source,
    help="Learn runtimes from this log, folder of logs or trace, or store; repeatable.  Default: the store of the "
    "settings, if they name one.",
)  # fmt: skip
@runtimes_option
@click.option(
    "--runs",
    type=click.IntRange(0),
    metavar="N",
    help=f"Runs for the ranges; 0: no ranges.  Default: {RUNS}; of many jobs with limits or a formula {FEWER_RUNS}, "
    f"with --arrivals {FEWEST_RUNS}.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the drawn runtimes.")
@click.option(
    "--arrivals", "arriving", is_flag=True,
    help="Draw jobs that come later from those of the last weeks, for the ranges.  It needs a history.",
)  # fmt: skip
@click.option(
    "--calibration", "calibrated", type=click.Path(dir_okay=False, path_type=Path),
    help="Correct forecasts by past errors: a file of softwalltime replay-starts --save-calibration with the same "
    "predictor.  It needs a history.",
)  # fmt: skip
@click.option(
    "--timeout", type=click.FloatRange(1), default=SECONDS, show_default=True, metavar="SECONDS",
    help="Seconds that PBS's commands may take together.",
)  # fmt: skip
@output_options
@store_options
def starts(
    jobs: tuple[str, ...], file: Path | None, from_store: bool, user: str, group: str, project: str, queue_name: str,
    probes: tuple[str, ...], logs: tuple[str, ...], spec: str, runs: int | None, seed: int,
    arriving: bool, calibrated: Path | None, timeout: float, output: Output, settings: LazySettings,
) -> None:  # fmt: skip
    """Forecast when waiting jobs will start.

    The command simulates the scheduler many times from the state of the server on, with runtimes drawn from the
    predicted distributions.  The expected start is the median of these runs.  With --runs 0 there is one run with
    median runtimes, and there are no ranges.  The reason why a job waits comes from the run with median runtimes.  The
    forecast does not know jobs that are submitted later: starts are too early on average and ranges too narrow.
    --calibration corrects both by the errors of past forecasts, and --arrivals draws later jobs as the site's users
    submit them.  The output names each property of the server that is only approximated.

    --from-store asks neither PBS nor the simulator: it prints the daemon's newest forecasts.

    --if adds a job that has not been submitted, behind all others of its queue, to compare walltimes, sizes or queues.

    \b
    Example:
      softwalltime starts
      softwalltime starts --from-store --project chem --format json
      softwalltime starts 812 --log /var/spool/pbs/server_priv/accounting
      softwalltime starts --snapshot queue.json --if ncpus=64,walltime=4:00:00 --if ncpus=32,walltime=8:00:00
    """
    of = StartSelection(user, group, project, queue_name)
    if from_store:
        if file is not None or probes or logs:
            raise UsageError("--from-store goes with neither --snapshot, --if nor --log: it prints what is stored")
        print_stored(jobs, of, output, settings)
        return
    wanted = [probe_of(text, getpass.getuser()) for text in probes]
    make(spec)
    calibration = load_calibration(calibrated) if calibrated is not None else None
    found = load_snapshot(file) if file is not None else look(timeout)
    chosen = of.jobs(_chosen(jobs, found), found) if jobs or not wanted else frozenset()
    policy = site_policy(settings().policy)
    running = WALLTIME if policy.mode == "on" and policy.running == WALLTIME else SOFT_WALLTIME
    queue = model_of(found, running=running)
    models = [model_of(found, [probe_job(probe, found)], running) for probe in wanted]
    learnt, basis, uncorrected = learn(logs, spec, settings, found, calibration, arriving)
    if runs is None:
        runs = min(each.model.affordable_runs(arriving) for each in (queue, *models))
    rows: list[StartDocument] = []
    with progress_bar("forecasting", runs * (bool(chosen) + len(models))) as progress:
        waiting = expected_starts(queue, learnt, chosen, runs, seed, progress)
        rows += [start_document(one.job.submission.job_id, one) for one in waiting]
        for probe, model in zip(wanted, models, strict=True):
            answers = expected_starts(model, learnt, frozenset((PROBE,)), runs, seed, progress)
            rows += [start_document(f"if {probe.text}", one) for one in answers]
    remarks = (*found.remarks, *queue.remarks, *uncorrected)
    if output.form == "json":
        output.document(StartsDocument(found.taken, found.server, runs, basis, remarks, tuple(rows)))
    elif output.form == "csv":
        print_csv(output, rows)
    else:
        _print(output, found, queue, rows, basis)
        for remark in remarks:
            click.echo(remark, err=True)


def _chosen(jobs: Sequence[str], snapshot: ServerSnapshot) -> frozenset[str]:
    """The ids of the jobs that the arguments name, whole arrays among them; all waiting jobs without arguments.

    :raises UsageError: if no job that waits has a name.
    """
    waiting = [job.submission.job_id for job in snapshot.jobs if not job.occupies]
    if not jobs:
        return frozenset(waiting)
    found: set[str] = set()
    for name in jobs:
        matching = {each for each in waiting if matches(each, name)}
        if not matching:
            runs = next((job for job in snapshot.jobs if job.occupies and job.submission.job_id.startswith(name)), None)
            what = "it runs already" if runs is not None else "no such job waits"
            raise UsageError(f"{name}: {what}: softwalltime starts without a job lists those that wait")
        found |= matching
    return frozenset(found)


def _print(
    output: Output, snapshot: ServerSnapshot, queue: ModelledQueue, rows: Sequence[StartDocument], basis: str
) -> None:
    now = snapshot.taken
    model = queue.model
    waiting = len(model.jobs) - model.running + len(queue.impossible)
    output.paragraph(
        f"{printable(snapshot.server)} at {local_time(now, 0)}: {plural(model.running, 'running job')}, "
        f"{waiting:,} waiting, {model.processors:,} processors"
    )
    output.paragraph(basis, "faint")
    print_table(output, rows, now)
