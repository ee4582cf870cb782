"""The figures of the daemon's status as text."""

from collections import Counter

from softwalltime.core.formatting import duration, percent, plural, size
from softwalltime.service.status import Histogram, LiveStatus, StartsStatus, Status

MODES = {
    "off": "nothing is predicted",
    "shadow": "predicted and recorded, nothing is set",
    "on": "soft walltimes are set",
}
LIVE_MODES = {"shadow": "alters are recorded, none is made", "on": "jobs that wait and run are altered"}
SHARES = (0.5, 0.95, 0.99)


def latency(times: Histogram) -> str:
    """Format percentiles of a histogram as ``p50 0.08 ms, p95 0.2 ms, p99 0.4 ms``; ``-`` if it is empty."""
    percentiles = [(share, times.percentile(share)) for share in SHARES]
    return ", ".join(f"p{share * 100:g} {milliseconds(time)}" for share, time in percentiles if time is not None) or "-"


def milliseconds(microseconds: float) -> str:
    value = microseconds / 1000
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms" if value >= 1 else f"{value:.2f} ms"


def overview(status: Status, now: float) -> dict[str, dict[str, str]]:
    policy = status.policy
    share = f", for {policy['share']:.0%} of the users" if policy["mode"] == "on" and policy["share"] < 1 else ""
    rules = f" ({plural(len(policy['rules']), 'exception')})" if policy["rules"] else ""
    behind = "nothing" if status.logs_read else "unknown until the logs have been read"
    if status.behind_bytes or status.behind_seconds:
        behind = f"{size(status.behind_bytes)}, for {duration(status.behind_seconds)}"
    # A reload loads the history again, so the number may decrease.
    loaded = f"{status.history:,} when the history was loaded {duration(now - status.loaded)} ago"
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
            "figures": f"refreshed {duration(now - status.refreshed)} ago" if status.refreshed else "not yet",
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
        "last forecast": f"{duration(now - starts.taken)} ago, took {starts.seconds:.1f} s" if starts.taken else "none"
    }
    if starts.judged:
        judged = plural(starts.judged, "job")
        rows["correction"] = f"90% ranges x {starts.range_factor:.2f}, by the forecasts of {judged}"
    for queue in starts.queues:
        rows[f"queue {queue.queue}"] = (
            f"{queue.waiting:,} waiting, {queue.forecast:,} forecast, mean {duration(queue.mean_wait)}, "
            f"longest {duration(queue.longest_wait)}"
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
    guard = "none" if live.guard is None else f"off, no top job is {duration(live.guard)} late"
    return {
        "mode": f"{live.mode}: {LIVE_MODES[live.mode]}",
        "queue": f"{plural(live.jobs, 'job')} at the last of {plural(live.looks, 'look')}",
        "alters": f"{live.altered:,} made{recorded}, {live.refused:,} refused{postponed}",
        "promises": f"{kept:,} kept, {broken:,} broken, {left:,} open",
        "guard": f"on, {live.late_job} is late" if live.late_job else guard,
    }
