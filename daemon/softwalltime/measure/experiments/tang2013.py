"""Tang, Desai, Buettner & Lan, "Job scheduling with adjusted runtime estimates on production supercomputers" (2013).

Estimates are walltimes times a percentile of the share that like jobs used: choice of keys, percentile, window and
threshold (section 4), and effect on waits, applied to all jobs or only while they wait (section 6).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from softwalltime.core.formatting import DAY
from softwalltime.measure.experiments.result_tables import Cell, Column, PaperResults, Table, results
from softwalltime.measure.experiments.study import Study
from softwalltime.measure.experiments.trials import Trials, month_names, simulate_all
from softwalltime.measure.replay.accuracy_metrics import Scores, score
from softwalltime.measure.replay.fast_replay import drive_specs
from softwalltime.measure.simulation.policies import WALLTIME, SchedulerPolicy

CITATION = "Tang, Desai, Buettner & Lan, J. Parallel Distrib. Comput. 73 (2013)"
KEYS = {"user": "user", "project": "project", "double": "user+project", "triple": "user+project+walltime"}
"""The key types (section 4.1)."""
PERCENTILES = (100, 95, 90, 85, 80, 70, 50)
ALL_DAYS_S = 36_500 * DAY
THRESHOLD = 0.5
SCHEMES = (95, 85, 70)
"""Percentiles of figures 14 to 17."""
ORDERS = {"wfp": "WFP", "fcfs": "FCFS"}
STRATEGIES = ("regular", "selective")
FIGURES = {
    ("wfp", "regular"): ("fig14", "wait -15% (p95, p85); slowdown -16%, weighted -19% (p85); p70 least effective"),
    ("wfp", "selective"): ("fig15", "p85 -22%, -22%, weighted -28%; p70 better than regular; p95 as regular"),
    ("fcfs", "regular"): ("fig16", "wait -2% (p95); within 4% (p85); slowdown +8% (p70)"),
    ("fcfs", "selective"): ("fig17", "p85 and p70 about -20%, -20%, weighted -15%"),
}
"""Figures, and average relative gains of wait and slowdown, as changes (figures 14(d) to 17(d), sections 6.2, 7)."""
BASELINE = "baseline"
METRICS = {"wait_mean": "wait", "slowdown_mean": "slowdown"}

DIFFERENCES = """
- Other machines: Intrepid (40,960 nodes, partitions of a torus) cannot be simulated from the public log; processors are
  interchangeable here.
- The paper does not say what becomes of an estimate that runs out; here PBS's rule (whole multiples, at most the
  walltime).
- Each month is simulated by itself, as in the paper, after the month before it as an uncounted warm-up that fills the
  machine and teaches; the first month is only a warm-up.
- Section 6 names no threshold of the adjustment; none is used in the simulations. Estimates are at least 60 s.
"""


def repeat(study: Study, more: Sequence[str] = ()) -> PaperResults:
    """Repeat figures 4 to 7 by replay and figures 14(d) to 17(d) by simulation; ``more`` is not used."""
    trials = simulate_all(study, policies(), monthly=True)
    tables = (*_accuracy_tables(study), *_gain_tables(trials))
    months = {"months simulated": len(trials.parts)}
    return results(study, "tang2013", CITATION, DIFFERENCES + _warnings(study), tables, {}, months)


def policies() -> dict[str, SchedulerPolicy]:
    variants = {}
    for order in ORDERS:
        plain = SchedulerPolicy(order=order)
        variants[f"{order} {BASELINE}"] = plain
        for strategy in STRATEGIES:
            for percentile in SCHEMES:
                spec = f"percentile:p={percentile},keys={KEYS['triple']},window=30d,least=10"
                running = spec if strategy == "regular" else WALLTIME
                variants[_name(order, strategy, percentile)] = replace(
                    plain, waiting=spec, running=running, ordering=spec
                )
    return variants


def _name(order: str, strategy: str, percentile: int) -> str:
    return f"{order} {strategy} p{percentile}"


def _warnings(study: Study) -> str:
    warnings = ""
    if len({job.submission.project for job in study.jobs.completed}) <= 1:
        warnings += "- The trace has no projects: the double key is the user, the triple key user and walltime.\n"
    if len(month_names(study.jobs)) == 1:
        warnings += "- One month: there is no warm-up, and no interval without seeds.\n"
    return warnings


def _accuracy_tables(study: Study) -> tuple[Table, ...]:
    """Figures 4 to 7."""
    workload = study.workload
    original = score(workload, np.full(len(workload.jobs), -1, np.int64))
    by_key: list[tuple[Cell, ...]] = [("walltime", "", *_scores(original))]
    by_threshold: list[tuple[Cell, ...]] = []
    replays = len(PERCENTILES) * (len(KEYS) + 2)
    with study.bar("replaying", replays * len(workload.jobs)) as progress:
        for key, fields in KEYS.items():
            specs = [f"percentile:p={p},keys={fields},window={ALL_DAYS_S},least=10" for p in PERCENTILES]
            held = [f"{spec},threshold={THRESHOLD}" for spec in specs if "+" in fields]
            results = drive_specs(workload, [*specs, *held], progress=progress)
            scores = [score(workload, result.soft_walltimes) for result in results.values()]
            for place, percentile in enumerate(PERCENTILES):
                plain, head = scores[place], (key, f"p{percentile}")
                by_key.append((*head, *_scores(plain)))
                if held:
                    limited = scores[len(specs) + place]
                    by_threshold.append((*head, *_two(plain), *_two(limited), _drop(plain, limited)))
    figures = (
        Column("accuracy", "accuracy", "accuracy"), Column("accuracy_median", "median", "accuracy"),
        Column("na", "NA", "share"), Column("oe", "OE", "share"), Column("ue", "UE", "share"),
        Column("be", "BE", "share"),
    )  # fmt: skip
    first, second = Column("keys", "keys"), Column("percentile", "percentile")
    return (
        Table(
            "fig4_5", "Figures 4 and 5: accuracy by keys and percentile, all earlier jobs",
            (first, second, *figures), tuple(by_key),
            "the more keys, and the lower the percentile down to 70, the higher the accuracy: walltime 0.50, triple at "
            "p70 0.679 (figure 4); triple at p80 to p90 UE 9-17%, BE 1.2-2.2%. NA: not adjusted, OE: overestimated, UE "
            "and BE: underestimated by at most and by more than 30 min (figure 5).",
        ),
        Table(
            "fig6_7", "Figures 6 and 7: a threshold of 0.5",
            (first, second, Column("ue", "UE", "share"), Column("be", "BE", "share"),
                Column("ue_threshold", "UE, threshold", "share"), Column("be_threshold", "BE, threshold", "share"),
                Column("change", "change of UE + BE", "change"),
            ),
            tuple(by_threshold), "17 to 35% fewer underestimates with the triple key (section 4.2.3).",
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
        Column("broken", "broken promises", "share"),
    )
    tables = []
    for (order, strategy), (figure, published) in FIGURES.items():
        baseline = f"{order} {BASELINE}"
        rows: list[tuple[Cell, ...]] = [(BASELINE, *[None] * len(METRICS), trials.mean(baseline, "broken"))]
        for percentile in SCHEMES:
            name = _name(order, strategy, percentile)
            changes = (trials.change(name, baseline, metric) for metric in METRICS)
            rows.append((f"p{percentile}", *changes, trials.mean(name, "broken")))
        title = f"Figure {figure[3:]}(d): {ORDERS[order]}, {strategy} adjustment, mean change over months"
        tables.append(Table(f"{figure}d", title, columns, tuple(rows), f"{published} (figure {figure[3:]}(d))."))
    return tables
