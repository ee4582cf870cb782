"""Expand a spec with alternatives: ``percentile:p=75|85|95,keys=user|user+project`` gives six specs."""

from itertools import product

from softwalltime.core.errors import OptionError
from softwalltime.predict.predictors.registry import make


def expand(spec: str) -> list[str]:
    """Return every combination of the spec's alternatives, separated by ``|``; the last option varies fastest.

    >>> expand("v3|v4:last=5")
    ['v3:last=5', 'v4:last=5']

    :raises OptionError: if an alternative is empty.
    """
    name, colon, listed = spec.partition(":")
    names = _alternatives(name, spec)
    items = [item.strip() for item in listed.split(",") if item.strip()]
    options = []
    for item in items:
        option, equals, values = item.partition("=")
        options.append([f"{option}{equals}{value}" for value in _alternatives(values, spec)] if equals else [item])
    return [f"{name}{colon}{','.join(chosen)}" for name, *chosen in product(names, *options)]


def expand_all(specs: list[str]) -> list[str]:
    """Return the grid of all specs without duplicates, in the given order; each predictor is made once as a check.

    :raises OptionError: for the first predictor that cannot be made.
    """
    grid = list(dict.fromkeys(predictor for spec in specs for predictor in expand(spec)))
    for spec in grid:
        try:
            make(spec)
        except OptionError:
            raise
        # A predictor of another package may fail in any way.
        except Exception as error:
            raise OptionError(f"{spec!r} cannot be made: {type(error).__name__}: {error}") from error
    return grid


def _alternatives(text: str, spec: str) -> list[str]:
    alternatives = [alternative.strip() for alternative in text.split("|")]
    if len(alternatives) > 1 and not all(alternatives):
        raise OptionError(f"{spec!r}: an alternative in {text!r} is empty")
    return alternatives
