"""The daemon's status as text: problems and figures."""

from collections import Counter
from collections.abc import Iterator

from softwalltime.core.formatting import percent, plural, size
from softwalltime.service.status import OK, Histogram, LiveStatus, StartsStatus, Status

MAX_LAG_S = 300
"""Lag of the log, in seconds, above which it is a problem."""
MAX_QUEUED_PREDICTIONS = 10_000
"""Queued predictions above which the queue is a problem."""
MIN_REQUESTS_PER_TIMEOUT = 1000
"""Requests per timeout below which timeouts are a problem."""
MODES = {
    "off": "nothing is predicted",
    "shadow": "predicted and recorded, nothing is set",
    "on": "soft walltimes are set",
}
LIVE_MODES = {"shadow": "alters are recorded, none is made", "on": "jobs that wait and run are altered"}
SHARES = (0.5, 0.95, 0.99)


def problems(status: Status) -> Iterator[str]:
    """Return one line for each problem, the worst first."""
    if status.store != OK:
        yield f"store: {status.store}; predictions continue from memory"
    if not status.ready:
        yield "not ready: loading the history; no predictions until then"
    if status.settings != OK:
        yield f"settings: rejected at the last reload, the old policy remains: {status.settings}"
    if status.retention != OK:
        yield f"store: {status.retention}"
    if status.followed and status.accounting != OK:
        yield f"accounting: {status.accounting}"
    if status.behind_seconds > MAX_LAG_S:
        yield (f"log: {size(status.behind_bytes)} not stored for {span(status.behind_seconds)}: see the daemon's log")
    if status.timeouts * MIN_REQUESTS_PER_TIMEOUT > status.requests.get("predict", 0):
        yield (
            f"hook: {plural(status.timeouts, 'request')} timed out since the start: check the load of this host and "
            "the view softwalltime.hook_latency"
        )
    if failed := status.requests.get("failed", 0):
        yield f"predictors: {plural(failed, 'request')} failed with an error in a predictor: report it to the author"
    if refused := status.requests.get("refused", 0):
        yield f"requests: {plural(refused, 'invalid line')}: check that hook and daemon have the same version"
    if unusable := status.requests.get("unusable", 0):
        yield (
            f"requests: {plural(unusable, 'job')} without a prediction, because of a value outside the limits; "
            f"the last: {status.unusable}"
        )
    if dropped := status.dropped:
        yield f"predictions: {dropped:,} lost: the store was unreachable too long"
    if unstorable := status.unstorable:
        yield f"predictions: {unstorable:,} refused by PostgreSQL: see the table softwalltime.malformed_lines"
    if status.to_record > MAX_QUEUED_PREDICTIONS:
        yield f"predictions: {status.to_record:,} waiting to be stored"
    if malformed := status.malformed:
        yield f"log: {plural(malformed, 'malformed line')}: see the table softwalltime.malformed_lines"
    if status.live.problem:
        yield f"live values: {status.live.problem}"
    if status.starts.problem:
        yield f"starts: {status.starts.problem}"
    if status.live.unmet:
        yield status.live.unmet
    if status.from_the_future:
        yield f"clock: {plural(status.from_the_future, 'job')} recorded with an end in the future"
    if status.refused_users:
        yield (
            f"socket: {plural(status.refused_users, 'connection')} of users without permission: check the "
            "socket's folder with softwalltime doctor"
        )


def latency(times: Histogram) -> str:
    """Format percentiles of a histogram as ``p50 0.08 ms, p95 0.2 ms, p99 0.4 ms``; ``-`` if it is empty."""
    percentiles = [(share, times.percentile(share)) for share in SHARES]
    return ", ".join(f"p{share * 100:g} {milliseconds(time)}" for share, time in percentiles if time is not None) or "-"


def milliseconds(microseconds: float) -> str:
    value = microseconds / 1000
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms" if value >= 1 else f"{value:.2f} ms"


def span(seconds: float) -> str:
    """Format a duration in its two largest units: ``3 h 12 min``."""
    left = int(seconds)
    parts: list[str] = []
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if left >= length or (unit == "s" and not parts):
            parts.append(f"{left // length} {unit}")
            left %= length
        elif parts:
            break
    return " ".join(parts[:2])


def overview(status: Status, now: float) -> dict[str, dict[str, str]]:
    policy = status.policy
    share = f", for {policy['share']:.0%} of the users" if policy["mode"] == "on" and policy["share"] < 1 else ""
    rules = f" ({plural(len(policy['rules']), 'exception')})" if policy["rules"] else ""
    behind = "nothing" if status.logs_read else "unknown until the logs have been read"
    if status.behind_bytes or status.behind_seconds:
        behind = f"{size(status.behind_bytes)}, for {span(status.behind_seconds)}"
    # A reload loads the history again, so the number may decrease.
    loaded = f"{status.history:,} when the history was loaded {span(now - status.loaded)} ago"
    learnt = f"yes, {plural(status.learnt, 'job')} learned: {loaded}, {status.learnt - status.history:,} since"
    counts: dict[str, Counter[str]] = {}
    for decision in status.decisions:
        counts.setdefault(f"at {decision.event}", Counter())[decision.action] += decision.count
    read = f"{plural(status.lines, 'line')}, {plural(status.stored, 'job')} stored"
    groups = {
        "predictions": {
            "preset": policy.get("preset", "custom"),
            "mode": f"{policy['mode']}: {MODES[policy['mode']]}{share}{rules}",
            "ready": learnt if status.ready else "no",
            "waiting jobs": policy["waiting"],
            "running jobs": policy["running"],
            "ordering": policy.get("ordering"),
            "minimum": f"{policy['minimum']} s",
            **{
                f"{failure.predictor} in {failure.step}": f"{plural(failure.count, 'error')}, the last: {failure.last}"
                for failure in status.failures
            },
        },
        "last seven days": {
            f"{quality.predictor} ({quality.mode})": (
                f"accuracy {quality.accuracy:.3f}, underestimated {percent(quality.underestimated)}, "
                f"badly {percent(quality.badly_underestimated)}, of {plural(quality.jobs, 'job')}"
            )
            for quality in status.week
        },
        "hook": {
            "requests": f"{status.requests.get('predict', 0):,}",
            **{
                event: ", ".join(f"{action} {count:,}" for action, count in sorted(actions.items(), reverse=True))
                for event, actions in counts.items()
            },
            "answer": latency(status.answer_times),
            "round trip": latency(status.exchange_times),
            "timeouts": f"{status.timeouts:,}",
        },
        "live values": _live(status.live),
        "starts": _starts(status.starts, now),
        "store": {
            "store": status.store,
            "predictions": f"{status.recorded:,} stored, {status.to_record:,} waiting",
            "figures": f"refreshed {span(now - status.refreshed)} ago" if status.refreshed else "not yet",
        },
        "accounting log": {
            "accounting": status.accounting,
            "read": read if status.followed else None,
            "behind": behind if status.followed else None,
            "malformed": f"{status.malformed:,}" if status.followed else None,
        },
    }
    shown = {name: {key: line for key, line in lines.items() if line is not None} for name, lines in groups.items()}
    return {name: lines for name, lines in shown.items() if lines}


def _starts(starts: StartsStatus, now: float) -> dict[str, str | None]:
    """Return the figures of the last forecast of starts; none if it is off."""
    if starts.mode == "off":
        return {}
    rows: dict[str, str | None] = {
        "last forecast": f"{span(now - starts.taken)} ago, took {starts.seconds:.1f} s" if starts.taken else "none"
    }
    if starts.judged:
        judged = plural(starts.judged, "job")
        rows["correction"] = f"90% ranges x {starts.range_factor:.2f}, by the forecasts of {judged}"
    for queue in starts.queues:
        rows[f"queue {queue.queue}"] = (
            f"{queue.waiting:,} waiting, {queue.forecast:,} forecast, mean {span(queue.mean_wait)}, "
            f"longest {span(queue.longest_wait)}"
        )
    for quality in starts.quality:
        error = "-" if quality.relative_error is None else percent(quality.relative_error)
        rows[f"last seven days, {quality.queue}"] = (
            f"error {error} of the mean wait, 90% range holds {percent(quality.within90)}, "
            f"of {plural(quality.forecasts, 'forecast')}"
        )
    return rows


def _live(live: LiveStatus) -> dict[str, str | None]:
    if live.mode == "off":
        return {}
    recorded = f", {live.shadowed:,} in shadow" if live.shadowed else ""
    postponed = f", {live.postponed:,} beyond the budget" if live.postponed else ""
    kept, broken, left = (live.promises.get(state, 0) for state in ("kept", "late", "open"))
    guard = "none" if live.guard is None else f"off, no top job is {span(live.guard)} late"
    return {
        "mode": f"{live.mode}: {LIVE_MODES[live.mode]}",
        "queue": f"{plural(live.jobs, 'job')} at the last of {plural(live.looks, 'look')}",
        "alters": f"{live.altered:,} made{recorded}, {live.refused:,} refused{postponed}",
        "promises": f"{kept:,} kept, {broken:,} broken, {left:,} open",
        "guard": f"on, {live.late_job} is late" if live.late_job else guard,
    }
