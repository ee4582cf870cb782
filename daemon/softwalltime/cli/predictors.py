"""``softwalltime predictors``: list the predictors with their sources and options."""

from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING

from softwalltime.cli.command import Result, command
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import options

if TYPE_CHECKING:
    from softwalltime.predictors.registry import Entry


@dataclass(frozen=True, slots=True)
class PredictorDocument:
    """A predictor."""

    name: str
    """Its name."""
    aliases: tuple[str, ...]
    """Other names."""
    origin: str
    """The package that has it."""
    usable: bool
    """Whether it can be loaded."""
    problem: str
    """Why it cannot be loaded."""
    summary: str
    """Its rule."""
    source: str
    """Where the rule was published."""
    censoring: bool
    """Whether it treats the runtime of a job killed at its walltime as a lower bound."""
    options: dict[str, dict[str, object]]
    """Its options by name: default and description."""


_WIDEST = 100
"""Characters of a line, unless the terminal is narrower."""


@options
class PredictorsOptions:
    output: Output


@command("a predictor")
def predictors(options: PredictorsOptions) -> Result[list[PredictorDocument]]:
    """List the predictors with rule, source and options.

    The list includes the predictors of other installed packages (entry points in the group softwalltime.predictors).
    A predictor that cannot be loaded is listed with the reason.

    \b
    Example:
      softwalltime predictors
    """
    from softwalltime.predictors.registry import entries

    return Result([_document(entry) for entry in entries()], _text)


def _text(output: Output, _documents: list[PredictorDocument]) -> None:
    from softwalltime.predictors.registry import entries

    width = min(_WIDEST, output.width) if output.terminal else _WIDEST
    output.line("\n\n".join(_described(entry, width) for entry in entries()))


def _options(entry: "Entry") -> list[tuple[str, object, str]]:
    if entry.predictor is None:
        return []
    defaults = entry.predictor.options_type()
    fields = entry.predictor.options_type.model_fields
    return [(name, getattr(defaults, name), field.description or "") for name, field in fields.items()]


def _default(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return "+".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _described(entry: "Entry", width: int) -> str:
    if entry.predictor is None:
        return f"{entry.name}  (cannot be used)\n  {entry.problem}\n  from {entry.origin}"
    origin = "" if entry.origin == "softwalltime" else f"\n  from {entry.origin}"
    summary = fill(entry.predictor.summary, width, initial_indent="  ", subsequent_indent="    ")
    lines = [f"{', '.join(entry.names)}\n{summary}{origin}"]
    lines.append(fill(entry.predictor.source, width, initial_indent="  source: ", subsequent_indent="    "))
    if entry.predictor.censoring:
        lower_bound = "treats the runtime of a job that was killed at its walltime as a lower bound"
        lines.append(fill(lower_bound, width, initial_indent="  ", subsequent_indent="    "))
    for name, default, description in _options(entry):
        text = f"{name}={_default(default)}: {description}"
        lines.append(fill(text, width, initial_indent="  ", subsequent_indent="    "))
    return "\n".join(lines)


def _document(entry: "Entry") -> PredictorDocument:
    predictor = entry.predictor
    return PredictorDocument(
        entry.name, tuple(entry.names[1:]), entry.origin, predictor is not None, entry.problem,
        predictor.summary if predictor else "", predictor.source if predictor else "",
        predictor is not None and predictor.censoring,
        {name: {"default": default, "description": text} for name, default, text in _options(entry)},
    )  # fmt: skip
