"""Select predictors for the simulation by accuracy on the older half of the jobs."""

from collections.abc import Sequence
from dataclasses import dataclass

from softwalltime.formatting import exact_percent, percent
from softwalltime.reports.analysis.halves import Halves

LEAST_GAIN = 0.02


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The predictors selected among ``tried``, beside the users' walltimes evaluated like a predictor.

    ``cautious``: the most accurate that underestimates at most the target share of the jobs and is at least
    ``LEAST_GAIN`` more accurate than the walltimes.  ``bold``: the most accurate of all.  ``nearest``: of those that
    gain, the one that underestimates least.  All on the older half; ``None`` where there is none.
    """

    walltimes: Halves
    cautious: Halves | None
    bold: Halves | None
    nearest: Halves | None
    tried: int


def select_predictors(walltimes: Halves, candidates: Sequence[Halves], target: float) -> Accuracy:
    """Select by accuracy on the older half.

    :param target: greatest share of jobs that the cautious one may underestimate there.
    """
    gaining = [one for one in candidates if one.older.accuracy >= walltimes.older.accuracy + LEAST_GAIN]
    within = [one for one in gaining if one.older.underestimated <= target]
    return Accuracy(
        walltimes,
        max(within, key=_rank, default=None),
        max(gaining, key=_rank, default=None),
        min(gaining, key=lambda one: one.older.underestimated, default=None),
        len(candidates),
    )


def explain_selection(accuracy: Accuracy, target: float) -> tuple[str, ...]:
    """Sentences that describe the selection of the predictors and its population."""
    said = []
    users = accuracy.walltimes.older.accuracy
    if accuracy.cautious is not None:
        older = accuracy.cautious.older
        said.append(
            f"Of the {accuracy.tried:,} predictors and settings tried, {accuracy.cautious.spec} is the most accurate "
            f"that underestimates at most {exact_percent(target)} of the older half of the jobs: mean accuracy "
            f"{older.accuracy:.3f} (walltimes {users:.3f}), {percent(older.underestimated)} underestimated."
        )
        if accuracy.bold is not None and accuracy.bold is not accuracy.cautious:
            bold = accuracy.bold.older
            said.append(
                f"The most accurate of all on the older half is {accuracy.bold.spec}: mean accuracy "
                f"{bold.accuracy:.3f}, {percent(bold.underestimated)} underestimated."
            )
    else:
        said.append(
            f"On the older half of the jobs, none of the {accuracy.tried:,} predictors and settings tried is at least "
            f"{LEAST_GAIN} more accurate than the walltimes and underestimates at most {exact_percent(target)} of them."
        )
        if accuracy.nearest is not None:
            near = accuracy.nearest.older
            said.append(
                f"The nearest is {accuracy.nearest.spec}: it underestimates {percent(near.underestimated)}, with a "
                f"mean accuracy of {near.accuracy:.3f} (walltimes {users:.3f})."
            )
    return tuple(said)


def _rank(one: Halves) -> tuple[float, float]:
    return one.older.accuracy, -one.older.underestimated
