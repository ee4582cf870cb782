"""The problems that a daemon's status shows: the same lines for ``status``, ``doctor`` and the page for the staff."""

from softwalltime.core.formatting import duration, plural, size
from softwalltime.service.status import OK, Status

MAX_LAG_S = 300
"""Lag of the log, in seconds, above which it is a problem."""
MAX_QUEUED_PREDICTIONS = 10_000
"""Queued predictions above which the queue is a problem."""
MIN_REQUESTS_PER_TIMEOUT = 1000
"""Requests per timeout below which timeouts are a problem."""


def problems(status: Status) -> dict[str, bool]:
    """Return one line for each problem, the worst first, and whether the daemon does not do all of its work."""
    requests = status.requests
    failed, refused, unusable = (requests.get(name, 0) for name in ("failed", "refused", "unusable"))
    serious: dict[str, object] = {
        f"store: {status.store}; predictions continue from memory": status.store != OK,
        "not ready: loading the history; no predictions until then": not status.ready,
        f"settings: rejected at the last reload, the old policy remains: {status.settings}": status.settings != OK,
        f"accounting: {status.accounting}: correct accounting in the settings, see deploy/OPERATION.md": (
            status.followed and status.accounting != OK
        ),
    }
    others: dict[str, object] = {
        f"store: {status.retention}": status.retention != OK,
        f"log: {size(status.behind_bytes)} not stored for {duration(status.behind_seconds)}: see the daemon's log": (
            status.behind_seconds > MAX_LAG_S
        ),
        f"hook: {plural(status.timeouts, 'request')} timed out since the start: check the load of this host and the "
        "view softwalltime.hook_latency": status.timeouts * MIN_REQUESTS_PER_TIMEOUT > requests.get("predict", 0),
        f"predictors: {plural(failed, 'request')} failed with an error in a predictor: report it to the author": failed,
        **{
            f"predictor {failure.predictor}: {plural(failure.count, 'error')} in {failure.step}, the last: "
            f"{failure.last}; report it to its author, or name another predictor": True
            for failure in status.failures
        },
        f"requests: {plural(refused, 'invalid line')}: check that hook and daemon have the same version": refused,
        f"requests: {plural(unusable, 'job')} without a prediction, because of a value outside the limits; the last: "
        f"{status.unusable}": unusable,
        f"predictions: {status.dropped:,} lost: the store was unreachable too long": status.dropped,
        f"predictions: {status.unstorable:,} refused by PostgreSQL: softwalltime ingest --malformed prints them": (
            status.unstorable
        ),
        f"predictions: {status.to_record:,} waiting to be stored": status.to_record > MAX_QUEUED_PREDICTIONS,
        f"log: {plural(status.malformed, 'malformed line')}: softwalltime ingest --malformed prints them": (
            status.malformed
        ),
        f"live values: {status.live.problem}: see deploy/LIVE.md": status.live.problem,
        f"starts: {status.starts.problem}": status.starts.problem,
        status.live.unmet: status.live.unmet,
        f"clock: {plural(status.from_the_future, 'job')} recorded with an end in the future: synchronize the clocks of "
        "the PBS server and this host with NTP": status.from_the_future,
        f"socket: {plural(status.refused_users, 'connection')} of users without permission: check the socket's folder "
        "with softwalltime doctor": status.refused_users,
    }
    return {line: found is serious for found in (serious, others) for line, wrong in found.items() if wrong}
