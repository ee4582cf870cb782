"""Compare promised and latest starts with PBS's queue, and switch the guard."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from softwalltime.core.promises import Outcome, Promise
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.live.alters import KeptPlaces
from softwalltime.service.live.live_options import LiveOptions
from softwalltime.service.live.promise_ledger import HELD, LatestStarts, PromiseLedger, terms_of
from softwalltime.service.live.watch import ServerJob
from softwalltime.service.promise_store import PromiseStore
from softwalltime.store.promises import GuardState, host_of

Plan = Callable[[Mapping[str, int], Collection[str]], Mapping[str, int]]
"""Plans jobs in order of arrival: (arrivals of known jobs, ids of jobs to plan) to planned starts, epoch seconds."""

log = logging.getLogger(__name__)


class PromiseWatch:
    """Track promised and latest starts, and switch the guard.

    :param store: keeps the state across restarts.
    """

    def __init__(self, store: PromiseStore) -> None:
        self.late_job = ""
        """The late job for which the guard is on; empty: it is off."""
        self.counts: dict[str, int] = dict.fromkeys(Outcome, 0)
        """Promises by outcome since the start of the daemon, and open promises."""
        self.store = store
        self._ledger = PromiseLedger()
        self._places = KeptPlaces()
        self._latest = LatestStarts()
        self._raised: list[str] = []
        """The waiting jobs whose latest start is near, the most urgent first."""
        self._near_top_job = ""
        """The most urgent of them that PBS plans: a job that cannot start anyway must not keep the guard on."""
        self._server = store.server
        self._recorded: str | None = None
        """Last recorded late job; ``None`` until the store has been read."""

    def look(
        self, jobs: Sequence[ServerJob], now: int, options: LiveOptions, policy: SitePolicy, cycle: int,
        plan: Plan,
    ) -> None:  # fmt: skip
        """Compare the jobs in PBS's queue at ``now`` (epoch seconds) with their promised and latest starts.

        :param cycle: see :meth:`.alters.KeptPlaces.look`.
        :raises IflError: if ``plan`` does.
        """
        self._places.look(jobs, now, cycle)
        queued = [job for job in jobs if job.waits or job.runs]
        if not self._server and queued:
            self._server = host_of(queued[0].job_id)
        self._restore()
        acts = options.mode == "on" and policy.mode == "on"
        self._set_latest(jobs if acts and policy.ordering is not None else (), now, options, plan)
        changed = self._ledger.look(queued, now)
        found = [self._ledger.found(*self.store.found.popleft()) for _ in range(len(self.store.found))]
        changed += [promise for promise in found if promise is not None]
        self.store.gone = self._ledger.gone
        for promise in changed:
            self.counts[promise.outcome] += 1
        self.counts[Outcome.OPEN] = len(self._ledger.waiting)
        self._guard(options.guard, now)
        self._record(changed, now)

    @property
    def kept(self) -> Collection[str]:
        """Return the ids of the waiting jobs to run first.

        PBS has promised them a start with their current attributes, or their latest start is near.  No arrays: the
        value would move all their subjobs to the front, and only the first one has a promise.
        """
        promised = [job_id for job_id in self._ledger.waiting if "[" not in job_id]
        return self._places.among(promised).union(self._raised)

    def guard_off(self, now: int) -> None:
        """Switch the guard off, because PBS's queue is not being read."""
        self.late_job = ""
        self._record([], now)

    def _set_latest(self, jobs: Iterable[ServerJob], now: int, options: LiveOptions, plan: Plan) -> None:
        slack = options.slack
        # Arrays are excluded, as in :attr:`kept`.
        waiting = [job for job in jobs if slack is not None and not job.runs and "[" not in job.job_id]
        wanted = self._latest.look({job.job_id: terms_of(job.submission) if job.waits else HELD for job in waiting})
        if wanted and slack is not None:
            self._latest.set(plan(self._latest.arrivals(now), wanted), now, slack, options.slack_share)
        before, self._raised = self._raised, self._latest.near(now + min(options.raise_lead, slack or 0))
        for job_id in sorted(set(self._raised).difference(before)):
            log.info("live values: %s is near its latest start and comes first", job_id)
        planned = {job.job_id for job in waiting if job.promised is not None}
        self._near_top_job = next((job_id for job_id in self._raised if job_id in planned), "")

    def _restore(self) -> None:
        """Restore the state of the previous process, once the store has been read and the server is known."""
        if self._recorded is None and self._server and self.store.restored.is_set():
            self._ledger.restore(promise for promise in self.store.promises if self._is_ours(promise.job_id))
            self._latest.restore(start for start in self.store.latest if self._is_ours(start.job_id))
            self._recorded = self.store.late_jobs.get(self._server, "")

    def _is_ours(self, job_id: str) -> bool:
        return bool(self.store.server) or host_of(job_id) == self._server

    def _guard(self, seconds: int | None, now: int) -> None:
        before = self.late_job
        self.late_job = "" if seconds is None else self._ledger.late_job(now, seconds) or self._near_top_job
        if self.late_job != before:
            log.info("live values: guard %s", f"on, {self.late_job} is late" if self.late_job else "off")

    def _record(self, changed: list[Promise], now: int) -> None:
        state = None
        if self._recorded not in (None, self.late_job):
            self._recorded = self.late_job
            state = GuardState(self._server, now, self.late_job)
        latest = self._latest.take_changes()
        if changed or state is not None or latest:
            self.store.changes.append((changed, state, latest))
