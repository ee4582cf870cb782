"""Rubio, Villapando, Matira & Aborot, "Correcting job walltime in a resource-constrained environment" (2021).

Prediction and correction of estimates, and correction alone from a default of 10 min (tables 2, 4 and 5).  Tables 4
and 5 are also made with the paper's kill rule, and table 5 is checked against table 4.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from softwalltime.core.formatting import DAY, HOUR, MINUTE
from softwalltime.measure.experiments.distributions import (
    DURATIONS,
    SIZES,
    Mask,
    classes,
    curve,
    grid,
    grouped,
    mean_in,
    weeks_of,
)  # fmt: skip
from softwalltime.measure.experiments.papers import paper_text
from softwalltime.measure.experiments.result_tables import Cell, PaperResults, Table
from softwalltime.measure.experiments.study import Study, available
from softwalltime.measure.experiments.trials import Compared, Trials, simulate_all
from softwalltime.measure.replay.accuracy_metrics import WARM_UP_SHARE
from softwalltime.measure.simulation.corrections import CORRECTIONS, Estimates
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Jobs

USER = "user-estimate"
CORRECTED = ("power", "simple")
PREDICTIONS = {"EASY++": "last2", "regression": "adaboost"}
"""By the paper's name (table 2)."""
DEFAULT = "constant:600"
"""The estimate of correction without prediction: 10 min for every job (section 4.4)."""
MAX_RUNTIME_S = 7 * DAY
"""Maximum runtime in seconds; longer jobs are omitted (section 5.1)."""

SYSTEMS = ("COARE", "Gaia", "MetaCentrum2", "CEA-Curie", "HPC2N Seth")
PUBLISHED_WAIT = paper_text("rubio2021").tables["table4"].columns
"""Mean wait in minutes on each of the systems."""
PUBLISHED_SLOWDOWN = paper_text("rubio2021").tables["table5"].columns
"""Mean bounded slowdown (10 s) on each of the systems."""
SHORTEST_S = 10
"""Bound of the slowdown in seconds (equation 2)."""


def repeat(study: Study, more: Sequence[str] = ()) -> PaperResults:
    """Repeat figures 1 to 3, 5 and 6, and tables 4 and 5; further predictors are run with both corrections."""
    short = np.flatnonzero(np.array(study.jobs.runtime) <= MAX_RUNTIME_S).tolist()
    kept = replace(study, jobs=study.jobs.chosen(short))
    usable, missing = available([*PREDICTIONS.values(), DEFAULT, *more])
    named = {name: spec for name, spec in (PREDICTIONS | dict(zip(more, more, strict=True))).items() if spec in usable}
    variants = policies(named)
    # The first 1% of the jobs is not measured (section 5.2).
    trials = simulate_all(kept, variants, warm_up=WARM_UP_SHARE)
    # The simulator corrects to the walltime and kills there: 7 days, where the paper's corrections end.
    records = kept.jobs.completed.replaced("walltime", [MAX_RUNTIME_S] * len(short))
    unlimited = replace(kept, jobs=replace(kept.jobs, completed=records))
    corrected = {name: policy for name, policy in variants.items() if name != USER}
    by_rule = Trials({USER: trials.found[USER]} | simulate_all(unlimited, corrected, warm_up=WARM_UP_SHARE).found)
    tables = (
        *_workload_tables(kept.jobs), _steps(), *_tables(trials), *_tables(by_rule, "_limit"), _bound()
    )  # fmt: skip
    return kept.results("rubio2021", tables, {"jobs above 7 days left out": len(study.jobs) - len(short)}, missing)


def policies(predictions: dict[str, str]) -> dict[str, SchedulerPolicy]:
    """Return the policies of table 2: user estimates, predictions with each correction, and each correction alone."""
    variants = {USER: SchedulerPolicy()}
    for name, spec in (*predictions.items(), ("", DEFAULT)):
        for correction in CORRECTED:
            policy = SchedulerPolicy(waiting=spec, running=spec, correction=correction)
            variants[f"{name} ({correction})" if name else correction] = policy
    return variants


def _workload_tables(jobs: Jobs) -> tuple[Table, ...]:
    walltime, runtime = np.array(jobs.walltime), np.array(jobs.runtime)
    sizes, lengths = classes(np.array(jobs.processors), SIZES), classes(runtime, DURATIONS)
    figures: dict[str, Callable[[Mask], Cell]] = {
        "jobs||count": lambda chosen: int(chosen.sum()),
        "walltime|mean walltime|duration": mean_in(walltime),
        "runtime|mean runtime|duration": mean_in(runtime),
    }
    return (
        Table("fig1", *grouped("week", weeks_of(jobs.submitted), figures)),
        Table("fig2_3", *grid("processors", sizes, lengths)),
        Table("fig6", *curve("runtime", DURATIONS, {"share|jobs|share": runtime})),
    )


def _steps() -> Table:
    """Figure 5: a job that outlives its estimate, and how each correction extends it."""
    columns = ["runtime||duration", "first|first estimate|duration"]
    for name in CORRECTED:
        columns += [f"{name}_steps|{name}: steps|count", f"{name}|{name}: last|duration"]
    rows = []
    for runtime, first in product((8 * HOUR, 24 * HOUR, 96 * HOUR), (600, 2 * HOUR, 6 * HOUR)):
        cells: list[Cell] = [runtime, first]
        for correction in map(CORRECTIONS.__getitem__, CORRECTED):
            estimates = Estimates([0], [first], [MAX_RUNTIME_S], lambda *_: None)
            planned, steps = first, 0
            while planned - correction.margin < runtime:
                planned = correction.planned_end(estimates, 0, planned, planned - correction.margin)
                steps += 1
            cells += [steps, planned]
        rows.append(tuple(cells))
    return Table("fig5", tuple(columns), rows)


def _tables(trials: Trials, suffix: str = "") -> Iterator[Table]:
    systems = [f"published_{system}|{system}|number" for system in SYSTEMS]
    for key, metric, kind, published in (
        ("table4", "wait_mean", "minutes", PUBLISHED_WAIT),
        ("table5", "bsld10_mean", "number", PUBLISHED_SLOWDOWN),
    ):
        metrics = {
            f"here||{kind}": metric, "change||change": metric, "broken|broken promises|share": "broken",
            "extensions|extensions per job|number": "extensions_mean",
        }  # fmt: skip
        columns, rows = trials.table(("policy",), metrics, (Compared((name,), name, USER) for name in trials.found))
        said = [published.get(name, [None] * len(SYSTEMS)) for name in trials.found]
        shown = [(*row, *values) for row, values in zip(rows, said, strict=True)]
        yield Table(key + suffix, (*columns, *systems), shown)


def _bound() -> Table:
    """The published slowdowns relative to what the published waits allow."""
    ratios = {
        policy: [
            slow / (1 + wait * MINUTE / SHORTEST_S)
            for slow, wait in zip(PUBLISHED_SLOWDOWN[policy], waits, strict=True)
        ]
        for policy, waits in PUBLISHED_WAIT.items()
    }
    above = {policy: sum(ratio > 1 for ratio in found) for policy, found in ratios.items()}
    rows: list[tuple[Cell, ...]] = [(policy, above[policy], *found) for policy, found in ratios.items()]
    rows.append(("all", sum(above.values()), *[None] * len(SYSTEMS)))
    columns = "policy", "above|above the bound|count", *(f"{name}|{name}, published / bound|number" for name in SYSTEMS)
    return Table("bound", columns, rows)
