"""Records read by one match each: nearly all of a log have the same fields, in the same order, as one before them.

The names of a record's fields in their order are its shape.  A shape that has been met some times gets a regular
expression, which is several times as fast as splitting a record; it never matches a record that it would read
differently.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

MET = 8
"""Records of a shape until it gets an expression; making one takes as long as reading some hundred records."""
MOST = 64
"""Expressions there may be; of more shapes than these, records are taken apart."""
ALIKE = 8
"""Expressions there may be for records with the same number of blanks, since they are tried one after the other."""
REMEMBERED = 1000
"""Shapes that are counted, of LONGEST fields at most."""
LONGEST = 200

_PLAIN = """[^ "']*+"""
_QUOTED = '[^"]*+'
_ACCOUNT = "account"
# Only before these is it certain that a quote ends the account.
_AFTER_ACCOUNT = frozenset({"project", "accounting_id", "jobname", "queue", ""})


class _Shape(NamedTuple):
    """An expression, and its groups in the order of the wanted fields."""

    expression: re.Pattern[str]
    groups: tuple[int, ...]


class Shapes:
    """The shapes that were met, for those who want the same fields of all records.

    :param wanted: names of fields.
    """

    def __init__(self, wanted: Sequence[str]) -> None:
        self._wanted = wanted
        # By the number of blanks, which is counted quickly and nearly always distinguishes them.
        self._shapes: dict[int, list[_Shape]] = {}
        self._count = 0
        self._met: dict[tuple[tuple[str, ...], int, bool], int] = {}

    def values(self, message: str) -> tuple[str | None, ...] | None:
        """The values of the wanted fields, ``None`` where there is none; ``None`` for a message of another shape."""
        for expression, groups in self._shapes.get(message.count(" "), ()):
            if match := expression.fullmatch(message):
                return match.group(*groups)
        return None

    def meet(self, message: str, fields: Mapping[str, str]) -> None:
        """Take note of a message of no known shape, which was found to have these fields."""
        if self._count >= MOST or len(fields) > LONGEST:
            return
        blanks, quoted = message.count(" "), f' {_ACCOUNT}="' in f" {message}"
        shape = tuple(fields), blanks, quoted
        times = self._met.get(shape, 0) + 1
        if times == 1 and len(self._met) >= REMEMBERED:
            return
        self._met[shape] = times
        if times != MET or len(self._shapes.get(blanks, ())) >= ALIKE:
            return
        if found := self._shape(message, tuple(fields), quoted):
            self._shapes.setdefault(blanks, []).append(found)
            self._count += 1

    def _shape(self, message: str, names: Sequence[str], quoted: bool) -> _Shape | None:
        """What reads this message and its like; ``None`` if one match cannot, as where a name comes twice.

        :param quoted: whether there is an account in quotes.
        """
        parts = []
        groups: dict[str, int] = {}
        for name, following in pairwise((*names, "")):
            in_quotes = quoted and name == _ACCOUNT
            if in_quotes and following not in _AFTER_ACCOUNT:
                return None
            value = _QUOTED if in_quotes else _PLAIN
            if name in self._wanted:
                groups[name] = len(groups) + 1
                value = f"({value})"
            parts.append(re.escape(name) + (f'="{value}"' if in_quotes else f"={value}"))
        # The last group never takes part, as the value of a field that is missing.
        expression = re.compile(" ".join(parts) + "((?!))?")
        if not expression.fullmatch(message):
            return None
        return _Shape(expression, tuple(groups.get(name, len(groups) + 1) for name in self._wanted))
