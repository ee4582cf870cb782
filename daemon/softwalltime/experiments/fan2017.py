"""Fan, Rich, Allcock, Papka & Lan, "Trade-off between prediction accuracy and underestimation rate" (2017).

Predictors under FCFS and WFP with EASY backfilling (figures 7 to 11), and adjusted runtimes for the order only, for
backfilling only, or for both (S00 to S11, figure 12).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from softwalltime.experiments.accuracy import estimates
from softwalltime.experiments.registered import available
from softwalltime.experiments.study import Study, months_of
from softwalltime.experiments.tables import Cell, Column, PaperResults, Table
from softwalltime.experiments.trials import Trials, every_job, simulate_all
from softwalltime.predictors.registry import BASELINE
from softwalltime.replay.metrics import accuracies
from softwalltime.simulation.jobs import Jobs
from softwalltime.simulation.policies import WALLTIME, Policy

CITATION = "Fan, Rich, Allcock, Papka & Lan, IEEE Cluster 2017"
COMPARED = ("last2", "svr", "random-forest", "trip")
"""The paper's predictors; svr and random-forest stand for SVM and Random Forest in TRIP's frame (section V)."""
ADJUSTED = "trip"
"""The predictor of the selective methods (figure 12)."""
ORDERS = {"fcfs": "Figures 8 and 9: FCFS/EASY", "wfp": "Figures 10 and 11: WFP/EASY"}
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
        "In the paper a job that outlives its estimate is killed, which shortens the work that methods with many "
        "underestimates have to do. Here it runs on, until its walltime, and the scheduler extends the estimate by "
        "PBS's rule. The paper's gains in utilisation, which it explains by fewer kills, cannot appear."
    ),
    (
        "The first calendar month is left out of all figures, as in the paper; jobs without a prediction keep their "
        "walltime, as in TRIP's frame. Estimates are used for waiting and running jobs alike."
    ),
    "Means over the whole trace, not month by month; bounded slowdown with 60 s.",
)


def repeat(study: Study, more: Sequence[str] = ()) -> PaperResults:
    """Repeat figures 7 to 12."""
    usable, missing = available(dict.fromkeys((*COMPARED, *more)))
    trials = simulate_all(study, policies(study, usable, [ADJUSTED]), count=after_first_month)
    tables = (
        _estimates(study, usable),
        *(_schedules(trials, order, usable) for order in ORDERS),
        _selective(trials, [ADJUSTED]),
    )
    return PaperResults(
        "fan2017", CITATION, study.source, len(study.jobs), study.refused, study.processors, study.settings(),
        DIFFERENCES, missing, tables,
    )  # fmt: skip


def after_first_month(jobs: Jobs) -> NDArray[np.bool_]:
    """All jobs but those of the first calendar month; all of a workload of one month."""
    months = months_of(jobs.submitted)
    found: NDArray[np.bool_] = months != months[0]
    return found if found.any() else every_job(jobs)


def policies(study: Study, specs: Sequence[str], adjusted: Sequence[str]) -> dict[str, Policy]:
    """Each predictor under both orders, and the selective methods under WFP."""
    found = {}
    for order in ORDERS:
        plain = Policy(order=order, minimum=study.minimum)
        found[f"{order} {WALLTIME}"] = plain
        for spec in specs:
            found[f"{order} {spec}"] = replace(plain, waiting=spec, running=spec, ordering=spec)
    plain = Policy(order="wfp", minimum=study.minimum)
    for spec in adjusted:
        for method, (backfilling, ordering) in METHODS.items():
            if backfilling != ordering:
                estimate = spec if backfilling else WALLTIME
                found[_method(method, spec)] = replace(
                    plain, waiting=estimate, running=estimate, ordering=spec if ordering else WALLTIME
                )
    return found


def _method(method: str, spec: str) -> str:
    """S00 and S11 are the walltime and the predictor under WFP, which are simulated anyway."""
    return {"S00": f"wfp {WALLTIME}", "S11": f"wfp {spec}"}.get(method, f"{method} {spec}")


def _estimates(study: Study, specs: list[str]) -> Table:
    found = estimates(study, specs)
    jobs = found.workload.jobs
    months = months_of([jobs[index].submission.submitted for index in found.index.tolist()])
    later = months != months[:1]
    later = later if later.any() else np.ones(len(months), np.bool_)
    columns = (
        Column("predictor", "predictor"), Column("underestimated", "underestimated", "share"),
        Column("accuracy", "accuracy", "accuracy"), Column("adjusted", "adjusted", "share"),
        Column("published", "published"),
    )  # fmt: skip
    rows = []
    for spec, estimate in found.estimate.items():
        p, t = estimate[later], found.runtime[later]
        some = len(p) > 0
        rows.append(
            (
                spec, float((p < t).mean()) if some else None, float(accuracies(p, t).mean()) if some else None,
                float((p != found.walltime[later]).mean()) if some else None, PUBLISHED_ESTIMATES.get(spec, ""),
            )
        )  # fmt: skip
    published = (
        "of all methods only TRIP lowers the underestimation rate, with the highest accuracy (figure 7). There a job "
        "killed at its walltime is underestimated by the user; here its runtime is the walltime."
    )
    return Table("fig7", "Figure 7: underestimation and accuracy", columns, tuple(rows), published)


_CHANGES = (
    Column("wait", "wait", "change"), Column("bsld60", "bounded slowdown (60 s)", "change"),
    Column("utilisation", "utilisation", "change"), Column("broken", "broken promises", "share"),
    Column("published", "published"),
)  # fmt: skip


def _changes(trials: Trials, name: str, baseline: str) -> tuple[Cell, ...]:
    metrics = ("wait_mean", "bsld60_mean", "utilisation")
    changes = [None if name == baseline else trials.change(name, baseline, metric) for metric in metrics]
    return (*changes, trials.mean(name, "broken"))


def _schedules(trials: Trials, order: str, specs: Sequence[str]) -> Table:
    baseline = f"{order} {WALLTIME}"
    rows = tuple(
        (spec, *_changes(trials, f"{order} {spec}", baseline), PUBLISHED_SCHEDULES.get((order, spec), ""))
        for spec in (WALLTIME, *specs)
    )
    published = "TRIP is ahead in slowdown and utilisation on both machines; gains are larger under WFP (section V-B)."
    key = "fig8_9" if order == "fcfs" else "fig10_11"
    return Table(key, f"{ORDERS[order]}, change against walltimes", (Column("spec", "estimate"), *_CHANGES), rows,
                 published)  # fmt: skip


def _selective(trials: Trials, adjusted: Sequence[str]) -> Table:
    baseline = f"wfp {WALLTIME}"
    rows = tuple(
        (method, spec, *_changes(trials, _method(method, spec), baseline), "")
        for spec in adjusted
        for method in METHODS
    )
    published = "S10 is ahead of S01 in slowdown and utilisation; S11's gain is not the sum of both (figure 12, TRIP)."
    columns = (Column("method", "method"), Column("spec", "adjusted by"), *_CHANGES)
    return Table("fig12", "Figure 12: selective methods under WFP/EASY", columns, rows, published)
