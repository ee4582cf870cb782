"""``softwalltime predictors``: list the predictors with their sources and options."""

import json
from textwrap import fill

import click

from softwalltime.predictors.registry import Entry, entries


@click.command()
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
def predictors(form: str) -> None:
    """List the predictors with rule, source and options.

    The list includes the predictors of other installed packages (entry points in the group softwalltime.predictors).
    A predictor that cannot be loaded is listed with the reason.

    \b
    Example:
      softwalltime predictors
    """
    if form == "json":
        click.echo(json.dumps([_document(entry) for entry in entries()]))
        return
    click.echo("\n\n".join(_text(entry) for entry in entries()))


def _options(entry: Entry) -> list[tuple[str, object, str]]:
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


def _text(entry: Entry) -> str:
    if entry.predictor is None:
        return f"{entry.name}  (cannot be used)\n  {entry.problem}\n  from {entry.origin}"
    origin = "" if entry.origin == "softwalltime" else f"\n  from {entry.origin}"
    lines = [f"{', '.join(entry.names)}\n  {entry.predictor.summary}{origin}"]
    lines.append(fill(entry.predictor.source, 100, initial_indent="  source: ", subsequent_indent="    "))
    if entry.predictor.censoring:
        lines.append("  treats the runtime of a job that was killed at its walltime as a lower bound")
    for name, default, description in _options(entry):
        text = f"{name}={_default(default)}: {description}"
        lines.append(fill(text, 100, initial_indent="  ", subsequent_indent="    "))
    return "\n".join(lines)


def _document(entry: Entry) -> dict[str, object]:
    return {
        "name": entry.name,
        "aliases": entry.names[1:],
        "origin": entry.origin,
        "usable": entry.predictor is not None,
        "problem": entry.problem,
        "summary": entry.predictor.summary if entry.predictor else "",
        "source": entry.predictor.source if entry.predictor else "",
        "censoring": entry.predictor is not None and entry.predictor.censoring,
        "options": {name: {"default": default, "description": text} for name, default, text in _options(entry)},
    }
