"""``softwalltime me --plan``, ``--if`` and ``--waits``: when a job would start before it is submitted or altered."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from softwalltime.accounting.conversions import clock
from softwalltime.cli.output import Output
from softwalltime.cli.qsub_options import JobRequest, request_of_qsub
from softwalltime.core.errors import UsageError
from softwalltime.core.formatting import HOUR, duration, local_time, number, plural, printable, time_range, walltime
from softwalltime.core.text_table import Cell, Meaning, TextColumn, TextTable, sentence_column, time_cell
from softwalltime.service.users.own_jobs import ProbeStart, WaitingJob

MAX_LINES = 20
"""Maximum lines of a table; the rest is summarised."""
MIN_GAIN_S, MIN_GAIN_SHARE = 60, 0.05
"""Minimum gain to name another request: seconds, and share of the wait; less is within the error of the forecasts."""
NOT_CONSIDERED = (
    "The forecasts are of a user without other jobs.  Not considered: your limits, your fair share, jobs that are "
    "submitted later and come first"
)
NOTHING_SOONER = "No shorter walltime and no other queue of those that are forecast starts clearly sooner."
_HEAT: Sequence[tuple[int, Meaning]] = ((HOUR // 4, "good"), (4 * HOUR, ""), (24 * HOUR, "warning"))
"""Longest waits in seconds with their colours; longer ones are bad."""


@dataclass(frozen=True, slots=True)
class PlannedRequest(ProbeStart):
    """A request and when such a job would start; times in epoch seconds."""

    request: str
    """What to change, options of qsub; empty: as requested, rounded up to a job that is forecast."""


@dataclass(frozen=True, slots=True)
class AlteredJob:
    """A waiting job and when it would start with another walltime; times in epoch seconds, durations in seconds."""

    job: str
    """Job id."""
    walltime: int | None
    """Requested walltime; null: no limit."""
    expected: int | None
    """Expected start; null: no forecast, see waits_for."""
    waits_for: str
    """What the job waits for, or why there is no forecast."""
    altered: int
    """The other walltime."""
    submitted_now: int | None
    """Expected start of a new job with that walltime, of a user without other jobs; null: not known."""
    at_the_latest: int | None
    """Latest expected start of this job with that walltime, in its place in the queue; null: not known."""


def plan(probes: Sequence[ProbeStart], asked: JobRequest, now: int) -> list[PlannedRequest]:
    """Return when a job would start as requested, then the requests that start sooner than all longer ones.

    :param now: epoch seconds.
    :raises UsageError: if there is no such queue, or the job is larger than all that are forecast.
    """
    name = asked.queue.partition("@")[0]
    entered = [probe for probe in probes if name in probe.submit_to]
    where = f"queue {printable(name)}" if name else "the default queue"
    if not entered:
        queues = printable(", ".join(sorted({queue for probe in probes for queue in probe.submit_to if queue})))
        raise UsageError(f"{where}: no job is forecast there; queues with forecasts are {queues}")
    own = enough(entered, asked.ncpus, asked.walltime)
    if own is None:
        largest = plural(max(probe.ncpus for probe in entered), "processor")
        longest = walltime(max(probe.walltime for probe in entered))
        raise UsageError(f"{where}: the jobs that are forecast there have at most {largest} and {longest}")
    found = [PlannedRequest(**asdict(own), request="")]
    for probe in _sooner([probe for probe in probes if probe.server == own.server], own, asked.ncpus, now):
        changes = [] if probe.walltime == own.walltime else [f"-l walltime={clock(probe.walltime)}"]
        if name not in probe.submit_to:
            queue = probe.queue if probe.queue in probe.submit_to else max(probe.submit_to)
            changes.append(f"-q {queue}" if queue else "without -q")
        found.append(PlannedRequest(**asdict(probe), request=" ".join(changes)))
    return found


def enough(probes: Sequence[ProbeStart], ncpus: int, seconds: int | None) -> ProbeStart | None:
    """Return the smallest forecast job with at least these processors and this walltime.

    :param seconds: walltime; ``None``: the longest.
    """
    least = max((probe.walltime for probe in probes), default=0) if seconds is None else seconds
    large = [probe for probe in probes if probe.ncpus >= ncpus and probe.walltime >= least]
    return min(large, key=lambda probe: (probe.ncpus, probe.walltime, probe.expected), default=None)


def _sooner(probes: Sequence[ProbeStart], own: ProbeStart, ncpus: int, now: int) -> Iterator[ProbeStart]:
    fitting: dict[tuple[str, int], ProbeStart] = {}
    # The smallest size that is enough replaces larger ones.
    for probe in sorted(probes, key=lambda probe: probe.ncpus, reverse=True):
        if probe.ncpus >= ncpus and probe.walltime <= own.walltime and probe.submit_to:
            fitting[probe.queue, probe.walltime] = probe
    best = max(own.expected, now)
    for probe in sorted(fitting.values(), key=lambda probe: (-probe.walltime, probe.expected)):
        start = max(probe.expected, now)
        if best - start >= max(MIN_GAIN_S, MIN_GAIN_SHARE * (best - now)):
            yield probe
            best = start


def altered_walltime(text: str) -> int:
    """Return the seconds of ``walltime=4:00:00``.

    :raises UsageError: if it is something else.
    """
    asked = request_of_qsub(f"-l {text}")
    if asked.walltime is None or asked != JobRequest("", 1, asked.walltime, ()):
        raise UsageError(f"--if {printable(text)}: write the other walltime alone, as walltime=4:00:00")
    return asked.walltime


def altered(job: WaitingJob, probes: Sequence[ProbeStart], seconds: int) -> AlteredJob:
    """Return when a waiting job would start with another walltime, in seconds.

    It keeps its place, so it starts no later than a new job, and with a shorter walltime no later than as it is.
    """
    of_server = [probe for probe in probes if probe.server == job.job.partition(".")[2]] or probes
    new = enough([probe for probe in of_server if probe.queue == job.queue], job.ncpus or 1, seconds)
    latest = [] if new is None else [new.expected]
    if job.expected is not None and (job.walltime is None or seconds <= job.walltime):
        latest.append(job.expected - (max(job.sooner or 0, 0) if seconds <= (job.suggested or 0) else 0))
    # A job without a forecast is held, or cannot start: a new one says nothing about it.
    at_the_latest = None if job.expected is None else min(latest, default=None)
    submitted_now = None if new is None else new.expected
    return AlteredJob(job.job, job.walltime, job.expected, job.waits_for, seconds, submitted_now, at_the_latest)


def print_plan(output: Output, requests: Sequence[PlannedRequest], asked: JobRequest) -> None:
    now = int(time.time())
    for line in planned(requests, asked, now):
        output.paragraph(line)
    output.section(plan_table(requests, now))
    output.line()
    if len(requests) == 1:
        output.paragraph(NOTHING_SOONER)
    output.paragraph(f"{NOT_CONSIDERED}{''.join(f', {name}' for name in asked.ignored)}.", "faint")


def planned(requests: Sequence[PlannedRequest], asked: JobRequest, now: int) -> Iterator[str]:
    """Yield what was asked, and the larger job whose forecast counts for it."""
    first = requests[0]
    limit = f"for {walltime(asked.walltime)}" if asked.walltime else "without a walltime"
    queue = f" in queue {printable(asked.queue)}" if asked.queue else ""
    yield f"{plural(asked.ncpus, 'processor')} {limit}{queue}, submitted now; {made(requests, now)}"
    if (first.ncpus, first.walltime) != (asked.ncpus, asked.walltime):
        larger = f"{plural(first.ncpus, 'processor')} for {walltime(first.walltime)}"
        yield f"rounded up to a job that is forecast: {larger}"


def plan_table(requests: Sequence[PlannedRequest], now: int) -> TextTable:
    first = requests[0]
    columns: dict[TextColumn, Callable[[PlannedRequest], Cell | str]] = {
        sentence_column("request"): lambda row: Cell(printable(row.request) or "as requested", "strong"),
        TextColumn("queue", 3, left=True, least=8): lambda row: printable(row.queue),
        TextColumn("walltime", 2): lambda row: walltime(row.walltime),
        TextColumn("starts"): lambda row: start_cell(row.expected, now),
        TextColumn("in 9 of 10 cases", 1, least=14): lambda row: Cell(time_range(row.range90, now), "faint"),
        TextColumn("sooner"): lambda row: _gain(first.expected, row.expected, now),
    }
    return TextTable.by_column(requests, columns)


def print_brief_plan(output: Output, requests: Sequence[PlannedRequest]) -> None:
    now, first = int(time.time()), requests[0]
    parts = [f"such a job starts {_about(first, now)}"]
    if first.range90 is not None and first.expected > now:
        parts.append(f" (90%: {time_range(first.range90, now)})")
    if len(requests) > 1:
        parts.append(f"; with {printable(requests[1].request)} {_about(requests[1], now)}")
    output.line("".join(parts))


def _about(request: PlannedRequest, now: int) -> str:
    return f"{'about ' if request.expected > now else ''}{start_cell(request.expected, now).text}"


def print_altered(output: Output, jobs: Sequence[AlteredJob]) -> None:
    now = int(time.time())
    columns: dict[TextColumn, Callable[[AlteredJob], Cell | str]] = {
        sentence_column("job"): lambda row: Cell(printable(row.job), "strong"),
        TextColumn("walltime", 2): lambda row: walltime(row.walltime),
        TextColumn("starts"): lambda row: start_cell(row.expected, now),
        TextColumn(f"with {walltime(jobs[0].altered)} at the latest"): lambda row: start_cell(row.at_the_latest, now),
        TextColumn("sooner", 1): lambda row: _gain(row.expected, row.at_the_latest, now),
        TextColumn("a new job", 3): lambda row: start_cell(row.submitted_now, now),
        sentence_column("waits for", 2): lambda row: printable(row.waits_for),
    }
    output.table(TextTable.by_column(jobs[:MAX_LINES], columns))
    if len(jobs) > MAX_LINES:
        output.paragraph(f"and {len(jobs) - MAX_LINES:,} more that wait (--format json)", "faint")
    output.line()
    output.paragraph(
        "An altered job keeps its place in the queue: it is expected no later than a new job with that walltime and, "
        "if the walltime is shorter, no later than as it is; unless it waits for your limits or fair share, or its "
        "time (qsub -a).", "faint",
    )  # fmt: skip
    output.paragraph(f"{NOT_CONSIDERED}.", "faint")


def print_waits(output: Output, probes: Sequence[ProbeStart]) -> None:
    now = int(time.time())
    output.paragraph(f"how long a job submitted now would wait; {made(probes, now)}")
    for title, table in waits_tables(probes, now):
        output.line()
        output.line(title, "strong")
        output.section(table)
    output.line()
    output.paragraph(f"{NOT_CONSIDERED}.", "faint")


def waits_tables(probes: Sequence[ProbeStart], now: int) -> Iterator[tuple[str, TextTable]]:
    """Yield title and table of each queue: the waits by number of processors and walltime."""
    for server, queue in sorted({(probe.server, probe.queue) for probe in probes}):
        own = {(p.ncpus, p.walltime): p.expected for p in probes if (p.server, p.queue) == (server, queue)}
        walltimes = sorted({seconds for _, seconds in own})
        columns = [TextColumn("processors"), *(TextColumn(walltime(seconds)) for seconds in walltimes)]
        rows: list[list[Cell | str]] = [
            [number(ncpus), *(_wait(own.get((ncpus, seconds)), now) for seconds in walltimes)]
            for ncpus in sorted({ncpus for ncpus, _ in own})
        ]
        yield f"queue {printable(queue)} of {printable(server)}, by walltime", TextTable.of(columns, rows)


def windows_table(probes: Sequence[ProbeStart], now: int) -> TextTable:
    """Return the next start that is free for each number of processors, with the longest walltime that has it."""
    first: dict[int, ProbeStart] = {}
    for probe in sorted(probes, key=lambda probe: (max(probe.expected, now), -probe.walltime)):
        first.setdefault(probe.ncpus, probe)
    columns: dict[TextColumn, Callable[[ProbeStart], Cell | str]] = {
        TextColumn("processors"): lambda probe: Cell(number(probe.ncpus), "strong"),
        TextColumn("starts"): lambda probe: start_cell(probe.expected, now),
        TextColumn("walltime up to"): lambda probe: walltime(probe.walltime),
        TextColumn("queue", left=True): lambda probe: printable(probe.queue),
    }
    return TextTable.by_column(sorted(first.values(), key=lambda probe: probe.ncpus), columns)


def made(forecasts: Sequence[ProbeStart], now: int) -> str:
    times = [forecast.forecast_at for forecast in forecasts]
    first, last = local_time(min(times), now), local_time(max(times), now)
    return f"forecast at {first}" if first == last else f"forecast at {first} to {last}"


def start_cell(expected: int | None, now: int) -> Cell:
    return Cell("now", "good") if expected is not None and expected <= now else time_cell(expected, now)


def _wait(expected: int | None, now: int) -> Cell:
    wait = None if expected is None else max(expected - now, 0)
    meaning: Meaning = next((meaning for longest, meaning in _HEAT if (wait or 0) <= longest), "bad")
    return Cell("now" if wait == 0 else duration(wait), meaning)


def _gain(before: int | None, after: int | None, now: int) -> str:
    gain = 0 if before is None or after is None else max(before, now) - max(after, now)
    return duration(gain) if gain > 0 else ""
