"""Queue orders: the priority of each waiting job; the highest comes first, ties go to the earlier submission."""

import ast
from collections.abc import Callable
from functools import partial, reduce

import numpy as np

from softwalltime.core.errors import OptionError
from softwalltime.measure.simulation.order import Order
from softwalltime.measure.simulation.planned_values import Values
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Floats, Integers, Jobs
from softwalltime.predict.policy.power_order import NAME as POWERS
from softwalltime.predict.policy.power_order import OLDEST_FIRST, PowerOrder

NAMES = (
    "eligible_time", "walltime", "soft_walltime", "predicted", "ncpus", "nodect", "ngpus", "mem", "queue_priority",
    "job_priority",
)  # fmt: skip
"""Names that a formula may use.

``eligible_time``: seconds waited.  ``soft_walltime``: the waiting value, 0 where it is the walltime.  ``predicted``:
the ordering value.  ``mem`` in bytes.  Priorities of queues come from the policy; what is not recorded is 0.
"""
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
        priorities = np.array(jobs.priorities or [(0, 0)] * len(jobs), np.float64).reshape(-1, 2)
        if policy.queue_priorities:
            known = dict(policy.queue_priorities)
            priorities[:, 0] = [known.get(queue or "", 0) for queue in jobs.completed.values("queue")]
        self._columns = {
            "walltime": values.limit_array.astype(np.float64), "ncpus": np.array(jobs.processors, np.float64),
            "queue_priority": priorities[:, 0], "job_priority": priorities[:, 1],
            **{name: jobs.completed.numbers(name, 0).astype(np.float64) for name in ("nodect", "ngpus", "mem")},
        }  # fmt: skip

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
            if not (finite := np.isfinite(priorities)).all():
                priorities = np.where(finite, priorities, 0.0)
            single = priorities.astype(np.float32).astype(np.float64)
        return single if single.shape == waiting.shape else np.full(waiting.shape, single)


def compiled(text: str) -> Compiled:
    """A function that evaluates the formula for columns of jobs; only what is listed above can be called.

    :raises OptionError: if it is not an expression, or holds anything but what is allowed; says what.
    """
    try:
        if len(text) > _MAX_FORMULA_CHARS:
            raise OptionError(f"the formula is longer than {_MAX_FORMULA_CHARS:,} characters")
        return _compiled(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError) as error:
        raise OptionError(f"formula {text!r}: not an expression: {error}") from error
    except OverflowError as error:
        raise OptionError("the formula holds a number that is too large") from error
    except (RecursionError, MemoryError) as error:
        raise OptionError("the formula is nested too deeply") from error


def _compiled(node: ast.expr) -> Compiled:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            value = np.float64(number)
            return lambda _: value
        case ast.Name(id=name) if name in NAMES:
            return lambda environment: environment[name]
        case ast.Name(id=name):
            raise OptionError(f"the formula names {name!r}; it may name {', '.join(NAMES)}")
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


DECAY_TIME = 86400
DECAY_FACTOR = 0.5
"""PBS's defaults of fairshare_decay_time and fairshare_decay_factor."""
_MIN_USAGE = 1.0
AGE = 3600
"""Seconds that the expansion factor adds to a wait."""


class FairShare(Order):
    """Least usage first, with equal shares for all users.

    Usage is processors x seconds run (``fairshare_usage_res: ncpus*walltime``), halved every 24 h, but not below 1.  A
    running job counts with all that it requested (OpenPBS, fairshare.cpp: ``decay_fairshare_tree``,
    ``update_usage_on_run``).  EASY ranks its candidates once in a pass.
    """

    changes_on_start = True

    def __init__(self, jobs: Jobs, values: Values, policy: SchedulerPolicy) -> None:
        users: dict[str, int] = {}
        self._user = np.array([users.setdefault(user, len(users)) for user in jobs.completed.values("user")], np.int64)
        self._processors = np.array(jobs.processors, np.float64)
        self._requested = self._processors * values.limit_array
        self._usage = np.full(len(users), _MIN_USAGE)
        self._running = np.zeros(len(users))
        self._rate = np.zeros(len(users))
        self._now = jobs.submitted[0] if len(jobs) else 0
        self._decay = self._now + DECAY_TIME

    def priorities(self, waiting: Integers, now: int) -> Floats:
        self._advance(now)
        user = self._user[waiting]
        return -(self._usage[user] + self._running[user])

    def started(self, job: int, now: int) -> None:
        self._count(job, 1, now)

    def ended(self, job: int, now: int) -> None:
        """Replace the job's request by its usage, which :meth:`_advance` has counted."""
        self._count(job, -1, now)

    def _count(self, job: int, sign: int, now: int) -> None:
        self._advance(now)
        user = self._user[job]
        self._rate[user] += sign * self._processors[job]
        self._running[user] += sign * self._requested[job]

    def _advance(self, now: int) -> None:
        while self._decay <= now:
            self._usage += self._rate * (self._decay - self._now)
            self._usage = np.maximum(self._usage * DECAY_FACTOR, _MIN_USAGE)
            self._now = self._decay
            self._decay += DECAY_TIME
        if now > self._now:
            self._usage += self._rate * (now - self._now)
            self._now = now


class ColumnOrder(Order):
    """An order by a function of columns; ``arrival``: log10 of the seconds since the first submission, at least 1."""

    def __init__(
        self, score: "Score", jobs: Jobs, values: Values, policy: SchedulerPolicy, *, fixed: bool = False
    ) -> None:
        self.fixed = fixed
        self.submitted = np.array(jobs.submitted, np.int64)
        self.processors = np.array(jobs.processors, np.float64)
        self.value = values.ordering
        self.arrival = np.log10(np.maximum(self.submitted - (self.submitted[0] if len(jobs) else 0), 1))
        self._score = score

    def priorities(self, waiting: Integers, now: int) -> Floats:
        return self._score(self, waiting, now)


Score = Callable[[ColumnOrder, Integers, int], Floats]
"""Returns the priorities of some jobs at a time."""
Learned = Callable[[Floats, Floats, Floats], Floats]


def _wfp(of: ColumnOrder, waiting: Integers, now: int) -> Floats:
    """(wait / value)^3 x processors (Tang et al. 2013, eq. 5)."""
    relative: Floats = (now - of.submitted[waiting]) / of.value[waiting]
    return relative * relative * relative * of.processors[waiting]


def _learned(score: Learned) -> Callable[[Jobs, Values, SchedulerPolicy], ColumnOrder]:
    """F1 to F4, which D. Carastan-Santos & R. Y. de Camargo found by regression over simulated schedules.

    Obtaining Dynamic Scheduling Policies with Simulation and Machine Learning.  SC 2017, table 3.  The least comes
    first.  The constants are quotients of two coefficients, cut to three digits; unrounded ones are in the published
    simulator (sched-simulator-runtime.c): 870.96, 25,673, 6,862,777 and 530,988.  It starts each 15 days at 0.

    :param score: of value, processors and arrival.
    """

    def priorities(of: ColumnOrder, waiting: Integers, now: int) -> Floats:
        return -score(of.value[waiting], of.processors[waiting], of.arrival[waiting])

    return partial(ColumnOrder, priorities, fixed=True)


def powers(jobs: Jobs, values: Values, policy: SchedulerPolicy) -> ColumnOrder:
    """Return the order by powers of wait, length and size, as PBS rounds it."""
    order = PowerOrder.of(policy.order)
    by_runtime, by_limit, by_size = order.exponents
    longest = np.inf if order.longest is None else order.longest
    walltime = np.minimum(values.limit_array.astype(np.float64), longest)

    def priorities(of: ColumnOrder, waiting: Integers, now: int) -> Floats:
        wait = (now - of.submitted[waiting]).astype(np.float64)
        runtime, limit = np.minimum(of.value[waiting], longest), walltime[waiting]
        priorities = wait + order.age
        if by_runtime == by_limit:
            priorities /= np.power(runtime * limit, by_runtime)
        else:
            priorities = priorities / np.power(runtime, by_runtime) / np.power(limit, by_limit)
        # Not **: numpy takes the square root for **0.5, whose last bit may differ from the formula's power.
        priorities *= np.power(of.processors[waiting], by_size)
        if order.limit is not None:
            priorities = np.where(wait > order.limit, float(OLDEST_FIRST) + wait, priorities)
        return priorities.astype(np.float32).astype(np.float64)

    return ColumnOrder(priorities, jobs, values, policy)


ORDERS: dict[str, Callable[[Jobs, Values, SchedulerPolicy], Order] | None] = {
    "fcfs": None,
    "sjf": partial(ColumnOrder, lambda of, waiting, _: -of.value[waiting], fixed=True),
    "ljf": partial(ColumnOrder, lambda of, waiting, _: of.value[waiting], fixed=True),
    "wfp": partial(ColumnOrder, _wfp),
    "xf": partial(ColumnOrder, lambda of, waiting, now: (now - of.submitted[waiting] + AGE) / of.value[waiting]),
    "f1": _learned(lambda r, n, log_s: np.log10(r) * n + 870 * log_s),
    "f2": _learned(lambda r, n, log_s: np.sqrt(r) * n + 25600 * log_s),
    "f3": _learned(lambda r, n, log_s: r * n + 6860000 * log_s),
    "f4": _learned(lambda r, n, log_s: r * np.sqrt(n) + 530000 * log_s),
    "fairshare": FairShare,
    "formula": Formula,
    POWERS: powers,
}
"""The orders by name; first come, first served needs no priorities."""


def order_of(jobs: Jobs, values: Values, policy: SchedulerPolicy) -> Order | None:
    """Return the order that a policy names; :class:`OptionError` if there is none, or its options are wrong."""
    name, colon, _ = policy.order.partition(":")
    if name not in ORDERS:
        raise OptionError(f"no order is called {name!r}; there are {', '.join(ORDERS)}")
    if colon and name != POWERS:
        raise OptionError(f"{policy.order!r}: the order {name} has no options")
    make = ORDERS[name]
    return make and make(jobs, values, policy)
