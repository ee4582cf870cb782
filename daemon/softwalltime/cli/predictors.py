"""``softwalltime predictors``: list the predictors with their sources and options."""

from collections.abc import Iterator
from textwrap import fill
from typing import TYPE_CHECKING

import click

from softwalltime.cli.output import Output

if TYPE_CHECKING:
    from softwalltime.predict.predictors.registry import Entry

_WIDEST = 100
"""Characters of a line, unless the terminal is narrower."""


@click.command()
def predictors() -> None:
    """List the predictors with rule, source and options.

    The list includes the predictors of other installed packages (entry points in the group softwalltime.predictors).
    A predictor that cannot be loaded is listed with the reason.

    \b
    Example:
      softwalltime predictors
    """
    from softwalltime.predict.predictors.registry import entries

    width = min(_WIDEST, Output.given().width)
    for number, entry in enumerate(entries()):
        name, *lines = _lines(entry)
        filled = (fill(line, width, initial_indent="  ", subsequent_indent="    ") for line in lines)
        click.echo("\n".join(("\n" * (number > 0) + name, *filled)))


def _lines(entry: "Entry") -> Iterator[str]:
    predictor = entry.predictor
    if predictor is None:
        yield from (f"{entry.name}  (cannot be used)", entry.problem, f"from {entry.origin}")
        return
    yield ", ".join(entry.names)
    yield predictor.summary
    if entry.origin != "softwalltime":
        yield f"from {entry.origin}"
    yield f"source: {predictor.source}"
    if predictor.censoring:
        yield "treats the runtime of a job that was killed at its walltime as a lower bound"
    defaults = predictor.options_type()
    for name, field in predictor.options_type.model_fields.items():
        yield f"{name}={_default(getattr(defaults, name))}: {field.description or ''}"


def _default(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return "+".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
