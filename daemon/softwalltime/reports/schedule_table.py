"""Tables of simulated schedules."""

from collections.abc import Mapping

from softwalltime.formatting import MISSING, duration, number, percent, printable
from softwalltime.reports.table import table
from softwalltime.simulation.differences import Interval
from softwalltime.simulation.metrics import Metrics

Changes = Mapping[str, Mapping[str, Interval]]
"""By policy, then by metric."""

LEGEND = """\
wait: submission to start; slowdown: mean of max(1, (wait + runtime) / max(runtime, 10 s)); weighted: mean wait by
processor-seconds; wide p99: of jobs on at least half the machine; backfilled: jobs that overtook the top job;
broken: of the starts promised to top jobs, how many came later; worse, better: jobs that waited at least 1 h more or
less than under the first policy."""
CHANGES_LEGEND = """\
Change against the first policy, workload by workload; in brackets the 95% confidence interval of the mean, which needs
shaken workloads (--shake).  pp: percentage points."""
_CHANGES = ("wait_mean", "wait_p95", "bsld10_mean", "weighted_wait", "wide_wait_p99")


def schedules_table(metrics: Mapping[str, Metrics], title: str = "policy") -> str:
    """One line for each schedule."""
    header = (
        title, "wait", "median", "p95", "longest", "slowdown", "weighted", "wide p99", "backfilled", "broken", "worse",
        "better", "utilisation",
    )  # fmt: skip
    return table(header, [_row(printable(name), one) for name, one in metrics.items()])


def changes_table(relative: Changes, differences: Changes) -> str:
    """One line for each policy but the first: how much its figures differ from the first one's."""
    header = ("policy", "wait", "p95", "slowdown", "weighted", "wide p99", "broken")
    rows = [
        [
            printable(name),
            *(_change(changes[metric]) for metric in _CHANGES),
            _change(differences[name]["broken"], " pp"),
        ]
        for name, changes in relative.items()
    ]
    return table(header, rows)


def _row(name: str, metrics: Metrics) -> list[str]:
    return [
        name,
        *(duration(value) for value in (metrics.wait_mean, metrics.wait_p50, metrics.wait_p95, metrics.wait_max)),
        number(metrics.bsld10_mean, 2),
        duration(metrics.weighted_wait),
        duration(metrics.wide_wait_p99),
        *(percent(share) for share in (metrics.backfilled, metrics.broken, metrics.worse_1h, metrics.better_1h)),
        percent(metrics.utilisation),
    ]


def _change(change: Interval, unit: str = "%") -> str:
    if change.mean is None:
        return MISSING
    mean = f"{100 * change.mean:+.1f}{unit}"
    if change.low is None or change.high is None:
        return mean
    return f"{mean} [{100 * change.low:+.1f}, {100 * change.high:+.1f}]"
