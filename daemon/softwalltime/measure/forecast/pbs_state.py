"""Convert the attributes of PBS's objects to the parts of a snapshot."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from softwalltime.accounting.attributes import NAMES, submission_of
from softwalltime.accounting.conversions import duration, epoch, size, walltime, whole
from softwalltime.core.formatting import printable
from softwalltime.core.sched_config import members, switches, values_of
from softwalltime.core.validation import plain
from softwalltime.measure.forecast.snapshot import (
    DEDICATED,
    SCHED_CONFIG_UNREAD,
    AdvanceReservation,
    LiveJob,
    QueueSettings,
    SchedulerSettings,
    VnodeState,
)
from softwalltime.measure.simulation.shares import FairShareSettings, recorded_usage, share_groups

T = TypeVar("T")
_SETTINGS = TypeAdapter(FairShareSettings)
Attributes = Mapping[str, str]
"""Attributes of an object by name; a resource's name follows a dot, as in ``Resource_List.walltime``."""

LIMIT_ATTRIBUTE = re.compile(
    r"^(max_run|max_run_res|max_run_soft|max_run_res_soft|max_running|max_(?:user|group)_(?:run|res)(?:_soft)?)(\.|$)"
)
"""Names of the attributes that limit how many jobs run, with or without a resource."""
_RESOURCES = "Resource_List."


_NOT_MODELLED = {
    "backfill": "true", "backfill_prime": "false", "do_not_span_psets": "false",
    "job_sort_formula_threshold": "", "job_sort_key": "", "node_group_enable": "false", "nonprimetime_prefix": "np_",
    "only_explicit_psets": "false", "opt_backfill_fuzzy": "off", "peer_queue": "",
    "preempt_prio": "express_queue, normal_jobs", "preempt_queue_prio": "150", "primetime_prefix": "p_",
    "strict_fifo": "false",
}  # fmt: skip
"""Settings that the model does not have, each with the value that has no effect; sched_config, server and scheduler
have them."""


_LACKS = re.compile(
    r"(Can Never Run: .{,100})"
    r"|Not Running: ((?:Insufficient amount of (?:queue |server )?resource: (?!(?:ncpus|ngpus|nodect|mem)\b)\w"
    r"|Job would cross|Job would not finish).{,100})"
)


def lacking(job: Attributes) -> str:
    """Return what a job waits for by the scheduler's comment, if the model does not have it; else an empty text.

    No user can set the comment.

    >>> lacking({"comment": "Not Running: Insufficient amount of resource: lic (R: 2 A: 0 T: 4)"})
    'Insufficient amount of resource: lic (R: 2 A: 0 T: 4)'
    >>> lacking({"comment": "Not Running: Insufficient amount of resource: ncpus (R: 8 A: 2 T: 64)"})
    ''
    """
    found = _LACKS.match(job.get("comment", ""))
    return printable(found[1] or found[2]) if found else ""


class SnapshotReader:
    """Conversions that note what cannot be converted."""

    def __init__(self, remarks: list[str]) -> None:
        self._remarks = remarks

    def _get(self, values: Attributes, name: str, convert: Callable[[str], T], where: str) -> T | None:
        return self._convert(where, name.rpartition(".")[2], values.get(name), convert)

    def _convert(self, where: str, name: str, text: str | None, convert: Callable[[str], T]) -> T | None:
        """Return the value, or ``None`` with a remark."""
        try:
            return None if text is None else convert(text)
        except (ValueError, OverflowError) as error:
            self._remarks.append(f"{where} {name}: left out: {error}")
            return None

    def job(self, name: str, values: Attributes) -> LiveJob | None:
        submitted = self._get(values, "ctime", epoch, name)
        if submitted is None:
            self._remarks.append(f"{name}: dropped: when it was submitted cannot be read")
            return None
        texts = {name: values[name] for name in NAMES if name in values}
        wanted = {key.removeprefix(_RESOURCES): value for key, value in values.items() if key.startswith(_RESOURCES)}
        return LiveJob(
            submission=submission_of(name, submitted, texts, wanted, partial(self._convert, name)),
            state=values.get("job_state", "")[:1],
            # The server lists jobs in the order of queue_rank.
            rank=0,
            start=self._get(values, "stime", epoch, name),
            qtime=self._get(values, "qtime", epoch, name),
            etime=self._get(values, "etime", epoch, name),
            used=self._get(values, "resources_used.walltime", duration, name),
            soft_walltime=self._get(values, "Resource_List.soft_walltime", walltime, name) or None,
            estimated_start=self._get(values, "estimated.start_time", epoch, name),
            eligible_time=self._get(values, "eligible_time", duration, name),
            execution_time=self._get(values, "Execution_Time", epoch, name),
            exec_vnode=values.get("exec_vnode", ""),
            holds=values.get("Hold_Types", "").replace("n", ""),
            depends=values.get("depend", ""),
            priority=self._get(values, "Priority", int, name) or 0,
            predicted=self._get(values, "Resource_List.predicted", float, name),
            lacks=lacking(values),
        )

    def vnode(self, name: str, values: Attributes) -> VnodeState:
        return VnodeState(
            name=name,
            host=values.get("resources_available.host") or name,
            state=values.get("state", ""),
            ncpus=self._get(values, "resources_available.ncpus", whole, name) or 0,
            ngpus=self._get(values, "resources_available.ngpus", whole, name) or 0,
            queue=values.get("queue", ""),
            sharing=values.get("sharing", ""),
            mem=self._get(values, "resources_available.mem", size, name) or 0,
        )

    def queue(self, name: str, values: Attributes) -> QueueSettings:
        return QueueSettings(
            name=name,
            execution=values.get("queue_type", "").lower().startswith("e"),
            enabled=_true(values.get("enabled")),
            started=_true(values.get("started")),
            priority=self._get(values, "Priority", int, name) or 0,
            default_walltime=self._get(values, "resources_default.walltime", duration, name),
            min_walltime=self._get(values, "resources_min.walltime", duration, name),
            max_walltime=self._get(values, "resources_max.walltime", duration, name),
            destinations=_listed(values.get("route_destinations", "")),
            limits=_limits(values),
            backfill_depth=self._get(values, "backfill_depth", whole, name),
            from_route_only=_true(values.get("from_route_only")),
            restricted=_true(values.get("acl_user_enable")) or _true(values.get("acl_group_enable")),
        )

    def scheduler(
        self, server: Attributes, config: str, groups: str = "", unmodelled: Iterable[str] = (), usage: bytes = b""
    ) -> SchedulerSettings:
        """Return the settings in the attributes of server and scheduler and in the text of sched_config.

        :param groups: text of resource_group.
        :param unmodelled: what else of the scheduler the model does not have.
        :param usage: the scheduler's file of that name.
        """
        values = {name: text for name in _NOT_MODELLED if (text := ", ".join(values_of(config, name)))} | dict(server)
        others = [
            f"{name} = {values[name]}"
            for name, usual in _NOT_MODELLED.items()
            if name in values and values[name].lower() != usual
        ]

        def said(name: str) -> bool | None:
            prime, other = switches(config, name)
            if prime != other:
                others.append(f"{name} = {other} in non-prime time")
            return prime if config else None

        if not config:
            self._remarks.append(SCHED_CONFIG_UNREAD)
        return SchedulerSettings(
            scheduling=_true(server.get("scheduling", "True")),
            strict_ordering=said("strict_ordering"),
            backfill_depth=self._get(server, "backfill_depth", whole, "server"),
            formula=server.get("job_sort_formula", "").strip("\"' "),
            eligible_time=_true(server.get("eligible_time_enable")),
            by_queue=said("by_queue"),
            round_robin=said("round_robin"),
            fair_share=said("fair_share"),
            preemption=said("preemptive_sched"),
            resources=tuple(members(config, "resources")),
            default_queue=server.get("default_queue", ""),
            default_walltime=self._get(server, "resources_default.walltime", duration, "server"),
            limits=_limits(server),
            unmodelled=(*others, *unmodelled),
            shares=self._convert(
                "sched_config", "fair share", config or None, partial(_shares, groups=groups, usage=usage)
            ),
            dedicated_prefix="".join(values_of(config, "dedicated_prefix")[-1:]) or "ded",
        )

    def reservation(self, name: str, values: Attributes) -> AdvanceReservation | None:
        start, end = (self._get(values, f"reserve_{end}", epoch, name) for end in ("start", "end"))
        if start is None or end is None:
            self._remarks.append(f"{name}: dropped: its start or end cannot be read")
            return None
        ncpus = self._get(values, "Resource_List.ncpus", whole, name) or 0
        return AdvanceReservation(name, start, end, ncpus, _reservation_state(values.get("reserve_state", "")))


_PERIOD = re.compile(r"\s*(\d+)/(\d+)/(\d+)\s+(\d+):(\d+)\s+(\d+)/(\d+)/(\d+)\s+(\d+):(\d+)")


def dedicated_times(text: str, ncpus: int, now: int) -> Iterator[AdvanceReservation]:
    """Yield the periods in the text of dedicated_time that end after ``now``, in this host's local time.

    PBS leaves out lines that are none, too.  A period is a line such as ``04/15/1998 12:00 04/15/1998 15:30``.

    :param ncpus: processors of the server.
    """
    for line in text.splitlines():
        if found := _PERIOD.match(line):
            with suppress(ValueError, OverflowError):
                month, day, year, hour, minute, *until = map(int, found.groups())
                # pbs_sched takes two digits as a year of this century at the start only.
                start = _local_seconds(month, day, year + 2000 if year < 90 else year, hour, minute)
                end = _local_seconds(*until)
                if start < end and end > now:
                    yield AdvanceReservation(DEDICATED, start, end, ncpus)


def _local_seconds(month: int, day: int, year: int, hour: int, minute: int) -> int:
    # As in C, 24:00 is the next day.
    return int(time.mktime((year, month, day, hour, minute, 0, 0, 0, -1)))


_FAIR_SHARE = {
    "fairshare_entity": ("entity", "euser"), "fairshare_usage_res": ("usage", "cput"),
    "fairshare_decay_factor": ("decay_factor", "0.5"), "unknown_shares": ("unknown_shares", "0"),
}  # fmt: skip
"""Options of sched_config for fair share besides the time of the decay, and PBS's defaults."""


def _shares(config: str, groups: str, usage: bytes) -> FairShareSettings:
    """Return the settings of fair share.

    :raises ValueError: if PBS would not take a value; says which.
    """
    values: dict[str, Any] = {
        name: (values_of(config, option) or (default,))[-1] for option, (name, default) in _FAIR_SHARE.items()
    }
    values["decay_time"] = duration((values_of(config, "fairshare_decay_time") or ("24:00:00",))[-1])
    values["decayed"], values["used"] = recorded_usage(usage) or (None, ())
    try:
        return _SETTINGS.validate_python(values | {"groups": tuple(share_groups(groups))})
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{first['loc'][0]}: {plain(first['msg'])}") from error


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _true(value: str | None) -> bool:
    return (value or "").lower() in ("true", "1", "t", "y")


def _limits(values: Attributes) -> tuple[tuple[str, str], ...]:
    """The attributes that limit how many jobs run, with their resources."""
    return tuple((name, value) for name, value in values.items() if LIMIT_ATTRIBUTE.match(name))


def _reservation_state(number: str) -> str:
    return RESERVATION_STATES[int(number)] if number.isdecimal() and int(number) < len(RESERVATION_STATES) else number


RESERVATION_STATES = (
    "RESV_NONE", "RESV_UNCONFIRMED", "RESV_CONFIRMED", "RESV_WAIT", "RESV_TIME_TO_RUN", "RESV_RUNNING", "RESV_FINISHED",
    "RESV_BEING_DELETED", "RESV_DELETED", "RESV_DELETING_JOBS", "RESV_DEGRADED", "RESV_BEING_ALTERED",
    "RESV_IN_CONFLICT",
)  # fmt: skip
"""Names of reserve_state by PBS's number (pbs_ifl.h, enum resv_states)."""
