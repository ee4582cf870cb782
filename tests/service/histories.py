"""Histories of jobs as a PBS server logs them, with the expected result from a simple model."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

BEGIN = 1_795_000_000
"""The first second of every history, 18 November 2026, in epoch seconds."""

# The record types of a job in order.  The second Q of "QQ" comes after a routing queue; r: a rerun as TORQUE
# writes it, without values; a: an alter; u: an alter that unsets the soft walltime.
SCRIPTS = (
    "QSE", "QSE", "QSE", "QQSE", "QaSE", "QSaE", "QaSaE", "QSuE", "QD", "QaD", "QSDE", "QSD", "QSRSE", "QSRQSE",
    "QSrSE", "QSRSRSE", "QA", "QM", "QMQSE", "QSA", "Q", "QQ", "Qa", "QaQ", "QS", "QSa", "Qu", "QSu", "QSR", "QSr",
    "QSra", "QSRa",
)  # fmt: skip
ARRAYS = ("QSE", "QSDE", "QD", "QS", "Q")
RUBBISH = (b"\xff\xfe\0", b"now;E;1.srv;user=x", b"", b";;;", b"11/18/2026 10:00:00;E;77.srv", b"\rx\r")


@dataclass(frozen=True)
class Plan:
    """One job of a history: its records, its first second, and the gaps; ``array``: an array with two subjobs."""

    script: str
    begin: int = 0
    gaps: tuple[int, ...] = (1,) * 9
    array: bool = False


def random_plans(chance: Random, count: int, seconds: int) -> list[Plan]:
    """Return ``count`` jobs that are submitted within ``seconds``."""
    return [
        Plan(
            chance.choice(ARRAYS if array else SCRIPTS),
            chance.randrange(seconds),
            tuple(chance.choice((0, 1, 5, 60, 900)) for _ in range(9)),
            array,
        )
        for array in (chance.random() < 0.1 for _ in range(count))
    ]


def history(plans: Sequence[Plan]) -> list[bytes]:
    """Return the log of these jobs: lines without line ends, in order of time."""
    events: list[tuple[int, int, bytes]] = []
    for number, plan in enumerate(plans):
        if not plan.array:
            events += _records(f"{number}.srv", plan, len(events))
        else:
            events += _records(f"{number}[].srv", plan, len(events))
            # Subjobs have no Q; an array that was deleted while waiting has none.
            if "S" in plan.script:
                for index in (1, 2):
                    events += _records(f"{number}[{index}].srv", plan, len(events))[1:]
    return [line for *_, line in sorted(events)]


def with_rubbish(lines: Iterable[bytes], chance: Random) -> list[bytes]:
    """Insert malformed lines at random places."""
    found: list[bytes] = []
    for line in lines:
        if chance.random() < 0.03:
            found.append(chance.choice(RUBBISH))
        found.append(line)
    return found


def _records(job_id: str, plan: Plan, first: int) -> list[tuple[int, int, bytes]]:
    time = submitted = BEGIN + plan.begin
    start, runs, walltime, soft = 0, 0, 3600, ""
    found = []
    for step, (kind, gap) in enumerate(zip(plan.script, plan.gaps, strict=False)):
        time += gap
        head = f"user=u{plan.begin % 3} group=g project=p jobname=j queue=q ctime={submitted} qtime={time} etime={time}"
        asked = f"Resource_List.ncpus=1 {soft}Resource_List.walltime={walltime}"
        match kind:
            case "S":
                start, runs = time, runs + 1
                message = f"{head} start={start} exec_host=n/0 {asked} "
            case "E" if "[]" in job_id:
                message = f"{head} start={start} {asked} session=0 end={time} Exit_status=0 run_count=0"
            case "E" | "R":
                used = f"resources_used.walltime={time - start}" if step % 2 else ""
                message = f"{head} start={start} {asked} session=1 end={time} Exit_status=0 {used} run_count={runs}"
            case "Q":
                message = f"{head} {asked} "
            case "a":
                walltime += 60
                soft = f"Resource_List.soft_walltime={walltime // 2} "
                message = f"{soft}Resource_List.walltime={walltime} Job_Name=renamed"
            case "u":
                soft, message = "", "Resource_List.soft_walltime=UNSET"
            case "M":
                message = "destination=q@elsewhere"
            case "r":
                message = ""
            case _:
                message = "requestor=root@srv"
        stamp = datetime.fromtimestamp(time, UTC).strftime("%m/%d/%Y %H:%M:%S")
        letter = {"u": "a", "r": "R"}.get(kind, kind)
        found.append((time, first + step, f"{stamp};{letter};{job_id};{message}".encode()))
    return found


@dataclass
class ExpectedState:
    """The state after a log: completed and interrupted runs by job id and start, current jobs by id, malformed lines.

    A current job has its start (``None``: it waits), its walltime and its soft walltime.
    """

    completed: dict[tuple[str, int], int] = field(default_factory=dict)
    interrupted: set[tuple[str, int]] = field(default_factory=set)
    current: dict[str, tuple[int | None, int | None, int | None]] = field(default_factory=dict)
    malformed: set[bytes] = field(default_factory=set)
    malformed_lines: int = 0
    lines: int = 0


def expected_state(lines: Iterable[bytes]) -> ExpectedState:
    """Apply the lines in order; return the state after the last one."""
    state = ExpectedState()
    for line in lines:
        state.lines += 1
        parts = line.decode("latin-1").split(";", 3)
        if len(parts) < 4 or not re.fullmatch(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d", parts[0]):
            if line.strip():
                state.malformed.add(line)
                state.malformed_lines += 1
            continue
        _, kind, job_id, message = parts
        fields = dict(re.findall(r"(\S+?)=(\S+)", message))
        start = int(fields["start"]) if "start" in fields else None
        if kind == "E" and "[]" not in job_id:
            assert start is not None
            used = _seconds(fields.get("resources_used.walltime"))
            state.completed.setdefault((job_id, start), int(fields["end"]) - start if used is None else used)
        if kind == "R" and fields and "[]" not in job_id:
            assert start is not None
            state.interrupted.add((job_id, start))
        _now(state.current, kind, job_id, start, fields)
    return state


def _now(
    current: dict[str, tuple[int | None, int | None, int | None]], kind: str, job_id: str, start: int | None,
    fields: dict[str, str],
) -> None:  # fmt: skip
    asked = [_seconds(fields.get(f"Resource_List.{name}")) for name in ("walltime", "soft_walltime")]
    if kind in "EDAM":
        current.pop(job_id, None)
    elif kind in "QS" or (kind == "R" and fields):
        current[job_id] = (start if kind == "S" else None, asked[0], asked[1])
    elif job_id in current:
        before = current[job_id]
        if kind == "R":
            current[job_id] = (None, *before[1:])
        elif kind == "a":
            walltime, soft = (
                old if new is None else None if new < 0 else new for old, new in zip(before[1:], asked, strict=True)
            )
            current[job_id] = (before[0], walltime, soft)


def _seconds(text: str | None) -> int | None:
    if text is None or text == "UNSET":
        return None if text is None else -1
    return sum(int(part) * 60**power for power, part in enumerate(reversed(text.split(":"))))
