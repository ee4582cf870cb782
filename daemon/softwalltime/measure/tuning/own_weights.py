"""Evaluate predictors with weights trained on the site's own log beside all others."""

from collections.abc import Mapping, Sequence

from softwalltime.measure.replay.sweep.trials import Trial

_OPTION = "weights="
SHIPPED = ("", "learned")
"""How the weights in the package are named in a specification."""


def is_calibrated(spec: str) -> bool:
    return spec.partition(":")[0] == "calibrated"


def weights_of(spec: str) -> str:
    """Return the file of weights that a specification names; empty: none."""
    named = next((item.removeprefix(_OPTION) for item in _items(spec) if item.startswith(_OPTION)), "")
    return "" if named in SHIPPED else named


def with_weights(spec: str, file: str) -> str:
    """Return the specification with the weights in this file (no comma in its name); empty: unchanged.

    >>> with_weights("calibrated:target=0.02", "/etc/w.json")
    'calibrated:target=0.02,weights=/etc/w.json'
    """
    items = [item for item in _items(spec) if item and not item.startswith(_OPTION)]
    return f"{spec.partition(':')[0]}:{','.join([*items, _OPTION + file])}" if file else spec


def with_shipped_weights(specs: Sequence[str], target: float) -> list[str]:
    """Return the specifications of ``calibrated`` with the weights in the package; where there is none, with target."""
    return [spec for spec in specs if is_calibrated(spec) and not weights_of(spec)] or [f"calibrated:target={target:g}"]


def with_own_weights(specs: Sequence[str], choosing: str, file: str, target: float) -> list[str]:
    """Return the specifications to try, each once: these, and those of ``calibrated`` with both files of weights.

    :param specs: some may name ``file`` already: an earlier command with the same log has written it.
    :param target: of ``calibrated`` where it is not among these with the weights in the package.
    """
    alike = with_shipped_weights(specs, target)
    own = [with_weights(spec, weights) for spec in alike for weights in (choosing, file)]
    named = [with_weights(spec, choosing) for spec in specs if weights_of(spec) == file]
    return list(dict.fromkeys((*specs, *alike, *own, *named)))


def with_both(shown: Sequence[str], trials: Mapping[str, Trial], file: str, target: float) -> list[str]:
    """Return the specifications to compare: with the weights in ``file`` and with those in the package.

    :param shown: specifications to compare with their counterparts.
    :param target: of those that are compared where none is shown.
    """
    pairs = [(spec, with_weights(spec, file)) for spec in with_shipped_weights([*trials], target) if spec in trials]
    chosen = [pair for pair in pairs if set(pair) & set(shown)] or pairs[:1]
    return [spec for pair in chosen for spec in pair if spec in trials]


def joined(trials: Mapping[str, Trial], choosing: str, file: str) -> dict[str, Trial]:
    """Return the trials with those of both files of weights as one: the earlier part's figures are of the first file.

    The jobs of the earlier part that choose are among those on which the weights in ``file`` were trained.
    """
    joined_trials = {spec: trial for spec, trial in trials.items() if weights_of(spec) != choosing}
    for spec, trial in joined_trials.items():
        if weights_of(spec) == file:
            before = trials[with_weights(spec, choosing)]
            failure = trial.failure or before.failure
            parts = () if failure else (before.parts[0], *trial.parts[1:])
            joined_trials[spec] = Trial(spec, parts, trial.seconds, failure)
    return joined_trials


def _items(spec: str) -> list[str]:
    return [item.strip() for item in spec.partition(":")[2].split(",")]
