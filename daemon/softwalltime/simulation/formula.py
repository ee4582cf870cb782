"""PBS's ``job_sort_formula``: an expression over a job's resources and its eligible time.

The expression is parsed and only what is listed here is evaluated: numbers, the documented names, arithmetic,
comparisons, ``and``, ``or``, ``not``, conditions, and some functions.  Nothing in it can call anything else.
"""

import ast
from collections.abc import Callable

import numpy as np

from softwalltime.errors import OptionError
from softwalltime.simulation.jobs import Floats, Integers, Jobs
from softwalltime.simulation.order import Order
from softwalltime.simulation.policies import SchedulerPolicy
from softwalltime.simulation.values import Values

NAMES = (
    "eligible_time", "walltime", "soft_walltime", "predicted", "ncpus", "nodect", "ngpus", "mem", "queue_priority",
    "job_priority",
)  # fmt: skip
"""Names that a formula may use.

``eligible_time``: seconds waited.  ``soft_walltime``: the waiting value, 0 where it is the walltime, as for a job
without one.  ``predicted``: the ordering value, as a hook would set it.  ``mem`` in bytes.  Records hold no
priorities: those of queues come from the policy, those of jobs are 0, and so is what a job's record does not hold.
"""
_LONGEST = 2000
Column = Floats | float
Environment = dict[str, Column]
Compiled = Callable[[Environment], Column]

_BINARY: dict[type[ast.operator], Callable[[Column, Column], Column]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod, ast.Pow: np.power,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Column, Column], Column]] = {
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal, ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}  # fmt: skip
# Function, least and greatest number of arguments.
_FUNCTIONS: dict[str, tuple[Callable[..., Column], int, int]] = {
    "abs": (np.abs, 1, 1), "ceil": (np.ceil, 1, 1), "floor": (np.floor, 1, 1), "round": (np.round, 1, 1),
    "sqrt": (np.sqrt, 1, 1), "exp": (np.exp, 1, 1), "log": (np.log, 1, 1), "log10": (np.log10, 1, 1),
    "log2": (np.log2, 1, 1), "pow": (np.power, 2, 2), "float": (lambda value: value, 1, 1), "int": (np.trunc, 1, 1),
    "min": (lambda *values: _reduced(np.minimum, values), 2, 20),
    "max": (lambda *values: _reduced(np.maximum, values), 2, 20),
}  # fmt: skip


class Formula(Order):
    """The order of a ``job_sort_formula``; the highest result first.

    As in PBS, results are single precision, and a job whose result is not a number, as after a division by 0, has 0.
    """

    def __init__(self, jobs: Jobs, values: Values, policy: SchedulerPolicy) -> None:
        """:raises OptionError: if the policy has no formula, or its formula cannot be evaluated."""
        if not policy.formula:
            raise OptionError("the order formula needs an expression: give --formula, or the key formula")
        self._evaluate = compiled(policy.formula)
        self._names = {node.id for node in ast.walk(ast.parse(policy.formula.strip())) if isinstance(node, ast.Name)}
        self.fixed = "eligible_time" not in self._names
        self._submitted = np.array(jobs.submitted, np.int64)
        self._values = values
        self._columns = {
            "walltime": values.limit_array.astype(np.float64),
            "ncpus": np.array(jobs.processors, np.float64),
            **{name: jobs.completed.numbers(name, 0).astype(np.float64) for name in ("nodect", "ngpus", "mem")},
        }
        priorities = np.array(jobs.priorities or [(0, 0)] * len(jobs), np.float64).reshape(-1, 2)
        if policy.queue_priorities:
            known = dict(policy.queue_priorities)
            priorities[:, 0] = [known.get(queue or "", 0) for queue in jobs.completed.values("queue")]
        self._columns |= {"queue_priority": priorities[:, 0], "job_priority": priorities[:, 1]}

    def priorities(self, waiting: Integers, now: int) -> Floats:
        names = self._names
        environment: Environment = {name: self._columns[name][waiting] for name in self._columns.keys() & names}
        if "eligible_time" in names:
            environment["eligible_time"] = (now - self._submitted[waiting]).astype(np.float64)
        if "soft_walltime" in names:
            value = self._values.waiting_array[waiting].astype(np.float64)
            environment["soft_walltime"] = np.where(value < self._columns["walltime"][waiting], value, 0.0)
        if "predicted" in names:
            environment["predicted"] = self._values.ordering[waiting]
        with np.errstate(all="ignore"):
            priorities = np.asarray(self._evaluate(environment), np.float64)
            single = np.where(np.isfinite(priorities), priorities, 0.0).astype(np.float32)
        return np.broadcast_to(single, waiting.shape).astype(np.float64)


def compiled(text: str) -> Compiled:
    """A function that evaluates the formula for columns of jobs.

    :raises OptionError: if it is not an expression, or holds anything but what is allowed; says what.
    """
    try:
        if len(text) > _LONGEST:
            raise OptionError(f"the formula is longer than {_LONGEST:,} characters")
        return _compiled(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError) as error:
        raise OptionError(f"formula {text!r}: not an expression: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise OptionError("the formula is nested too deeply") from error


def _compiled(node: ast.expr) -> Compiled:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _constant(number)
        case ast.Name(id=name) if name in NAMES:
            return lambda environment: environment[name]
        case ast.Name(id=name):
            raise OptionError(f"the formula names {name!r}; it may name {', '.join(NAMES)}")
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _BINARY:
            return _applied(_BINARY[type(operator)], [left, right])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _applied(np.negative, [operand])
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _compiled(operand)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _applied(lambda value: np.equal(value, 0), [operand])
        case ast.BoolOp(op=ast.And(), values=values):
            return _applied(lambda *parts: _reduced(lambda a, b: np.where(np.equal(a, 0), a, b), parts), values)
        case ast.BoolOp(op=ast.Or(), values=values):
            return _applied(lambda *parts: _reduced(lambda a, b: np.where(np.equal(a, 0), b, a), parts), values)
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in _COMPARE:
            return _applied(_COMPARE[type(operator)], [left, right])
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


def _constant(number: float) -> Compiled:
    try:
        value = float(number)
    except OverflowError as error:
        raise OptionError("the formula holds a number that is too large") from error
    return lambda _: np.float64(value)


def _applied(function: Callable[..., Column], operands: list[ast.expr]) -> Compiled:
    parts = [_compiled(operand) for operand in operands]
    return lambda environment: np.asarray(function(*(part(environment) for part in parts)), np.float64)


def _chosen(test: Column, body: Column, orelse: Column) -> Column:
    column: Floats = np.where(np.equal(test, 0), orelse, body)
    return column


def _reduced(function: Callable[[Column, Column], Column], values: tuple[Column, ...]) -> Column:
    column = values[0]
    for value in values[1:]:
        column = function(column, value)
    return column
