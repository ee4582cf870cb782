"""A command is a function from its options to its result: a document, printed as text, JSON or CSV."""

import ast
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import click

from softwalltime.cli.output import Output
from softwalltime.cli.parameters import build, parameters

D = TypeVar("D")
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result(Generic[D]):
    """Result of a command.

    ``document``: a dataclass or a list of them, the output in JSON.  ``text`` prints it as text; ``None`` if the
    command has printed its text already.  ``rows``: rows of CSV instead of the document's own.  ``remarks``: lines for
    standard error, after the output.  ``then`` is called between the two.
    """

    document: D
    text: Callable[[Output, D], None] | None = None
    status: int = 0
    remarks: Iterable[str] = ()
    rows: Iterable[Row] | None = None
    then: Callable[[Output], None] | None = None

    def print(self, output: Output, columns: Sequence[str]) -> int:
        if output.form == "json":
            click.echo(json.dumps(self.document, default=asdict))
        elif output.form == "csv":
            rows = list(_rows(self.document) if self.rows is None else self.rows)
            output.rows(columns or list(next(iter(rows), ())), rows)
        elif self.text is not None:
            self.text(output, self.document)
        if self.then is not None:
            self.then(output)
        for line in self.remarks:
            click.echo(line, err=True)
        return self.status


@dataclass(frozen=True, slots=True)
class Shape:
    """Types of a command's output: its document, and the rows of CSV.

    ``columns``: ``None`` for those of the document; empty where each run has its own.  ``rows``: what a row is.
    """

    function: Callable[..., Any]
    index: int
    columns: Sequence[str] | None
    rows: str

    def type(self) -> Any:
        return _document_types(self.function)[self.index]

    def header(self) -> Sequence[str]:
        """Return the columns of CSV; none where each run has its own."""
        if self.columns is not None:
            return self.columns
        kind = self.type()
        kind = get_args(kind)[0] if get_origin(kind) in (list, tuple) else kind
        columns: Sequence[str] = getattr(kind, "COLUMNS", None) or tuple(field.name for field in fields(kind))
        return columns


class DocumentCommand(click.Command):
    """A click command that calls a typed function; ``shapes``: those of its output by option, ``""`` without one."""

    def __init__(self, name: str, function: Callable[[Any], Any], shapes: Mapping[str, Shape]) -> None:
        self._function, self.shapes = function, shapes
        self._options = function.__annotations__["options"]
        super().__init__(name, params=list(parameters(self._options)), help=function.__doc__, callback=self._call)

    def _call(self, **values: Any) -> int | None:
        options = build(self._options, values)
        result = self._function(options)
        if not isinstance(result, Result):
            return result if isinstance(result, int) else None
        return result.print(options.output, self._columns(result.document) if options.output.form == "csv" else ())

    def _columns(self, document: object) -> Sequence[str]:
        """Return the columns of CSV: of several documents that a command may print, those of this one."""
        kind = type(document[0]) if isinstance(document, list) and document else type(document)
        of_type = (shape for shape in self.shapes.values() if kind in (shape.type(), *get_args(shape.type())))
        return next(of_type, next(iter(self.shapes.values()))).header()


def command(
    rows: str | Mapping[str, str] = "", *, columns: Sequence[str] | None = None, name: str = "",
    group: click.Group | None = None,
) -> Callable[[Callable[[Any], Any]], DocumentCommand]:  # fmt: skip
    """Return a decorator that makes a command of a function ``f(options: SomeOptions) -> Result[SomeDocument]``.

    The function's docstring is the help of the command.  A command without a document prints by itself, and returns its
    exit status or ``None``.

    :param rows: what a row of CSV is; by option, where the command prints one of several documents.
    :param columns: of CSV, where they are not the document's ``COLUMNS`` or fields.
    :param name: of the command; without it the function's name.
    :param group: whose command it is.
    """

    def make(function: Callable[[Any], Any]) -> DocumentCommand:
        by_option = {"": rows} if isinstance(rows, str) else rows
        texts = enumerate(by_option.items())
        shapes = {given: Shape(function, index, columns, text) for index, (given, text) in texts if text}
        made = DocumentCommand(name or function.__name__.replace("_", "-"), function, shapes)
        if group is not None:
            group.add_command(made)
        return made

    return make


def shapes(group: click.Group, path: str = "") -> Iterator[tuple[str, Shape]]:
    for name, made in group.commands.items():
        if isinstance(made, click.Group):
            yield from shapes(made, f"{path}{name} ")
        for given, shape in getattr(made, "shapes", {}).items():
            yield f"{path}{name} {given}".strip(), shape


def _rows(document: Any) -> Iterable[Row]:
    if isinstance(document, list | tuple):
        return map(asdict, document)
    rows: Iterable[Row] = document.rows() if hasattr(document, "rows") else [asdict(document)]
    return rows


def _document_types(function: Callable[..., Any]) -> list[Any]:
    """Return the types of the documents in ``Result[A] | Result[B]``; the module may import them for typing only."""
    module = sys.modules[function.__module__]
    names = dict(vars(module))
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in node.body:
                if isinstance(line, ast.ImportFrom) and line.module is not None:
                    names |= {alias.name: getattr(import_module(line.module), alias.name) for alias in line.names}
    returned = get_type_hints(inspect.unwrap(function), names)["return"]
    parts = (returned,) if get_origin(returned) is Result else get_args(returned)
    return [get_args(part)[0] for part in parts if get_origin(part) is Result]
