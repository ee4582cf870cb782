"""Small changes of a Python source, each of which a test should notice."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import NoneType

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}
UNCHANGED = ("annotation", "returns", "decorator_list", "type_params", "keywords", "bases")
"""Fields of definitions in which a change is no change of behaviour that a test could see."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A changed source.

    ``line``: the first line of the change; ``before`` and ``after``: its lines without indentation; ``source``: the
    text of the whole file; ``statement``: the first line of the statement, 0 if it runs at import.
    """

    line: int
    before: str
    after: str
    source: str
    statement: int


def mutations(source: str) -> Iterator[Mutation]:
    """Yield all mutations of a source, in order of place.

    Comparisons move their boundary or are negated, numbers become larger by 1, arithmetic and boolean operators are
    exchanged, conditions are negated, and statements and returned values are removed.
    """
    starts = [0]
    for line in source.splitlines(keepends=True):
        # The columns of the syntax tree count bytes.
        starts.append(starts[-1] + len(line.encode()))
    data = source.encode()
    tree = ast.parse(source)
    # The innermost statements come last.
    statements = {
        id(node): statement.lineno for block in _blocks(tree) for statement in block for node in ast.walk(statement)
    }
    for node, text in sorted(_changes(tree), key=lambda change: (change[0].lineno, change[0].col_offset)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        changed = (data[:begin] + text.encode() + data[end:]).decode()
        before = data[starts[node.lineno - 1] : starts[node.end_lineno]].decode()
        after = changed[len(data[: starts[node.lineno - 1]].decode()) :]
        after = after[: len(after) - len(data[starts[node.end_lineno] :].decode())]
        yield Mutation(
            node.lineno, " ".join(before.split()), " ".join(after.split()), changed, statements.get(id(node), 0)
        )


def recording(source: str, name: str) -> str:
    """Return a source that calls a builtin function with the line of each statement that runs in a function.

    :param name: the name of the function.
    """
    tree = ast.parse(source)
    for block in _blocks(tree):
        is_docstring = isinstance(block[0], ast.Expr) and isinstance(block[0].value, ast.Constant)
        block[:] = [
            part
            for place, statement in enumerate(block)
            for part in ([] if is_docstring and not place else ast.parse(f"{name}({statement.lineno})").body)
            + [statement]
        ]
    return ast.unparse(tree)


def _blocks(tree: ast.Module) -> list[list[ast.stmt]]:
    """Return the lists of statements in functions, outer ones first."""
    blocks = {
        id(block): block
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for owner in ast.walk(function)
        for name in ("body", "orelse", "finalbody")
        if isinstance(block := getattr(owner, name, None), list) and block
    }
    return list(blocks.values())


Change = tuple[ast.expr | ast.stmt, str]


def _changes(node: ast.AST) -> Iterator[Change]:
    for name, value in ast.iter_fields(node):
        if name in UNCHANGED and isinstance(node, (ast.stmt, ast.arg)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _changes(child)
    if type(node) in CHANGES:
        yield from CHANGES[type(node)](node)
    if isinstance(node, (ast.If, ast.IfExp, ast.While)) and not isinstance(node.test, (ast.Compare, ast.Constant)):
        yield node.test, f"(not ({ast.unparse(node.test)}))"


def _compare(node: ast.Compare) -> Iterator[Change]:
    for place, operator in enumerate(node.ops):
        operators = [*node.ops]
        operators[place] = COMPARISONS[type(operator)]()
        yield node, f"({ast.unparse(ast.Compare(node.left, operators, node.comparators))})"


def _constant(node: ast.Constant) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield node, str(not node.value)
    elif isinstance(node.value, (int, float)):
        yield node, repr(node.value + 1)


def _boolean(node: ast.BoolOp) -> Iterator[Change]:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield node, f"({ast.unparse(ast.BoolOp(other, node.values))})"


def _arithmetic(node: ast.BinOp) -> Iterator[Change]:
    if (other := OPERATORS.get(type(node.op))) is not None:
        yield node, f"({ast.unparse(ast.BinOp(node.left, other(), node.right))})"


def _in_place(node: ast.AugAssign) -> Iterator[Change]:
    if (other := OPERATORS.get(type(node.op))) is not None:
        yield node, ast.unparse(ast.AugAssign(node.target, other(), node.value))


def _not(node: ast.UnaryOp) -> Iterator[Change]:
    if isinstance(node.op, (ast.Not, ast.USub)):
        yield node, f"({ast.unparse(node.operand)})"


def _expression(node: ast.Expr) -> Iterator[Change]:
    if isinstance(node.value, (ast.Call, ast.Await)):
        yield node, "pass"


def _assignment(node: ast.Assign) -> Iterator[Change]:
    if not all(isinstance(target, ast.Name) for target in node.targets):
        yield node, "pass"


def _return(node: ast.Return) -> Iterator[Change]:
    # Other constants are changed themselves.
    value = node.value
    if value is not None and not (isinstance(value, ast.Constant) and isinstance(value.value, (int, float, NoneType))):
        yield node, "return None"


def _jump(node: ast.stmt) -> Iterator[Change]:
    yield node, "pass"


CHANGES: dict[type[ast.AST], Callable[..., Iterator[Change]]] = {
    ast.Compare: _compare,
    ast.Constant: _constant,
    ast.BoolOp: _boolean,
    ast.BinOp: _arithmetic,
    ast.AugAssign: _in_place,
    ast.UnaryOp: _not,
    ast.Expr: _expression,
    ast.Assign: _assignment,
    ast.Return: _return,
    ast.Raise: _jump,
    ast.Continue: _jump,
    ast.Break: _jump,
    ast.Delete: _jump,
}
