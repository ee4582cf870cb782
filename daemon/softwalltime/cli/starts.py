"""``softwalltime starts``: when will waiting jobs start, and when would a job that is not yet submitted?"""

import getpass
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from softwalltime.cli.live import SECONDS, look
from softwalltime.cli.options import LazySettings, store_options
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.runtime_history import PREDICTOR, learn
from softwalltime.errors import UsageError
from softwalltime.forecast.calibration_file import load_calibration
from softwalltime.forecast.expected import ExpectedStart, expected_starts
from softwalltime.forecast.probes import PROBE, probe_job, probe_of
from softwalltime.forecast.queue_model import ModelledQueue, model_of
from softwalltime.forecast.snapshot import ServerSnapshot, load_snapshot
from softwalltime.forecast.start_times import RUNS
from softwalltime.formatting import MISSING, local_time, number, plural, printable, walltime
from softwalltime.policy.site import WALLTIME, site_policy
from softwalltime.predictors.registry import make
from softwalltime.reports.table import table
from softwalltime.simulation.policies import SOFT_WALLTIME


@dataclass(frozen=True, slots=True)
class StartRow:
    """A line of the answer: a job's id, or what ``--if`` said."""

    label: str
    found: ExpectedStart

    def document(self) -> dict[str, Any]:
        """The row as JSON types."""
        found, asked = self.found, self.found.job.submission
        return {
            "job": self.label, "user": asked.user, "queue": asked.queue, "ncpus": asked.ncpus,
            "walltime": asked.walltime, "state": found.job.state, "expected": found.expected,
            "range50": found.range50, "range90": found.range90, "waits_for": found.waits_for,
            "pbs_estimate": found.job.estimated_start,
            "runtime": None if found.runtime is None else round(found.runtime.median),
            "basis": "" if found.runtime is None else found.runtime.basis,
        }  # fmt: skip


@click.command()
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@click.option(
    "--snapshot", "file", type=click.Path(dir_okay=False, path_type=Path),
    help="State of the server from softwalltime snapshot, instead of the PBS server's own.",
)  # fmt: skip
@click.option(
    "--if", "probes", multiple=True, metavar="JOB",
    help="A job not yet submitted, as user=alice,ncpus=64,walltime=4:00:00,queue=long; repeatable.",
)  # fmt: skip
@click.option(
    "--log", "logs", multiple=True, metavar="SOURCE",
    help="Learn runtimes from this log, folder of logs or trace, or store; repeatable.  Default: the store of the "
    "settings, if they name one.",
)  # fmt: skip
@click.option(
    "--predictor", "spec", default=PREDICTOR, show_default=True, metavar="SPEC", help="Predictor of runtimes."
)
@click.option(
    "--runs",
    type=click.IntRange(0),
    default=RUNS,
    show_default=True,
    metavar="N",
    help="Runs for the ranges; 0: no ranges.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the drawn runtimes.")
@click.option(
    "--calibration", "calibrated", type=click.Path(dir_okay=False, path_type=Path),
    help="Correct forecasts by past errors: a file of softwalltime replay-starts --save-calibration with the same "
    "predictor.  It needs a history.",
)  # fmt: skip
@click.option(
    "--timeout", type=click.FloatRange(1), default=SECONDS, show_default=True, metavar="SECONDS",
    help="Seconds that PBS's commands may take together.",
)  # fmt: skip
@click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output format."
)
@store_options
def starts(
    jobs: tuple[str, ...], file: Path | None, probes: tuple[str, ...], logs: tuple[str, ...], spec: str,
    runs: int, seed: int, calibrated: Path | None, timeout: float, form: str, settings: LazySettings,
) -> None:  # fmt: skip
    """Forecast when waiting jobs will start.

    The scheduler is run forward from the state of the server, with predicted runtimes.  The expected start comes from
    the medians.  The ranges come from many runs with runtimes drawn from the predicted distributions.  Jobs that will
    be submitted later are not foreseen: starts are too early on average and ranges too narrow, unless --calibration
    corrects both by the errors of past forecasts.

    --if adds a job that has not been submitted, behind all others of its queue, to compare walltimes, sizes or queues.

    \b
    Example:
      softwalltime starts
      softwalltime starts 812 --log /var/spool/pbs/server_priv/accounting
      softwalltime starts --snapshot queue.json --if ncpus=64,walltime=4:00:00 --if ncpus=32,walltime=8:00:00
    """
    wanted = [probe_of(text, getpass.getuser()) for text in probes]
    make(spec)
    calibration = load_calibration(calibrated) if calibrated is not None else None
    found = load_snapshot(file) if file is not None else look(timeout)
    chosen = _chosen(jobs, found) if jobs or not wanted else frozenset()
    policy = site_policy(settings().policy)
    running = WALLTIME if policy.mode == "on" and policy.running == WALLTIME else SOFT_WALLTIME
    queue = model_of(found, running=running)
    models = [model_of(found, [probe_job(probe, found)], running) for probe in wanted]
    learnt, basis, uncorrected = learn(logs, spec, settings, found, calibration)
    rows: list[StartRow] = []
    with progress_bar("forecasting", runs * (bool(chosen) + len(models))) as progress:
        waiting = expected_starts(queue, learnt, chosen, runs, seed, progress)
        rows += [StartRow(one.job.submission.job_id, one) for one in waiting]
        for probe, model in zip(wanted, models, strict=True):
            answers = expected_starts(model, learnt, frozenset((PROBE,)), runs, seed, progress)
            rows += [StartRow(f"if {probe.text}", one) for one in answers]
    remarks = (*found.remarks, *queue.remarks, *uncorrected)
    if form == "json":
        click.echo(json.dumps({
            "taken": found.taken, "server": found.server, "runs": runs, "runtimes": basis, "remarks": remarks,
            "jobs": [row.document() for row in rows],
        }))  # fmt: skip
        return
    _print(found, queue, rows, basis, remarks)


def _chosen(jobs: Sequence[str], snapshot: ServerSnapshot) -> frozenset[str]:
    """The ids of the jobs that the arguments name, whole arrays among them; all waiting jobs without arguments.

    :raises UsageError: if no job that waits has a name.
    """
    waiting = [job.submission.job_id for job in snapshot.jobs if not job.occupies]
    if not jobs:
        return frozenset(waiting)
    found: set[str] = set()
    for name in jobs:
        number = re.match(r"(\d+)(\[\d*\])?(?:\.(.*))?$", name)
        matching = {
            each for each in waiting if each == name or (number is not None and _matches(each, number.groups()))
        }  # fmt: skip
        if not matching:
            runs = next((job for job in snapshot.jobs if job.occupies and job.submission.job_id.startswith(name)), None)
            what = "it runs already" if runs is not None else "no such job waits"
            raise UsageError(f"{name}: {what}: softwalltime starts without a job lists those that wait")
        found |= matching
    return frozenset(found)


def _matches(job_id: str, parts: Sequence[str | None]) -> bool:
    """Whether a job id is meant by a number, an array index and a server, of which the last two may be missing."""
    number, index, server = parts
    head, _, rest = job_id.partition(".")
    bare, bracket, _ = head.partition("[")
    if bare != number or (server and rest != server):
        return False
    return index is None or head == f"{number}{index}" or (index == "[]" and bool(bracket))


def _print(
    snapshot: ServerSnapshot, queue: ModelledQueue, rows: Sequence[StartRow], basis: str, remarks: Sequence[str]
) -> None:
    now = snapshot.taken
    model = queue.model
    waiting = len(model.jobs) - model.running + len(queue.impossible)
    click.echo(
        f"{printable(snapshot.server)} at {local_time(now, 0)}: {plural(model.running, 'running job')}, "
        f"{waiting:,} waiting, {model.processors:,} processors"
    )
    click.echo(basis)
    if rows:
        header = ("job", "user", "queue", "processors", "walltime", "expected", "50% range", "90% range", "waits for")
        lines = [
            [
                printable(row.label),
                printable(row.found.job.submission.user),
                printable(row.found.job.submission.queue),
                number(row.found.job.submission.ncpus),
                walltime(row.found.job.submission.walltime) if row.found.job.submission.walltime else MISSING,
                MISSING if row.found.expected is None else local_time(row.found.expected, now),
                _range(row.found.range50, now),
                _range(row.found.range90, now),
                printable(row.found.waits_for),
            ]
            for row in rows
        ]
        click.echo(f"\n{table(header, lines, last_left=True)}")
    for remark in remarks:
        click.echo(remark, err=True)


def _range(found: tuple[int, int] | None, now: int) -> str:
    if found is None:
        return MISSING
    begin, end = (local_time(each, now) for each in found)
    return begin if begin == end else f"{begin} to {end}"
