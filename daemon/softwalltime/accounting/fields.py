"""Parse the message of an accounting record: ``key=value`` pairs with blanks between them.

PBS quotes values without escaping (``acct_job`` and ``cpy_quote_value`` in OpenPBS's
src/server/accounting.c):

- ``account`` is always in double quotes, whatever it contains: ``account="chem grant; 2026 "x=1"" project=...``
- other values are in double quotes if they contain a blank, in single quotes if they contain a double quote too.

So a quoted value ends at a quote that is followed by a blank and the name of a field, or by the end of the line;
account, project and job name are followed by certain fields.  A value may also begin with a quotation mark of its own
and have no quotes around it.

TORQUE quotes nothing.  If a name occurs twice, the later one counts, because PBS and TORQUE write their own fields
after the user's texts.  Only user and group come before them: there the first one counts.
"""

import re
from dataclasses import dataclass, field

_KEY = re.compile(r" *([A-Za-z_][\w.\-]*)=")
# Match only at the first of several blanks: otherwise the time is quadratic in the number of blanks.
_NEXT_KEY = re.compile(r"(?<! ) +(?=[A-Za-z_][\w.\-]*=)")
# Any dotted name (Resource_List.x, resources_used.x) and the plain ones that PBS or TORQUE writes after a text.
_FIELD = (
    r"(?:[A-Za-z_]\w*\.[\w.\-]+|user|group|account|project|accounting_id|jobname|queue|resvname|resvID|ctime|qtime"
    r"|etime|start|depend|array_indices|exec_host|exec_vnode|session|alt_id|end|Exit_status|run_count|eligible_time"
    r"|accrue_type|owner|total_execution_slots|unique_node_count|exec_gpus)="
)
_FOLLOWING = {
    "account": "(?:project|accounting_id|jobname|queue)=",
    "project": "(?:accounting_id|jobname|queue)=",
    "jobname": "queue=",
}
"""Pattern of the fields that PBS writes after a value, by key."""
_DOUBLE, _SINGLE = (
    {key: re.compile(rf"{quote}(?= +{following}| *$)") for key, following in {**_FOLLOWING, "": _FIELD}.items()}
    for quote in "\"'"
)
"""The closing quotes, by key; empty for other keys."""
_DOUBLE_QUOTE = re.compile('"')
_ALWAYS_QUOTED = frozenset({"gridname", "account", "project", "accounting_id", "resvname"})
_FIRST_WINS = frozenset({"user", "group"})


@dataclass(slots=True)
class _Quotes:
    """Search for the quotes of a message from left to right.

    Results are cached: otherwise the time would be quadratic in the number of quotes.
    """

    message: str
    unclosed: set[re.Pattern[str]] = field(default_factory=set)
    """Closing quotes that do not occur in the rest of the message."""
    next_double: int = 0
    """Position of the next double quote, if the search has not passed it."""

    def closing(self, begin: int, key: str) -> int | None:
        """Return the position of the quote that closes the value after the one at ``begin``, if there is one."""
        double = self.message[begin] == '"'
        patterns = _DOUBLE if double else _SINGLE
        ending = patterns.get(key, patterns[""])
        if double and key == "account":
            return self._search(ending, begin + 1)
        # A value in double quotes has no double quote; a value in single quotes has one.
        if self.next_double <= begin:
            match = _DOUBLE_QUOTE.search(self.message, begin + 1)
            self.next_double = len(self.message) if match is None else match.start()
        if double:
            return self.next_double if ending.match(self.message, self.next_double) else None
        return self._search(ending, self.next_double)

    def _search(self, ending: re.Pattern[str], begin: int) -> int | None:
        if ending in self.unclosed:
            return None
        match = ending.search(self.message, begin)
        if match is None:
            self.unclosed.add(ending)
            return None
        return match.start()


def attributes(message: str) -> dict[str, str]:
    """Return the message's fields, each value as before quoting.

    >>> attributes('user=bob account="chem; 2026 "x=1"" project=p')
    {'user': 'bob', 'account': 'chem; 2026 "x=1"', 'project': 'p'}
    """
    # A message in single quotes contains a double quote, so this check covers both.
    if '"' not in message:
        pairs = [pair.split("=", 1) for pair in message.split(" ")]
        try:
            fields: dict[str, str] = dict(pairs)
        except ValueError:
            pass  # a value with a blank and no quotes, such as a group named "domain users"
        else:
            if len(fields) == len(pairs):
                return fields
    return _scan(message)


def _scan(message: str) -> dict[str, str]:
    values: dict[str, str] = {}
    quotes = _Quotes(message)
    position = 0
    while True:
        match = _KEY.match(message, position)
        if match is None:
            # Not a field: continue at the next one.  This happens at a closing quote, and at a message's begin and end.
            following = _NEXT_KEY.search(message, position)
            if following is None:
                return values
            position = following.end()
            continue
        key = match.group(1)
        position, value = _value(message, match.end(), key, quotes)
        if key not in _FIRST_WINS or key not in values:
            values[key] = value


def _value(message: str, begin: int, key: str, quotes: _Quotes) -> tuple[int, str]:
    """Return end and text of the value at ``begin``; the end of a quoted value is its closing quote."""
    if message[begin : begin + 1] in ('"', "'"):
        closing = quotes.closing(begin, key)
        if closing is not None:
            inner = message[begin + 1 : closing]
            if key in _ALWAYS_QUOTED or " " in inner:
                return closing, inner
    following = _NEXT_KEY.search(message, begin)
    end = len(message) if following is None else following.start()
    return end, message[begin:end]
