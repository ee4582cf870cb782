"""Train weights of calibrated and write them: for ``softwalltime train``."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from softwalltime.core.errors import SoftwalltimeError, SourceError
from softwalltime.core.progress import ShowProgress
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.training.examples import Examples, examples_of

if TYPE_CHECKING:
    from softwalltime.measure.training.model import Attention


def require_torch() -> None:
    """:raises SoftwalltimeError: if PyTorch is missing; says what to install."""
    if find_spec("torch") is None:
        raise SoftwalltimeError(
            "torch is missing: run pip install 'pbs-softwalltime[train]'; "
            "without a GPU add --extra-index-url https://download.pytorch.org/whl/cpu"
        )


def drawn(name: str, workload: Workload, jobs: int, seed: int, show: ShowProgress) -> Examples:
    """Return the examples of a log (:func:`.examples_of`); :class:`SourceError` if there are none."""
    with show(f"examples of {name}", len(workload.jobs)) as progress:
        examples = examples_of(workload, jobs, seed, progress)
    if examples is None:
        raise SourceError(f"{name}: fewer than 20 jobs have a walltime and ran: nothing to train on")
    return examples


def fit(examples: Examples, epochs: int, seed: int, show: ShowProgress) -> "Attention":
    from softwalltime.measure.training.model import train

    with show("training", epochs * len(examples)) as progress:
        return train(examples, epochs, seed, progress)
