"""Convert the output of PBS's commands to a snapshot."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from softwalltime.accounting.attributes import NAMES, submission_of
from softwalltime.accounting.conversions import duration, walltime, whole
from softwalltime.core.errors import SourceError
from softwalltime.measure.forecast.pbs_json import object_of, read_document, text_of
from softwalltime.measure.forecast.snapshot import (
    AdvanceReservation,
    LiveJob,
    QueueSettings,
    SchedulerSettings,
    ServerSnapshot,
    VnodeState,
)

T = TypeVar("T")

_ENDED = frozenset("FXM")
_LIMIT = re.compile(
    r"^(max_run|max_run_res|max_run_soft|max_run_res_soft|max_running|max_(?:user|group)_(?:run|res)(?:_soft)?)$"
)
_ID = re.compile(r"^(\d+)(?:\[(\d*)\])?\.(.+)$")
_RESERVATION = re.compile(r"^\s*([\w.]+)\s*[=:]\s*(.*)$")


@dataclass(frozen=True, slots=True)
class PbsOutput:
    """Output of PBS's commands, and sched_config; empty if unavailable.

    The commands are ``qstat -t -f -F json``, ``pbsnodes -a -F json``, ``qstat -Q -f -F json``, ``qstat -B -f -F json``
    and ``pbs_rstat -f``.
    """

    jobs: str
    vnodes: str
    queues: str = ""
    server: str = ""
    reservations: str = ""
    sched_config: str = ""


def snapshot_of(output: PbsOutput) -> ServerSnapshot:
    """Return the state of the server, from commands that ran in UTC.

    :raises SourceError: if there are no jobs and vnodes to read.
    """
    remarks: list[str] = []

    def document(text: str, source: str) -> dict[str, Any]:
        if not text.strip():
            return {}
        members, dropped = read_document(text, source)
        remarks.extend(dropped)
        return members

    jobs, vnodes = document(output.jobs, "qstat"), document(output.vnodes, "pbsnodes")
    if "timestamp" not in jobs or "nodes" not in vnodes:
        raise SourceError("the output of qstat and pbsnodes is not what PBS prints with -F json: nothing was read")
    reader = SnapshotReader(remarks)
    servers = object_of(document(output.server, "qstat -B").get("Server"))
    queues = object_of(document(output.queues, "qstat -Q").get("Queue"))
    return ServerSnapshot(
        taken=reader.optional(lambda: int(jobs["timestamp"]), "timestamp") or 0,
        server=text_of(jobs.get("pbs_server")),
        version=text_of(jobs.get("pbs_version")),
        jobs=tuple(sorted(reader.jobs(object_of(jobs.get("Jobs"))), key=arrival)),
        vnodes=tuple(reader.vnode(name, object_of(node)) for name, node in object_of(vnodes["nodes"]).items()),
        queues=tuple(reader.queue(name, object_of(queue)) for name, queue in queues.items()),
        reservations=tuple(reader.reservations(output.reservations)),
        scheduler=reader.scheduler(object_of(next(iter(servers.values()), {})), sched_config(output.sched_config)),
        remarks=tuple(remarks),
    )


def sched_config(text: str) -> dict[str, str]:
    """The settings of sched_config, those for prime time where there are several.

    >>> sched_config("# comment\\nstrict_ordering: true ALL\\nby_queue: False prime\\nby_queue: True non_prime\\n")
    {'strict_ordering': 'true', 'by_queue': 'False'}
    """
    settings: dict[str, str] = {}
    for line in text.splitlines():
        if (match := re.match(r'^\s*(\w+):\s*("[^"]*"|\S+)', line)) is not None:
            settings.setdefault(match[1], match[2].strip('"'))
    return settings


def arrival(job: LiveJob) -> tuple[int, int, int]:
    """Sort key for jobs in the order in which PBS received them."""
    match = _ID.match(job.submission.job_id)
    number, index = (int(match[1]), int(match[2] or 0)) if match else (0, 0)
    return job.rank, number, index


class SnapshotReader:
    """Conversions of PBS's objects, as nested dictionaries, that note what cannot be converted."""

    def __init__(self, remarks: list[str]) -> None:
        self._remarks = remarks

    def optional(self, read: Callable[[], T], where: str) -> T | None:
        """The value, or ``None`` with a remark."""
        try:
            return read()
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            self._remarks.append(f"{where}: left out: {error}")
            return None

    def _get(self, values: Mapping[str, Any], name: str, convert: Callable[[str], T], where: str) -> T | None:
        value = values.get(name)
        return self._convert(where, name, None if value is None else text_of(value), convert)

    def _convert(self, where: str, name: str, text: str | None, convert: Callable[[str], T]) -> T | None:
        return None if text is None else self.optional(lambda: convert(text), f"{where} {name}")

    def _walltime(self, values: Mapping[str, Any], name: str, where: str) -> int | None:
        return self._get(object_of(values.get(name)), "walltime", duration, where)

    def time(self, text: str) -> int:
        """Epoch seconds of a time as ctime prints it in UTC, or of epoch seconds."""
        if text.isdecimal():
            return int(text)
        return int(datetime.strptime(text, "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp())

    def jobs(self, listed: Mapping[str, Any]) -> Iterator[LiveJob]:
        """The jobs that have not ended; of arrays their subjobs, listed or not."""
        arrays = {match[1] for name in listed if (match := _ID.match(name)) is not None and match[2]}
        for name, attributes in listed.items():
            values = object_of(attributes)
            if not values or text_of(values.get("job_state")) in _ENDED:
                continue
            match = _ID.match(name)
            if match is None or match[2] != "":
                yield from self.job(name, values)
            elif match[1] not in arrays:
                for index in self._remaining(name, text_of(values.get("array_indices_remaining"))):
                    yield from self.job(f"{match[1]}[{index}].{match[3]}", {**values, "job_state": "Q", "stime": None})

    def _remaining(self, name: str, listed: str) -> Iterator[int]:
        for part in listed.split(",") if listed not in ("", "-") else ():
            match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", part.strip())
            if match is None:
                self._remarks.append(f"{name}: array_indices_remaining: left out: {part!r} is no range")
            else:
                yield from range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1))

    def job(self, name: str, values: Mapping[str, Any]) -> Iterator[LiveJob]:
        resources, used = object_of(values.get("Resource_List")), object_of(values.get("resources_used"))
        estimated = object_of(values.get("estimated"))
        submitted = self._get(values, "ctime", self.time, name)
        if submitted is None:
            self._remarks.append(f"{name}: dropped: when it was submitted cannot be read")
            return
        qtime = self._get(values, "qtime", self.time, name)
        texts = {attribute: text_of(values[attribute]) for attribute in NAMES if attribute in values}
        wanted = {resource: text_of(value) for resource, value in resources.items() if value is not None}
        yield LiveJob(
            submission=submission_of(name, submitted, texts, wanted, partial(self._convert, name)),
            state=text_of(values.get("job_state"))[:1],
            rank=self._get(values, "queue_rank", int, name) or 1_000_000 * (qtime or submitted),
            start=self._get(values, "stime", self.time, name),
            qtime=qtime,
            etime=self._get(values, "etime", self.time, name),
            used=self._get(used, "walltime", duration, name),
            soft_walltime=self._get(resources, "soft_walltime", walltime, name) or None,
            estimated_start=self._get(estimated, "start_time", self.time, name),
            eligible_time=self._get(values, "eligible_time", duration, name),
            execution_time=self._get(values, "Execution_Time", self.time, name),
            exec_vnode=text_of(values.get("exec_vnode")),
            holds=text_of(values.get("Hold_Types")).replace("n", ""),
            depends=text_of(values.get("depend")),
            priority=self._get(values, "Priority", int, name) or 0,
            predicted=self._get(resources, "predicted", float, name),
        )

    def vnode(self, name: str, values: Mapping[str, Any]) -> VnodeState:
        has = object_of(values.get("resources_available"))
        return VnodeState(
            name=name,
            host=text_of(has.get("host")) or name,
            state=text_of(values.get("state")),
            ncpus=self._get(has, "ncpus", whole, name) or 0,
            ngpus=self._get(has, "ngpus", whole, name) or 0,
            queue=text_of(values.get("queue")),
            sharing=text_of(values.get("sharing")),
        )

    def queue(self, name: str, values: Mapping[str, Any]) -> QueueSettings:
        return QueueSettings(
            name=name,
            execution=text_of(values.get("queue_type")).lower().startswith("e"),
            enabled=_true(values.get("enabled")),
            started=_true(values.get("started")),
            priority=self._get(values, "Priority", int, name) or 0,
            default_walltime=self._walltime(values, "resources_default", name),
            min_walltime=self._walltime(values, "resources_min", name),
            max_walltime=self._walltime(values, "resources_max", name),
            destinations=_listed(text_of(values.get("route_destinations"))),
            limits=_limits(values),
            backfill_depth=self._get(values, "backfill_depth", whole, name),
        )

    def scheduler(self, server: Mapping[str, Any], config: Mapping[str, str]) -> SchedulerSettings:
        def said(name: str) -> bool | None:
            return config[name].lower() == "true" if name in config else None

        if not config:
            self._remarks.append("sched_config: not read, strict_ordering is assumed")
        return SchedulerSettings(
            scheduling=_true(server.get("scheduling", "True")),
            strict_ordering=said("strict_ordering"),
            backfill_depth=self._get(server, "backfill_depth", whole, "server"),
            formula=text_of(server.get("job_sort_formula")).strip("\"' "),
            eligible_time=_true(server.get("eligible_time_enable")),
            by_queue=said("by_queue"),
            round_robin=said("round_robin"),
            fair_share=said("fair_share"),
            preemption=said("preemptive_sched"),
            resources=_listed(config.get("resources", "")),
            default_queue=text_of(server.get("default_queue")),
            default_walltime=self._walltime(server, "resources_default", "server"),
            limits=_limits(server),
        )

    def reservations(self, text: str) -> Iterator[AdvanceReservation]:
        values: dict[str, str] = {}
        for line in [*text.splitlines(), "Resv ID: "]:
            if line.startswith("Resv ID"):
                if (reservation := self.reservation(values)) is not None:
                    yield reservation
                values = {"id": line.partition(":")[2].strip()}
            elif (match := _RESERVATION.match(line)) is not None:
                values[match[1]] = match[2].strip()

    def reservation(self, values: Mapping[str, str]) -> AdvanceReservation | None:
        """A reservation, from its attributes with the resources after a dot, and its name under ``id``."""
        name = values.get("id", "")
        if not name:
            return None
        start, end = (self._get(values, f"reserve_{end}", self.time, name) for end in ("start", "end"))
        if start is None or end is None:
            self._remarks.append(f"{name}: dropped: its start or end cannot be read")
            return None
        ncpus = self._get(values, "Resource_List.ncpus", whole, name) or 0
        return AdvanceReservation(name, start, end, ncpus, values.get("reserve_state", ""))


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _true(value: object) -> bool:
    return text_of(value).lower() in ("true", "1", "t", "y")


def _limits(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The attributes that limit how many jobs run, with their resources."""
    limits: list[tuple[str, str]] = []
    for name, value in values.items():
        if _LIMIT.match(name):
            by_resource = {f"{name}.{resource}": limit for resource, limit in object_of(value).items()}
            limits += [(key, text_of(limit)) for key, limit in (by_resource or {name: value}).items()]
    return tuple(limits)
