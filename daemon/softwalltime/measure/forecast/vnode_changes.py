"""Changes of a server's vnodes, applied to a snapshot: drained for a time, removed, added."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from softwalltime.accounting.conversions import duration
from softwalltime.core.errors import UsageError
from softwalltime.core.formatting import DAY, HOUR, MINUTE, local_time, plural
from softwalltime.measure.forecast.pooling import is_up, placed_on
from softwalltime.measure.forecast.queue_model import limit
from softwalltime.measure.forecast.snapshot import AdvanceReservation, ServerSnapshot, VnodeState

EXAMPLE = "node[1-8],08:00,4h"
NOW = "now"
_UNITS = {"min": MINUTE, "h": HOUR, "d": DAY}
MAX_DRAIN_S = 366 * DAY


def drained(snapshot: ServerSnapshot, text: str) -> ServerSnapshot:
    """Return the server with vnodes away for a time, as in ``node[1-8],08:00,4h``.

    A later drain takes processors as a reservation does.  In one that begins now, jobs that run on the vnodes go on.

    :raises UsageError: names what is wrong, and an example.
    """
    names, *times = text.rsplit(",", 2)
    if len(times) < 2:
        raise UsageError(f"{text!r}: not VNODES,BEGIN,LENGTH: write {EXAMPLE}")
    vnodes = [vnode for vnode in named_vnodes(names, snapshot) if is_up(vnode)]
    now, start = snapshot.taken, _begin(text, times[0].strip(), snapshot.taken)
    end = start + _length(text, times[1].strip())
    chosen = {vnode.name for vnode in vnodes}
    # Of each job on them: the end of its walltime, and its processors there.
    ends = [
        ((job.start or now) + limit(job.submission), held)
        for job in snapshot.jobs
        if job.occupies and (held := sum(n for name, n in placed_on(job.exec_vnode).items() if name in chosen))
    ]
    ncpus = sum(vnode.ncpus for vnode in vnodes)
    remarks = [f"the drain of {names} takes {plural(ncpus, 'processor')} of the whole machine, and no GPUs"]
    if start > now:
        windows = [(end, ncpus)]
        if late := sum(ended > start for ended, _ in ends):
            remarks.append(
                f"{plural(late, 'job')} on {names} may run beyond {local_time(start, now)}: PBS would not confirm the "
                "reservation, and the forecast counts their processors twice while they run in it"
            )
    else:
        # These jobs hold nothing of the other vnodes.  What one may still hold at the end comes back with its walltime.
        windows = [(ended, held) for ended, held in ends if ended > end]
        windows.append((end, max(ncpus - sum(held for _, held in windows), 0)))
        back = [replace(vnode, name=f"{vnode.name} after the drain") for vnode in vnodes]
        snapshot = replace(snapshot, vnodes=(*_offline(snapshot, vnodes), *back))
    # No queue of a reservation has such a name.
    reservations = [AdvanceReservation(f"drain of {names}", start, *window, "RESV_CONFIRMED") for window in windows]
    return replace(
        snapshot, reservations=(*snapshot.reservations, *reservations), remarks=(*snapshot.remarks, *remarks)
    )


def removed(snapshot: ServerSnapshot, text: str) -> ServerSnapshot:
    """Return the server without these vnodes, as ``pbsnodes -o`` would leave it: jobs on them run on.

    :raises UsageError: if there is no such vnode.
    """
    return replace(snapshot, vnodes=_offline(snapshot, named_vnodes(text, snapshot)))


def with_vnodes(snapshot: ServerSnapshot, count: int) -> ServerSnapshot:
    """Return the server with ``count`` more vnodes of the most common kind among those that are up.

    :raises UsageError: if no vnode is up.
    """
    up = [replace(vnode, name="", host="", state="free") for vnode in snapshot.vnodes if is_up(vnode)]
    if not up:
        raise UsageError("no vnode of the server is up, to show what an added one has: see pbsnodes -a")
    kind = Counter(up).most_common(1)[0][0]
    added = [replace(kind, name=f"added vnode {number}") for number in range(1, count + 1)]
    of = f" of queue {kind.queue}" if kind.queue else ""
    remark = f"added: {plural(count, 'vnode')}{of}, each with {plural(kind.ncpus, 'processor')} and {kind.ngpus:,} GPUs"
    return replace(snapshot, vnodes=(*snapshot.vnodes, *added), remarks=(*snapshot.remarks, remark))


def named_vnodes(text: str, snapshot: ServerSnapshot) -> list[VnodeState]:
    """Return the vnodes, or those of the hosts, that ``node7,node[01-08,12]`` names.

    :raises UsageError: if a name means no vnode.
    """
    called = defaultdict[str, list[VnodeState]](list)
    for vnode in snapshot.vnodes:
        for name in {vnode.name, vnode.host, vnode.host.partition(".")[0]} - {""}:
            called[name].append(vnode)
    chosen: dict[str, VnodeState] = {}
    # Commas that are not in brackets.
    for part in map(str.strip, re.split(r",(?![^\[\]]*\])", text)):
        # A vnode's own name may have brackets.
        for name in [part] if part in called else _expanded(part):
            if name not in called:
                raise UsageError(f"{text!r}: no vnode or host is called {name!r}: pbsnodes -a lists them")
            chosen |= {vnode.name: vnode for vnode in called[name]}
    return list(chosen.values())


def _expanded(name: str) -> Iterator[str]:
    """Yield the names that one with numbers in brackets means; numbers keep their leading zeros."""
    head, bracket, rest = name.partition("[")
    numbers, _, tail = rest.partition("]")
    matches = [re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part.strip()) for part in numbers.split(",")]
    if not bracket or None in matches:
        yield name
    for match in filter(None, matches if bracket else []):
        for number in range(int(match[1]), int(match[2] or match[1]) + 1):
            yield f"{head}{number:0{len(match[1])}}{tail}"


def _offline(snapshot: ServerSnapshot, vnodes: Sequence[VnodeState]) -> tuple[VnodeState, ...]:
    names = {vnode.name for vnode in vnodes}
    return tuple(
        replace(vnode, state=f"{vnode.state},offline") if vnode.name in names else vnode for vnode in snapshot.vnodes
    )


def _begin(text: str, begin: str, now: int) -> int:
    """Return the time in epoch seconds: now, the next such time of day, or a date and time, in the local time zone."""
    if begin == NOW:
        return now
    of_day = re.fullmatch(r"\d\d:\d\d", begin)
    try:
        today = datetime.fromtimestamp(now).astimezone().replace(tzinfo=None)
        time = datetime.fromisoformat(f"{today:%Y-%m-%d}T{begin}" if of_day else begin)
        if of_day and time <= today:
            # As of pbs_rsub -R.
            time += timedelta(days=1)
        seconds = int(time.timestamp())
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"{text!r}: {begin!r} is no time: write {NOW}, 08:00 or 2026-11-20T08:00") from error
    if seconds < now:
        raise UsageError(f"{text!r}: {begin} is past: the server's state is of {local_time(now, 0)}")
    return seconds


def _length(text: str, length: str) -> int:
    match = re.fullmatch(r"(\d{1,9})(min|h|d)", length)
    try:
        seconds = int(match[1]) * _UNITS[match[2]] if match else duration(length)
    except ValueError as error:
        raise UsageError(f"{text!r}: {length!r} is no length: write 90min, 4h, 2d or 4:00:00") from error
    if not 0 < seconds <= MAX_DRAIN_S:
        raise UsageError(f"{text!r}: a drain takes from 1 s to 366 days; --remove takes vnodes away for ever")
    return seconds
