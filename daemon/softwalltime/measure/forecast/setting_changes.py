"""Changes of attributes of the server, queues and scheduler, written as for qmgr, applied to a snapshot."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from softwalltime.accounting.conversions import whole
from softwalltime.core.errors import OptionError, UsageError
from softwalltime.measure.forecast.pbs_state import LIMIT_ATTRIBUTE
from softwalltime.measure.forecast.pooling import read_limits
from softwalltime.measure.forecast.snapshot import QueueSettings, SchedulerSettings, ServerSnapshot
from softwalltime.measure.simulation.formula import compiled
from softwalltime.measure.simulation.orders import ALL_NAMES

_LINE = re.compile(
    r"\s*(?:(?P<unset>unset)\s+|set\s+)?(?P<kind>server|queue|sched_config)(?:\s+(?P<name>[^\s=]+))?"
    r"\s+(?P<attribute>[\w.]+)\s*(?:=\s*(?P<value>.+?))?\s*",
    re.IGNORECASE | re.DOTALL,
)
EXAMPLE = "write queue long Priority = 100, server max_run = [u:PBS_GENERIC=50], or unset server max_run"
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
    "queue": {"Priority": ("priority", whole, 0), "started": ("started", _truth, False)},
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
        raise UsageError(f"{line!r}: not an attribute with its value: {EXAMPLE}")
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
            raise UsageError(f"{line!r}: the model does not know this limit: {EXAMPLE}")
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
