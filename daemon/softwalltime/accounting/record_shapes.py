"""Read records by one match each: nearly all records of a log have the same fields in the same order.

The names of a record's fields in their order are its shape.  A shape that has occurred several times gets a regular
expression, which is several times as fast as splitting a record; it never matches a record that it would read
differently.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

THRESHOLD = 8
"""Records of a shape before it gets an expression: compiling one takes as long as reading some hundred records."""
MAX_EXPRESSIONS = 64
"""Maximum number of expressions; records of other shapes are split."""
MAX_ALIKE = 8
"""Maximum number of expressions for one number of blanks: they are tried one after the other."""
MAX_COUNTED = 1000
"""Maximum number of shapes that are counted."""
MAX_FIELDS = 200
"""Maximum number of fields of a shape."""

_PLAIN = """[^ "']*+"""
_QUOTED = '[^"]*+'
_ACCOUNT = "account"
# A quotation mark ends the account for certain only before these fields.
_AFTER_ACCOUNT = frozenset({"project", "accounting_id", "jobname", "queue", ""})


class _Shape(NamedTuple):
    """A regular expression, and its groups in the order of the wanted fields."""

    expression: re.Pattern[str]
    groups: tuple[int, ...]


class Shapes:
    """The shapes that occurred, for reading the same fields of every record.

    :param wanted: names of fields.
    """

    def __init__(self, wanted: Sequence[str]) -> None:
        self._wanted = wanted
        # By the number of blanks, which is counted quickly and nearly always distinguishes them.
        self._shapes: dict[int, list[_Shape]] = {}
        self._count = 0
        self._counts: dict[tuple[tuple[str, ...], int, bool], int] = {}

    def values(self, message: str) -> tuple[str | None, ...] | None:
        """Return the values of the wanted fields, ``None`` for a missing one; ``None`` if the shape is not known."""
        for expression, groups in self._shapes.get(message.count(" "), ()):
            if match := expression.fullmatch(message):
                return match.group(*groups)
        return None

    def count(self, message: str, fields: Mapping[str, str]) -> None:
        """Count the shape of a message that :meth:`values` did not know.

        :param fields: the fields of the message.
        """
        if self._count >= MAX_EXPRESSIONS or len(fields) > MAX_FIELDS:
            return
        blanks, quoted = message.count(" "), f' {_ACCOUNT}="' in f" {message}"
        shape = tuple(fields), blanks, quoted
        times = self._counts.get(shape, 0) + 1
        if times == 1 and len(self._counts) >= MAX_COUNTED:
            return
        self._counts[shape] = times
        if times != THRESHOLD or len(self._shapes.get(blanks, ())) >= MAX_ALIKE:
            return
        if known_shape := self._shape(message, tuple(fields), quoted):
            self._shapes.setdefault(blanks, []).append(known_shape)
            self._count += 1

    def _shape(self, message: str, names: Sequence[str], quoted: bool) -> _Shape | None:
        """Return the shape of this message; ``None`` if one match cannot read it, for example if a name occurs twice.

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
        # The last group never matches: it is the value of a missing field.
        expression = re.compile(" ".join(parts) + "((?!))?")
        if not expression.fullmatch(message):
            return None
        return _Shape(expression, tuple(groups.get(name, len(groups) + 1) for name in self._wanted))
