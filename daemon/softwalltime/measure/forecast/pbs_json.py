"""Parse JSON output of qstat and pbsnodes, even if it is not valid JSON.

A server with several limits in one attribute writes that attribute several times, so they are joined (seen on OpenPBS
23.06).  Older servers write quotes, backslashes and line breaks of users' values as they are, and numbers such as
``007`` or ``inf`` without quotes.  PBS writes one attribute a line, so an attribute that cannot be read costs that
attribute.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

_OPENING = re.compile(r'^([ \t]*)"((?:[^"\\]|\\.)*)"\s*:\s*\{\s*$')
_CLOSING = re.compile(r"^([ \t]*)\}\s*,?\s*$")
_MEMBER = re.compile(r'^[ \t]*"((?:[^"\\]|\\.)*)"\s*:\s*(\S.*?)\s*,?\s*$')
_BARE = re.compile(r"[\w.+:-]+")
MAX_NAMED = 5
"""Maximum number of dropped attributes to name."""


@dataclass(slots=True)
class _Open:
    """An object that is not closed yet."""

    indent: int
    key: str
    members: dict[str, Any]


def read_document(text: str, source: str) -> tuple[dict[str, Any], list[str]]:
    """Return the document that the command ``source`` printed, and a sentence for each dropped part."""
    try:
        document = json.loads(text, strict=False, object_pairs_hook=_merged)
    except (ValueError, RecursionError):
        document, dropped, whole = _by_lines(text)
        remarks = []
        if dropped:
            more = f" and {len(dropped) - MAX_NAMED:,} more" if len(dropped) > MAX_NAMED else ""
            named = ", ".join(dropped[:MAX_NAMED]) + more
            remarks.append(f"{source}: invalid JSON, {len(dropped):,} of its lines dropped: {named}")
        if not whole:
            remarks.append(f"{source}: the output ends early, its last object was dropped")
        return document, remarks
    if not isinstance(document, dict):
        return {}, [f"{source}: not a JSON object, nothing was read"]
    return document, []


def _by_lines(text: str) -> tuple[dict[str, Any], list[str], bool]:
    root: dict[str, Any] = {}
    stack = [_Open(0, "", root)]
    dropped: list[str] = []
    opened = closed = False
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        if not opened and line.strip() == "{":
            opened = True
        elif match := _OPENING.match(line):
            members: dict[str, Any] = {}
            stack[-1].members[match[2]] = members
            stack.append(_Open(len(match[1]), match[2], members))
        elif match := _CLOSING.match(line):
            # Compare indentation: a line of a user's text may look like a closing brace.
            if len(stack) > 1 and len(match[1]) == stack[-1].indent:
                stack.pop()
            elif len(stack) == 1 and not match[1]:
                closed = True
            else:
                dropped.append(f"line {number}")
        elif match := _MEMBER.match(line):
            try:
                _add(stack[-1].members, match[1], _value(match[2]))
            except ValueError:
                dropped.append(".".join([*(member.key for member in stack[2:]), match[1]]))
        else:
            dropped.append(f"line {number}")
    # The truncated part is a job in a list of jobs, or an attribute of a job.
    if len(stack) > 2:
        del stack[1].members[stack[2].key]
    return root, dropped, closed


def _merged(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of these members.

    >>> _merged([("max_run", "[o:PBS_ALL=9]"), ("max_run", "[u:bob=4]"), ("a", 1), ("a", 2)])
    {'max_run': '[o:PBS_ALL=9],[u:bob=4]', 'a': 2}
    """
    members: dict[str, Any] = {}
    for name, value in pairs:
        _add(members, name, value)
    return members


def _add(members: dict[str, Any], name: str, value: Any) -> None:
    """Add a member; PBS writes an attribute with several limits as several members of one name."""
    before = members.get(name)
    if isinstance(before, str) and isinstance(value, str) and value.startswith("["):
        value = f"{before},{value}"
    members[name] = value


def _value(text: str) -> Any:
    """The value; a bare word, such as a number with leading zeros, is a text."""
    try:
        return json.loads(text, strict=False)
    except ValueError:
        if _BARE.fullmatch(text):
            return text
        raise


def text_of(value: object) -> str:
    """The text of a value; PBS writes whatever looks like a number or another JSON value as one.

    >>> text_of("a"), text_of(7), text_of(None), text_of(True), text_of({"a": 1})
    ('a', '7', '', 'true', '{"a": 1}')
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)


def object_of(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
