"""Simulate recorded traces with the predictor calibrated: its mean is the waiting value, its mean or median the order.

The order is that of expansion factors.  It is compared with WFP and walltimes, and with the same order and half the
walltime.  All policies run on the same shaken workloads.  The weights are held out (see :mod:`.held_out_weights`).
Figures are saved in build/schedules as they are computed; the same command continues from there.

SOFTWALLTIME_BENCH_TRACES (``SDSC=31-40,HPC2N=31-40,CEA=31-40``) changes traces and seeds, SOFTWALLTIME_BENCH_ORDERING
(``mean,median``) the statistics that order the queue.
"""

import itertools
import os
import tempfile
from contextlib import closing
from pathlib import Path

from softwalltime.accounting.reader import read_values
from softwalltime.accounting.tally import Tally
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.sweep.jobs_file import take
from softwalltime.measure.replay.sweep.kept_lines import KeptLines
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.simulation.differences import Interval, relative_changes
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.runs import Experiment, SimulationTask, evaluate, save_result, saved_result
from softwalltime.measure.simulation.schedule_metrics import Metrics
from tests.benchmarks.held_out_weights import held_out, weights_folder
from tests.benchmarks.markdown import table
from tests.samples import ROOT
from tests.traces import TRACES

FOLDER = ROOT / "build" / "schedules"
PROCESSORS = {"SDSC": 128, "HPC2N": 240, "CEA": 93312}
"""Sizes of the machines, by the beginning of a trace's name."""
DEFAULT = ",".join(f"{name}=31-40" for name in PROCESSORS)
BASELINE = SchedulerPolicy(order="wfp")
HALF = SchedulerPolicy(order="xf", waiting="factor:0.5", ordering="factor:0.5")
STATISTICS = "mean,median"
HEADER = ("trace", "seeds", "policy", "against", "wait", "bounded slowdown", "wide p99")


def main() -> None:
    """Print the paired differences of wait and bounded slowdown (10 s) with their 95% confidence intervals.

    Wide p99: the 99th percentile of the wait of jobs on at least half the machine.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = []
    for item in os.environ.get("SOFTWALLTIME_BENCH_TRACES", DEFAULT).split(","):
        name, _, seeds = item.partition("=")
        first, _, last = seeds.partition("-")
        for path in sorted(TRACES.glob(f"{name}*.swf.gz")):
            rows += _rows(path, name, range(int(first), int(last or first) + 1))
    print(table(HEADER, rows))


def _rows(path: Path, name: str, seeds: range) -> list[list[str]]:
    weights = next(iter(held_out(path.name, weights_folder())), None)
    if weights is None:
        return [[name, "-", "calibrated", "no weights are held out for it", "-", "-", "-"]]
    statistics = os.environ.get("SOFTWALLTIME_BENCH_ORDERING", STATISTICS).split(",")
    ordered = {
        f"order by the {statistic}": SchedulerPolicy(
            order="xf",
            waiting=f"calibrated:statistic=mean,weights={weights}",
            ordering=f"calibrated:statistic={statistic},weights={weights}",
        )
        for statistic in statistics
    }
    found = _simulated(path, PROCESSORS[name], (BASELINE, HALF, *ordered.values()), seeds)
    pairs = [("half the walltime", HALF, "WFP, walltimes", BASELINE)]
    pairs += [(title, policy, "WFP, walltimes", BASELINE) for title, policy in ordered.items()]
    pairs += [(title, policy, "half the walltime", HALF) for title, policy in ordered.items()]
    pairs += [
        (title, policy, other, against) for (title, policy), (other, against) in itertools.pairwise(ordered.items())
    ]
    rows = []
    for policy, mine, against, other in pairs:
        changes = relative_changes(found[mine], found[other])
        rows.append(
            [name, str(len(seeds)), policy, against]
            + [_shown(changes[figure]) for figure in ("wait_mean", "bsld10_mean", "wide_wait_p99")]
        )
    return rows


def _simulated(
    path: Path, processors: int, policies: tuple[SchedulerPolicy, ...], seeds: range
) -> dict[SchedulerPolicy, list[Metrics]]:
    """Return the metrics of each policy by seed."""
    found: dict[SchedulerPolicy, list[Metrics]] = {policy: [] for policy in policies}
    with tempfile.TemporaryDirectory() as folder:
        recorded = Workload(JobColumns.of(read_values([path], Tally())))
        jobs = take(recorded, Path(folder) / "jobs.parquet")
        experiment = Experiment(jobs.digest, processors, BASELINE, "week")
        with closing(KeptLines(FOLDER / f"{path.name}.jsonl")) as kept:
            for seed in seeds:
                todo = [policy for policy in policies if saved_result(kept, experiment, policy, seed) is None]
                if todo:
                    for result in evaluate(SimulationTask(experiment, jobs.path, todo, seed)):
                        save_result(kept, experiment, result)
                for policy in policies:
                    saved = saved_result(kept, experiment, policy, seed)
                    assert saved is not None
                    found[policy].append(saved.metrics)
    return found


def _shown(change: Interval) -> str:
    if change.mean is None:
        return "-"
    if change.low is None or change.high is None:
        return f"{change.mean:+.1%}"
    return f"{change.mean:+.1%} [{100 * change.low:+.1f}, {100 * change.high:+.1f}]"
