"""``softwalltime starts``: when will waiting jobs start, and when would a job that is not yet submitted?"""

import getpass
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from softwalltime.cli.live import SECONDS, look
from softwalltime.cli.options import LazySettings, store_options
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.runtime_history import PREDICTOR, learnt_model
from softwalltime.errors import UsageError
from softwalltime.forecast.probes import PROBE, Probe, probe_job, probe_of
from softwalltime.forecast.queue_model import Impossible, ModelledQueue, limit, model_of
from softwalltime.forecast.runtimes import RuntimeDistribution, RuntimeModel
from softwalltime.forecast.snapshot import LiveJob, ServerSnapshot, load_snapshot
from softwalltime.forecast.start_times import RUNS, StartForecast, forecast
from softwalltime.forecast.waits_for import waits_for
from softwalltime.formatting import MISSING, local_time, number, plural, printable, walltime
from softwalltime.policy.site import WALLTIME, site_policy
from softwalltime.predictors.registry import make
from softwalltime.reports.table import table
from softwalltime.simulation.policies import SOFT_WALLTIME


@dataclass(frozen=True, slots=True)
class StartRow:
    """A job with its expected start and ranges, in epoch seconds; ``None`` where there is no forecast."""

    label: str
    job: LiveJob
    expected: int | None
    range50: tuple[int, int] | None
    range90: tuple[int, int] | None
    waits_for: str
    runtime: RuntimeDistribution | None = None

    def document(self) -> dict[str, Any]:
        """The row as JSON types."""
        asked = self.job.submission
        return {
            "job": self.label, "user": asked.user, "queue": asked.queue, "ncpus": asked.ncpus,
            "walltime": asked.walltime, "state": self.job.state, "expected": self.expected, "range50": self.range50,
            "range90": self.range90, "waits_for": self.waits_for, "pbs_estimate": self.job.estimated_start,
            "runtime": None if self.runtime is None else round(self.runtime.median),
            "basis": "" if self.runtime is None else self.runtime.basis,
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
    "--timeout", type=click.FloatRange(1), default=SECONDS, show_default=True, metavar="SECONDS",
    help="Seconds that PBS's commands may take together.",
)  # fmt: skip
@click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output format."
)
@store_options
def starts(
    jobs: tuple[str, ...], file: Path | None, probes: tuple[str, ...], logs: tuple[str, ...], spec: str,
    runs: int, seed: int, timeout: float, form: str, settings: LazySettings,
) -> None:  # fmt: skip
    """Forecast when waiting jobs will start.

    The scheduler is run forward from the state of the server, with predicted runtimes.  The expected start comes from
    the medians.  The ranges come from many runs with runtimes drawn from the predicted distributions: the start lies
    in the 90% range in 9 of 10 runs.  Jobs that will be submitted later are not foreseen.

    --if adds a job that has not been submitted, behind all others of its queue, to compare walltimes, sizes or queues.

    \b
    Example:
      softwalltime starts
      softwalltime starts 812 --log /var/spool/pbs/server_priv/accounting
      softwalltime starts --snapshot queue.json --if ncpus=64,walltime=4:00:00 --if ncpus=32,walltime=8:00:00
    """
    wanted = [probe_of(text, getpass.getuser()) for text in probes]
    make(spec)
    found = load_snapshot(file) if file is not None else look(timeout)
    chosen = _chosen(jobs, found) if jobs or not wanted else frozenset()
    policy = site_policy(settings().policy)
    runtimes, basis = learnt_model(logs, spec, settings, found.taken)
    running = WALLTIME if policy.mode == "on" and policy.running == WALLTIME else SOFT_WALLTIME
    queue = model_of(found, running=running)
    rows: list[StartRow] = []
    models = [model_of(found, [probe_job(probe, found)], running) for probe in wanted]
    with progress_bar("forecasting", runs * (bool(chosen) + len(models))) as progress:
        if chosen:
            rows += _rows(queue, runtimes, runs, seed, progress, chosen)
        for probe, model in zip(wanted, models, strict=True):
            rows.append(_probe(probe, model, runtimes, runs, seed, progress))
    remarks = (*found.remarks, *queue.remarks)
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
    return index in (None, "[]") or head == f"{number}{index}" or not bracket


def _rows(
    queue: ModelledQueue, runtimes: RuntimeModel, runs: int, seed: int, progress: Callable[[int], None],
    chosen: frozenset[str],
) -> Iterator[StartRow]:  # fmt: skip
    """The waiting jobs in the order of their expected starts, then those without a forecast."""
    first = queue.model.running
    until = [index for index in range(first, len(queue.live)) if queue.live[index].submission.job_id in chosen]
    if until:
        distributions = _distributions(queue, runtimes)
        found = forecast(queue.model, distributions, runs, seed, until, progress)
        ranges = found.ranges()
        for index in sorted(until, key=lambda index: int(found.point[index - first])):
            yield _row(queue.live[index].submission.job_id, queue, distributions, found, ranges, index)
    for each in queue.impossible:
        if each.job.submission.job_id in chosen:
            yield _impossible(each.job.submission.job_id, each)


def _probe(
    probe: Probe, queue: ModelledQueue, runtimes: RuntimeModel, runs: int, seed: int, progress: Callable[[int], None]
) -> StartRow:
    """The forecast of a probe job."""
    label = f"if {probe.text}"
    index = next((index for index, job in enumerate(queue.live) if job.submission.job_id == PROBE), None)
    if index is None:
        return _impossible(label, queue.impossible[-1])
    distributions = _distributions(queue, runtimes)
    found = forecast(queue.model, distributions, runs, seed, [index], progress)
    return _row(label, queue, distributions, found, found.ranges(), index)


def _distributions(queue: ModelledQueue, runtimes: RuntimeModel) -> list[RuntimeDistribution]:
    model = queue.model
    return [
        runtimes.distribution(job.submission, limit(job.submission), model.now, model.elapsed(index))
        for index, job in enumerate(queue.live)
    ]


def _row(
    label: str, queue: ModelledQueue, distributions: Sequence[RuntimeDistribution], found: StartForecast,
    ranges: NDArray[np.float64], index: int,
) -> StartRow:  # fmt: skip
    place = index - queue.model.running
    low, lower, upper, high = (round(each) for each in ranges[:, place].tolist())
    return StartRow(
        label, queue.live[index], int(found.point[place]), (lower, upper), (low, high), waits_for(queue, found, index),
        distributions[index],
    )  # fmt: skip


def _impossible(label: str, found: Impossible) -> StartRow:
    return StartRow(label, found.job, None, None, None, found.reason)


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
                printable(row.job.submission.user),
                printable(row.job.submission.queue),
                number(row.job.submission.ncpus),
                walltime(row.job.submission.walltime) if row.job.submission.walltime else MISSING,
                MISSING if row.expected is None else local_time(row.expected, now),
                _range(row.range50, now),
                _range(row.range90, now),
                printable(row.waits_for),
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
