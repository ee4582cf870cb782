"""Training examples from recorded jobs: inputs of the learned attention at submission, and the actual runtime."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.replay.fast_replay import pass_events
from softwalltime.measure.replay.workload import Workload
from softwalltime.predict.drive import PredictorDriver
from softwalltime.predict.predictors.calibrated import Calibrated, CalibratedOptions
from softwalltime.predict.predictors.learned.attention import Gathered, gather_features
from softwalltime.predict.predictors.learned.distribution import bin_of
from softwalltime.predict.predictors.learned.network import untrained

_OF_PAIRS = ("pairs", "base", "logs", "shifts", "kinds")
_OF_JOBS = ("job", "priors", "found", "log", "submitted")
_SMALL = {
    "pairs": np.float16, "base": np.float32, "logs": np.float32, "shifts": np.float32, "kinds": np.int8,
    "priors": np.float16,
}  # fmt: skip
SKIPPED_FIRST_JOBS = 20
"""Number of first jobs of a log that are not used as examples."""


@dataclass(frozen=True, slots=True)
class Examples:
    """Examples of several logs, those of a log in order of submission.

    The pairs of all jobs are in one array, in 16 bits because there are millions.

    ``first`` is where each job's pairs begin, with the end as last entry.  ``found`` is the bin in which the job ended,
    ``log`` the logarithm of runtime / walltime, ``submitted`` in epoch seconds, ``source`` the number of the log.
    The others are those of :class:`.attention.Gathered`.
    """

    first: NDArray[np.int64]
    pairs: NDArray[np.float16]
    base: NDArray[np.float32]
    logs: NDArray[np.float32]
    shifts: NDArray[np.float32]
    kinds: NDArray[np.int8]
    job: NDArray[np.float32]
    priors: NDArray[np.float16]
    found: NDArray[np.int64]
    log: NDArray[np.float32]
    submitted: NDArray[np.int64]
    source: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.found)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join the examples of several logs; ``source`` becomes the index of the log in ``parts``."""
        first = np.concatenate([[0], *[np.diff(part.first) for part in parts]]).cumsum()
        joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in (*_OF_PAIRS, *_OF_JOBS)}
        source = np.concatenate([np.full(len(part), number) for number, part in enumerate(parts)])
        return cls(first=first, source=source, **joined)

    def split(self) -> tuple[Self, Self]:
        """Split the examples of one log in the middle of its time."""
        middle = int(self.submitted.searchsorted((self.submitted[0] + self.submitted[-1]) // 2))
        return self._part(0, middle), self._part(middle, len(self))

    def _part(self, begin: int, end: int) -> Self:
        jobs, pairs = slice(begin, end), slice(self.first[begin], self.first[end])
        parts = {name: getattr(self, name)[jobs] for name in (*_OF_JOBS, "source")}
        parts |= {name: getattr(self, name)[pairs] for name in _OF_PAIRS}
        return replace(self, first=self.first[begin : end + 1] - self.first[begin], **parts)


def examples_of(
    workload: Workload, most: int, seed: int, progress: Callable[[int], None] = lambda _: None
) -> Examples | None:
    """Return examples of at most ``most`` scored jobs of a log, as known at submission; ``None`` if there is no job."""
    scored = np.flatnonzero(workload.scored)
    scored = scored[scored >= SKIPPED_FIRST_JOBS]
    chosen = np.zeros(len(workload.jobs), np.bool_)
    chosen[np.random.default_rng(seed).permutation(scored)[:most]] = True
    model = Calibrated(CalibratedOptions(), untrained())
    gathered: list[Gathered] = []
    everybody: list[NDArray[np.float16]] = []
    logs: list[float] = []
    submitted: list[int] = []

    def ask(now: int, kind: int, number: int, job: CompletedJob) -> None:
        if kind == Kind.SUBMITTED and chosen[number]:
            known, _ = model.known(job.submission, now)
            gathered.append(_small(gather_features(known)))
            submitted.append(now)
            everybody.append(known.everybody.astype(np.float16))
            walltime = int(workload.walltime[number])
            logs.append(math.log(min(int(workload.runtime[number]), walltime)) - math.log(walltime))

    driver = PredictorDriver({"calibrated": model})
    for stride in workload.stream(everything=True, progress=progress):
        pass_events(stride, driver, ask)
    if not gathered:
        return None
    lengths = np.array([0, *(len(example.base) for example in gathered)])
    priors = np.concatenate([np.stack([example.priors for example in gathered]), np.stack(everybody)[:, None]], axis=1)
    of_pairs = {name: np.concatenate([getattr(example, name) for example in gathered]) for name in _OF_PAIRS}
    return Examples(
        first=lengths.cumsum(), job=np.stack([example.job for example in gathered]), priors=priors,
        found=np.array([bin_of(log) for log in logs]), log=np.array(logs, np.float32),
        submitted=np.array(submitted), source=np.zeros(len(gathered), np.int64), **of_pairs,
    )  # fmt: skip


def _small(values: Gathered) -> Gathered:
    """Return copies in fewer bits: the arrays that were given may be parts of larger ones."""
    small: Any = {name: getattr(values, name).astype(kind) for name, kind in _SMALL.items()}
    return values._replace(places=values.places[:0], **small)
