"""Train weights of calibrated, and compare them with those that the training started from."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from softwalltime.core.errors import SoftwalltimeError, SourceError
from softwalltime.core.progress import ShowProgress
from softwalltime.measure.replay.accuracy_metrics import WEEK_S, weekly_interval
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.training.examples import Examples, examples_of
from softwalltime.predict.predictors.learned.network import Weights

if TYPE_CHECKING:
    from softwalltime.measure.training.model import Attention

MIN_WEEKS = 8
"""Minimum number of weeks of a log to compare: each week is one sample of the interval."""


class LossChange(NamedTuple):
    """Mean loss of the jobs of a log before and after training on others, and the 95% interval of the change."""

    before: float
    after: float
    low: float
    high: float


def require_torch() -> None:
    """:raises SoftwalltimeError: if PyTorch is missing; says what to install."""
    if find_spec("torch") is None:
        raise SoftwalltimeError(
            "torch is missing: run pip install 'pbs-softwalltime[train]'; "
            "without a GPU add --extra-index-url https://download.pytorch.org/whl/cpu"
        )


def drawn(name: str, workload: Workload, jobs: int, seed: int, show: ShowProgress, min_weeks: int = 0) -> Examples:
    """Return the examples of a log (:func:`.examples_of`).

    :raises SourceError: if there are none, or jobs of fewer weeks than ``min_weeks``.
    """
    with show(f"examples of {name}", len(workload.jobs)) as progress:
        examples = examples_of(workload, jobs, seed, progress)
    if examples is None:
        raise SourceError(f"{name}: fewer than 20 jobs have a walltime and ran: nothing to train on")
    if (weeks := len(np.unique(examples.submitted // WEEK_S))) < min_weeks:
        raise SourceError(f"{name}: the jobs to train on are of {weeks} weeks: give logs of {min_weeks} weeks or more")
    return examples


def fit(
    logs: Sequence[Examples], epochs: int, seed: int, show: ShowProgress, start: Weights | None = None
) -> "Attention":
    """Train on all logs, from ``start`` or random weights."""
    from softwalltime.measure.training.model import train

    examples = Examples.joined(logs)
    with show("training", epochs * len(examples)) as progress:
        return train(examples, epochs, seed, progress, start)


def compare(logs: Sequence[Examples], epochs: int, seed: int, show: ShowProgress, start: Weights) -> list[LossChange]:
    """Train from ``start`` on each half of the logs, and measure the loss of the other half.

    The halves are those of each log's time.  Each job is measured once, by weights that were not trained on it: both
    halves are needed, because a short log has few weeks.
    """
    from softwalltime.measure.training.model import Attention, losses

    halves = list(zip(*(log.split() for log in logs), strict=True))
    trained = [fit(half, epochs, seed, show, start) for half in reversed(halves)]
    found = []
    for log, *parts in zip(logs, *halves, strict=True):
        before = losses(Attention(start), log)
        after = np.concatenate([losses(model, part) for model, part in zip(trained, parts, strict=True)])
        change = weekly_interval(after - before, log.submitted)
        found.append(LossChange(float(before.mean()), float(after.mean()), *change))
    return found
