"""Fan, Rich, Allcock, Papka & Lan, "Trade-off between prediction accuracy and underestimation rate" (2017).

Walltimes of the log (figures 2 to 4), predictors under FCFS and WFP with EASY backfilling (figures 7 to 11), and
adjusted runtimes for the order only, for backfilling only, or for both (S00 to S11, figure 12).  Runtimes are as
recorded, also beyond the walltime.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from softwalltime.measure.experiments.distributions import (
    Mask,
    by_predictor,
    curve,
    grouped,
    mean_in,
    weeks_of,
)  # fmt: skip
from softwalltime.measure.experiments.result_tables import Cell, PaperResults, Table
from softwalltime.measure.experiments.study import ScoredJobs, Study, available, estimates, mean_of, months_of
from softwalltime.measure.experiments.trials import Compared, Trials, simulate_all
from softwalltime.measure.replay.accuracy_metrics import accuracies
from softwalltime.measure.simulation.policies import WALLTIME, SchedulerPolicy

COMPARED = ("last2", "svr", "random-forest", "trip")
"""The paper's predictors; svr and random-forest stand for SVM and Random Forest in TRIP's frame (section V)."""
ADJUSTED = "trip"
"""The predictor of the selective methods (figure 12)."""
ORDERS = {"fcfs": "fig8_9", "wfp": "fig10_11"}
MODES = {
    "killed": SchedulerPolicy(kill_at_walltime=False, kill_at_estimate=True),
    "runs on": SchedulerPolicy(kill_at_walltime=False),
}
"""Handling of a job that outlives its estimate: killed, as in the paper, or it ends as recorded."""
METHODS = {"S00": (False, False), "S01": (False, True), "S10": (True, False), "S11": (True, True)}
"""Whether backfilling and the order use the adjusted runtime (table IV)."""

RANKS = (1, 2, 3, 5, 10, 20, 30)
"""Ranks of users in the table of figure 2."""
ACCURATE, FIXED = 0.9, 0.9
"""Median R of a highly accurate user; share of the most frequent walltime of a user with fixed walltimes (figure 4)."""
MIN_USER_JOBS = 10
WEEKS = 8
"""Weeks of a log that are shown separately."""


def repeat(study: Study, more: Sequence[str] = ()) -> PaperResults:
    """Repeat figures 2 to 4 and 7 to 12."""
    usable, missing = available(dict.fromkeys((*COMPARED, *more)))
    trials = simulate_all(study, policies(usable), monthly=True)
    predicted = estimates(study, usable)
    tables = (
        *_users(predicted), *_estimates(predicted), *(_schedules(trials, order, usable) for order in ORDERS),
        _selective(trials), *(_monthly(trials, order, usable) for order in ORDERS),
    )  # fmt: skip
    return study.results("fan2017", tables, {"months simulated": len(trials.parts)}, missing)


def policies(specs: Sequence[str]) -> dict[str, SchedulerPolicy]:
    """Each predictor under both orders, and the selective methods under WFP, in both modes."""
    variants = {}
    for mode, base in MODES.items():
        for order in ORDERS:
            for spec in (WALLTIME, *specs):
                variants[f"{mode} {order} {spec}"] = replace(
                    base, order=order, waiting=spec, running=spec, ordering=spec
                )
        for method in ("S01", "S10"):
            backfilling, ordering = (ADJUSTED if adjusts else WALLTIME for adjusts in METHODS[method])
            variants[f"{mode} {method} {ADJUSTED}"] = replace(
                base, order="wfp", waiting=backfilling, running=backfilling, ordering=ordering
            )
    return variants


def _users(predicted: ScoredJobs) -> tuple[Table, ...]:
    users, walltime = np.array(predicted.users), predicted.walltime
    used = predicted.recorded / walltime
    names, counts = np.unique(users, return_counts=True)
    largest = np.sort(counts)[::-1]
    rows: list[tuple[Cell, ...]] = [
        (f"{rank}", int(largest[rank - 1]), float(largest[:rank].sum() / largest.sum()))
        for rank in RANKS
        if rank <= len(largest)
    ]
    kind = np.full(len(users), f"fewer than {MIN_USER_JOBS} jobs", "U24")
    for user in names[counts >= MIN_USER_JOBS]:
        own = users == user
        fixed = np.unique(walltime[own], return_counts=True)[1].max() >= FIXED * own.sum()
        kind[own] = "(a) accurate" if np.median(used[own]) >= ACCURATE else "(c) fixed" if fixed else "(b) varied"
    figures: dict[str, Callable[[Mask], Cell]] = {
        "users||count": lambda chosen: len(np.unique(users[chosen])), "jobs||share": mean_of,
        "r|median R|accuracy": lambda chosen: float(np.median(used[chosen])),
    }  # fmt: skip
    points = {f"{point:g}": point for point in (0.1, 0.22, 0.25, 0.5, 0.61, 0.75, 0.9, 1.0, 1.1)}
    ranks = [*rows, ("mean", float(counts.mean()), None)]
    return (
        Table("fig2", ("rank|user", "jobs||count", "share|up to this user|share"), ranks),
        Table("fig3", *curve("r|R", points, {"share|jobs|share": used})),
        Table("fig4", *grouped("kind|walltimes", kind, figures), {"accurate": ACCURATE, "fixed": FIXED}),
    )


def _estimates(predicted: ScoredJobs) -> tuple[Table, Table]:
    """Figure 7, and observation 3: accuracy in the first weeks, when predictors know few jobs."""
    months, week = months_of(predicted.submitted.tolist()), weeks_of(predicted.submitted.tolist())
    later = months != months[:1]
    later = later if later.any() else np.ones(len(months), np.bool_)
    week[week > f"week {WEEKS:03}"] = f"week {WEEKS + 1:03} on"
    walltime, recorded = predicted.walltime, predicted.recorded
    accuracy = {spec: accuracies(estimate, recorded) for spec, estimate in predicted.estimate.items()}
    figures: dict[str, Callable[[str], Cell]] = {
        "underestimated||share": lambda spec: mean_of((predicted.estimate[spec] < recorded)[later]),
        "accuracy||accuracy": lambda spec: mean_of(accuracy[spec][later]),
        "adjusted||share": lambda spec: mean_of((predicted.estimate[spec] != walltime)[later]),
    }
    weekly = {f"{spec}||accuracy": mean_in(values) for spec, values in accuracy.items()}
    return (
        Table("fig7", *by_predictor(predicted, figures)),
        Table("observation3", *grouped("week", week, weekly)),
    )


_MODE = "mode|a job that outlives its estimate"
_METRICS = {
    "wait||change": "wait_mean", "bsld60|bounded slowdown (60 s)|change": "bsld60_mean",
    "shorter|months with shorter waits|better": "wait_mean", "utilisation||change": "utilisation",
    "killed||share": "killed", "broken|broken promises|share": "broken",
}  # fmt: skip


def _schedules(trials: Trials, order: str, specs: Sequence[str]) -> Table:
    rows = (
        Compared((mode, spec), f"{mode} {order} {spec}", f"{mode} {order} {WALLTIME}")
        for mode in MODES
        for spec in (WALLTIME, *specs)
    )
    return Table(ORDERS[order], *trials.table((_MODE, "spec|estimate"), _METRICS, rows))


def _selective(trials: Trials) -> Table:
    names = {"S00": f"wfp {WALLTIME}", "S01": f"S01 {ADJUSTED}", "S10": f"S10 {ADJUSTED}", "S11": f"wfp {ADJUSTED}"}
    rows = (
        Compared((mode, method, ADJUSTED), f"{mode} {name}", f"{mode} wfp {WALLTIME}")
        for mode in MODES
        for method, name in names.items()
    )
    return Table("fig12", *trials.table((_MODE, "method", "spec|adjusted by"), _METRICS, rows))


def _monthly(trials: Trials, order: str, specs: Sequence[str]) -> Table:
    """Return the curves of figures 8 to 12: changes month by month, under WFP those of the selective methods too."""
    runs = {spec: f"{order} {spec}" for spec in specs}
    runs |= {method: f"{method} {ADJUSTED}" for method in ("S01", "S10") if order == "wfp"}
    metrics = {"wait": "wait_mean", "bounded slowdown (60 s)": "bsld60_mean", "utilisation": "utilisation"}
    rows = [
        (
            mode, title, month,
            *(trials.monthly(f"{mode} {name}", f"{mode} {order} {WALLTIME}", metric, month) for name in runs.values()),
        )
        for mode in MODES
        for title, metric in metrics.items()
        for month in trials.parts
    ]  # fmt: skip
    return Table(f"{ORDERS[order]}_monthly", (_MODE, "metric", "month", *(f"{run}||change" for run in runs)), rows)
