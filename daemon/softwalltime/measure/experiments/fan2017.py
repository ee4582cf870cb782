"""Fan, Rich, Allcock, Papka & Lan, "Trade-off between prediction accuracy and underestimation rate" (2017).

Predictors under FCFS and WFP with EASY backfilling (figures 7 to 11), and adjusted runtimes for the order only, for
backfilling only, or for both (S00 to S11, figure 12).  Runtimes are as recorded, also beyond the walltime.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from softwalltime.measure.experiments.result_tables import Cell, Column, PaperResults, Table
from softwalltime.measure.experiments.study import Study, available, estimates, mean_of, months_of
from softwalltime.measure.experiments.trials import Trials, simulate_all
from softwalltime.measure.replay.accuracy_metrics import accuracies
from softwalltime.measure.simulation.policies import WALLTIME, SchedulerPolicy
from softwalltime.predict.predictors.registry import BASELINE

CITATION = "Fan, Rich, Allcock, Papka & Lan, IEEE Cluster 2017"
COMPARED = ("last2", "svr", "random-forest", "trip")
"""The paper's predictors; svr and random-forest stand for SVM and Random Forest in TRIP's frame (section V)."""
ADJUSTED = "trip"
"""The predictor of the selective methods (figure 12)."""
ORDERS = {"fcfs": "Figures 8 and 9: FCFS/EASY", "wfp": "Figures 10 and 11: WFP/EASY"}
MODES = {
    "killed": SchedulerPolicy(kill_at_walltime=False, kill_at_estimate=True),
    "runs on": SchedulerPolicy(kill_at_walltime=False),
}
"""Handling of a job that outlives its estimate: killed, as in the paper, or it ends as recorded."""
METHODS = {"S00": (False, False), "S01": (False, True), "S10": (True, False), "S11": (True, True)}
"""Whether backfilling and the order use the adjusted runtime (table IV)."""

PUBLISHED_ESTIMATES = {
    BASELINE: "under 15-18%, accuracy 55-58%",
    "last2": "under up to 47%",
    "svr": "under up to 29%",
    "random-forest": "under up to 31%",
    "trip": "under 5-8%, accuracy 75-80%",
}
"""Figure 7, section V-A."""
PUBLISHED_SCHEDULES = {
    ("fcfs", "trip"): "slowdown down by less than 25%, utilisation up by up to 16%",
    ("wfp", "trip"): "slowdown down by up to 45%, utilisation up by up to 20%",
    ("fcfs", "last2"): "shorter waits than TRIP, no better utilisation",
}
"""Figures 8 to 11, section V-B."""

DIFFERENCES = (
    "Other machines than Mira and Intrepid, as interchangeable processors.",
    (
        "Runtimes are as recorded, also where a job outlived its walltime. In the paper a job that outlives its "
        "estimate is killed: the mode killed, which shortens the work of methods with many underestimates. In the mode "
        "runs on it ends as recorded, and the scheduler extends the estimate by PBS's rule, as sites do with soft "
        "walltimes."
    ),
    (
        "The first calendar month is left out of all figures, as in the paper; jobs without a prediction keep their "
        "walltime, as in TRIP's frame. Estimates are used for waiting and running jobs alike."
    ),
    (
        "Each month is simulated by itself after the month before it, which fills the machine and teaches. Changes are "
        "means over months. Bounded slowdown with 60 s."
    ),
)


def repeat(study: Study, more: Sequence[str] = ()) -> PaperResults:
    """Repeat figures 7 to 12."""
    usable, missing = available(dict.fromkeys((*COMPARED, *more)))
    trials = simulate_all(study, policies(usable), monthly=True)
    tables = (_estimates(study, usable), *(_schedules(trials, order, usable) for order in ORDERS), _selective(trials))
    settings: dict[str, object] = {"months simulated": len(trials.parts)}
    return study.results("fan2017", CITATION, DIFFERENCES, tables, missing, settings)


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


def _estimates(study: Study, specs: list[str]) -> Table:
    predicted = estimates(study, specs)
    jobs = predicted.workload.jobs
    months = months_of([jobs[index].submission.submitted for index in predicted.index.tolist()])
    later = months != months[:1]
    later = later if later.any() else np.ones(len(months), np.bool_)
    columns = (
        Column("predictor", "predictor"), Column("underestimated", "underestimated", "share"),
        Column("accuracy", "accuracy", "accuracy"), Column("adjusted", "adjusted", "share"),
        Column("published", "published"),
    )  # fmt: skip
    rows = []
    for spec, estimate in predicted.estimate.items():
        p, t = estimate[later], predicted.recorded[later]
        adjusted = mean_of(p != predicted.walltime[later])
        rows.append((spec, mean_of(p < t), mean_of(accuracies(p, t)), adjusted, PUBLISHED_ESTIMATES.get(spec, "")))
    published = (
        "of all methods only TRIP lowers the underestimation rate, with the highest accuracy (figure 7). A job that "
        "outlives its walltime is underestimated by the user."
    )
    return Table("fig7", "Figure 7: underestimation and accuracy", columns, tuple(rows), published)


_MODE = Column("mode", "a job that outlives its estimate")
_CHANGES = (
    Column("wait", "wait", "change"), Column("bsld60", "bounded slowdown (60 s)", "change"),
    Column("shorter", "months with shorter waits"), Column("utilisation", "utilisation", "change"),
    Column("killed", "killed", "share"), Column("broken", "broken promises", "share"),
    Column("published", "published"),
)  # fmt: skip


def _changes(trials: Trials, name: str, baseline: str) -> tuple[Cell, ...]:
    same = name == baseline
    wait, slowdown, utilisation = (
        None if same else trials.change(name, baseline, metric)
        for metric in ("wait_mean", "bsld60_mean", "utilisation")
    )
    shorter = "" if same else trials.better(name, baseline, "wait_mean")
    return wait, slowdown, shorter, utilisation, trials.mean(name, "killed"), trials.mean(name, "broken")


def _schedules(trials: Trials, order: str, specs: Sequence[str]) -> Table:
    rows = tuple(
        (
            mode, spec, *_changes(trials, f"{mode} {order} {spec}", f"{mode} {order} {WALLTIME}"),
            PUBLISHED_SCHEDULES.get((order, spec), "") if mode == "killed" else "",
        )
        for mode in MODES
        for spec in (WALLTIME, *specs)
    )  # fmt: skip
    published = "TRIP is ahead in slowdown and utilisation on both machines; gains are larger under WFP (section V-B)."
    key = "fig8_9" if order == "fcfs" else "fig10_11"
    return Table(key, f"{ORDERS[order]}, change against walltimes", (_MODE, Column("spec", "estimate"), *_CHANGES),
                 rows, published)  # fmt: skip


def _selective(trials: Trials) -> Table:
    names = {"S00": f"wfp {WALLTIME}", "S01": f"S01 {ADJUSTED}", "S10": f"S10 {ADJUSTED}", "S11": f"wfp {ADJUSTED}"}
    rows = tuple(
        (mode, method, ADJUSTED, *_changes(trials, f"{mode} {name}", f"{mode} wfp {WALLTIME}"), "")
        for mode in MODES
        for method, name in names.items()
    )
    published = "S10 is ahead of S01 in slowdown and utilisation; S11's gain is not the sum of both (figure 12, TRIP)."
    columns = (_MODE, Column("method", "method"), Column("spec", "adjusted by"), *_CHANGES)
    return Table("fig12", "Figure 12: selective methods under WFP/EASY", columns, rows, published)
