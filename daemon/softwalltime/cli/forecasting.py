"""Parts of the commands that forecast from the state of a server: options, learning runtimes, jobs by name."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from softwalltime.cli.completing import STORE, complete_source
from softwalltime.cli.options import RUNTIMES, TIMEOUT, LazySettings, StoreOptions
from softwalltime.cli.output import progress_bar
from softwalltime.cli.parameters import option, options
from softwalltime.cli.selection import instant
from softwalltime.cli.sources import load_columns
from softwalltime.core.errors import UsageError
from softwalltime.core.formatting import plural

if TYPE_CHECKING:
    from softwalltime.core.jobs import CompletedJob
    from softwalltime.measure.forecast.expected import Learnt
    from softwalltime.measure.forecast.snapshot import ServerSnapshot
    from softwalltime.measure.replay.job_columns import JobColumns
    from softwalltime.predict.predictors.base import History


@options
class ForecastOptions:
    """The server's state, and the history that teaches runtimes."""

    file: Path | None = option(
        "State of the server from softwalltime snapshot, instead of the PBS server's own.", "--snapshot"
    )
    logs: tuple[str, ...] = option(
        "Learn runtimes from this log, folder of logs or trace, or store; repeatable.  Default: the store of the "
        "settings, if they name one.",
        "--log", metavar="SOURCE", shell_complete=complete_source,
    )  # fmt: skip
    at: int | None = option(
        "The queue at this time of --log (UTC) instead of now; --snapshot then gives only vnodes, queues and settings.",
        type=instant, metavar="TIME",
    )  # fmt: skip
    spec: str = RUNTIMES
    timeout: float = TIMEOUT
    settings: StoreOptions

    def state(self) -> "ServerSnapshot":
        from softwalltime.cli.snapshot import look
        from softwalltime.measure.forecast.snapshot import load_snapshot
        from softwalltime.predict.predictors.registry import make

        # Fail before PBS is asked.
        make(self.spec)
        if self.at is not None:
            from softwalltime.measure.forecast.recorded_queue import recorded_queue

            if not self.logs:
                raise UsageError("--at is a time of a log: give the log with --log")
            server = None if self.file is None else load_snapshot(self.file)
            return recorded_queue(self._logged, self.at, server)
        return load_snapshot(self.file) if self.file is not None else look(self.timeout)

    @cached_property
    def _logged(self) -> "JobColumns":
        return load_columns(self.logs, self.settings)[0]

    def running(self) -> str:
        """Return the value with which the site plans running jobs (:func:`.queue_model.model_of`)."""
        from softwalltime.measure.forecast.queue_model import planned_running
        from softwalltime.predict.policy.site import site_policy

        return planned_running(site_policy(self.settings().policy))

    def learn(self, snapshot: "ServerSnapshot", *, correlate: bool = False) -> "tuple[Learnt, str]":
        """Return what the history before the snapshot taught, and one sentence about it.

        :param correlate: whether to estimate the correlation of users' jobs (:func:`.learning.learn_history`).
        """
        from softwalltime.measure.forecast.expected import Learnt
        from softwalltime.measure.forecast.learning import learn_history, note_live
        from softwalltime.measure.forecast.recorded_queue import ended_by
        from softwalltime.measure.forecast.runtimes import RuntimeModel
        from softwalltime.predict.predictors.registry import make

        sources, settings, now = self.logs, self.settings, snapshot.taken
        if not sources and settings().dsn is None:
            sentence = "runtimes: walltimes, without ranges: give a history with --log, or a store with --dsn"
            return Learnt(RuntimeModel(None)), sentence
        predictor = make(self.spec)
        if sources and sources != (STORE,):
            completed: Sequence[CompletedJob] = self._logged if self.at is None else ended_by(self._logged, now)
        else:
            completed = _stored_jobs(settings, predictor.history, now)
        model = RuntimeModel(predictor)
        with progress_bar("learning", len(completed)) as progress:
            count = learn_history(model, completed, now, settings().teaching, progress=progress, correlate=correlate)
        note_live(model, snapshot.jobs)
        where = " ".join(sources) or "the store"
        return Learnt(model), f"runtimes: {self.spec}, learnt from {plural(count, 'job')} of {where}"


def _stored_jobs(settings: LazySettings, history: "History", now: int) -> "Sequence[CompletedJob]":
    """Return the stored jobs that the predictor learns from, and enough of them to measure its errors."""
    from softwalltime.measure.forecast.learning import MIN_HISTORY
    from softwalltime.predict.predictors.base import needed_history
    from softwalltime.store.learning_jobs import last_ended_since, read_history
    from softwalltime.store.opening import open_store

    with open_store(settings(), create=False) as engine, engine.connect() as connection:
        needed = needed_history([history, MIN_HISTORY], now, partial(last_ended_since, connection, now=now))
        return list(read_history(connection, *needed, now, settings().teaching))


def named_jobs(job_ids: Iterable[str], names: Sequence[str], problem: Callable[[str], str]) -> frozenset[str]:
    """Return the ids of the jobs that the names mean, whole arrays among them; all jobs without names.

    :param problem: says why a name means no job.
    :raises UsageError: if a name means no job.
    """
    every = frozenset(job_ids)
    named = {name: {job_id for job_id in every if _matches(job_id, name)} for name in names}
    for name, matching in named.items():
        if not matching:
            raise UsageError(f"{name}: {problem(name)}")
    return frozenset().union(*named.values()) if names else every


def _matches(job_id: str, name: str) -> bool:
    """Whether a job id is meant by a name: itself, or a number, an array index and a server, the last two optional."""
    match = re.match(r"(\d+)(\[\d*\])?(?:\.(.*))?$", name)
    if job_id == name or match is None:
        return job_id == name
    asked, index, server = match.groups()
    head, _, rest = job_id.partition(".")
    bare, bracket, _ = head.partition("[")
    if bare != asked or (server and rest != server):
        return False
    return index is None or head == f"{asked}{index}" or (index == "[]" and bool(bracket))
