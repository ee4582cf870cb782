"""Train weights of calibrated and write them: for ``softwalltime train`` and ``tune --train``."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from softwalltime.errors import SoftwalltimeError
from softwalltime.progress import ShowProgress
from softwalltime.training.examples import Examples

if TYPE_CHECKING:
    from softwalltime.training.model import Attention

_MISSING = (
    "torch is missing: run pip install 'pbs-softwalltime[train]'; "
    "without a GPU add --extra-index-url https://download.pytorch.org/whl/cpu"
)


def require_torch() -> None:
    """Refuse to train without PyTorch.

    :raises SoftwalltimeError: says what to install.
    """
    if find_spec("torch") is None:
        raise SoftwalltimeError(_MISSING)


def fit(examples: Examples, epochs: int, seed: int, show: ShowProgress) -> "Attention":
    from softwalltime.training.model import train

    with show("training", epochs * len(examples)) as progress:
        return train(examples, epochs, seed, lambda count, _: progress(count))
