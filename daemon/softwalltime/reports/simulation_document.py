"""Simulated schedules as a document: the output of ``softwalltime simulate`` and ``policy compare``."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from softwalltime.reports.recommendation import Recommendation
from softwalltime.simulation.differences import RELATIVE, Interval, differences, means, relative_changes
from softwalltime.simulation.metrics import Metrics
from softwalltime.simulation.policies import SchedulerPolicy
from softwalltime.simulation.runs import Results, SimulationPlan
from softwalltime.simulation.shaking import FEW_USERS, few_users

Classes = dict[str, dict[str, dict[str, Metrics]]]
"""Metrics by kind of class, policy and class."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The verdict and its reasons."""

    verdict: str
    """on: switch the policy on; off: do not; unknown: the simulation cannot tell."""
    name: str | None
    """The recommended policy; null: none."""
    sentence: str
    """The verdict in a sentence."""
    reasons: tuple[str, ...]
    """Reasons of the verdict, one sentence for each."""
    cautions: tuple[str, ...]
    """What to consider before following it, a sentence each."""

    @classmethod
    def of(cls, found: Recommendation) -> "Advice":
        """Return the advice of a recommendation."""
        name = None if found.waits is None else found.waits.setting.name
        return cls(found.verdict.name.lower(), name, found.sentence, found.reasons, found.cautions)


@dataclass(frozen=True, slots=True)
class SimulationDocument:
    """Schedules of recorded jobs under several policies, the first one as baseline."""

    COLUMNS: ClassVar = (
        "policy", "kind", "class", *(field.name for field in fields(Metrics)),
        *(f"change_{name}{end}" for name in RELATIVE for end in ("", "_low", "_high")),
    )  # fmt: skip

    source: str
    """The sources, as given."""
    processors: int
    """Size of the machine."""
    jobs: int
    """Number of simulated jobs."""
    scored: int
    """Number of them with a walltime: the metrics are of these."""
    scored_processor_time: float
    """Share of the processor time that the scored jobs used, by recorded runtimes."""
    refused: int
    """Number of jobs that are larger than the machine."""
    left_out: Mapping[str, int]
    """Number of jobs that cannot be simulated, by reason."""
    shake: str | None
    """How workloads were shaken; null: the recorded workload alone."""
    seeds: tuple[int, ...]
    """The shaken workloads."""
    policies: dict[str, Metrics]
    """Metrics by policy: means over the workloads."""
    differences: dict[str, dict[str, Interval]]
    """Metric minus the first policy's, by policy and metric, in the metric's unit."""
    relative_changes: dict[str, dict[str, Interval]]
    """The difference divided by the first policy's metric."""
    settings: dict[str, SchedulerPolicy]
    """The policies themselves."""
    classes: Classes | None = None
    """With --by: metrics by kind of class, policy and class."""
    selection: str | None = None
    """Which jobs were selected; null: all."""
    caution: str | None = None
    """Why no verdict follows from the intervals; null: nothing speaks against it."""
    advice: Advice | None = None
    """With policy compare: what to do; null: nothing was to be recommended."""

    @classmethod
    def of(cls, plan: SimulationPlan, results: Results, by: tuple[str, ...], **more: Any) -> "SimulationDocument":
        """Return the document about the results of a plan.

        :param by: the kinds of classes in it.
        :param more: the fields that do not follow from plan and results.
        """
        first, *others = plan.policies
        shake = plan.experiment.shake
        metrics = plan.metrics(results)
        return cls(
            processors=plan.experiment.processors,
            jobs=len(plan.jobs),
            scored=int(plan.jobs.scored.sum()),
            scored_processor_time=plan.jobs.scored_share(),
            left_out=plan.jobs.left_out,
            shake=shake or None,
            seeds=plan.seeds if shake else (),
            policies={name: means(by_workload) for name, by_workload in metrics.items()},
            differences={name: differences(metrics[name], metrics[first]) for name in others},
            relative_changes={name: relative_changes(metrics[name], metrics[first]) for name in others},
            settings=plan.policies,
            classes={kind: _classes(plan, results, kind) for kind in by} or None,
            caution=FEW_USERS if shake and few_users(plan.jobs) else None,
            **more,
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each policy, and for each policy and class."""
        for name, figures in self.policies.items():
            row: dict[str, Any] = {"policy": name, **asdict(figures)}
            for metric, change in self.relative_changes.get(name, {}).items():
                row |= change.columns(f"change_{metric}")
            yield row
        for kind, policies in (self.classes or {}).items():
            for name, by_class in policies.items():
                for label, figures in by_class.items():
                    yield {"policy": name, "kind": kind, "class": label, **asdict(figures)}


def _classes(plan: SimulationPlan, results: Results, kind: str) -> dict[str, dict[str, Metrics]]:
    """Return the means over the workloads of each class that any of them has, by policy."""
    found: dict[str, dict[str, Metrics]] = {}
    for name, policy in plan.policies.items():
        classes = [results[policy, seed].classes[kind] for seed in plan.seeds]
        labels = dict.fromkeys(label for by_label in classes for label in by_label)
        found[name] = {label: means([one[label] for one in classes if label in one]) for label in labels}
    return found
