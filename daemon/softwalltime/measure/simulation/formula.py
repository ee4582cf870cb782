"""Compile an expression of job_sort_formula or fairshare_usage_res to a function of columns of jobs."""

import ast
from collections.abc import Callable, Collection
from functools import reduce

import numpy as np

from softwalltime.core.errors import OptionError
from softwalltime.measure.simulation.simulated_jobs import Floats

_MAX_FORMULA_CHARS = 2000
Column = Floats | float
Environment = dict[str, Column]
Compiled = Callable[[Environment], Column]

_OPERATORS: dict[type[ast.AST], Callable[..., Column]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod, ast.Pow: np.power, ast.USub: np.negative, ast.UAdd: np.positive,
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal, ast.Eq: np.equal,
    ast.NotEq: np.not_equal, ast.Not: lambda value: np.equal(value, 0),
    ast.And: lambda *parts: reduce(lambda a, b: np.where(np.equal(a, 0), a, b), parts),
    ast.Or: lambda *parts: reduce(lambda a, b: np.where(np.equal(a, 0), b, a), parts),
}  # fmt: skip
# Function, least and greatest number of arguments.
_FUNCTIONS: dict[str, tuple[Callable[..., Column], int, int]] = {
    "abs": (np.abs, 1, 1), "ceil": (np.ceil, 1, 1), "floor": (np.floor, 1, 1), "round": (np.round, 1, 1),
    "sqrt": (np.sqrt, 1, 1), "exp": (np.exp, 1, 1), "log": (np.log, 1, 1), "log10": (np.log10, 1, 1),
    "log2": (np.log2, 1, 1), "pow": (np.power, 2, 2), "float": (lambda value: value, 1, 1), "int": (np.trunc, 1, 1),
    "min": (lambda *values: reduce(np.minimum, values), 2, 20),
    "max": (lambda *values: reduce(np.maximum, values), 2, 20),
}  # fmt: skip


def _chosen(test: Column, body: Column, orelse: Column) -> Floats:
    return np.where(np.equal(test, 0), orelse, body)


def compiled(text: str, names: Collection[str]) -> Compiled:
    """A function that evaluates the formula for columns of jobs; only what is listed above can be called.

    :param names: the columns.
    :raises OptionError: if it is not an expression, or holds anything but what is allowed; says what.
    """
    try:
        if len(text) > _MAX_FORMULA_CHARS:
            raise OptionError(f"the formula is longer than {_MAX_FORMULA_CHARS:,} characters")
        parsed = ast.parse(text.strip(), mode="eval").body
        if unknown := [name for name in _named(parsed) if name not in names]:
            raise OptionError(f"the formula names {unknown[0]!r}; it may name {', '.join(names)}")
        return _compiled(parsed)
    except (SyntaxError, ValueError) as error:
        raise OptionError(f"formula {text!r}: not an expression: {error}") from error
    except OverflowError as error:
        raise OptionError("the formula holds a number that is too large") from error
    except (RecursionError, MemoryError) as error:
        raise OptionError("the formula is nested too deeply") from error


def names_in(text: str) -> set[str]:
    """The columns that a formula names."""
    return set(_named(ast.parse(text.strip(), mode="eval").body))


def _named(node: ast.expr) -> list[str]:
    called = {part.func for part in ast.walk(node) if isinstance(part, ast.Call)}
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name) and part not in called]


def _compiled(node: ast.expr) -> Compiled:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            value = np.float64(number)
            return lambda _: value
        case ast.Name(id=name):
            return lambda environment: environment[name]
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            return _applied(_OPERATORS[type(operator)], [left, right])
        case ast.UnaryOp(op=operator, operand=operand) if type(operator) in _OPERATORS:
            return _applied(_OPERATORS[type(operator)], [operand])
        case ast.BoolOp(op=operator, values=values):
            return _applied(_OPERATORS[type(operator)], values)
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in _OPERATORS:
            return _applied(_OPERATORS[type(operator)], [left, right])
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _applied(_chosen, [test, body, orelse])
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            function, least, most = _FUNCTIONS[name]
            if not least <= len(arguments) <= most:
                raise OptionError(f"the formula calls {name} with {len(arguments)} arguments")
            return _applied(function, arguments)
    raise OptionError(
        f"the formula holds {ast.unparse(node)!r}, which is not allowed: numbers, names, arithmetic, comparisons, "
        f"and, or, not, conditions, {', '.join(_FUNCTIONS)}"
    )


def _applied(function: Callable[..., Column], operands: list[ast.expr]) -> Compiled:
    parts = [_compiled(operand) for operand in operands]
    return lambda environment: np.asarray(function(*(part(environment) for part in parts)), np.float64)
