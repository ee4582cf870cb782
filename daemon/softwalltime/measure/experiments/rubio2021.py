"""Rubio, Villapando, Matira & Aborot, "Correcting job walltime in a resource-constrained environment" (2021).

Prediction and correction of estimates, and correction alone from a default of 10 min (tables 2, 4 and 5).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.formatting import DAY
from softwalltime.measure.experiments.result_tables import Cell, Column, Kind, PaperResults, Table, results
from softwalltime.measure.experiments.study import Study, available
from softwalltime.measure.experiments.trials import Trials, simulate_all
from softwalltime.measure.replay.accuracy_metrics import WARM_UP_SHARE
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Jobs

CITATION = "Rubio, Villapando, Matira & Aborot, JSSPP 2021"
USER = "user-estimate"
CORRECTIONS = ("power", "simple")
PREDICTIONS = {"EASY++": "last2", "regression": "adaboost"}
"""By the paper's name (table 2)."""
DEFAULT = "constant:600"
"""The estimate of correction without prediction: 10 min for every job (section 4.4)."""
MAX_RUNTIME_S = 7 * DAY
"""Maximum runtime in seconds; longer jobs are omitted (section 5.1)."""

PUBLISHED_WAIT = (
    "on COARE, Gaia, MetaCentrum2, CEA-Curie and HPC2N 4.89, 260.96, 28.21, 313.94 and 93.38 with user estimates, "
    "4.90, 1137.67, 26.93, 151.41 and 59.63 with simple correction, 4.88, 185.93, 21.50, 237.62 and 108.66 with EASY++ "
    "(simple) (table 4)."
)
PUBLISHED_SLOWDOWN = (
    "on the same systems 29447, 1182, 806, 958 and 637 with user estimates, 30, 5, 6, 19 and 16 with simple "
    "correction, 160, 53, 822, 53 and 655 with EASY++ (simple) (table 5)."
)

DIFFERENCES = """
- The paper runs a Slurm simulator with its backfilling, nodes and memory; here EASY with first come, first served on
  interchangeable processors.
- Jobs above 7 days are left out and the first 1% of the jobs is not measured, as in the paper. A correction goes to the
  walltime at most, not to 7 days, and jobs are killed at their walltime under every policy.
- Of CEA-Curie the paper uses 11,268 jobs of one month, of HPC2N 45,333 jobs of 12 months after removing a user's
  flurry; --months and --limit choose a part.
- In the paper jobs are killed at user estimates; under the other policies the corrected time is the limit. Here a job
  runs equally long under all policies.
"""


def repeat(study: Study, more: Sequence[str] = ()) -> PaperResults:
    """Repeat tables 4 and 5; further predictors are run with both corrections."""
    short = [index for index, runtime in enumerate(study.jobs.runtime) if runtime <= MAX_RUNTIME_S]
    kept = replace(study, jobs=study.jobs.chosen(short))
    usable, missing = available([*PREDICTIONS.values(), DEFAULT, *more])
    named = {name: spec for name, spec in (*PREDICTIONS.items(), *zip(more, more, strict=True)) if spec in usable}
    trials = simulate_all(kept, policies(named), count=after_warm_up)
    tables = (
        _table(trials, "table4", "Table 4: mean wait (min)", "wait_mean", PUBLISHED_WAIT, "minutes"),
        _table(trials, "table5", "Table 5: mean bounded slowdown (10 s)", "bsld10_mean", PUBLISHED_SLOWDOWN, "number"),
    )
    left_out = {"jobs above 7 days left out": len(study.jobs) - len(short)}
    return results(kept, "rubio2021", CITATION, DIFFERENCES, tables, missing, left_out)


def after_warm_up(jobs: Jobs) -> NDArray[np.bool_]:
    """All jobs but the first 1% (section 5.2)."""
    return np.arange(len(jobs)) >= int(len(jobs) * WARM_UP_SHARE)


def policies(predictions: dict[str, str]) -> dict[str, SchedulerPolicy]:
    """Return the policies of table 2: user estimates, predictions with each correction, and each correction alone."""
    plain = SchedulerPolicy()
    variants = {USER: plain}
    for name, spec in predictions.items():
        for correction in CORRECTIONS:
            variants[f"{name} ({correction})"] = replace(plain, waiting=spec, running=spec, correction=correction)
    for correction in CORRECTIONS:
        variants[correction] = replace(plain, waiting=DEFAULT, running=DEFAULT, correction=correction)
    return variants


def _table(trials: Trials, key: str, title: str, metric: str, published: str, kind: Kind) -> Table:
    columns = (
        Column("policy", "policy"), Column("here", "here", kind), Column("change", "change", "change"),
        Column("broken", "broken promises", "share"), Column("extensions", "extensions per job", "number"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            trials.mean(name, metric),
            None if name == USER else trials.change(name, USER, metric),
            trials.mean(name, "broken"),
            trials.mean(name, "extensions_mean"),
        )
        for name in trials.found
    ]
    return Table(key, title, columns, tuple(rows), published)
