"""Verify a plan's promise with the figures of :mod:`.before_after`: verdict keep, adjust, undo or unknown.

1. It cannot be told yet with fewer than ``LEAST_JOBS`` jobs or ``LEAST_DAYS`` days before or after the switch, nor
   where the load changed by more than ``MAX_LOAD_CHANGE``, unless a simulation or other users show what that does.
2. Jobs wait longer beyond the 95% interval: undo.
3. They wait less beyond it: keep; but adjust where a class of jobs waits longer and the plan did not say so.
4. Neither: adjust if the whole interval is above the promised change, otherwise it cannot be told yet.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from softwalltime.core.formatting import DAY, day, duration, percent, plural
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.workload import Flags
from softwalltime.measure.simulation.differences import Interval
from softwalltime.measure.simulation.schedule_metrics import runtime_class, size_class
from softwalltime.predict.policy.plan_file import Plan
from softwalltime.predict.policy.presets import UNDO
from softwalltime.reports.before_after import (
    LEAST_DAYS,
    LEAST_JOBS,
    BeforeAfter,
    Columns,
    Span,
    before_after,
)
from softwalltime.reports.recommendation import change
from softwalltime.reports.waits_by_class import MIN_CLASS_JOBS, NOTABLE_WAIT_S, surely_longer


@dataclass(frozen=True, slots=True)
class PeriodDocument:
    """The jobs that were submitted and ended in a period, and their load."""

    since: int
    """Begin, epoch seconds."""
    until: int
    """End, epoch seconds, excluded."""
    jobs: int
    """Number of jobs."""
    jobs_per_day: float
    """Jobs submitted per day."""
    processor_hours_per_day: float
    """Processor hours submitted per day: processors x runtime."""
    wait_mean: float
    """Recorded mean wait in seconds."""


@dataclass(frozen=True, slots=True)
class ClassDocument:
    """The recorded mean waits of a class of jobs, in seconds."""

    kind: str
    """Kind of the class: runtime, size or queue."""
    name: str
    """Name of the class."""
    jobs: int
    """Number of jobs after the switch."""
    before: float
    """Mean wait before the switch in seconds."""
    after: float
    """Mean wait after it in seconds."""
    effect: Interval
    """Effect of the policy on the mean wait in seconds, as for all jobs."""
    promised: float | None
    """Relative change that the plan promises; null: none."""
    longer: bool
    """Whether the mean wait is significantly longer."""
    announced: bool
    """Whether the plan predicts a longer wait for this class."""


@dataclass(frozen=True, slots=True)
class VerifyDocument:
    """Whether the promise of a plan is kept."""

    verdict: str
    """keep, adjust, undo, or unknown: not enough data yet."""
    sentence: str
    """The verdict in a sentence."""
    reasons: tuple[str, ...]
    """Reasons of the verdict, one sentence for each."""
    command: str
    """The next command; empty: none."""
    since: int
    """Time at which the policy was switched on, epoch seconds."""
    method: str
    """Comparison of recorded waits: periods, simulation, users, or simulation and users."""
    before: PeriodDocument | None
    """The period before the switch; null: no jobs."""
    after: PeriodDocument | None
    """The period after the switch; null: no jobs."""
    recorded: Interval
    """Change of the recorded mean wait in seconds."""
    effect: Interval
    """Effect of the policy on the mean wait in seconds."""
    relative: Interval
    """The effect, divided by the estimated mean wait without the policy."""
    promised: Interval
    """Relative change of the mean wait that the plan promises."""
    share: float
    """Share of the users for whom the policy holds."""
    classes: tuple[ClassDocument, ...]
    """Effect by class of jobs."""
    promised_starts: int
    """Recorded starts of jobs with a promised start since the switch."""
    broken: float | None
    """Share of these that were late; null: none is recorded."""
    promised_broken: float
    """Share of late promised starts in the plan's simulation."""


MAX_LOAD_CHANGE = 0.1
"""Maximum relative change of the load between two periods that are compared directly."""
REPORT_AGAIN = "softwalltime report store --write PLAN"


def verify(
    jobs: JobColumns, plan: Plan, since: int, share: float = 1.0, promises: tuple[int, int] = (0, 0)
) -> VerifyDocument:
    """Compare the recorded waits with what a plan promises.

    :param since: when the policy was switched on, epoch seconds.
    :param promises: number of recorded starts of jobs with a promised start since then, and of those that were late.
    """
    waits = before_after(jobs, plan.promised, since, share)
    before, after = (_period(waits.columns, span, waits.among(span)) for span in waits.spans)
    effect, promised = waits.effect(), plan.promised.change
    figures = VerifyDocument(
        verdict="unknown", sentence="", reasons=(), command="", since=since, method=waits.method,
        before=before, after=after, recorded=waits.recorded_change(), effect=effect, relative=waits.relative(effect),
        promised=Interval(promised.mean, promised.low, promised.high), share=share,
        classes=tuple(_classes(waits, plan)), promised_starts=promises[0],
        broken=promises[1] / promises[0] if promises[0] else None, promised_broken=plan.promised.broken_after,
    )  # fmt: skip
    verdict, sentence, command = _verdict(figures)
    reasons = (*_reasons(figures), *filter(None, [waits.doubt]))
    return replace(figures, verdict=verdict, sentence=sentence, command=command, reasons=reasons)


def _period(columns: Columns, span: Span, among: Flags) -> PeriodDocument | None:
    jobs = int(among.sum())
    if not jobs:
        return None
    days = max(DAY, span.until - span.since) / DAY
    # An unknown number of processors counts as 1.
    hours = float((np.maximum(columns.ncpus, 1) * columns.runtime)[among].sum() / 3600)
    return PeriodDocument(span.since, span.until, jobs, jobs / days, hours / days, float(columns.wait[among].mean()))


def _classes(waits: BeforeAfter, plan: Plan) -> Iterator[ClassDocument]:
    """Yield the classes of the plan that have enough jobs before and after."""
    columns = waits.columns
    labels = {
        "runtime": [runtime_class(seconds) for seconds in columns.runtime.tolist()],
        "size": [size_class(size, plan.promised.processors) for size in columns.ncpus.tolist()],
        "queue": columns.queues,
    }
    for promised in plan.promised.classes:
        which = np.array([label == promised.name for label in labels.get(promised.kind, ())], np.bool_)
        if not which.any():
            continue
        before, after = (columns.wait[waits.among(span) & waits.treated & which] for span in waits.spans)
        if min(len(before), len(after)) >= MIN_CLASS_JOBS:
            effect = waits.effect(which)
            longer = (effect.mean or 0.0) >= NOTABLE_WAIT_S and surely_longer(effect)
            yield ClassDocument(
                promised.kind, promised.name, len(after), float(before.mean()), float(after.mean()), effect,
                None if promised.change is None else promised.change.mean, longer, promised.longer,
            )  # fmt: skip


def _verdict(of: VerifyDocument) -> tuple[str, str, str]:
    """Return verdict, sentence and next command."""
    effect, relative, promised = of.effect, change(of.relative), change(of.promised)
    if few := _too_few(of.before, of.after):
        return _unknown(f"Cannot tell yet: {few}.")
    if effect.mean is None or effect.low is None or effect.high is None:
        return _unknown("Cannot tell yet: jobs were submitted on too few days.")
    shorter, longer, load = effect.below, effect.above, _load_change(of)
    if of.method == "periods" and ((shorter and load < -MAX_LOAD_CHANGE) or (longer and load > MAX_LOAD_CHANGE)):
        waits = "shorter" if shorter else "longer"
        return _unknown(f"Cannot tell: waits are {waits}, and the load changed by {_signed(load)}, which may be why.")
    size = f"{duration(abs(effect.mean))} {'less' if effect.mean < 0 else 'longer'}"
    if longer:
        return "undo", f"Undo: jobs wait {size} than without the policy, beyond chance ({relative}).", UNDO
    losers = [f"{group.kind} {group.name}" for group in of.classes if group.longer and not group.announced]
    if shorter and losers:
        said = f"jobs wait {size} than without the policy ({relative}), but those of {', '.join(losers)} wait longer"
        return "adjust", f"Adjust: {said}, which the plan did not say.", REPORT_AGAIN
    if shorter:
        widen = "softwalltime policy set PLAN --apply" if of.share < 1 else ""
        return "keep", f"Keep: jobs wait {size} than without the policy, beyond chance ({relative}).", widen
    not_proven = f"a change of the mean wait is not proven ({relative}; promised {promised})"
    if of.relative.low is not None and of.promised.high is not None and of.relative.low > of.promised.high:
        return "adjust", f"Adjust: {not_proven}, and the promised one is out of reach.", REPORT_AGAIN
    return _unknown(f"Cannot tell yet: {not_proven}.")


def _unknown(sentence: str) -> tuple[str, str, str]:
    return "unknown", f"{sentence} Wait another week and verify again.", "softwalltime verify PLAN"


def _too_few(before: PeriodDocument | None, after: PeriodDocument | None) -> str:
    """Return which period is too short, and the required length; empty: none."""
    for name, period in (("since the switch", after), ("before the switch", before)):
        jobs, days = (0, 0.0) if period is None else (period.jobs, (period.until - period.since) / DAY)
        if jobs < LEAST_JOBS or days < LEAST_DAYS:
            needed = f"{LEAST_JOBS} jobs in {LEAST_DAYS} days are needed before and after it"
            return f"there are {plural(jobs, 'job')} in {days:.1f} days {name}; {needed}"
    return ""


def _load_change(of: VerifyDocument) -> float:
    if of.before is None or of.after is None or not of.before.processor_hours_per_day:
        return 0.0
    return of.after.processor_hours_per_day / of.before.processor_hours_per_day - 1


def _reasons(of: VerifyDocument) -> Sequence[str]:
    before, after = of.before, of.after
    if before is None or after is None:
        return ()
    days = (of.since - before.since) / DAY
    waits = (
        f"The policy was switched on {day(of.since)}. Recorded mean wait: {duration(before.wait_mean)} in the "
        f"{days:.0f} days before ({plural(before.jobs, 'job')}), {duration(after.wait_mean)} in as many days since "
        f"({plural(after.jobs, 'job')}), a change of {duration(of.recorded.mean)}."
    )
    load = (
        f"Load: {before.processor_hours_per_day:,.0f} processor hours submitted per day before, "
        f"{after.processor_hours_per_day:,.0f} since ({_signed(_load_change(of))}); {before.jobs_per_day:,.0f} and "
        f"{after.jobs_per_day:,.0f} jobs per day."
    )
    said = [waits, load]
    if "simulation" in of.method:
        said.append(
            "The effect is the change of recorded waits less those of a simulation of the old setting on the same "
            "jobs, so a changed load does not count."
        )
    if "users" in of.method:
        said.append(
            f"The policy holds for {percent(of.share, 0)} of the users; the change of the others' waits is subtracted. "
            "They compete for the same machine, so a part of the difference may be what they lose."
        )
    said.append(f"Promised: {change(of.promised)}; measured: {change(of.relative)} (95% intervals).")
    for group in filter(lambda group: group.longer, of.classes):
        announced = "as the plan says" if group.announced else "which the plan did not say"
        said.append(
            f"Jobs of {group.kind} {group.name} wait longer beyond chance, {announced}: mean wait "
            f"{duration(group.before)} before, {duration(group.after)} since."
        )
    if of.broken is not None:
        said.append(
            f"Of {plural(of.promised_starts, 'promised start')} {percent(of.broken)} came later; the plan says "
            f"{percent(of.promised_broken)}."
        )
    return said


def _signed(share: float) -> str:
    return f"{100 * share:+.0f}%".replace("-", "\N{MINUS SIGN}")
