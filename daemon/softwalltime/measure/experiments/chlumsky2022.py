"""Chlumský & Klusáček, "Improving accuracy of walltime estimates in PBS Professional using soft walltimes" (2022).

Section 3 compares predictors v1, v2 and v3 by replay.  Section 4 compares a period with walltimes and another period
with soft walltimes; :func:`repeat` adds the simulations on one workload that it proposes.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from softwalltime.core.formatting import DAY, HOUR, MINUTE
from softwalltime.measure.experiments.distributions import (
    SIZES,
    Mask,
    by_predictor,
    classes,
    curve,
    grid,
    grouped,
    mean_in,
)  # fmt: skip
from softwalltime.measure.experiments.result_tables import Cell, PaperResults, Table
from softwalltime.measure.experiments.study import ScoredJobs, Study, available, estimates, mean_of, months_of
from softwalltime.measure.experiments.trials import Compared, Trials, simulate_all
from softwalltime.measure.replay.accuracy_metrics import accuracies
from softwalltime.measure.simulation.policies import WALLTIME, SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Floats, Integers
from softwalltime.predict.predictors.registry import BASELINE

PREDICTORS = {"v1": "last2", "v2": "last2+900", "v3": "usage", "v4": "usage-long"}
"""Predictors by the paper's name."""
CLASSES = {"short": 2 * HOUR, "medium": 24 * HOUR, "long": 1 << 60}
"""Upper ends of the classes of runtimes in seconds (section 3.2)."""
LIMITS = {
    "2 h": 2 * HOUR, "4 h": 4 * HOUR, "24 h": DAY, "2 d": 2 * DAY, "4 d": 4 * DAY, "7 d": 7 * DAY, "14 d": 14 * DAY,
    "28 d": 28 * DAY, "more": 1 << 60,
}  # fmt: skip
"""Upper ends of the classes of figures 1 and 9: the limits of the paper's queues."""
DEPLOYED = ("v1", "v2", "v3", "v3")
"""The predictor of each month from October 2021 on (section 3.2)."""
BATCH_GAP_S = 5 * MINUTE
"""Time between two jobs of a user above which a new batch begins; the paper says a few minutes."""
MIN_BATCH_JOBS, MAX_BATCHES = 10, 20
"""Fewest jobs of a batch of figure 3, and most batches that are shown."""
SYSTEMS = {"fcfs+easy": ("fcfs", "easy"), "fairshare+pbs": ("fairshare", "pbs")}
"""Queue order and backfilling: the simplest system, and the one closest to the authors' PBS."""
QUARTILES = (25, 50, 75)


def repeat(study: Study, more: Sequence[str] = ()) -> PaperResults:
    """Repeat figures 1 and 3 to 9 by replay, and section 4 on one workload by simulation."""
    usable, missing = available([*PREDICTORS, *more])
    predicted = estimates(study, usable)
    trials = simulate_all(study, policies(usable))
    tables = (
        _limits(predicted), _batches(predicted), _underestimation(predicted), *_errors(predicted), _users(predicted),
        *_by_walltime(predicted), *_epochs(predicted), *(_system(trials, system, usable) for system in SYSTEMS),
    )  # fmt: skip
    return study.results("chlumsky2022", tables, unavailable=missing)


def policies(specs: Sequence[str]) -> dict[str, SchedulerPolicy]:
    variants = {}
    for system, (order, backfill) in SYSTEMS.items():
        for spec in (WALLTIME, *specs):
            running = PREDICTORS.get(spec, spec)
            variants[f"{system} {spec}"] = SchedulerPolicy(order, backfill, waiting=spec, running=running)
    return variants


def _limits(predicted: ScoredJobs) -> Table:
    series = {"walltime||share": predicted.walltime, "runtime||share": predicted.runtime}
    return Table("fig1", *curve("limit|up to", LIMITS, series))


def _batches(predicted: ScoredJobs) -> Table:
    """Figure 3: the batches of the user and week in which most batches vary."""
    users, found = np.array(predicted.users), defaultdict[tuple[str, int], list[tuple[int, Integers]]](list)
    for user in np.unique(users).tolist():
        index = np.flatnonzero(users == user)
        ends = np.flatnonzero(np.diff(predicted.submitted[index]) > BATCH_GAP_S) + 1
        for batch in np.split(index, ends):
            if len(batch) >= MIN_BATCH_JOBS:
                first = int(predicted.submitted[batch[0]])
                found[user, first // (7 * DAY)].append((first, predicted.runtime[batch]))

    def varied(week: list[tuple[int, Integers]]) -> int:
        return sum(bool(runtimes.max() >= 10 * runtimes.min()) for _, runtimes in week)

    chosen = max(found.values(), key=varied, default=[])
    rows = [
        (first % (7 * DAY) / HOUR, len(runtimes), *(float(np.quantile(runtimes, share)) for share in (0, 0.5, 1)))
        for first, runtimes in chosen[:MAX_BATCHES]
    ]
    columns = (
        "submitted|hour of the week|number", "jobs||count", "min|shortest|duration", "median||duration",
        "max|longest|duration",
    )  # fmt: skip
    share = sum(map(varied, found.values())) / max(sum(map(len, found.values())), 1)
    return Table("fig3", columns, rows, {"varied": share})


def _underestimation(predicted: ScoredJobs) -> Table:
    errors = {spec: predicted.errors(spec) for spec in predicted.estimate}
    figures: dict[str, Callable[[str], Cell]] = {
        "underestimated||share": lambda spec: mean_of(errors[spec] < 0),
        "under_p50|median underestimation|duration": lambda spec: _median(-errors[spec][errors[spec] < 0]),
        "over_p50|median overestimation|duration": lambda spec: _median(errors[spec][errors[spec] > 0]),
        "mae|mean abs. error|duration": lambda spec: mean_of(np.abs(errors[spec])),
        "accuracy||accuracy": lambda spec: mean_of(accuracies(predicted.estimate[spec], predicted.runtime)),
    }
    return Table("fig4", *by_predictor(predicted, figures))


def _errors(predicted: ScoredJobs) -> tuple[Table, Table]:
    """Figure 5 on all jobs, and with each of the paper's predictors in one period, as it was deployed."""
    lengths = classes(predicted.runtime, CLASSES)
    columns = (*(f"{name}_p{share}|{name} {share}%|duration" for name in CLASSES for share in QUARTILES),)

    def quartiles(spec: str, chosen: Mask | bool = True) -> tuple[Cell, ...]:
        errors = [predicted.errors(spec)[length & chosen] for length in lengths.values()]
        return tuple(
            float(np.percentile(group, share)) if len(group) else None for group in errors for share in QUARTILES
        )

    months = months_of(predicted.submitted.tolist())
    names, by_period = np.unique(months).tolist()[-len(DEPLOYED) :], list[tuple[Cell, ...]]()
    for spec in dict.fromkeys(DEPLOYED):
        own = [name for name, deployed in zip(names, DEPLOYED, strict=False) if deployed == spec]
        chosen = np.isin(months, own)
        jobs = [int((length & chosen).sum()) for length in lengths.values()]
        shown = (BASELINE, *[spec] * (spec in predicted.estimate))
        by_period += [(" and ".join(own), name, *quartiles(name, chosen), *jobs) for name in shown]
    counts = (f"{name}_jobs|{name} jobs|count" for name in CLASSES)
    return (
        Table("fig5", ("predictor", *columns), [(spec, *quartiles(spec)) for spec in predicted.estimate]),
        Table("fig5_periods", ("period", "predictor", *columns, *counts), by_period),
    )


def _users(predicted: ScoredJobs) -> Table:
    names, user = np.unique(predicted.users, return_inverse=True)

    def gain(spec: str) -> Floats:
        """How much smaller the mean absolute error of each user is, in seconds."""
        change = np.abs(predicted.errors(BASELINE)) - np.abs(predicted.errors(spec))
        return np.bincount(user, change) / np.bincount(user)

    figures: dict[str, Callable[[str], Cell]] = {
        "users||count": lambda _: len(names),
        "better|users with less error|share": lambda spec: mean_of(gain(spec) > 0),
        "better_24h|by more than 24 h|share": lambda spec: mean_of(gain(spec) > DAY),
        "worst|largest deterioration|duration": lambda spec: max(float(-gain(spec).min(initial=0)), 0.0),
    }
    return Table("fig6", *by_predictor(predicted, figures))


def _by_walltime(predicted: ScoredJobs) -> tuple[Table, Table]:
    """Figure 7: jobs grouped by runtime, by walltime, which determines the queue, and by recorded queue."""
    lengths = classes(predicted.runtime, CLASSES)
    groups = {f"runtime_{name}|{name} by runtime|share": group for name, group in lengths.items()}
    limits = classes(predicted.walltime, CLASSES)
    groups |= {f"walltime_{name}|{name} by walltime|share": group for name, group in limits.items()}
    rows: list[tuple[Cell, ...]] = [("all jobs", *map(mean_of, groups.values()))]
    under = {spec: predicted.errors(spec) < 0 for spec in predicted.estimate}
    rows += [(spec, *(mean_of(short[group]) for group in groups.values())) for spec, short in under.items()]
    figures: dict[str, Callable[[Mask], Cell]] = {
        "jobs||share": mean_of,
        "walltime|median walltime|duration": lambda chosen: _median(predicted.walltime[chosen]),
    }
    figures |= {f"{name}||share": mean_in(length) for name, length in lengths.items()}
    figures |= {f"{spec}|{spec} under|share": mean_in(short) for spec, short in under.items()}
    return (
        Table("fig7", ("predictor", *groups), rows),
        Table("fig7_queues", *grouped("queue", np.array(predicted.queues), figures)),
    )


def _epochs(predicted: ScoredJobs) -> tuple[Table, ...]:
    """Figures 8 and 9; the halves of a log stand for the periods without and with soft walltimes."""
    late = np.arange(len(predicted.runtime)) >= len(predicted.runtime) // 2
    halves, sizes = {"first half": ~late, "second half": late}, classes(predicted.processors, SIZES)
    runtime, walltime = classes(predicted.runtime, LIMITS), classes(predicted.walltime, LIMITS)
    used = predicted.processors.astype(np.float64) * predicted.runtime
    return (
        Table("fig8", *grid("period", halves, classes(predicted.runtime, CLASSES))),
        Table("fig9_jobs_by_runtime", *grid("processors|CPUs", sizes, runtime)),
        Table("fig9_jobs_by_walltime", *grid("processors|CPUs", sizes, walltime)),
        Table("fig9_cpu_time_by_runtime", *grid("processors|CPUs", sizes, runtime, used)),
    )


def _system(trials: Trials, system: str, specs: Sequence[str]) -> Table:
    metrics = {
        "wait_mean|wait|duration": "wait_mean",
        "bsld600_mean|bounded slowdown (600 s)|number": "bsld600_mean",
        "wait_change|wait, change|change": "wait_mean",
        "bsld600_change|slowdown (600 s), change|change": "bsld600_mean",
        "bsld10_change|slowdown (10 s), change|change": "bsld10_mean",
        "broken|broken promises|share": "broken",
        "extensions_mean|extensions per job|number": "extensions_mean",
    }
    rows = (Compared((spec,), f"{system} {spec}", f"{system} {WALLTIME}") for spec in (WALLTIME, *specs))
    return Table(f"section4_{system.replace('+', '_')}", *trials.table(("estimate",), metrics, rows))


def _median(values: Integers) -> float | None:
    return float(np.median(values)) if len(values) else None
