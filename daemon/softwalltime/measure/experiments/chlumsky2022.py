"""Chlumský & Klusáček, "Improving accuracy of walltime estimates in PBS Professional using soft walltimes" (2022).

Section 3 compares predictors v1, v2 and v3 by replay.  Section 4 compares a period with walltimes and another period
with soft walltimes; :func:`repeat` adds the simulations on one workload that it proposes.
"""

from collections.abc import Sequence

import numpy as np

from softwalltime.core.formatting import DAY, HOUR
from softwalltime.measure.experiments.result_tables import Cell, Column, PaperResults, Table
from softwalltime.measure.experiments.study import ScoredJobs, Study, available, estimates, mean_of
from softwalltime.measure.experiments.trials import Trials, simulate_all
from softwalltime.measure.replay.accuracy_metrics import accuracies
from softwalltime.measure.simulation.policies import WALLTIME, SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Floats, Integers
from softwalltime.predict.predictors.registry import BASELINE

CITATION = "Chlumský & Klusáček, JSSPP 2022"
PREDICTORS = {"v1": "last2", "v2": "last2+900", "v3": "usage", "v4": "usage-long"}
"""Predictors by the paper's name."""
CLASSES = {"short": (0, 2 * HOUR), "medium": (2 * HOUR, 24 * HOUR), "long": (24 * HOUR, 1 << 60)}
"""Runtimes above the first and up to the second number of seconds (section 3.2)."""
SYSTEMS = {"fcfs+easy": ("fcfs", "easy"), "fairshare+pbs": ("fairshare", "pbs")}
"""Queue order and backfilling: the simplest system, and the one closest to the authors' PBS."""
QUARTILES = (25, 50, 75)

PUBLISHED_UNDER = {"request": "0%", "v1": "over 40%", "v2": "nearly 31%", "v3": "less than 12%"}
"""Underestimated jobs (figure 4, section 3.1)."""

DIFFERENCES = (
    ("Other workloads: the CERIT-SC traces have 67,000 (figure 4) to 935,724 jobs on 6,656 CPUs in several queues."),
    (
        "Section 4 of the paper compares two periods with different jobs. Here all policies run on the same jobs, "
        "so that the changes are effects of the policy."
    ),
    (
        "Soft walltimes are set at submission and again at the start, as in the paper, for running jobs too; "
        "expired ones grow by PBS's rule. One queue, interchangeable processors, PBS's default fair share."
    ),
)


def repeat(study: Study, more: Sequence[str] = ()) -> PaperResults:
    """Repeat figures 4 to 7 by replay, and section 4 on one workload by simulation."""
    usable, missing = available([*PREDICTORS, *more])
    predicted = estimates(study, usable)
    trials = simulate_all(study, policies(usable))
    tables = (
        _underestimation(predicted), _errors(predicted), _users(predicted), _by_walltime(predicted),
        *(_system(trials, system, usable) for system in SYSTEMS),
    )  # fmt: skip
    return study.results("chlumsky2022", CITATION, DIFFERENCES, tables, missing, {})


def policies(specs: Sequence[str]) -> dict[str, SchedulerPolicy]:
    variants = {}
    for system, (order, backfill) in SYSTEMS.items():
        for spec in (WALLTIME, *specs):
            running = PREDICTORS.get(spec, spec)
            variants[f"{system} {spec}"] = SchedulerPolicy(order, backfill, waiting=spec, running=running)
    return variants


def _underestimation(predicted: ScoredJobs) -> Table:
    columns = (
        Column("predictor", "predictor"), Column("underestimated", "underestimated", "share"),
        Column("under_p50", "median underestimation", "duration"),
        Column("over_p50", "median overestimation", "duration"),
        Column("mae", "mean abs. error", "duration"), Column("accuracy", "accuracy", "accuracy"),
        Column("published", "published underestimated"),
    )  # fmt: skip
    rows = []
    for spec, estimate in predicted.estimate.items():
        error = predicted.errors(spec)
        rows.append(
            (
                spec, mean_of(error < 0), _median(-error[error < 0]), _median(error[error > 0]), mean_of(np.abs(error)),
                mean_of(accuracies(estimate, predicted.runtime)), PUBLISHED_UNDER.get(spec, ""),
            )
        )  # fmt: skip
    published = "the order walltime, v3, v2, v1 of the shares underestimated (figure 4)."
    return Table("fig4", "Figure 4: under- and overestimation by predictor", columns, tuple(rows), published)


def _errors(predicted: ScoredJobs) -> Table:
    columns: list[Column] = [Column("predictor", "predictor")]
    for name in CLASSES:
        columns += [Column(f"{name}_p{percent}", f"{name} {percent}%", "duration") for percent in QUARTILES]
    rows = []
    for spec in predicted.estimate:
        cells: list[Cell] = []
        for above, limit in CLASSES.values():
            error = predicted.errors(spec)[(predicted.runtime > above) & (predicted.runtime <= limit)]
            cells += [float(np.percentile(error, percent)) if len(error) else None for percent in QUARTILES]
        rows.append((spec, *cells))
    published = "v3 has the smallest errors, v1 underestimates most, long jobs worst (figure 5, for other periods)."
    title = "Figure 5: quartiles of estimate minus runtime, by class of runtime"
    return Table("fig5", title, tuple(columns), tuple(rows), published)


def _users(predicted: ScoredJobs) -> Table:
    columns = (
        Column("predictor", "predictor"), Column("users", "users", "count"),
        Column("better", "users with less error", "share"),
        Column("better_24h", "by more than 24 h", "share"), Column("worst", "largest deterioration", "duration"),
    )  # fmt: skip
    jobs = predicted.workload.jobs
    names, user = np.unique([jobs[index].submission.user for index in predicted.index.tolist()], return_inverse=True)
    count = np.maximum(np.bincount(user, minlength=len(names)), 1)

    def by_user(spec: str) -> Floats:
        sums = np.bincount(user, np.abs(predicted.errors(spec)), len(names))
        return sums / count

    before = by_user(BASELINE)
    rows = []
    for spec in predicted.estimate:
        if spec == BASELINE or not len(names):
            continue
        gain = before - by_user(spec)
        rows.append((spec, len(names), mean_of(gain > 0), mean_of(gain > DAY), max(float(-gain.min()), 0.0)))
    published = "better for 91% of the users, by more than 24 h for 77%, at worst 26 min worse (figure 6, section 3.2)."
    return Table("fig6", "Figure 6: mean absolute error of each user", columns, tuple(rows), published)


def _by_walltime(predicted: ScoredJobs) -> Table:
    """Figure 7: jobs grouped by runtime and by walltime, which determines their queue."""
    columns = [Column("predictor", "predictor")]
    for what in ("runtime", "walltime"):
        columns += [Column(f"{what}_{name}", f"{name} by {what}", "share") for name in CLASSES]
    groups = [
        (seconds > above) & (seconds <= limit)
        for seconds in (predicted.runtime, predicted.walltime)
        for above, limit in CLASSES.values()
    ]
    rows: list[tuple[Cell, ...]] = [("all jobs", *map(mean_of, groups))]
    rows += [
        (spec, *(mean_of(predicted.errors(spec)[group] < 0) for group in groups))
        for spec in predicted.estimate
        if spec != BASELINE
    ]
    published = (
        "63%, 30% and 7% of the jobs by runtime, 33%, 42% and 25% by queue; of the long ones 50% underestimated by "
        "runtime, 25% by queue (figure 7, soft walltimes of several predictors)."
    )
    title = "Figure 7: share of the jobs, and share underestimated, by runtime and by walltime"
    return Table("fig7", title, tuple(columns), tuple(rows), published)


def _system(trials: Trials, system: str, specs: Sequence[str]) -> Table:
    baseline = f"{system} {WALLTIME}"
    columns = (
        Column("estimate", "estimate"), Column("wait_mean", "wait", "duration"),
        Column("bsld600_mean", "bounded slowdown (600 s)", "number"), Column("wait_change", "wait, change", "change"),
        Column("bsld600_change", "slowdown (600 s), change", "change"),
        Column("bsld10_change", "slowdown (10 s), change", "change"),
        Column("broken", "broken promises", "share"), Column("extensions_mean", "extensions per job", "number"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for spec in (WALLTIME, *specs):
        name = f"{system} {spec}"
        own = spec == WALLTIME
        changes = [
            None if own else trials.change(name, baseline, metric)
            for metric in ("wait_mean", "bsld600_mean", "bsld10_mean")
        ]
        plain = [trials.mean(name, metric) for metric in ("wait_mean", "bsld600_mean")]
        rows.append((spec, *plain, *changes, trials.mean(name, "broken"), trials.mean(name, "extensions_mean")))
    published = "none: the paper could not compare on one workload (section 4), and plans simulations (section 5)."
    title = f"Section 4 on one workload, {system}: walltimes against predictors"
    return Table(f"section4_{system.replace('+', '_')}", title, columns, tuple(rows), published)


def _median(values: Integers) -> float | None:
    return float(np.median(values)) if len(values) else None
