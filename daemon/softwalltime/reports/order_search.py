"""Search the queue orders by powers on a site's own jobs, within limits on the waits of each class.

1. On the earlier part of the log a coarse grid of orders is simulated, then the neighbours of the best one.
2. An order is within the limits if it qualifies by the rules of :mod:`.recommendation`.
3. The few best orders within the limits are simulated on the middle part; the best one within them there is chosen.
4. The chosen order is simulated on the last part.  It is recommended if it is within the limits there too.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

from softwalltime.core.formatting import DAY, duration, exact_percent
from softwalltime.measure.simulation.differences import Interval
from softwalltime.predict.policy.power_order import PowerOrder
from softwalltime.predict.policy.presets import HOUR
from softwalltime.predict.policy.site import WALLTIME
from softwalltime.reports.candidates import WITHOUT_LIVE, Baseline, Candidate, order_formula, preset_policy
from softwalltime.reports.cautions import simulation_cautions
from softwalltime.reports.recommendation import (
    Recommendation,
    Verdict,
    WaitLimits,
    change,
    effects,
    exceeded,
    population,
    shortens,
    switch_on,
    undecidable,
    wait_change,
    worst_tail,
)
from softwalltime.reports.simulation import SettingWaits, SimulationFigures, SimulationInput

FINALISTS = 3
"""Number of orders simulated on the middle part."""
_LENGTHS, _SIZES, _P99S = (0.5, 1.0, 1.5), (0.0, 0.5), (1.0, 1.5)
"""The coarse grid: exponents of length and size where that of wait is 2; oldest-first limits in 99th percentiles of the
site's waits."""


@dataclass(frozen=True, slots=True)
class OrderTrial:
    """An order on one part of the log.

    ``worst``: the class whose 99th percentile wait grows most, and its change.  ``exceeded``: growths above their
    limits, by limited quantity; ``excess``: their sum.
    """

    order: PowerOrder
    waits: SettingWaits
    worst: tuple[str, Interval]
    exceeded: dict[str, str]
    excess: float

    @property
    def gain(self) -> float:
        """Mean of the relative reductions of mean wait and mean bounded slowdown."""
        changes = self.waits.changes
        return -((changes["wait_mean"].mean or 0.0) + (changes["bsld10_mean"].mean or 0.0)) / 2


@dataclass(frozen=True, slots=True)
class OrderSearch:
    """Results of the search on the earlier part, and of validation on later parts.

    ``middle``: the finalists on the middle part.  ``last``: the chosen order on the last part, ``None`` for none.
    ``figures``: of the last part.
    """

    tried: tuple[OrderTrial, ...]
    middle: tuple[OrderTrial, ...]
    last: OrderTrial | None
    figures: SimulationFigures

    @property
    def front(self) -> tuple[OrderTrial, ...]:
        """The Pareto front of gain and worst class on the earlier part, ordered by worst class."""
        found: list[OrderTrial] = []
        for trial in sorted(self.tried, key=lambda trial: (trial.worst[1].mean or 0.0, -trial.gain)):
            if not found or trial.gain > found[-1].gain:
                found.append(trial)
        return tuple(found)


Simulate = Callable[[SimulationInput, Sequence[Candidate]], SimulationFigures]
"""Simulate candidates beside what the site runs on these jobs."""


def parts_of(whole: SimulationInput, share: float, newest: int) -> list[SimulationInput]:
    """Return the newest jobs of the earlier part, and of each half of the rest.

    :param share: of the jobs, the first ones: the earlier part.
    :param newest: the most jobs of each part.
    """
    count = len(whole.jobs)
    cut = int(count * share)
    bounds = (0, cut, (cut + count) // 2, count)
    return [
        replace(whole, jobs=whole.jobs.chosen(range(max(since, until - newest), until)), of=until - since)
        for since, until in pairwise(bounds)
    ]


def search_order(
    parts: Sequence[SimulationInput], baseline: Baseline, limits: WaitLimits, simulate: Simulate
) -> OrderSearch:
    earlier, middle, last = parts

    def tried(recorded: SimulationInput, orders: Sequence[tuple[PowerOrder, int | None]]) -> list[OrderTrial]:
        figures = simulate(recorded, [order_candidate(order, guard, baseline) for order, guard in orders])
        return _judged([order for order, _ in orders], figures, limits)

    usual = simulate(earlier, ()).baseline.wait_p99 or 0.0
    grid = [
        (PowerOrder(length=length, size=size, days=_days(p99s * usual / DAY)), guard)
        for length, size, p99s, guard in product(_LENGTHS, _SIZES, _P99S, (HOUR, None))
    ]
    trials = tried(earlier, grid)
    best = _best(trials)
    known = {_key(trial) for trial in trials}
    trials += tried(earlier, [key for key in _neighbours(*_key(best)) if key not in known])
    within = sorted((trial for trial in trials if not trial.exceeded), key=lambda trial: -trial.gain)[:FINALISTS]
    second = tried(middle, [_key(trial) for trial in within]) if within else []
    chosen = _best(second) if second else None
    if chosen is None or chosen.exceeded:
        return OrderSearch(tuple(trials), tuple(second), None, simulate(last, ()))
    figures = simulate(last, [chosen.waits.setting])
    (checked,) = _judged([chosen.order], figures, limits)
    return OrderSearch(tuple(trials), tuple(second), checked, figures)


def recommend_order(found: OrderSearch, limits: WaitLimits) -> Recommendation:
    """Return the verdict on the last part: the chosen order, none, or that the simulation cannot tell."""
    figures, last = found.figures, found.last
    unable = undecidable(figures)
    if unable is not None:
        return unable
    if last is not None and not last.exceeded:
        waits = last.waits
        words = f"In words: {rule_of_thumb(last.order, waits.setting)}."
        sentence = switch_on(figures, waits, f"the order {waits.setting.name}")
        reasons = (*population(figures), *effects(waits, limits.broken), words)
        return Recommendation(Verdict.ON, sentence, reasons, simulation_cautions(figures, waits), waits)
    best = last or _best(found.middle or found.tried)
    name, wait = best.waits.setting.name, wait_change(best.waits)
    over = "; ".join(f"{name} {by}" for name, by in best.exceeded.items())
    part = "last" if last is not None else "middle" if found.middle else "earlier"
    return Recommendation(
        Verdict.OFF,
        f"None: no order of the {len(found.tried)} stays within the limits on each part of the log.",
        (*population(figures), f"The best one on the {part} part, {name}: mean wait {wait}; {over}."),
        simulation_cautions(figures, None),
    )


def order_candidate(order: PowerOrder, guard: int | None, baseline: Baseline) -> Candidate:
    """Return an order as a candidate: the values of ``balanced`` with another formula.

    :param guard: seconds; ``None``: waiting jobs keep their walltimes.
    """
    policy = replace(preset_policy("balanced", baseline, guard), formula=order_formula(order, baseline))
    return Candidate(f"{order}{'' if guard else WITHOUT_LIVE}", policy, own=True)


def rule_of_thumb(order: PowerOrder, candidate: Candidate) -> str:
    """Return an order in words: "length counts 50% as much as wait; 4 d bound the wait; ...".

    A job that has waited for that long comes before all younger ones.
    """
    said = [f"length counts {order.length / order.wait:.0%} as much as wait"]
    if order.size:
        said.append(f"16 times the processors count as much as {16 ** (order.size / order.wait) - 1:+.0%} wait")
    if order.limit is not None:
        said.append(f"{duration(order.limit)} bound the wait")
    said.append(f"the length is the walltime to {1 - order.predicted:.0%} and the prediction to {order.predicted:.0%}")
    if order.longest is not None:
        said.append(f"jobs above {duration(order.longest)} count as equally long")
    kept = "their walltimes" if candidate.policy.waiting == WALLTIME else "0.7 of their walltimes, under the guard"
    return "; ".join([*said, f"waiting jobs are planned with {kept}"])


def _neighbours(order: PowerOrder, guard: int | None) -> Iterator[tuple[PowerOrder, int | None]]:
    """Yield the neighbours of an order: one value differs by half a step of the grid."""
    for values in (
        {"length": order.length - 0.25}, {"length": order.length + 0.25},
        {"size": max(0.0, order.size - 0.25)}, {"size": order.size + 0.25},
        {"predicted": 0.0}, {"predicted": 0.5}, {"age": 4.0 * HOUR},
        {"days": _days(0.75 * order.days)}, {"days": _days(1.5 * order.days)},
        {"cap": 4.0}, {"cap": 8.0}, {"cap": 16.0},
    ):  # fmt: skip
        yield replace(order, **values), guard


def _days(days: float) -> float:
    """Return a limit with two digits, at least an hour, as an administrator would set it."""
    return min(max(float(f"{days:.2g}"), round(HOUR / DAY, 2)), 100.0)


def _key(trial: OrderTrial) -> tuple[PowerOrder, int | None]:
    return trial.order, trial.waits.setting.policy.guard


def _best(trials: Sequence[OrderTrial]) -> OrderTrial:
    """Return the order with the greatest gain within the limits, else the one that exceeds them least."""
    return max(trials, key=lambda trial: (not trial.exceeded, -trial.excess, trial.gain))


def _judged(orders: Sequence[PowerOrder], figures: SimulationFigures, limits: WaitLimits) -> list[OrderTrial]:
    trials = []
    for order, waits in zip(orders, figures.settings, strict=True):
        over = exceeded(figures, waits, limits)
        said = {
            name.replace("99th percentile wait", "p99"): f"{change(growth)}, limit {exact_percent(limit)}"
            for name, (growth, limit) in over.items()
        }
        excess = sum((growth.mean or 0.0) - limit for growth, limit in over.values())
        if not shortens(waits):
            said["waits"] = "not shorter beyond the interval"
            excess += 1
        trials.append(OrderTrial(order, waits, worst_tail(figures, waits), said, excess))
    return trials
