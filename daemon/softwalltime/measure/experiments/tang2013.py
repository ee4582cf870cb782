"""Tang, Desai, Buettner & Lan, "Job scheduling with adjusted runtime estimates on production supercomputers" (2013).

Estimates are walltimes times a percentile of the share that like jobs used: choice of keys, percentile, window and
threshold (section 4), and effect on waits, applied to all jobs or only while they wait (section 6).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from softwalltime.core.formatting import DAY
from softwalltime.measure.experiments.result_tables import Cell, Column, PaperResults, Table
from softwalltime.measure.experiments.study import Study
from softwalltime.measure.experiments.trials import Trials, month_names, simulate_all
from softwalltime.measure.replay.accuracy_metrics import Scores, score
from softwalltime.measure.replay.fast_replay import drive_specs
from softwalltime.measure.simulation.policies import WALLTIME, SchedulerPolicy

CITATION = "Tang, Desai, Buettner & Lan, J. Parallel Distrib. Comput. 73 (2013)"
KEYS = {
    "user": ("user",),
    "project": ("project",),
    "double": ("user", "project"),
    "triple": ("user", "project", "walltime"),
}
"""The key types (section 4.1)."""
PERCENTILES = (100, 95, 90, 85, 80, 70, 50)
MONTHS = (1, 2, 3, 6, 12)
"""Time windows of figures 8 to 10, in months of 30 days."""
ALL_DAYS_S = 36_500 * DAY
THRESHOLD = 0.5
SCHEMES = (95, 85, 70)
"""Percentiles of figures 14 to 17."""
ORDERS = {"wfp": "WFP", "fcfs": "FCFS"}
STRATEGIES = ("regular", "selective")
FIGURES = {
    ("wfp", "regular"): "fig14", ("wfp", "selective"): "fig15",
    ("fcfs", "regular"): "fig16", ("fcfs", "selective"): "fig17",
}  # fmt: skip
BASELINE = "baseline"
METRICS = {"wait_mean": "wait", "slowdown_mean": "slowdown", "priority_wait": "weighted wait"}

PUBLISHED_GAINS = {
    ("wfp", "regular", 95): "wait -15%",
    ("wfp", "regular", 85): "wait -15%, slowdown -16%, weighted -19%",
    ("wfp", "regular", 70): "least effective",
    ("wfp", "selective", 95): "as regular; weighted worse",
    ("wfp", "selective", 85): "-22%, -22%, -28%",
    ("wfp", "selective", 70): "better than regular",
    ("fcfs", "regular", 95): "wait -2%",
    ("fcfs", "regular", 85): "within 4%",
    ("fcfs", "regular", 70): "slowdown +8%",
    ("fcfs", "selective", 85): "about -20%, -20%, -15%",
    ("fcfs", "selective", 70): "about -20%, -20%, -15%",
}
"""Average relative gains of wait, slowdown and weighted wait, as changes (figures 14(d) to 17(d), sections 6.2, 7)."""
PUBLISHED_ACCURACY = {
    ("triple", 70): "accuracy 0.679",
    ("triple", 85): "median 0.71; UE 9-17%, BE 1.2-2.2% for 80 to 90",
}
"""Figures 4, 5 and 11; section 4.2."""

DIFFERENCES = (
    (
        "Other machines: Intrepid (40,960 nodes, partitions of a torus) cannot be simulated from the public log; "
        "processors are interchangeable here."
    ),
    (
        "The paper does not say what becomes of an estimate that runs out; here PBS's rule (whole multiples, at "
        "most the walltime)."
    ),
    (
        "Each month is simulated by itself, as in the paper, after the month before it as an uncounted warm-up that "
        "fills the machine and teaches; the first month is only a warm-up."
    ),
    ("Section 6 names no threshold of the adjustment; none is used in the simulations. Estimates are at least 60 s."),
    "The weights of the weighted wait are the priorities by the user's walltime under every scheme.",
)


def repeat(study: Study, more: Sequence[str] = ()) -> PaperResults:
    """Repeat figures 4 to 10 by replay and figures 14(d) to 17(d) by simulation; ``more`` is not used."""
    trials = simulate_all(study, policies(), monthly=True)
    tables = (*_accuracy_tables(study), *_gain_tables(trials))
    settings: dict[str, object] = {"months simulated": len(trials.parts)}
    return study.results("tang2013", CITATION, (*DIFFERENCES, *_warnings(study)), tables, {}, settings)


def policies() -> dict[str, SchedulerPolicy]:
    variants = {}
    for order in ORDERS:
        plain = SchedulerPolicy(order=order)
        variants[f"{order} {BASELINE}"] = plain
        for strategy in STRATEGIES:
            for percentile in SCHEMES:
                spec = f"percentile:p={percentile},keys={'+'.join(KEYS['triple'])},window=30d,least=10"
                running = spec if strategy == "regular" else WALLTIME
                variants[_name(order, strategy, percentile)] = replace(
                    plain, waiting=spec, running=running, ordering=spec
                )
    return variants


def _name(order: str, strategy: str, percentile: int) -> str:
    return f"{order} {strategy} p{percentile}"


def _warnings(study: Study) -> list[str]:
    projects = {job.submission.project for job in study.jobs.completed}
    warnings = []
    if len(projects) <= 1:
        warnings.append("The trace has no projects: the double key is the user, the triple key user and walltime.")
    if len(month_names(study.jobs)) == 1:
        warnings.append("One month: there is no warm-up, and no interval without seeds.")
    return warnings


def _accuracy_tables(study: Study) -> tuple[Table, ...]:
    workload = study.workload
    replays = len(PERCENTILES) * (len(KEYS) + 2 * (1 + len(MONTHS)))
    by_key: list[tuple[Cell, ...]] = []
    by_threshold: list[tuple[Cell, ...]] = []
    by_window: list[tuple[Cell, ...]] = []
    original = score(workload, np.full(len(workload.jobs), -1, np.int64))
    by_key.append(("walltime", "", *_scores(original), "accuracy 0.50"))
    with study.bar("replaying", replays * len(workload.jobs)) as progress:
        for key, fields in KEYS.items():
            windows = (None, *MONTHS) if key in ("double", "triple") else (None,)
            for months in windows:
                window = ALL_DAYS_S if months is None else months * 30 * DAY
                specs = {p: f"percentile:p={p},keys={'+'.join(fields)},window={window},least=10" for p in PERCENTILES}
                limited = {p: f"{spec},threshold={THRESHOLD}" for p, spec in specs.items()}
                wanted = [*specs.values(), *(limited.values() if months is None and len(fields) > 1 else ())]
                results = drive_specs(workload, wanted, progress=progress)
                scores = {spec: score(workload, result.soft_walltimes) for spec, result in results.items()}
                for percentile, spec in specs.items():
                    plain = scores[spec]
                    published = PUBLISHED_ACCURACY.get((key, percentile), "")
                    if months is None:
                        by_key.append((key, f"p{percentile}", *_scores(plain), published))
                    if months is None and key in ("double", "triple"):
                        held = scores[limited[percentile]]
                        by_threshold.append((key, f"p{percentile}", *_two(plain), *_two(held), _drop(plain, held)))
                    if key in ("double", "triple"):
                        shown = "all" if months is None else f"{months} months"
                        by_window.append((key, f"p{percentile}", shown, *_scores(plain)))
    by_window.sort(key=lambda row: (str(row[0]), -int(str(row[1])[1:])))
    figures = (
        Column("accuracy", "accuracy", "accuracy"), Column("accuracy_median", "median", "accuracy"),
        Column("na", "NA", "share"), Column("oe", "OE", "share"), Column("ue", "UE", "share"),
        Column("be", "BE", "share"),
    )  # fmt: skip
    first, second = Column("keys", "keys"), Column("percentile", "percentile")
    return (
        Table(
            "fig4_5", "Figures 4 and 5: accuracy by keys and percentile, all earlier jobs",
            (first, second, *figures, Column("published", "published")), tuple(by_key),
            "the more keys, and the lower the percentile down to 70, the higher the accuracy (figure 4); NA: not "
            "adjusted, OE: overestimated, UE and BE: underestimated by at most and by more than 30 min (figure 5).",
        ),
        Table(
            "fig6_7", "Figures 6 and 7: a threshold of 0.5",
            (first, second, Column("ue", "UE", "share"), Column("be", "BE", "share"),
                Column("ue_threshold", "UE, threshold", "share"), Column("be_threshold", "BE, threshold", "share"),
                Column("change", "change of UE + BE", "change"),
            ),
            tuple(by_threshold), "17 to 35% fewer underestimates with the triple key (section 4.2.3).",
        ),
        Table(
            "fig8_10", "Figures 8 to 10: accuracy by time window",
            (first, second, Column("window", "window"), *figures), tuple(by_window),
            "one month is at least as accurate as all jobs but at p70, with fewer UE and BE (figures 8 to 10).",
        ),
    )  # fmt: skip


def _scores(scores: Scores) -> tuple[Cell, ...]:
    return scores.accuracy_mean, scores.accuracy_median, scores.not_adjusted, scores.over, *_two(scores)


def _two(scores: Scores) -> tuple[Cell, Cell]:
    """Return UE and BE; ``underestimated`` is their sum."""
    badly = scores.badly_underestimated or 0.0
    return (scores.underestimated or 0.0) - badly, badly


def _drop(plain: Scores, held: Scores) -> float | None:
    before = plain.underestimated
    return None if not before else (held.underestimated or 0.0) / before - 1


def _gain_tables(trials: Trials) -> list[Table]:
    columns = (
        Column("percentile", "scheme"),
        *(Column(key, title, "change") for key, title in METRICS.items()),
        Column("wait_pooled", "wait, all jobs", "change"),
        *(Column(f"{key}_better", f"{title}: better in") for key, title in METRICS.items()),
        Column("broken", "broken promises", "share"),
        Column("published", "published"),
    )
    tables = []
    for (order, strategy), figure in FIGURES.items():
        baseline = f"{order} {BASELINE}"
        rows: list[tuple[Cell, ...]] = [
            (BASELINE, *[None] * (2 * len(METRICS) + 1), trials.mean(baseline, "broken"), "")
        ]  # fmt: skip
        for percentile in SCHEMES:
            name = _name(order, strategy, percentile)
            rows.append(
                (
                    f"p{percentile}",
                    *(trials.change(name, baseline, metric) for metric in METRICS),
                    trials.pooled(name, baseline, "wait_mean"),
                    *(trials.better(name, baseline, metric) for metric in METRICS),
                    trials.mean(name, "broken"),
                    PUBLISHED_GAINS.get((order, strategy, percentile), ""),
                )
            )
        title = f"Figure {figure[3:]}(d): {ORDERS[order]}, {strategy} adjustment, mean change over months"
        tables.append(Table(f"{figure}d", title, columns, tuple(rows), f"gains of figure {figure[3:]}(d), as changes."))
    return tables
