"""Predictors that a paper uses and the registry may lack."""

from collections.abc import Iterable

from softwalltime.errors import OptionError
from softwalltime.predictors.registry import make


def available(specs: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """The specifications that can be used, and the reason for each of the others."""
    usable: list[str] = []
    missing: dict[str, str] = {}
    for spec in specs:
        try:
            make(spec)
        except OptionError as error:
            text = str(error)
            missing[spec] = "no such predictor yet" if text.startswith("no predictor is called") else text
        else:
            usable.append(spec)
    return usable, missing
