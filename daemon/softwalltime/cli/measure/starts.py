"""Forecast when jobs will start: the work of ``softwalltime starts``."""

import getpass
from collections.abc import Sequence
from pathlib import Path

import click

from softwalltime.cli.live import look
from softwalltime.cli.measure.runtime_history import learn
from softwalltime.cli.measure.start_rows import StartDocument, StartsDocument, print_csv, print_table, start_document
from softwalltime.cli.measure.stored_starts import StartSelection, matches, print_stored
from softwalltime.cli.options import LazySettings
from softwalltime.cli.output import Output
from softwalltime.cli.progress import progress_bar
from softwalltime.errors import UsageError
from softwalltime.forecast.expected import expected_starts
from softwalltime.forecast.probes import PROBE, probe_job, probe_of
from softwalltime.forecast.queue_model import ModelledQueue, model_of
from softwalltime.forecast.snapshot import ServerSnapshot, load_snapshot
from softwalltime.formatting import local_time, plural, printable
from softwalltime.policy.site import WALLTIME, site_policy
from softwalltime.predictors.registry import make
from softwalltime.simulation.policies import SOFT_WALLTIME


def forecast_starts(
    jobs: tuple[str, ...], file: Path | None, from_store: bool, user: str, group: str, project: str, queue_name: str,
    probes: tuple[str, ...], logs: tuple[str, ...], spec: str, runs: int | None, seed: int,
    timeout: float, output: Output, settings: LazySettings,
) -> None:  # fmt: skip
    """Forecast the starts and print them."""
    of = StartSelection(user, group, project, queue_name)
    if from_store:
        if file is not None or probes or logs:
            raise UsageError("--from-store goes with neither --snapshot, --if nor --log: it prints what is stored")
        print_stored(jobs, of, output, settings)
        return
    wanted = [probe_of(text, getpass.getuser()) for text in probes]
    make(spec)
    server_snapshot = load_snapshot(file) if file is not None else look(timeout)
    chosen = of.jobs(_chosen(jobs, server_snapshot), server_snapshot) if jobs or not wanted else frozenset()
    policy = site_policy(settings().policy)
    running = WALLTIME if policy.mode == "on" and policy.running == WALLTIME else SOFT_WALLTIME
    queue = model_of(server_snapshot, running=running)
    models = [model_of(server_snapshot, [probe_job(probe, server_snapshot)], running) for probe in wanted]
    learnt, basis = learn(logs, spec, settings, server_snapshot)
    if runs is None:
        runs = min(modelled.model.affordable_runs() for modelled in (queue, *models))
    rows: list[StartDocument] = []
    with progress_bar("forecasting", runs * (bool(chosen) + len(models))) as progress:
        waiting = expected_starts(queue, learnt, chosen, runs, seed, progress)
        rows += [start_document(start.job.submission.job_id, start) for start in waiting]
        for probe, model in zip(wanted, models, strict=True):
            answers = expected_starts(model, learnt, frozenset((PROBE,)), runs, seed, progress)
            rows += [start_document(f"if {probe.text}", start) for start in answers]
    remarks = (*server_snapshot.remarks, *queue.remarks)
    if output.form == "json":
        output.document(
            StartsDocument(server_snapshot.taken, server_snapshot.server, runs, basis, remarks, tuple(rows))
        )
    elif output.form == "csv":
        print_csv(output, rows)
    else:
        _print(output, server_snapshot, queue, rows, basis)
        for remark in remarks:
            click.echo(remark, err=True)


def _chosen(jobs: Sequence[str], snapshot: ServerSnapshot) -> frozenset[str]:
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
