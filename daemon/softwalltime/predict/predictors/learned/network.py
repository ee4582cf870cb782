"""The weights of the learned attention: a small network, and its file.

The network computes the weight of each past job and how to scale and smear its runtime.  Inputs are the features of the
pair and of the job; it has two hidden layers (ReLU) and eight outputs.  A second network computes the masses of the
prior's parts.
"""

import json
import os
import stat
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from softwalltime.core.errors import OptionError
from softwalltime.predict.predictors.learned.features import JOB, JOB_FEATURES, PAIR, PAIR_FEATURES, PRIORS, Floats32

FORMAT = "softwalltime attention"
VERSION = 1
"""Version of the file format; it changes with the features and the network."""
SHIPPED = "learned"
"""Name of the weights in the package."""
MAX_BYTES = 16 << 20
"""Maximum bytes of a file of weights; the package's has 32 kB."""
OUTPUTS = 8
"""Outputs for each pair: change of the log weight, three scalings, four smears."""
PRIOR_OUTPUTS = len(PRIORS)


LAYERS = (
    "of_pair", "of_job", "bias_1", "second", "bias_2", "third", "bias_3", "prior_1", "prior_bias_1", "prior_2",
    "prior_bias_2",
)  # fmt: skip
"""Names of the layers: ``of_pair`` and ``of_job`` give the first hidden layer together, ``prior_*`` are of the second
network."""


_HEAD = {"format": FORMAT, "version": VERSION}
_FEATURES = {"pair_features": list(PAIR_FEATURES), "job_features": list(JOB_FEATURES)}


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """The layers, in the order of :data:`LAYERS`.

    ``about``: source of the training: logs, seed, command.
    """

    layers: tuple[Floats32, ...]
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return sha256(b"".join(map(_bytes, self.layers))).hexdigest()[:16]


def untrained() -> Weights:
    """Return weights of 0, which leave the hand-set weights of past jobs unchanged."""
    return Weights(tuple(np.zeros(shape, np.float32) for shape in _shapes(1, 1, 1)))


def dump(weights: Weights) -> str:
    """Return the contents of a file of weights: JSON, layers in 32 bits as base64."""
    layers = {
        name: {"shape": list(array.shape), "values": b64encode(_bytes(array)).decode("ascii")}
        for name, array in zip(LAYERS, weights.layers, strict=True)
    }
    return json.dumps({**_HEAD, "about": dict(weights.about), **_FEATURES, "layers": layers}, indent=1) + "\n"


def load(name: str) -> Weights:
    """Read a file of weights; ``learned`` is the one in the package.

    Not cached: a reload of the daemon must read new weights with the same name.

    :raises OptionError: if the file cannot be read, is damaged or is of another version.
    """
    where = f"weights={name}"
    try:
        if name == SHIPPED:
            text = (files("softwalltime.predict.predictors.learned") / "attention.json").read_text("utf-8")
        else:
            text = _read(Path(name))
    except (OSError, ValueError) as error:
        raise OptionError(f"{where}: cannot be read: {error}. Name a file that softwalltime train wrote.") from error
    return parse(text, where)


def _read(path: Path) -> str:
    """Return the contents of a file of weights.

    :raises OSError: if it cannot be read, is no regular file, or is larger than any file of weights.
    """
    # O_NONBLOCK: opening a pipe would wait for its writer.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is not a regular file")
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(f"{path} is larger than {MAX_BYTES:,} bytes")
    return content.decode("utf-8")


@lru_cache(8)
def parse(text: str, where: str) -> Weights:
    """Return the weights in a file.

    :raises OptionError: if the contents are damaged or of another version.
    """
    advice = "Write the file again by softwalltime train."
    try:
        contents = json.loads(text)
        if contents["format"] != FORMAT:
            raise ValueError("the format is another one")
        if contents["version"] != VERSION or any(contents[key] != names for key, names in _FEATURES.items()):
            raise OptionError(
                f"{where}: version {contents['version']} of the weights; this softwalltime reads version {VERSION} "
                f"with its own features. {advice}"
            )
        layers = {name: _layer(contents["layers"][name]) for name in LAYERS}
        widths = (*layers["second"].shape, *layers["prior_bias_1"].shape)
        if tuple(layer.shape for layer in layers.values()) != _shapes(*widths):
            raise ValueError("a layer has another shape")
        return Weights(tuple(layers.values()), dict(contents["about"]))
    except (ValueError, KeyError, TypeError, Base64Error) as error:
        raise OptionError(f"{where}: not a file of weights, or damaged ({error}). {advice}") from error


def _layer(contents: Mapping[str, Any]) -> Floats32:
    values = np.frombuffer(b64decode(contents["values"], validate=True), "<f4").astype(np.float32)
    layer: Floats32 = values.reshape(contents["shape"])
    if not np.isfinite(layer).all():
        raise ValueError("a weight is not a number")
    return layer


def _bytes(layer: Floats32) -> bytes:
    return np.ascontiguousarray(layer, "<f4").tobytes()


def _shapes(width_1: int, width_2: int, width_prior: int) -> tuple[tuple[int, ...], ...]:
    return (
        (PAIR, width_1), (JOB, width_1), (width_1,), (width_1, width_2), (width_2,), (width_2, OUTPUTS), (OUTPUTS,),
        (JOB, width_prior), (width_prior,), (width_prior, PRIOR_OUTPUTS), (PRIOR_OUTPUTS,),
    )  # fmt: skip
