"""The daemon's status as text: problems and figures."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from softwalltime.formatting import percent, plural, size
from softwalltime.service.latency import Histogram
from softwalltime.service.status import OK, DecisionCount, LiveStatus, StartsStatus, Status

LATE = 300
"""Lag of the log, in seconds, above which it is a problem."""
MANY_TO_RECORD = 10_000
"""Predictions waiting to be stored above which this is a problem."""
RARE = 1000
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
    if status.behind_seconds > LATE:
        yield (f"log: {size(status.behind_bytes)} not stored for {span(status.behind_seconds)}: see the daemon's log")
    if status.timeouts * RARE > status.requests.get("predict", 0):
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
    if status.to_record > MANY_TO_RECORD:
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
    """Format a time with two significant digits."""
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
    """Return the figures in groups, by name."""
    policy = status.policy
    groups = {
        "predictions": {
            "preset": policy.get("preset", "custom"),
            "mode": f"{policy['mode']}: {MODES[policy['mode']]}" + _exceptions(policy),
            "ready": _ready(status, now) if status.ready else "no",
            "waiting jobs": policy["waiting"],
            "running jobs": policy["running"],
            **({"ordering": ordering} if (ordering := policy.get("ordering")) is not None else {}),
            "minimum": f"{policy['minimum']} s",
            **({"shadows": _shadows(status)} if policy.get("shadows") else {}),
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
            **dict(_decisions(status.decisions)),
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
            **(
                {
                    "read": f"{plural(status.lines, 'line')}, {plural(status.stored, 'job')} stored",
                    "behind": _behind(status),
                    "malformed": f"{status.malformed:,}",
                }
                if status.followed
                else {}
            ),
        },
    }  # fmt: skip
    return {name: lines for name, lines in groups.items() if lines}


def _starts(starts: StartsStatus, now: float) -> dict[str, str]:
    """Return the figures of the last forecast of starts; none if it is off."""
    if starts.mode == "off":
        return {}
    rows = {"last forecast": f"{span(now - starts.taken)} ago, took {starts.seconds:.1f} s" if starts.taken else "none"}
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


def _live(live: LiveStatus) -> dict[str, str]:
    if live.mode == "off":
        return {}
    recorded = f", {live.shadowed:,} in shadow" if live.shadowed else ""
    postponed = f", {live.postponed:,} beyond the budget" if live.postponed else ""
    return {
        "mode": f"{live.mode}: {LIVE_MODES[live.mode]}",
        "queue": f"{plural(live.jobs, 'job')} at the last of {plural(live.looks, 'look')}",
        "alters": f"{live.altered:,} made{recorded}, {live.refused:,} refused{postponed}",
        "promises": promises(live),
        "guard": guard(live),
    }


def _shadows(status: Status) -> str:
    skipped = f"; {status.shadows_skipped:,} decisions stored without them" if status.shadows_skipped else ""
    return ", ".join(status.policy["shadows"]) + skipped


def promises(live: LiveStatus) -> str:
    """Format the promised starts since the start of the daemon: ``12 kept, 3 broken, 1 open``."""
    counts = live.promises
    return f"{counts.get('kept', 0):,} kept, {counts.get('late', 0):,} broken, {counts.get('open', 0):,} open"


def guard(live: LiveStatus) -> str:
    """Format the state of the guard."""
    if live.late_job:
        return f"on, {live.late_job} is late"
    return "none" if live.guard is None else f"off, no top job is {span(live.guard)} late"


def _exceptions(policy: Mapping[str, Any]) -> str:
    rules = len(policy["rules"])
    return "".join(
        (
            f", for {policy['share']:.0%} of the users" if policy["mode"] == "on" and policy["share"] < 1 else "",
            f" ({plural(rules, 'exception')})" if rules else "",
        )
    )


def _ready(status: Status, now: float) -> str:
    """Split the jobs learned: a reload loads the history anew, so that their number may fall."""
    loaded = f"{status.history:,} when the history was loaded {span(now - status.loaded)} ago"
    return f"yes, {plural(status.learnt, 'job')} learned: {loaded}, {status.learnt - status.history:,} since"


def _behind(status: Status) -> str:
    if status.behind_bytes or status.behind_seconds:
        return f"{size(status.behind_bytes)}, for {span(status.behind_seconds)}"
    return "nothing" if status.logs_read else "unknown until the logs have been read"


def _decisions(decisions: Sequence[DecisionCount]) -> Iterator[tuple[str, str]]:
    """Return the number of decisions by event and action."""
    for event in dict.fromkeys(decision.event for decision in decisions):
        counts: Counter[str] = Counter()
        for decision in decisions:
            if decision.event == event:
                counts[decision.action] += decision.count
        yield f"at {event}", ", ".join(f"{action} {count:,}" for action, count in sorted(counts.items(), reverse=True))
