"""The forecast process: read PBS's state, forecast starts, store them, and show each job its expected start.

The daemon starts it (:mod:`.forecast_thread`, :mod:`.start_process`).  A process of low priority does not delay the
thread that answers the hook.  It exits when its input is closed, so it never outlives the daemon.
"""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

from sqlalchemy import Engine

from softwalltime.accounting.attributes import converted
from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.pbs_conf import pbs_home
from softwalltime.core.quantiles import quantile
from softwalltime.core.settings import Settings
from softwalltime.measure.forecast.calibration import WaitForecast
from softwalltime.measure.forecast.defaults import PREDICTOR
from softwalltime.measure.forecast.expected import ExpectedStart, expected_starts
from softwalltime.measure.forecast.learning import MIN_HISTORY, ForecastLearning, server_of
from softwalltime.measure.forecast.past_errors import MAX_OF_JOB
from softwalltime.measure.forecast.queue_model import ModelledQueue, model_of, planned_running
from softwalltime.measure.forecast.runtimes import RuntimeDistribution
from softwalltime.measure.forecast.self_calibration import MAX_JUDGED, JudgedForecast, SelfCalibration
from softwalltime.measure.forecast.snapshot import DELAYED, ServerSnapshot
from softwalltime.measure.forecast.start_times import distributions_of
from softwalltime.predict.policy.site import site_policy
from softwalltime.predict.predictors.base import needed_history
from softwalltime.predict.predictors.registry import make
from softwalltime.service.forecast_thread import StartOptions, start_options
from softwalltime.service.live.agent import START_RESOURCE
from softwalltime.service.live.connection import PbsConnection
from softwalltime.service.live.ifl import NO_JOB, REFUSED, UNKNOWN_RESOURCE, IflError
from softwalltime.service.live.live_options import live_options
from softwalltime.service.probe_grid import ProbeGrid
from softwalltime.service.snapshot_source import SnapshotSource
from softwalltime.service.sooner_starts import SoonerStart, SoonerStarts
from softwalltime.service.status import QueueStarts, StartsStatus
from softwalltime.store import forecast_rows as store
from softwalltime.store.learning_jobs import LastJob, is_stored, last_ended_since, last_job, read_history, read_new
from softwalltime.store.opening import open_store

MIN_RUNS = 20
MAX_RETRY_PAUSE_S = 600.0
"""Maximum seconds between two attempts while PBS or the store cannot be used."""
MIN_WINDOW_S = 600
"""Minimum age in seconds up to which a job's first forecast counts as made at submission."""
NEVER = 2**62
"""Earliest start of a held job, epoch seconds: unknown."""
QUANTILES = (0.05, 0.5, 0.95)
"""Quantiles of a predicted runtime, in the order of :class:`.forecast_rows.ExpectedRuntime`."""

log = logging.getLogger(__name__)

UNKNOWN = "unknown"
_MINUTE = "%Y-%m-%dT%H:%M"


@dataclass(eq=False)
class StartPublisher:
    """Forecast the starts of one server's jobs periodically."""

    settings: Settings
    options: StartOptions
    connection: PbsConnection
    engine: Engine
    running: str
    """Value with which running jobs are planned: ``soft_walltime`` or ``walltime``."""

    def __post_init__(self) -> None:
        options = self.options
        config = options.sched_config or pbs_home() / "sched_priv" / "sched_config"
        self._source = SnapshotSource(self.connection, config)
        budget = max(1, options.shows_per_minute * options.every // 60)
        self._shown = ShownStarts(self.connection, options.change_seconds, budget)
        self._sooner = SoonerStarts(self.engine, self.settings.server, self.running, options.every)
        self._grid = ProbeGrid(self.running, options.every)
        self._runs = options.runs
        self._learning: ForecastLearning | None = None
        self._calibration = SelfCalibration()
        self._last = LastJob()

    def step(self, now: int) -> StartsStatus:
        """Forecast and publish once, as of ``now`` (epoch seconds).

        :raises IflError: if PBS cannot be reached, or nothing may be altered.
        :raises StoreError: if the store cannot be used.
        """
        begin = time.monotonic()
        snapshot = self._source.take(now)
        server = server_of(snapshot, self.settings.server)
        if (learning := self._learning) is None or self._lacks_jobs():
            # After PBS has answered: otherwise learning the history would be wasted.
            learning = self._learn(now, server)
            snapshot = self._source.take(now)
        with self.engine.begin() as connection:
            new = list(read_new(connection, self._last))
            judged = store.judge_starts(connection, server, now)
            withdrawn = store.withdraw_starts(connection, server, _not_before(snapshot))
        self._calibration.learn(_judged(judged, server))
        self._calibration.withdraw(withdrawn)
        waiting = {job.submission.job_id for job in snapshot.jobs if job.waits_for_scheduler}
        self._calibration.still_waiting(waiting, now)
        learning.look(snapshot, [job for _, job in new])
        self._last = new[-1][0] if new else self._last
        queue = model_of(snapshot, running=self.running)
        first = queue.model.running
        ids = [*queue.ids[first:], *(start.job.submission.job_id for start in queue.impossible)]
        runs = self._runs
        learnt = replace(learning.learnt, correct=self._calibration.corrections_for)
        known = dict(zip(queue.ids, distributions_of(queue, learnt.runtimes), strict=True))
        starts = list(expected_starts(queue, learnt, frozenset(ids[: self.options.jobs]), runs, known=known))
        # Fewer runs if this forecast took more than half of the interval; more again later.
        share = self.options.every / 2 / max(time.monotonic() - begin, 0.001)
        self._runs = min(self.options.runs, max(int(runs * min(share, 2.0)), MIN_RUNS))
        stored = [_stored(start) for start in starts]
        factor = store.range_factor(stored)
        with self.engine.begin() as connection:
            kept = store.publish_starts(connection, server, stored, now, max(MIN_WINDOW_S, 2 * self.options.every))
        # After the starts are published: what is forecast in spare time must not delay them.
        sooner = self._sooner.step(snapshot, queue, known)
        probes = self._grid.step(snapshot, queue, learnt, known)
        with self.engine.begin() as connection:
            store.publish_runtimes(connection, server, _runtimes(queue, known, starts, sooner), now)
            store.publish_probes(connection, server, probes)
            quality = store.start_quality(connection, server)
        for start in starts:
            if start.raw is not None and start.job.submission.job_id in kept:
                self._calibration.watch(start.job.submission.job_id, now, start.raw)
        seconds = time.monotonic() - begin
        shown, refused = self._shown.show(starts, self._source.shown) if self.options.show else (0, 0)
        return StartsStatus(
            "on", taken=now, seconds=round(seconds, 3), learnt=learning.jobs, runs=runs, waiting=len(ids),
            forecast=sum(start.expected is not None for start in starts), shown=shown, refused=refused,
            remarks=(*snapshot.remarks, *queue.remarks),
            queues=_by_queue(starts, queue, now), quality=quality, judged=self._calibration.jobs,
            range_factor=1.0 if factor is None else factor,
        )  # fmt: skip

    def _lacks_jobs(self) -> bool:
        """Return whether jobs that were learnt are lost, as after a failover of the store."""
        with self.engine.connect() as connection:
            return not is_stored(connection, self._last)

    def _learn(self, now: int, server: str) -> ForecastLearning:
        """Learn the history of the store, for forecasts of this server's jobs."""
        predictor, teaching = make(self.options.predictor or PREDICTOR), self.settings.teaching
        learning = ForecastLearning(predictor, teaching)
        with self.engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            newest = last_job(connection)
            since_last = partial(last_ended_since, connection, now=now)
            needed = needed_history([predictor.history, MIN_HISTORY], now, since_last)
            learning.history(read_history(connection, *needed, now, teaching), now)
        self._calibration = SelfCalibration()
        with self.engine.connect() as connection:
            self._calibration.learn(_judged(store.judged_starts(connection, server, MAX_JUDGED), server))
            for start in store.open_starts(connection, server, MAX_OF_JOB):
                self._calibration.resume(start.job_id, start.forecast_at, WaitForecast.of(start.raw), start.forecasts)
        self._learning, self._last = learning, newest
        log.info("starts: learnt %d jobs of the history", learning.jobs)
        return learning


def _not_before(snapshot: ServerSnapshot) -> dict[str, int]:
    """Return the earliest permitted start of held and delayed jobs by job id, epoch seconds."""
    delayed = {job.submission.job_id: job.execution_time for job in snapshot.jobs if job.state == DELAYED}
    held = {job.submission.job_id: NEVER for job in snapshot.jobs if job.held}
    return {job_id: moment for job_id, moment in delayed.items() if moment is not None} | held


def _judged(starts: Sequence[store.JudgedStart], server: str) -> Iterator[JudgedForecast]:
    for start in starts:
        if start.server == server and start.raw is not None:
            yield JudgedForecast(start.job_id, start.forecast_at, start.started, WaitForecast.of(start.raw))


def _stored(start: ExpectedStart) -> store.StoredStart:
    job = start.job.submission
    # The tables require a range: without one, both ends are the expected start.
    point = (start.expected, start.expected)
    low90, high90 = start.range90 or point
    low50, high50 = start.range50 or point
    return store.StoredStart(
        job.job_id, job.submitted, start.expected, low90, low50, high50, high90, start.job.estimated_start,
        job.walltime, job.ncpus, job.user, job.group, job.project, job.queue, start.waits_for,
        None if start.raw is None else start.raw.values,
    )  # fmt: skip


def _runtimes(
    queue: ModelledQueue, known: Mapping[str, RuntimeDistribution], starts: Sequence[ExpectedStart],
    sooner: Mapping[str, SoonerStart],
) -> list[store.ExpectedRuntime]:  # fmt: skip
    """Return the predicted runtimes of running jobs and of forecast waiting jobs."""
    runtimes = [(job_id, known[job_id]) for job_id in queue.ids[: queue.model.running]]
    runtimes += [(start.job.submission.job_id, start.runtime) for start in starts if start.runtime is not None]
    return [
        store.ExpectedRuntime(
            job_id, *(round(quantile(predicted.values.tolist(), share)) for share in QUANTILES),
            *sooner.get(job_id, (None, None)),
        )
        for job_id, predicted in runtimes
        if predicted.known
    ]  # fmt: skip


def _by_queue(starts: Sequence[ExpectedStart], queue: ModelledQueue, now: int) -> tuple[QueueStarts, ...]:
    waits: defaultdict[str, list[int]] = defaultdict(list)
    for start in starts:
        if start.expected is not None:
            waits[start.job.submission.queue].append(max(start.expected - now, 0))
    live = (*queue.live[queue.model.running :], *(start.job for start in queue.impossible))
    rows = []
    for name, count in sorted(Counter(job.submission.queue for job in live).items()):
        own = waits[name]
        rows.append(QueueStarts(name, count, len(own), sum(own) / max(len(own), 1), max(own, default=0)))
    return tuple(rows)


def publish(settings: Settings, report: Callable[[StartsStatus], None], wait: Callable[[float], None]) -> None:
    """Forecast and publish forever; report failures and retry.

    :param report: receives the status after each attempt.
    :param wait: sleeps for that many seconds.
    """
    options, live = start_options(settings.starts), live_options(settings.live)
    running = planned_running(site_policy(settings.policy))
    connection = PbsConnection(options.server or live.server, options.agent or live.agent)
    pause = float(options.every)

    def retry(problem: str) -> None:
        nonlocal pause
        connection.close()
        report(StartsStatus("on", problem=problem))
        pause = min(2 * pause, max(MAX_RETRY_PAUSE_S, options.every))
        wait(pause / 2)

    with closing(connection):
        while True:
            try:
                with open_store(settings) as engine:
                    publisher = StartPublisher(settings, options, connection, engine, running)
                    while True:
                        begin = time.monotonic()
                        try:
                            report(publisher.step(int(time.time())))
                        except IflError as error:
                            # PBS does not answer or refuses: keep what was learnt from the store.
                            retry(str(error))
                            continue
                        pause = float(options.every)
                        wait(max(0.0, pause - (time.monotonic() - begin)))
            except SoftwalltimeError as error:
                retry(str(error))
            except Exception as error:
                log.exception("starts: unexpected error; trying again")
                retry(f"an unexpected error, see the log: {error!r}")


def shown_text(expected: int, low: int, high: int) -> str:
    """Return an expected start and its range (epoch seconds) as the resource shows them, in local time."""
    first, *ends = (time.strftime(_MINUTE, time.localtime(moment)) for moment in (expected, low, high))
    return f"{first}({ends[0]}..{ends[1]})"


def shown_times(text: str) -> tuple[int, ...]:
    """Return expected start, low and high of a resource's text, epoch seconds; empty if it has none."""
    parts = text.replace("(", " ").replace("..", " ").replace(")", " ").split()
    times = [converted(part, lambda each: int(time.mktime(time.strptime(each, _MINUTE)))) for part in parts]
    return tuple(moment for moment in times if moment is not None) if len(times) == 3 else ()


@dataclass(eq=False)
class ShownStarts:
    """Update the expected-start resource of one server's waiting jobs."""

    connection: PbsConnection
    least: int
    """Minimum change of an expected start or range end to alter a job, seconds; also a fifth of the time until then."""
    budget: int
    """Maximum alters per call."""
    refused: dict[str, str] = field(default_factory=dict)
    """Texts that PBS refused, by job."""

    def show(self, starts: Sequence[ExpectedStart], has: Mapping[str, str]) -> tuple[int, int]:
        """Alter the jobs whose starts changed, the earliest first; return the numbers of altered and refused jobs.

        Subjobs are omitted: PBS cannot alter a single one.

        :param has: current value of the resource by job.
        :raises IflError: if nothing can be altered for now.
        """
        there = {start.job.submission.job_id for start in starts}
        self.refused = {job_id: text for job_id, text in self.refused.items() if job_id in there}
        shown = refused = 0
        for start in starts:
            job_id = start.job.submission.job_id
            text = self._text(start, has.get(job_id, ""))
            if not text or "[" in job_id or self.refused.get(job_id) == text:
                continue
            if shown + refused >= self.budget:
                break
            try:
                self.connection.alter(job_id, text, START_RESOURCE)
            except IflError as error:
                if error.code in NO_JOB:
                    continue
                if error.code == UNKNOWN_RESOURCE:
                    create = f"qmgr -c 'create resource {START_RESOURCE} type=string, flag=r'"
                    raise IflError(f"{error}: run {create}", error.code) from error
                # Other errors concern PBS or the agent's account, not this job.
                if error.code not in REFUSED:
                    raise
                refused += 1
                self.refused[job_id] = text
                log.warning("starts: PBS refuses to show a start: %s", error)
            else:
                shown += 1
        return shown, refused

    def _text(self, start: ExpectedStart, has: str) -> str:
        """Return the text to show; empty if the start changed by less than the minimum."""
        if start.expected is None:
            return UNKNOWN if has not in ("", UNKNOWN) else ""
        now = (start.expected, *(start.range90 or (start.expected, start.expected)))
        before = shown_times(has)
        least = max(self.least, abs(start.expected - int(time.time())) // 5)
        if before and all(abs(moment - other) < least for moment, other in zip(now, before, strict=True)):
            return ""
        return shown_text(*now)
