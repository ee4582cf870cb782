"""``softwalltime schema``: describe what commands print as JSON and CSV, from the classes that are printed."""

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from softwalltime.cli.command import Shape, command, shapes
from softwalltime.cli.parameters import argument, option, options
from softwalltime.core.errors import UsageError

_NAMES = {
    int: "integer",
    float: "number",
    str: "text",
    bool: "true or false",
    NoneType: "null",
    Any: "any",
    object: "any",
}
_INTRODUCTION = """\
<!-- Written by: softwalltime schema --markdown -->
# Output for other programs

These commands have `--format json` (one line of JSON) and `--format csv`.  `softwalltime schema COMMAND` prints the
JSON Schema of a command's document.  New versions add fields; no field changes its meaning.  Durations are seconds,
points in time are epoch seconds, shares are between 0 and 1.  In CSV a missing value is empty.  The tables that
commands print without `--format` are for people: in a terminal they fit its width, in a pipe they are Markdown."""


@options
class SchemaOptions:
    command: tuple[str, ...] = argument()
    markdown: bool = option("Print the document about all commands.")


@command()
def schema(options: SchemaOptions) -> None:
    """Print the JSON Schema of a command's output.

    It describes what COMMAND prints with --format json.  Without COMMAND the commands are listed.

    \b
    Example:
      softwalltime schema replay
      softwalltime schema policy compare
    """
    root = click.get_current_context().find_root().command
    described = dict(shapes(root)) if isinstance(root, click.Group) else {}
    name = " ".join(options.command)
    if options.markdown:
        click.echo(_markdown(described), nl=False)
    elif not name:
        click.echo("\n".join(described))
    elif name in described:
        click.echo(json.dumps(_json_schema(described[name]), indent=2))
    else:
        raise UsageError(f"{name} prints no JSON; there are {', '.join(described)}")


def _json_schema(shape: Shape) -> dict[str, Any]:
    from pydantic import TypeAdapter

    described = TypeAdapter(shape.type()).json_schema(mode="serialization")
    objects = {described.get("title", ""): described, **described.get("$defs", {})}
    for member in _classes(shape.type()):
        definition = objects[member.__name__]
        definition.pop("description", None)
        for field, text in field_docs(member).items():
            definition["properties"][field]["description"] = text
    return described


def _markdown(shapes: Mapping[str, Shape]) -> str:
    parts = [_INTRODUCTION]
    shown: dict[str, type] = {}
    for name, shape in shapes.items():
        kind = shape.type()
        many = get_origin(kind) is list
        first: type = get_args(kind)[0] if many else kind
        parts.append(f"## {name}\n\nJSON: {'a list of objects' if many else 'an object'}.  {_summary(first)}")
        parts.append(_table(first))
        columns = f": {', '.join(f'`{name}`' for name in shape.header())}" if shape.header() else ""
        parts.append(f"CSV: a row for {shape.rows}{columns}.")
        shown |= {member.__name__: member for member in _classes(kind) if member is not first}
    parts.append("## Objects within the documents")
    for name in sorted(shown):
        parts.append(f"### {name}\n\n{_summary(shown[name])}")
        parts.append(_table(shown[name]))
    return "\n\n".join(parts) + "\n"


@cache
def field_docs(kind: type) -> dict[str, str]:
    """Return the description of each field of a dataclass: the text below it in the source."""
    found: dict[str, str] = {}
    for member in reversed(kind.__mro__[:-1]):
        if not is_dataclass(member):
            continue
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(member))).body
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
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_type(member) for member in arguments)
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
        for member in get_type_hints(hint).values():
            yield from _classes(member)
    for inner in get_args(hint):
        yield from _classes(inner)


def _summary(kind: type) -> str:
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
