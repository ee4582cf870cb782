"""Changes of a server applied to a snapshot: vnodes drained, removed and added; attributes written as for qmgr."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from softwalltime.accounting.conversions import duration, whole
from softwalltime.core.errors import OptionError, UsageError
from softwalltime.core.formatting import DAY, HOUR, MINUTE, local_time, plural
from softwalltime.measure.forecast.pbs_state import LIMIT_ATTRIBUTE
from softwalltime.measure.forecast.pooling import read_limits
from softwalltime.measure.forecast.queue_model import limit
from softwalltime.measure.forecast.server_vnodes import is_up, placed_on
from softwalltime.measure.forecast.snapshot import (
    AdvanceReservation,
    QueueSettings,
    SchedulerSettings,
    ServerSnapshot,
    VnodeState,
)
from softwalltime.measure.simulation.formula import compiled
from softwalltime.measure.simulation.orders import ALL_NAMES

DRAIN_EXAMPLE = "node[1-8],08:00,4h"
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
        raise UsageError(f"{text!r}: not VNODES,BEGIN,LENGTH: write {DRAIN_EXAMPLE}")
    vnodes = [vnode for vnode in named_vnodes(names, snapshot) if is_up(vnode)]
    now, start = snapshot.taken, _begin(text, times[0].strip(), snapshot.taken)
    end = start + _length(text, times[1].strip())
    chosen = {vnode.name for vnode in vnodes}
    # Of each job on them: the end of its walltime, and its processors there.
    ends = [
        ((job.start or now) + limit(job.submission), held)
        for job in snapshot.jobs
        if job.occupies
        and (held := sum(taken[0] for name, taken in placed_on(job.exec_vnode).items() if name in chosen))
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


_LINE = re.compile(
    r"\s*(?:(?P<unset>unset)\s+|set\s+)?(?P<kind>server|queue|sched_config)(?:\s+(?P<name>[^\s=]+))?"
    r"\s+(?P<attribute>[\w.]+)\s*(?:=\s*(?P<value>.+?))?\s*",
    re.IGNORECASE | re.DOTALL,
)
SETTING_EXAMPLE = "write queue long Priority = 100, server max_run = [u:PBS_GENERIC=50], or unset server max_run"
_TRUTH = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
S = TypeVar("S", QueueSettings, SchedulerSettings)


def _truth(text: str) -> bool:
    if text.lower() not in _TRUTH:
        raise ValueError("not True or False")
    return _TRUTH[text.lower()]


def _depth(text: str) -> int:
    if (depth := whole(text)) < 0:
        raise ValueError("below 0")
    return depth


def _formula(text: str) -> str:
    compiled(text, ALL_NAMES)
    return text


_KNOWN: Mapping[str, Mapping[str, tuple[str, Callable[[str], Any], Any]]] = {
    "queue": {
        "Priority": ("priority", whole, 0), "started": ("started", _truth, False),
        "backfill_depth": ("backfill_depth", _depth, None),
    },
    "server": {
        "job_sort_formula": ("formula", _formula, ""), "backfill_depth": ("backfill_depth", _depth, None),
        "eligible_time_enable": ("eligible_time", _truth, False), "scheduling": ("scheduling", _truth, True),
    },
    "sched_config": {"strict_ordering": ("strict_ordering", _truth, False), "by_queue": ("by_queue", _truth, False)},
}  # fmt: skip
"""Attributes besides limits: the field of the snapshot, the conversion, and PBS's default."""


def with_setting(snapshot: ServerSnapshot, line: str) -> ServerSnapshot:
    """Return the server with one attribute set or unset, as in ``set queue long Priority = 100`` (``set`` is optional).

    :raises UsageError: if it is not such a line, there is no such queue, or the model does not know the attribute.
    """
    match = _LINE.fullmatch(line)
    if match is None or (match["value"] is None) is (match["unset"] is None):
        raise UsageError(f"{line!r}: not an attribute with its value: {SETTING_EXAMPLE}")
    kind, attribute, value = match["kind"].lower(), match["attribute"].lower(), match["value"]
    if kind != "queue":
        return replace(snapshot, scheduler=_changed(line, snapshot.scheduler, kind, attribute, value))
    queues = {queue.name: queue for queue in snapshot.queues}
    if match["name"] not in queues:
        raise UsageError(f"{line!r}: no queue is called {match['name'] or ''!r}; there are {', '.join(queues)}")
    queues[match["name"]] = _changed(line, queues[match["name"]], kind, attribute, value)
    return replace(snapshot, queues=tuple(queues.values()))


def _changed(line: str, settings: S, kind: str, attribute: str, value: str | None) -> S:
    """Return the settings with a value in place of the old one; ``None``: PBS's default."""
    text = None if value is None else value.strip("\"' ")
    if LIMIT_ATTRIBUTE.match(attribute) and kind != "sched_config":
        limits: tuple[tuple[str, str], ...] = tuple(limit for limit in settings.limits if limit[0].lower() != attribute)
        if text is None:
            return replace(settings, limits=limits)
        if not (read := list(read_limits("", attribute, text))) or len(read) != max(text.count("="), 1):
            raise UsageError(f"{line!r}: the model does not know this limit: {SETTING_EXAMPLE}")
        return replace(settings, limits=(*limits, (attribute, text)))
    known = {name.lower(): entry for name, entry in _KNOWN[kind].items()}
    if attribute not in known:
        names = [*_KNOWN[kind], *([] if kind == "sched_config" else ["max_run, max_run_res.ncpus and other limits"])]
        raise UsageError(f"{line!r}: the model does not know {attribute} of {kind}; it knows {', '.join(names)}")
    field, convert, default = known[attribute]
    try:
        changes: dict[str, Any] = {field: default if text is None else convert(text)}
    except (ValueError, OptionError) as error:
        raise UsageError(f"{line!r}: {error}") from error
    return replace(settings, **changes)
