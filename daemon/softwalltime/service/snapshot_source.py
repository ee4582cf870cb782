"""The state of a server through PBS's client library, for forecasts: jobs, vnodes, queues, reservations, scheduler."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from softwalltime.accounting.attributes import converted
from softwalltime.accounting.conversions import duration, epoch
from softwalltime.measure.forecast.pbs_state import SnapshotReader, dedicated_times, lacking
from softwalltime.measure.forecast.snapshot import DELAYED, HELD, LiveJob, ServerSnapshot
from softwalltime.service.live.agent import START_RESOURCE
from softwalltime.service.live.connection import PbsConnection
from softwalltime.service.live.ifl import Attributes
from softwalltime.service.live.watch import DETAILS, MAX_EXPANDED, OWNER, PENDING, STATE, Extra, JobWatcher

EXTRAS = (
    OWNER,
    Extra(("stime", "exec_vnode"), lambda job: job.get("job_state", "") not in PENDING),
    # PBS removes the etime of held and delayed jobs.
    Extra(
        ("qtime", "Hold_Types", "depend", "Execution_Time"),
        lambda job: "etime" not in job or job.get("job_state") in (HELD, DELAYED),
    ),
)
"""Attributes that few jobs need."""
PRIORITY = "job_priority"
"""Term of a job_sort_formula that refers to the job attribute Priority."""
ENDED = "FXM"


def attributes_for(server: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the attributes to read of every job, state and details, by those of the server.

    >>> attributes_for({"eligible_time_enable": "True"})[0][-1]
    'eligible_time'
    """
    eligible = ("eligible_time",) if server.get("eligible_time_enable", "").lower() == "true" else ()
    priority = ("Priority",) if PRIORITY in server.get("job_sort_formula", "") else ()
    return (*STATE, "comment", *eligible), (*DETAILS, "etime", *priority)


class SnapshotSource:
    """Takes snapshots of one server.

    :param config: copy of sched_config; ``None`` or unreadable: strict ordering is assumed.
    """

    def __init__(self, connection: PbsConnection, config: Path | None = None) -> None:
        self.shown: dict[str, str] = {}
        """Value of the expected-start resource by job, as of the last read of the job's details."""
        self._connection = connection
        self._config = config
        self._remarks: list[str] = []
        self._reader = SnapshotReader(self._remarks)
        self._names = attributes_for({})
        self._jobs = self._watcher(*self._names)

    def take(self, now: int) -> ServerSnapshot:
        """Return the state of the server at ``now`` (epoch seconds).

        :raises IflError: if PBS cannot be read.
        """
        self._remarks.clear()
        reader, read = self._reader, self._connection.objects
        name, attributes = next(iter(read("server").items()), ("", {}))
        schedulers = read("schedulers")
        # The formula is an attribute of the server or of its scheduler.
        attributes = schedulers.pop("default", {}) | attributes
        unmodelled = [f"scheduler {other} with its own queues and vnodes" for other in schedulers]
        if (names := attributes_for(attributes)) != self._names:
            self._names, self._jobs = names, self._watcher(*names)
        jobs = [replace(job, rank=rank) for rank, job in enumerate(self._jobs.look(now)) if job is not None]
        if whole := self._jobs.whole:
            self._remarks.append(
                f"{len(whole)} waiting arrays: left out, more than {MAX_EXPANDED:,} jobs wait before them"
            )
        there = {job.submission.job_id for job in jobs}
        self.shown = {job_id: text for job_id, text in self.shown.items() if job_id in there}
        vnodes = tuple(reader.vnode(*found) for found in read("vnodes").items())
        reservations = [reader.reservation(*found) for found in read("reservations").items()]
        dedicated = dedicated_times(self._text("dedicated_time"), sum(vnode.ncpus for vnode in vnodes), now)
        return ServerSnapshot(
            taken=now,
            server=name,
            version=attributes.get("pbs_version", ""),
            jobs=tuple(jobs),
            vnodes=vnodes,
            queues=tuple(reader.queue(*found) for found in read("queues").items()),
            reservations=(*(reservation for reservation in reservations if reservation is not None), *dedicated),
            scheduler=reader.scheduler(
                attributes, self._text("sched_config"), self._text("resource_group"), unmodelled, self._bytes("usage")
            ),
            remarks=tuple(self._remarks),
        )

    def _text(self, name: str) -> str:
        """Return the text of sched_config, or of another file in its folder; empty if it cannot be read."""
        return self._bytes(name).decode(errors="replace").replace("\r\n", "\n")

    def _bytes(self, name: str) -> bytes:
        if self._config is not None:
            with suppress(OSError):
                return (self._config if name == "sched_config" else self._config.with_name(name)).read_bytes()
        return b""

    def _watcher(self, state: Sequence[str], details: Sequence[str]) -> JobWatcher[LiveJob | None]:
        return JobWatcher(self._connection, state, details, _is_job, self._job, _with_state, EXTRAS, subjobs=True)

    def _job(self, job_id: str, attributes: Attributes) -> LiveJob | None:
        if (text := attributes.get(f"Resource_List.{START_RESOURCE}")) is not None:
            self.shown[job_id] = text
        return self._reader.job(job_id, attributes)


def _is_job(job_id: str, state: Attributes) -> bool:
    """Return whether this is a job that has not ended; arrays are represented by their subjobs."""
    return "[]" not in job_id and state.get("job_state", "")[:1] not in ENDED


def _with_state(job: LiveJob | None, state: Attributes) -> LiveJob | None:
    if job is None:
        return None
    return replace(
        job,
        state=state.get("job_state", "")[:1],
        estimated_start=converted(state.get("estimated.start_time"), epoch),
        eligible_time=converted(state.get("eligible_time"), duration),
        lacks=lacking(state),
    )
