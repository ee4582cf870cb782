"""Shapes of what commands print as JSON and CSV: JSON Schema and Markdown, from the classes that are printed."""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True)
class Shape:
    """Where the shape of a command's output is defined.

    ``document``: module and class; a list of them where ``many``.  ``columns``: module and constant.  ``rows``: what a
    row of CSV is.
    """

    document: str
    columns: str
    rows: str
    many: bool = False

    def type(self) -> Any:
        """Return the type of the JSON document."""
        found: Any = _named(self.document)
        return tuple[found, ...] if self.many else found

    def header(self) -> Sequence[str]:
        """Return the columns of CSV; none where they are those of a file."""
        return _named(self.columns) if self.columns else ()


SHAPES: Mapping[str, Shape] = {
    "replay": Shape(
        "cli.measure.replay:ReplayDocument", "cli.measure.replay:COLUMNS",
        "a predictor; with --running another one for each predictor, with the event start",
    ),
    "sweep": Shape(
        "cli.measure.swept:SweepDocument", "", "a source and predictor, with the columns of the results' file"
    ),
    "tune": Shape("cli.measure.tune:TuneDocument", "cli.measure.tune:COLUMNS", "a predictor"),
    "tune --order": Shape(
        "cli.measure.tune_order:OrderDocument", "cli.measure.tune_order:COLUMNS", "an order and part of the log"
    ),
    "simulate": Shape(
        "cli.measure.simulated:SimulationDocument", "cli.measure.simulated:COLUMNS",
        "a policy; with --by also a policy and class",
    ),
    "policy compare": Shape("cli.measure.simulated:SimulationDocument", "cli.measure.simulated:COLUMNS", "a policy"),
    "experiment": Shape(
        "cli.measure.experiment:ExperimentDocument", "cli.measure.experiment:COLUMNS",
        "a value of a table, with its interval",
    ),
    "train": Shape("cli.measure.train:TrainDocument", "cli.measure.train:COLUMNS", "a log and part of the loss"),
    "report": Shape(
        "cli.report_summary:ReportDocument", "cli.report_summary:COLUMNS", "today, then each simulated setting"
    ),
    "advise": Shape(
        "cli.measure.advise:AdviseDocument", "cli.measure.advise:ROW_COLUMNS", "a user and requested walltime"
    ),
    "site": Shape("cli.site:SiteDocument", "cli.site:COLUMNS", "the site"),
    "starts": Shape("cli.measure.start_rows:StartsDocument", "cli.measure.start_rows:COLUMNS", "a job"),
    "replay-starts": Shape(
        "cli.measure.replay_starts:ReplayStartsDocument", "cli.measure.replay_starts:COLUMNS",
        "a time of the forecast and method",
    ),
    "predict": Shape("cli.explain:Explanation", "cli.explain:COLUMNS", "the job"),
    "explain": Shape("cli.explain:ExplainDocument", "cli.explain:COLUMNS", "the job, then each other walltime"),
    "status": Shape("service.status:Status", "cli.daemon:COLUMNS", "a field of the JSON document, by its path"),
    "top --once": Shape("cli.top:TopDocument", "cli.top_sample:RECENT_NAMES", "a decision, the newest first"),
    "doctor": Shape("deployment.finding:Finding", "cli.doctor:COLUMNS", "a finding", many=True),
    "config check": Shape("cli.config:ConfigCheckDocument", "cli.config:PROBLEM_COLUMNS", "an error or note"),
    "config show": Shape("deployment.effective:EffectiveValue", "cli.config:VALUE_COLUMNS", "a setting", many=True),
    "ingest": Shape("cli.store:IngestDocument", "cli.store:INGEST_COLUMNS", "the run"),
    "ingest --malformed": Shape("cli.store:MalformedDocument", "cli.store:MALFORMED_COLUMNS", "a line, newest first"),
    "db upgrade": Shape("cli.db:RevisionDocument", "cli.db:REVISION_COLUMNS", "the store"),
    "db downgrade": Shape("cli.db:RevisionDocument", "cli.db:REVISION_COLUMNS", "the store"),
    "db current": Shape("cli.db:RevisionDocument", "cli.db:REVISION_COLUMNS", "the store"),
    "db check": Shape("cli.db:CheckDocument", "cli.db:CHECK_COLUMNS", "a difference"),
    "db prune": Shape("cli.db:PruneDocument", "cli.db:PRUNE_COLUMNS", "a table"),
    "install": Shape("cli.changes:ChangesDocument", "cli.changes:COLUMNS", "a change or note"),
    "uninstall": Shape("cli.changes:ChangesDocument", "cli.changes:COLUMNS", "a change or note"),
    "policy set": Shape("cli.changes:ChangesDocument", "cli.changes:COLUMNS", "a change or note"),
    "verify": Shape("reports.verify_document:VerifyDocument", "cli.verify:COLUMNS", "all jobs, then each class"),
    "predictors": Shape("cli.predictors:PredictorDocument", "cli.predictors:COLUMNS", "a predictor", many=True),
}  # fmt: skip
"""Shapes by command."""

_NAMES = {
    int: "integer",
    float: "number",
    str: "text",
    bool: "true or false",
    NoneType: "null",
    Any: "any",
    object: "any",
}


def schema(shape: Shape) -> dict[str, Any]:
    """Return the JSON Schema of a document, with the descriptions of its fields."""
    described = TypeAdapter(shape.type()).json_schema(mode="serialization")
    for definition in (described, *described.get("$defs", {}).values()):
        definition.pop("description", None)
    for each in _classes(shape.type()):
        names = {each.__name__, f"{each.__module__}__{each.__name__}".replace(".", "__")}
        for name, definition in (*described.get("$defs", {}).items(), (described.get("title", ""), described)):
            if name in names:
                for field, text in field_docs(each).items():
                    definition["properties"][field]["description"] = text
    return described


def markdown() -> str:
    """Return the document that describes all shapes."""
    parts = [_INTRODUCTION]
    shown: dict[str, type] = {}
    for command, shape in SHAPES.items():
        kind = shape.type()
        first: type = get_args(kind)[0] if shape.many else kind
        parts.append(f"## {command}\n\nJSON: {'a list of objects' if shape.many else 'an object'}.  {_summary(first)}")
        parts.append(_table(first))
        columns = f": {', '.join(f'`{name}`' for name in shape.header())}" if shape.header() else ""
        parts.append(f"CSV: a row for {shape.rows}{columns}.")
        shown |= {each.__name__: each for each in _classes(kind) if each is not first}
    parts.append("## Objects within the documents")
    for name in sorted(shown):
        parts.append(f"### {name}\n\n{_summary(shown[name])}")
        parts.append(_table(shown[name]))
    return "\n\n".join(parts) + "\n"


_INTRODUCTION = """\
<!-- Written by: softwalltime schema --markdown -->
# Output for other programs

Every command that prints figures has `--format json` (one line of JSON) and `--format csv`.
`softwalltime schema COMMAND` prints the JSON Schema of a command's document.  New versions add fields; no field changes
its meaning.  Durations are seconds, points in time are epoch seconds, shares are between 0 and 1.  In CSV a missing
value is empty.  The tables that commands print without `--format` are for people: in a terminal they fit its width, in
a pipe they are Markdown."""


@cache
def field_docs(kind: type) -> dict[str, str]:
    """Return the description of each field of a dataclass: the text below it in the source."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        if not is_dataclass(each):
            continue
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        body = node.body if isinstance(node, ast.ClassDef) else []
        for field, text in pairwise(body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(described))):
                    found[name] = " ".join(described.split())
    return found


def _table(kind: type) -> str:
    hints, docs = get_type_hints(kind), field_docs(kind)
    lines = ["| field | type | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{field.name}` | {_type(hints[field.name])} | {docs.get(field.name, '')} |" for field in fields(kind)]
    return "\n".join(lines)


def _type(hint: Any) -> str:
    """Return the name of a type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_type(each) for each in arguments)
    if origin is Literal:
        return " or ".join(map(str, arguments))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"object of {_type(arguments[1])}"
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"list of {_type(arguments[0])}"
    return _NAMES.get(hint) or str(hint.__name__)


def _classes(hint: Any) -> Iterator[type]:
    """Yield the dataclasses within a type, itself first."""
    if isinstance(hint, type) and is_dataclass(hint):
        yield hint
        for each in get_type_hints(hint).values():
            yield from _classes(each)
    for argument in get_args(hint):
        yield from _classes(argument)


def _summary(kind: type) -> str:
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def _named(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(f"softwalltime.{module}"), name)
