"""Parse records with one regular expression for each sequence of fields: most records of a log have the same.

The sequence of a record's field names is its shape.  A shape that occurs often gets a regular expression, which is
several times as fast as splitting the record.  It never matches a record that splitting would parse differently.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

MIN_SHAPE_RECORDS = 8
"""Records of a shape before it gets an expression: compiling one takes as long as parsing some hundred records."""
MAX_EXPRESSIONS = 64
"""Maximum number of expressions; records of other shapes are split."""
MAX_ALIKE = 8
"""Maximum number of expressions with the same number of blanks: they are tried in turn."""
MAX_COUNTED = 1000
"""Maximum number of shapes that are counted."""
MAX_FIELDS = 200
"""Maximum number of fields of a shape."""

_PLAIN = """[^ "']*+"""
_QUOTED = '[^"]*+'
_ACCOUNT = "account"
# Only before these fields does a quotation mark certainly end the account.
_AFTER_ACCOUNT = frozenset({"project", "accounting_id", "jobname", "queue", ""})


class _Shape(NamedTuple):
    """A regular expression, and its groups in the order of the wanted fields."""

    expression: re.Pattern[str]
    groups: tuple[int, ...]


class Shapes:
    """The known shapes, for extracting the same fields from every record.

    :param wanted: names of fields.
    """

    def __init__(self, wanted: Sequence[str]) -> None:
        self._wanted = wanted
        # By number of blanks: quick to count, and nearly always different.
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
        if times != MIN_SHAPE_RECORDS or len(self._shapes.get(blanks, ())) >= MAX_ALIKE:
            return
        if known_shape := self._shape(message, tuple(fields), quoted):
            self._shapes.setdefault(blanks, []).append(known_shape)
            self._count += 1

    def _shape(self, message: str, names: Sequence[str], quoted: bool) -> _Shape | None:
        """Return the shape of this message; ``None`` if no expression can parse it, for example if a name occurs twice.

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
        # The last group never matches: missing fields refer to it.
        expression = re.compile(" ".join(parts) + "((?!))?")
        if not expression.fullmatch(message):
            return None
        return _Shape(expression, tuple(groups.get(name, len(groups) + 1) for name in self._wanted))
