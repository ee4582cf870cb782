"""Tang, Desai, Buettner & Lan, "Job scheduling with adjusted runtime estimates on production supercomputers" (2013).

Estimates are walltimes times a percentile of the share that like jobs used: choice of keys, percentile, window and
threshold (section 4), and effect on waits, applied to all jobs or only while they wait (section 6).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.formatting import DAY
from softwalltime.measure.experiments.distributions import Mask, curve, grouped, mean_in, quarters_of
from softwalltime.measure.experiments.result_tables import Cell, PaperResults, Table
from softwalltime.measure.experiments.study import Study
from softwalltime.measure.experiments.trials import Compared, Trials, month_names, simulate_all
from softwalltime.measure.replay.accuracy_metrics import Scores, accuracies, score
from softwalltime.measure.replay.fast_replay import drive_specs
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.simulation.policies import WALLTIME, SchedulerPolicy

KEYS = {"user": "user", "project": "project", "double": "user+project", "triple": "user+project+walltime"}
"""The key types (section 4.1)."""
PERCENTILES = (100, 95, 90, 85, 80, 70, 50)
MONTHS = (1, 2, 3, 6, 12)
"""Time windows of figures 8 to 10, in months of 30 days."""
ALL_DAYS_S = 36_500 * DAY
THRESHOLD = 0.5
SCHEMES = (95, 85, 70)
"""Percentiles of figures 14 to 17."""
FIGURES = {
    ("wfp", "regular"): "fig14", ("wfp", "selective"): "fig15",
    ("fcfs", "regular"): "fig16", ("fcfs", "selective"): "fig17",
}  # fmt: skip
BASELINE = "baseline"
METRICS = {"wait_mean": "wait", "slowdown_mean": "slowdown", "priority_wait": "weighted wait"}
POINTS = tuple(number / 10 for number in range(1, 10))
"""Points of the curves of figures 1 and 11."""
CURVES = (100, 85, 50)
"""Percentiles of figure 11."""
WINDOWED = ("double", "triple")
"""Keys of figures 6 to 11."""
UNDER = ("ue|UE|share", "be|BE|share")


def repeat(study: Study, more: Sequence[str] = ()) -> PaperResults:
    """Repeat figures 1 to 11 by replay and figures 14(d) to 17(d) by simulation; ``more`` is not used."""
    trials = simulate_all(study, policies(), monthly=True)
    tables = (*_walltime_tables(study), *_accuracy_tables(study), *_gain_tables(trials))
    return study.results("tang2013", tables, {"months simulated": len(trials.parts)}, differences=_warnings(study))


def policies() -> dict[str, SchedulerPolicy]:
    variants = {f"{order} {BASELINE}": SchedulerPolicy(order=order) for order, _ in FIGURES}
    for (order, strategy), percentile in product(FIGURES, SCHEMES):
        spec = f"percentile:p={percentile},keys={KEYS['triple']},window=30d,least=10"
        running = spec if strategy == "regular" else WALLTIME
        policy = SchedulerPolicy(order=order, waiting=spec, running=running, ordering=spec)
        variants[_name(order, strategy, percentile)] = policy
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


def _walltime_tables(study: Study) -> tuple[Table, Table]:
    jobs = study.jobs
    used = np.minimum(np.array(jobs.runtime) / np.array(jobs.walltime), 1.0)
    figures: dict[str, Callable[[Mask], Cell]] = {
        "jobs||count": lambda chosen: int(chosen.sum()), "r|mean R|accuracy": mean_in(used),
        "deviation|standard deviation|accuracy": lambda chosen: float(used[chosen].std()),
    }  # fmt: skip
    points = {f"{point:g}": point for point in (*POINTS, 0.99)}
    return (
        Table("fig1", *curve("r|R", points, {"share|jobs|share": used})),
        Table("fig2", *grouped("quarter", quarters_of(jobs.submitted), figures)),
    )


class _Scheme(NamedTuple):
    """An adjustment scheme and its scores; ``months``: the window, ``None`` for all earlier jobs."""

    key: str
    percentile: int
    months: int | None
    scores: Scores
    limited: Scores | None
    """With the threshold, where it is measured."""

    @property
    def labels(self) -> tuple[str, str]:
        return self.key, f"p{self.percentile}"


def _accuracy_tables(study: Study) -> tuple[Table, ...]:
    workload = study.workload
    windows = [(key, months) for key in KEYS for months in ((None, *MONTHS) if key in WINDOWED else (None,))]
    schemes, curves = list[_Scheme](), {"original": np.full(len(workload), -1, np.int64)}
    with study.bar("replaying", (len(windows) + len(WINDOWED)) * len(PERCENTILES) * len(workload)) as progress:
        for key, months in windows:
            window = ALL_DAYS_S if months is None else months * 30 * DAY
            specs = [f"percentile:p={p},keys={KEYS[key]},window={window},least=10" for p in PERCENTILES]
            limited = [f"{spec},threshold={THRESHOLD}" for spec in specs if months is None and key in WINDOWED]
            soft = [
                result.soft_walltimes for result in drive_specs(workload, specs + limited, progress=progress).values()
            ]
            scores = [score(workload, values) for values in soft]
            for number, percentile in enumerate(PERCENTILES):
                held = scores[len(specs) + number] if limited else None
                schemes.append(_Scheme(key, percentile, months, scores[number], held))
            if limited and key == "triple":
                curves |= {f"p{percentile}": soft[len(specs) + PERCENTILES.index(percentile)] for percentile in CURVES}
    whole = [scheme for scheme in schemes if scheme.months is None]
    windowed = sorted((one for one in schemes if one.key in WINDOWED), key=lambda one: (one.key, -one.percentile))
    figures = "accuracy||accuracy", "accuracy_median|median|accuracy", "na|NA|share", "oe|OE|share", *UNDER
    limits = "ue_threshold|UE, threshold|share", "be_threshold|BE, threshold|share", "change|change of UE + BE|change"
    return (
        Table(
            "fig4_5", ("keys", "percentile", *figures),
            [("walltime", "", *_scores(score(workload, curves["original"]))),
             *((*one.labels, *_scores(one.scores)) for one in whole)],
        ),
        Table(
            "fig6_7", ("keys", "percentile", *UNDER, *limits),
            [(*one.labels, *_two(one.scores), *_two(one.limited), _drop(one.scores, one.limited))
             for one in whole if one.limited],
        ),
        Table(
            "fig8_10", ("keys", "percentile", "window", *figures),
            [(*one.labels, f"{one.months} months" if one.months else "all", *_scores(one.scores)) for one in windowed],
        ),
        _curves(workload, curves),
    )  # fmt: skip


def _curves(workload: Workload, soft: Mapping[str, NDArray[np.int64]]) -> Table:
    walltime, scored = workload.walltime, workload.scored
    runtime = np.minimum(workload.runtime, walltime)[scored]
    accuracy = [accuracies(np.where(values < 0, walltime, values)[scored], runtime) for values in soft.values()]
    rows = [(share, *(float(np.quantile(values, share)) for values in accuracy)) for share in POINTS]
    return Table("fig11", ("share|share of the jobs|share", *(f"{name}||accuracy" for name in soft)), rows)


def _scores(scores: Scores) -> tuple[Cell, ...]:
    return scores.accuracy_mean, scores.accuracy_median, scores.not_adjusted, scores.over, *_two(scores)


def _two(scores: Scores) -> tuple[Cell, Cell]:
    """Return UE and BE; ``underestimated`` is their sum."""
    badly = scores.badly_underestimated or 0.0
    return (scores.underestimated or 0.0) - badly, badly


def _drop(plain: Scores, held: Scores) -> float | None:
    before = plain.underestimated
    return None if not before else (held.underestimated or 0.0) / before - 1


def _gain_tables(trials: Trials) -> Iterator[Table]:
    metrics = {
        **{f"{key}|{title}|change": key for key, title in METRICS.items()},
        "wait_pooled|wait, all jobs|pooled": "wait_mean",
        **{f"{key}_better|{title}: better in|better": key for key, title in METRICS.items()},
        "broken|broken promises|share": "broken",
    }
    for (order, strategy), figure in FIGURES.items():
        baseline = f"{order} {BASELINE}"
        names = {BASELINE: baseline} | {f"p{scheme}": _name(order, strategy, scheme) for scheme in SCHEMES}
        rows = (Compared((label,), name, baseline) for label, name in names.items())
        yield Table(f"{figure}d", *trials.table(("percentile|scheme",), metrics, rows))
