"""``softwalltime what-if``: compare the queue as it is with the queue after changes."""

import getpass
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from softwalltime.cli.command import Result, command
from softwalltime.cli.forecasting import ForecastOptions, named_jobs
from softwalltime.cli.options import PROCESSES
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import option, options
from softwalltime.core.errors import UsageError
from softwalltime.core.formatting import duration, local_time, number, plural, printable, time_range, walltime
from softwalltime.core.text_table import Cell, Meaning, TextColumn, TextTable, sentence_column
from softwalltime.predict.policy.presets import PRESETS

if TYPE_CHECKING:
    from softwalltime.measure.forecast.comparison import ClassChange, JobChange, PairedChange, QueueComparison
    from softwalltime.measure.forecast.runtimes import RuntimeModel
    from softwalltime.measure.forecast.snapshot import ServerSnapshot

MAX_ROWS = 10
"""Rows of a table for people; JSON has all."""


@options
class WhatIfOptions:
    drain: tuple[str, ...] = option(
        "Vnodes or hosts to drain for a time, as node[1-8],08:00,4h.  BEGIN: now, a time of day or 2026-11-20T08:00.  "
        "LENGTH: 90min, 4h, 2d, 4:00:00.  Repeatable.", metavar="VNODES,BEGIN,LENGTH",
    )  # fmt: skip
    remove: tuple[str, ...] = option(
        "Vnodes or hosts to remove from now on, as node7 or node[1-8]; repeatable.", metavar="VNODES"
    )
    add_nodes: int | None = option(
        "Number of vnodes to add, of the most common kind that is up.", type=click.IntRange(1, 100_000), metavar="N"
    )
    settings: tuple[str, ...] = option(
        'An attribute as for qmgr: "queue long Priority = 100", "server max_run = [u:PBS_GENERIC=50]", "unset server '
        'max_run", or of sched_config: "sched_config strict_ordering = True"; repeatable.', "--set", metavar="LINE",
    )  # fmt: skip
    formula: str | None = option("Another job_sort_formula.", metavar="TEXT")
    preset: str | None = option(
        "The order of this preset.", type=click.Choice([name for name, preset in PRESETS.items() if preset.order])
    )
    hold: tuple[str, ...] = option("Hold this waiting job; repeatable.", metavar="JOB")
    delete: tuple[str, ...] = option("Delete this waiting or running job; repeatable.", metavar="JOB")
    submit: tuple[str, ...] = option(
        "Jobs to submit, as user=alice,ncpus=64,walltime=4:00:00,queue=long,count=500; repeatable.", metavar="JOBS"
    )
    runs: int | None = option(
        "Draws of the runtimes, each simulated before and after.  Default: 50; of 1,000 jobs and more 20.",
        least=1, metavar="N",
    )  # fmt: skip
    processes: int | None = PROCESSES
    source: ForecastOptions
    output: Output


@command("a waiting job")
def what_if(options: WhatIfOptions) -> Result["QueueComparison"]:
    """Compare the queue as it is with the queue after changes.

    The changes of all options are made together, in a copy of the server's state: nothing changes in PBS.  Both states
    are simulated from now on with the same drawn runtimes, so the differences are those of the changes.  A range holds
    with a probability of 90%.  Jobs that are submitted later are in neither state.

    \b
    Example:
      softwalltime what-if --drain "node[1-8],08:00,4h"
      softwalltime what-if --add-nodes 10 --log /var/spool/pbs/server_priv/accounting
      softwalltime what-if --set "queue long Priority = 100" --set "server max_run = [u:PBS_GENERIC=50]"
      softwalltime what-if --log LOGS --at 2026-11-20T08:00 --add-nodes 10
      softwalltime what-if --snapshot queue.json --hold 812 --submit user=new,ncpus=64,walltime=4:00:00,count=500
    """
    from softwalltime.measure.forecast.comparison import compare, default_runs
    from softwalltime.measure.forecast.queue_model import model_of

    if options.preset is not None and options.formula is not None:
        raise UsageError("--preset and --formula are two orders: give one of them")
    snapshot, running = options.source.state(), options.source.running()
    changed, submitted = _changed(options, snapshot)
    learnt, basis = options.source.learn(snapshot, correlate=True)
    changed = _ordered(options, changed, learnt.runtimes)
    before, after = (model_of(state, running=running) for state in (snapshot, changed))
    runs = options.runs or default_runs((before, after))
    with progress_bar("forecasting", 2 * runs) as progress:
        document = compare(before, after, learnt.runtimes, basis, runs, submitted, progress, options.processes)
    remarks = document.remarks if options.output.form == "table" else ()
    return Result(document, _text, remarks=remarks)


def _changed(options: WhatIfOptions, snapshot: "ServerSnapshot") -> "tuple[ServerSnapshot, dict[str, str]]":
    """Return the server with all changes except the order, and the text that describes each submitted job, by id."""
    from softwalltime.measure.forecast.server_changes import drained, removed, with_setting, with_vnodes
    from softwalltime.measure.forecast.what_if import new_jobs, with_holds

    steps: tuple[tuple[Callable[[ServerSnapshot, str], ServerSnapshot], Sequence[str]], ...] = (
        (removed, options.remove), (drained, options.drain), (with_setting, options.settings)
    )  # fmt: skip
    changed = snapshot
    for change, texts in steps:
        for text in texts:
            changed = change(changed, text)
    if options.add_nodes is not None:
        changed = with_vnodes(changed, options.add_nodes)
    waiting = [job.submission.job_id for job in snapshot.jobs if not job.occupies]
    every = [job.submission.job_id for job in snapshot.jobs]
    if options.hold:
        changed = with_holds(changed, named_jobs(waiting, options.hold, lambda _: "no such job waits, to be held"))
    if options.delete:
        gone = named_jobs(every, options.delete, lambda _: "no such job waits or runs, to be deleted")
        changed = replace(changed, jobs=tuple(job for job in changed.jobs if job.submission.job_id not in gone))
    submitted: dict[str, str] = {}
    for text in options.submit:
        new = new_jobs(changed, text, getpass.getuser())
        submitted |= {job.submission.job_id: text for job in new}
        changed = replace(changed, jobs=(*changed.jobs, *new))
    return changed, submitted


def _ordered(options: WhatIfOptions, snapshot: "ServerSnapshot", runtimes: "RuntimeModel") -> "ServerSnapshot":
    """Return the server with the order of the options, and what a new order reads."""
    from softwalltime.measure.forecast.server_changes import with_setting
    from softwalltime.measure.forecast.what_if import with_predictions

    formula = options.formula
    order = next((preset.order for name, preset in PRESETS.items() if name == options.preset), None)
    if order is not None:
        formula = order.formula("predicted", fair_share=bool(snapshot.scheduler.fair_share))
        remark = f"of preset {options.preset} only the order is simulated: soft walltimes stay as they are"
        # What policy set changes with the order.
        scheduler = replace(snapshot.scheduler, eligible_time=True, by_queue=False, round_robin=False)
        snapshot = replace(snapshot, scheduler=scheduler, remarks=(*snapshot.remarks, remark))
    if formula is not None:
        snapshot = with_setting(snapshot, f"server job_sort_formula = {formula}")
    return with_predictions(snapshot, runtimes) if formula is not None and "predicted" in formula else snapshot


def _text(output: Output, document: "QueueComparison") -> None:
    now, (before, after), used = document.taken, document.processors, document.used
    size = plural(before, "processor") + (f", {after:,} after the changes" if after != before else "")
    output.paragraph(f"{printable(document.server)} at {local_time(now, 0)}: {size}, {plural(document.runs, 'draw')}")
    output.paragraph(document.runtimes, "faint")
    kinds = dict.fromkeys(row.kind for row in document.classes)
    shown = [row for kind in kinds for row in [one for one in document.classes if one.kind == kind][:MAX_ROWS]]
    if shown:
        output.section(TextTable.by_column(shown, _CLASS_COLUMNS))
    moved = [row for row in document.jobs if row.moves]
    if moved:
        output.section(TextTable.by_column(moved[:MAX_ROWS], _job_columns(now)))
    if len(moved) > MAX_ROWS:
        output.paragraph(
            f"and {plural(len(moved) - MAX_ROWS, 'other job')} whose start changes (--format json)", "faint"
        )
    output.line()
    spread = "" if used.range90 is None else f", 90% range {used.range90[0]:+,.1f} to {used.range90[1]:+,.1f}"
    output.paragraph(
        f"processors used in the next 24 h: {number(used.before, 1)}, after the changes {number(used.after, 1)} "
        f"(change {used.change or 0:+,.1f}{spread})"
    )
    for window in document.idle:
        size, ends = plural(window.processors, "processor"), time_range((window.start, window.end), now)
        output.paragraph(f"as it is, {size} free from {ends} with a probability of 90%")


def _signed(seconds: float | None) -> str:
    return f"+{duration(seconds)}" if seconds is not None and seconds > 0 else duration(seconds)


def _range(ends: tuple[float, float] | None) -> Cell:
    return Cell("" if ends is None else f"{_signed(ends[0])} to {_signed(ends[1])}", "faint")


def _change(change: "PairedChange") -> Cell:
    """The change, marked where the range is on one side of 0."""
    low, high = change.range90 or (change.change or 0, change.change or 0)
    meaning: Meaning = "good" if high < 0 else "bad" if low > 0 else ""
    return Cell(_signed(change.change), meaning)


_CLASS_COLUMNS: "dict[TextColumn, Callable[[ClassChange], Cell | str]]" = {
    TextColumn("waiting jobs", left=True): lambda row: row.kind,
    sentence_column("of", least=8): lambda row: printable(row.name),
    TextColumn("jobs", 1): lambda row: number(row.jobs),
    TextColumn("mean wait"): lambda row: duration(row.wait.before),
    TextColumn("after"): lambda row: duration(row.wait.after),
    TextColumn("change"): lambda row: _change(row.wait),
    TextColumn("90% range", 2): lambda row: _range(row.wait.range90),
}


def _job_columns(now: int) -> "dict[TextColumn, Callable[[JobChange], Cell | str]]":
    return {
        sentence_column("job", least=8): lambda row: Cell(printable(row.job), "strong"),
        TextColumn("user", 2, left=True, least=8): lambda row: printable(row.user),
        TextColumn("queue", 5, left=True, least=8): lambda row: printable(row.queue),
        TextColumn("processors", 6): lambda row: number(row.ncpus),
        TextColumn("walltime", 7): lambda row: walltime(row.walltime),
        TextColumn("start"): lambda row: local_time(row.before, now),
        TextColumn("90% range", 4, least=14): lambda row: Cell(time_range(row.before90, now), "faint"),
        TextColumn("after"): lambda row: local_time(row.after, now),
        TextColumn("its 90% range", 3, least=14): lambda row: Cell(time_range(row.after90, now), "faint"),
        TextColumn("change"): lambda row: _signed(row.change),
        sentence_column("no forecast", 1): lambda row: printable(row.reason),
    }
