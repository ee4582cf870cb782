"""``softwalltime predictors``: list the predictors with their sources and options."""

from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING

from softwalltime.cli.command import Result, command
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import options

if TYPE_CHECKING:
    from softwalltime.predict.predictors.registry import Entry


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
    from softwalltime.predict.predictors.registry import entries

    def text(output: Output, documents: list[PredictorDocument]) -> None:
        width = min(_WIDEST, output.width) if output.terminal else _WIDEST
        output.line("\n\n".join(_described(document, width) for document in documents))

    return Result([_document(entry) for entry in entries()], text)


def _default(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return "+".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _described(one: PredictorDocument, width: int) -> str:
    if not one.usable:
        return f"{one.name}  (cannot be used)\n  {one.problem}\n  from {one.origin}"
    lines = [one.summary, *([] if one.origin == "softwalltime" else [f"from {one.origin}"]), f"source: {one.source}"]
    if one.censoring:
        lines.append("treats the runtime of a job that was killed at its walltime as a lower bound")
    lines += [f"{name}={_default(each['default'])}: {each['description']}" for name, each in one.options.items()]
    filled = (fill(line, width, initial_indent="  ", subsequent_indent="    ") for line in lines)
    return "\n".join((", ".join((one.name, *one.aliases)), *filled))


def _document(entry: "Entry") -> PredictorDocument:
    predictor, aliases = entry.predictor, tuple(entry.names[1:])
    if predictor is None:
        return PredictorDocument(entry.name, aliases, entry.origin, False, entry.problem, "", "", False, {})
    defaults = predictor.options_type()
    known: dict[str, dict[str, object]] = {
        name: {"default": getattr(defaults, name), "description": field.description or ""}
        for name, field in predictor.options_type.model_fields.items()
    }
    return PredictorDocument(
        entry.name, aliases, entry.origin, True, entry.problem, predictor.summary, predictor.source,
        predictor.censoring, known,
    )  # fmt: skip
