"""Rubio, Villapando, Matira & Aborot, "Correcting job walltime in a resource-constrained environment" (2021).

Prediction and correction of estimates, and correction alone from a default of 10 min (tables 2, 4 and 5).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from softwalltime.core.formatting import DAY
from softwalltime.measure.experiments.result_tables import Cell, Column, Kind, PaperResults, Table
from softwalltime.measure.experiments.study import Study, available
from softwalltime.measure.experiments.trials import Trials, simulate_all
from softwalltime.measure.replay.accuracy_metrics import WARM_UP_SHARE
from softwalltime.measure.simulation.policies import SchedulerPolicy

CITATION = "Rubio, Villapando, Matira & Aborot, JSSPP 2021"
USER = "user-estimate"
CORRECTIONS = ("power", "simple")
PREDICTIONS = {"EASY++": "last2", "regression": "adaboost"}
"""By the paper's name (table 2)."""
DEFAULT = "constant:600"
"""The estimate of correction without prediction: 10 min for every job (section 4.4)."""
MAX_RUNTIME_S = 7 * DAY
"""Maximum runtime in seconds; longer jobs are omitted (section 5.1)."""

SYSTEMS = ("COARE", "Gaia", "MetaCentrum2", "CEA-Curie", "HPC2N Seth")
PUBLISHED_WAIT = {
    USER: (4.89, 260.96, 28.21, 313.94, 93.38),
    "EASY++ (power)": (5.01, 289.54, 28.09, 234.94, 111.13),
    "EASY++ (simple)": (4.88, 185.93, 21.50, 237.62, 108.66),
    "regression (power)": (4.95, 247.22, 25.68, 183.37, 53.09),
    "regression (simple)": (5.16, 243.91, 25.75, 171.31, 52.61),
    "power": (4.85, 1148.76, 28.05, 148.20, 70.00),
    "simple": (4.90, 1137.67, 26.93, 151.41, 59.63),
}
"""Table 4: mean wait in minutes on each of the systems."""
PUBLISHED_SLOWDOWN = {
    USER: (29447, 1182, 806, 958, 637),
    "EASY++ (power)": (160, 53, 813, 53, 655),
    "EASY++ (simple)": (160, 53, 822, 53, 655),
    "regression (power)": (259, 412, 739, 567, 2),
    "regression (simple)": (259, 412, 739, 567, 2),
    "power": (30, 5, 6, 19, 16),
    "simple": (30, 5, 6, 19, 16),
}
"""Table 5: mean bounded slowdown (10 s) on each of the systems."""

DIFFERENCES = (
    (
        "The paper runs a Slurm simulator with its backfilling, nodes and memory; here EASY with first come, first "
        "served on interchangeable processors."
    ),
    (
        "Jobs above 7 days are left out and the first 1% of the jobs is not measured, as in the paper. A correction "
        "goes to the walltime at most, not to 7 days, and jobs are killed at their walltime under every policy."
    ),
    (
        "Of CEA-Curie the paper uses 11,268 jobs of one month, of HPC2N 45,333 jobs of 12 months after removing a "
        "user's flurry; --months and --limit choose a part."
    ),
    (
        "In the paper jobs are killed at user estimates; under the other policies the corrected time is the limit. "
        "Here a job runs equally long under all policies."
    ),
)


def repeat(study: Study, more: Sequence[str] = ()) -> PaperResults:
    """Repeat tables 4 and 5; further predictors are run with both corrections."""
    short = [index for index, runtime in enumerate(study.jobs.runtime) if runtime <= MAX_RUNTIME_S]
    kept = replace(study, jobs=study.jobs.chosen(short))
    usable, missing = available([*PREDICTIONS.values(), DEFAULT, *more])
    named = {name: spec for name, spec in (PREDICTIONS | dict(zip(more, more, strict=True))).items() if spec in usable}
    # The first 1% of the jobs is not measured (section 5.2).
    trials = simulate_all(kept, policies(named), warm_up=WARM_UP_SHARE)
    tables = (
        _table(trials, "table4", "Table 4: mean wait (min)", "wait_mean", PUBLISHED_WAIT, "minutes"),
        _table(trials, "table5", "Table 5: mean bounded slowdown (10 s)", "bsld10_mean", PUBLISHED_SLOWDOWN, "number"),
    )
    settings: dict[str, object] = {"jobs above 7 days left out": len(study.jobs) - len(short)}
    return kept.results("rubio2021", CITATION, DIFFERENCES, tables, missing, settings)


def policies(predictions: dict[str, str]) -> dict[str, SchedulerPolicy]:
    """Return the policies of table 2: user estimates, predictions with each correction, and each correction alone."""
    variants = {USER: SchedulerPolicy()}
    for name, spec in (*predictions.items(), ("", DEFAULT)):
        for correction in CORRECTIONS:
            policy = SchedulerPolicy(waiting=spec, running=spec, correction=correction)
            variants[f"{name} ({correction})" if name else correction] = policy
    return variants


def _table(
    trials: Trials, key: str, title: str, metric: str, published: Mapping[str, tuple[float, ...]], kind: Kind
) -> Table:
    columns = (
        Column("policy", "policy"), Column("here", "here", kind), Column("change", "change", "change"),
        Column("broken", "broken promises", "share"), Column("extensions", "extensions per job", "number"),
        *(Column(f"published_{system}", system, "number") for system in SYSTEMS),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            trials.mean(name, metric),
            None if name == USER else trials.change(name, USER, metric),
            trials.mean(name, "broken"),
            trials.mean(name, "extensions_mean"),
            *published.get(name, (None,) * len(SYSTEMS)),
        )
        for name in trials.found
    ]
    said = f"the last {len(SYSTEMS)} columns, {title.partition(':')[0].lower()}."
    return Table(key, title, columns, tuple(rows), said)
