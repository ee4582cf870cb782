"""``softwalltime me``: show a user's own jobs; needs no privileges."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from softwalltime.cli.command import Result, command
from softwalltime.cli.forecasting import named_jobs
from softwalltime.cli.me_plan import (
    MAX_LINES,
    AlteredJob,
    PlannedRequest,
    altered,
    altered_walltime,
    plan,
    print_altered,
    print_brief_plan,
    print_plan,
    print_waits,
)
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import argument, option, options
from softwalltime.cli.qsub_options import EXAMPLE, request_of_qsub
from softwalltime.core.errors import UsageError
from softwalltime.core.formatting import (
    MISSING,
    duration,
    local_time,
    number,
    percent,
    plural,
    printable,
    size,
    time_range,
    walltime,
)
from softwalltime.core.text_table import Cell, TextColumn, TextTable, sentence_column, time_cell
from softwalltime.service.users.own_jobs import (
    SHARES,
    SOCKET,
    EndedJob,
    NoOwnJobsError,
    OwnJobs,
    ProbeStart,
    RunningJob,
    WaitingJob,
    ask_own_jobs,
    chance_by,
    next_midnight,
)

MAX_ENDED_JOBS = 10
"""Maximum lines of the table of ended jobs."""
STALE_AFTER_S = 3600
"""Age of a forecast in seconds that is reported; by default the daemon forecasts every five minutes."""
MIN_GAIN_S = 30
"""Minimum gain in seconds that is printed."""
_SUBJOB = re.compile(r"(\d+)\[\d+\](.*)")


@options
class MeOptions:
    jobs: tuple[str, ...] = argument("[JOB]...")
    plan: str | None = option(
        f"When a job would start, and what starts sooner: its script, or arguments of qsub such as '{EXAMPLE}'.",
        metavar="SCRIPT|OPTIONS",
    )  # fmt: skip
    brief: bool = option("Of --plan one line.")
    alter: str | None = option(
        "When your waiting jobs, or these, would start with another walltime.", "--if", metavar="walltime=HH:MM:SS"
    )
    waits: bool = option("How long a job submitted now would wait, by queue, processors and walltime.")
    socket: Path = option("Socket of the process that shows users their jobs.", default=SOCKET)
    output: Output


@command({
    "": "a job; expected is the start of one that waits, the end of one that runs", "--plan": "a request",
    "--if": "a waiting job", "--waits": "a queue, number of processors and walltime",
})  # fmt: skip
def me(
    options: MeOptions,
) -> Result[OwnJobs] | Result[list[PlannedRequest]] | Result[list[AlteredJob]] | Result[list[ProbeStart]]:
    """Show your own jobs: when they start and end.

    The command needs no rights and no settings.  It shows the waiting jobs with their expected starts, the running jobs
    with their expected ends, the last jobs that ended, and which shorter walltimes would have been enough.  Text sums
    up more than 20 jobs of a kind; JSON has up to 5,000.

    With --plan, --if or --waits it shows when a job would start before you submit it, or alter it while it waits.  The
    daemon forecasts jobs of some sizes and walltimes, of a user without other jobs; yours is rounded up to one of them.

    \b
    Example:
      softwalltime me
      softwalltime me --plan job.sh
      softwalltime me --plan "-l select=4:ncpus=32,walltime=4:00:00 -q long"
      softwalltime me --if walltime=4:00:00 12345
      softwalltime me --waits
      softwalltime me --format json
    """
    if sum((options.plan is not None, options.alter is not None, options.waits)) > 1:
        raise UsageError("--plan, --if and --waits are three questions: give one of them")
    if options.brief and options.plan is None:
        raise UsageError("--brief goes with --plan")
    if options.jobs and options.alter is None:
        raise UsageError("a JOB goes with --if walltime=HH:MM:SS: without it your jobs are shown together")
    asked = None if options.plan is None else request_of_qsub(options.plan)
    seconds = None if options.alter is None else altered_walltime(options.alter)
    own_jobs = ask_own_jobs(options.socket)
    now = int(time.time())
    remarks = warnings_of(own_jobs, now)
    if (asked or options.waits) and not any(probe.submit_to for probe in own_jobs.probes):
        raise NoOwnJobsError("no forecast of jobs that are not submitted: this site makes none, or has not begun")
    if asked:
        text = print_brief_plan if options.brief else partial(print_plan, asked=asked)
        return Result(plan(own_jobs.probes, asked, now), text, remarks=remarks)
    if options.waits:
        submittable = [probe for probe in own_jobs.probes if probe.submit_to]
        return Result(submittable, print_waits, remarks=remarks)
    shown = completed(own_jobs, now)
    if seconds is not None:
        if not shown.waiting:
            raise NoOwnJobsError("no job of yours waits")
        missing = "no such job of yours waits: softwalltime me lists those that do"
        chosen = named_jobs((job.job for job in shown.waiting), options.jobs, lambda _: missing)
        changed = [altered(job, own_jobs.probes, seconds) for job in shown.waiting if job.job in chosen]
        return Result(changed, print_altered, remarks=remarks)
    return Result(shown, _text)


def completed(jobs: OwnJobs, now: int) -> OwnJobs:
    """Return the jobs with the probability that each waiting one starts today, and why some have no forecast."""
    midnight = next_midnight(now)
    last = max((made.forecast_at for made in jobs.forecasts), default=None)
    waiting = (replace(job, today=chance_by(job, midnight), waits_for=_waits_for(job, last)) for job in jobs.waiting)
    return replace(jobs, waiting=tuple(waiting))


def warnings_of(jobs: OwnJobs, now: int) -> Iterator[str]:
    times = [*(forecast.forecast_at for forecast in jobs.forecasts), *(probe.forecast_at for probe in jobs.probes)]
    made = max(times, default=now)
    if jobs.problem:
        yield f"! {jobs.problem}; what is shown is as of {local_time(jobs.read_at, now)}"
    if now - made > STALE_AFTER_S:
        old = f"the forecasts are {duration(now - made)} old, and starts may be wrong"
        yield f"! {old}: tell your administrators (root: softwalltime status)"


def _waits_for(job: WaitingJob, forecast_at: int | None) -> str:
    """What a job waits for, or why there is no forecast of it."""
    if job.waits_for or job.expected is not None:
        return job.waits_for
    if forecast_at is None:
        return "no forecast: this site makes none"
    if job.submitted > forecast_at:
        return "no forecast yet: it was submitted after the last one"
    return "no forecast: it is too far behind in the queue"


def _text(output: Output, jobs: OwnJobs) -> None:
    now = int(time.time())
    for line in warnings_of(jobs, now):
        output.paragraph(line, "warning", 2)
    output.paragraph(summary(jobs, now))
    if (first := next_job(jobs)) is not None and first.expected is not None:
        starts = "now" if first.expected <= now else f"about {local_time(first.expected, now)}"
        output.line(f"the next start: {starts}", "strong")
    if lines := list(waiting_lines(jobs.waiting)):
        output.section(waiting_table(lines[:MAX_LINES], now))
        if len(lines) > MAX_LINES:
            output.paragraph(f"and {len(lines) - MAX_LINES:,} more that wait (--format json)", "faint")
    if jobs.running:
        output.section(running_table(jobs.running[:MAX_LINES], now))
        if jobs.running_jobs > MAX_LINES:
            output.paragraph(f"and {jobs.running_jobs - MAX_LINES:,} more that run (--format json)", "faint")
    if jobs.ended:
        output.section(ended_table(jobs.ended[:MAX_ENDED_JOBS], now))
    for line in advice(jobs):
        output.line()
        output.paragraph(line, "strong")


def summary(jobs: OwnJobs, now: int) -> str:
    """Return a sentence: whose jobs, how many of each kind, when the store was read and the forecast made."""
    if not (jobs.waiting_jobs or jobs.running_jobs or jobs.ended_jobs):
        return f"no job of yours waits, runs, or ended in the last {jobs.days} days"
    made = max((forecast.forecast_at for forecast in jobs.forecasts), default=None)
    when = "" if made is None else f"; forecast at {local_time(made, now)}"
    return (
        f"{printable(jobs.user)} at {local_time(jobs.read_at, now)}: {jobs.waiting_jobs:,} waiting, "
        f"{jobs.running_jobs:,} running, {jobs.ended_jobs:,} ended in {jobs.days} days{when}"
    )


def next_job(jobs: OwnJobs) -> WaitingJob | None:
    """Return the waiting job with the earliest expected start; ``None``: there is no forecast."""
    forecast = (job for job in jobs.waiting if job.expected is not None)
    return min(forecast, key=lambda job: job.expected or 0, default=None)


def waiting_lines(jobs: Sequence[WaitingJob]) -> Iterator[tuple[WaitingJob, str]]:
    """Yield the jobs of the table, of an array the first and the last subjob, each with what it stands for."""
    groups: dict[str, list[WaitingJob]] = {}
    for job in sorted(jobs, key=lambda job: (job.expected is None, job.expected or 0)):
        groups.setdefault(_array(job) or job.job, []).append(job)
    for subjobs in groups.values():
        if len(subjobs) > 2:
            yield subjobs[0], f", first of {len(subjobs):,}"
            yield subjobs[-1], f", last of {len(subjobs):,}"
        else:
            yield from ((job, "") for job in subjobs)


def _array(job: WaitingJob) -> str:
    match = _SUBJOB.fullmatch(job.job)
    return f"{match[1]}[]{match[2]}" if match else ""


def waiting_table(lines: Sequence[tuple[WaitingJob, str]], now: int) -> TextTable:
    which = dict(lines)
    columns: dict[TextColumn, Callable[[WaitingJob], Cell | str]] = {
        sentence_column("job"): lambda job: Cell(f"{printable(job.job)}{which[job]}", "strong"),
        sentence_column("name", 6, least=12): lambda job: printable(job.name),
        TextColumn("queue", 5, left=True, least=8): lambda job: printable(job.queue),
        TextColumn("processors", 4): lambda job: number(job.ncpus),
        TextColumn("walltime", 3): lambda job: walltime(job.walltime),
        TextColumn("starts"): lambda job: time_cell(job.expected, now),
        TextColumn("in 9 of 10 cases", 1, least=14): lambda job: Cell(time_range(job.range90, now), "faint"),
        TextColumn("starts today", 2): lambda job: _chance(job.today),
        TextColumn("runs probably", 3): lambda job: duration(job.runtime),
        sentence_column("waits for"): lambda job: printable(job.waits_for),
    }
    return TextTable.by_column(which, columns)


def running_table(jobs: Sequence[RunningJob], now: int) -> TextTable:
    def end(job: RunningJob) -> Cell:
        late = job.expected_end is not None and job.expected_end <= now
        return Cell("soon") if late else time_cell(job.expected_end, now)

    columns: dict[TextColumn, Callable[[RunningJob], Cell | str]] = {
        sentence_column("job"): lambda job: Cell(printable(job.job), "strong"),
        sentence_column("name", 6, least=12): lambda job: printable(job.name),
        TextColumn("queue", 5, left=True, least=8): lambda job: printable(job.queue),
        TextColumn("processors", 4): lambda job: number(job.ncpus),
        TextColumn("started", 3): lambda job: time_cell(job.started, now),
        TextColumn("ends"): end,
        TextColumn("in 9 of 10 cases", 1, least=14): lambda job: Cell(time_range(job.range90, now), "faint"),
        TextColumn("walltime ends", 2): lambda job: time_cell(job.latest_end, now),
    }
    return TextTable.by_column(jobs, columns)


def ended_table(jobs: Sequence[EndedJob], now: int) -> TextTable:
    columns: dict[TextColumn, Callable[[EndedJob], Cell | str]] = {
        sentence_column("job"): lambda job: Cell(printable(job.job), "strong"),
        sentence_column("name", 7, least=12): lambda job: printable(job.name),
        TextColumn("queue", 6, left=True, least=8): lambda job: printable(job.queue),
        TextColumn("ended", 1): lambda job: time_cell(job.ended, now),
        TextColumn("how", 2, left=True): lambda job: Cell(
            printable(job.state), "" if job.state == "finished" else "warning"
        ),
        TextColumn("processors", 5): lambda job: number(job.ncpus),
        TextColumn("walltime"): lambda job: walltime(job.walltime),
        TextColumn("used"): lambda job: duration(job.runtime),
        TextColumn("memory", 4): lambda job: size(job.mem),
        TextColumn("memory used", 4): lambda job: size(job.mem_used),
        TextColumn("waited", 3): lambda job: duration(job.wait),
    }
    return TextTable.by_column(jobs, columns)


def advice(jobs: OwnJobs) -> Iterator[str]:
    """Yield a text for each requested walltime that is too long, with what it would do for the jobs that wait."""
    from softwalltime.accounting.conversions import clock

    for request in jobs.requests:
        ran = f"{request.longer:,}" if request.longer else "none"
        instead = f"Request {walltime(request.suggested)} instead of {walltime(request.walltime)}"
        parts = [f"{instead}: of your {plural(request.jobs, 'job')} with it {ran} ran longer."]
        waiting = [job for job in jobs.waiting if job.walltime == request.walltime and not _array(job)]
        judged = next((job for job in waiting if job.sooner is not None and job.suggested == request.suggested), None)
        if judged is None:
            parts.append("A shorter job can start sooner.")
        elif (judged.sooner or 0) < MIN_GAIN_S:
            parts.append(f"{printable(judged.job)} would probably not start sooner.")
        else:
            sooner = duration(judged.sooner)
            parts.append(f"{printable(judged.job)} would probably start {sooner} sooner.")
        if waiting:
            parts.append(f"To change a job: qalter -l walltime={clock(request.suggested)} {printable(waiting[0].job)}.")
        yield "  ".join((*parts, "A job that reaches its walltime is killed."))


def _chance(chance: float | None) -> str:
    if chance is None:
        return MISSING
    sign = "<" if chance <= SHARES[0] else ">" if chance >= SHARES[-1] else ""
    return f"{sign}{percent(chance, 0)}"
