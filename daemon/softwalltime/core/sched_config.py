"""Read an option of sched_config, the file of the scheduler's options.

A line is ``option: value when``, where ``when`` is ``prime``, ``non_prime`` or ``all`` and may be missing; a later line
overrides an earlier one.  Lines that begin with ``#`` are comments (OpenPBS, src/scheduler/parse.cpp).
"""

import re
from typing import NamedTuple

_TIMES = ("prime", "non_prime")


class OptionLine(NamedTuple):
    """A line of an option: the value without quotes, the times it applies to, and the value's position in the text."""

    value: str
    times: tuple[str, ...]
    start: int
    end: int
    quoted: bool


def lines_of(text: str, option: str) -> list[OptionLine]:
    pattern = re.compile(
        rf"^[ \t]*{re.escape(option)}(?::[ \t]*|[ \t]+)"
        r"""(?:(?P<quote>["'])(?P<quoted>(?:\\\n|(?!(?P=quote))[^\n])*)(?P=quote)|(?P<plain>[^\s"'#]\S*))"""
        r"(?:[ \t]+(?P<when>\w+))?",
        re.MULTILINE,
    )
    entries = []
    for match in pattern.finditer(text):
        group = "plain" if match["quote"] is None else "quoted"
        when = (match["when"] or "all").lower()
        times = _TIMES if when == "all" else (when,) if when in _TIMES else ()
        entries.append(OptionLine(match[group], times, match.start(group), match.end(group), group == "quoted"))
    return entries


def values_of(text: str, option: str) -> tuple[str, ...]:
    return tuple(line.value for line in lines_of(text, option))


def switches(text: str, option: str, *, default: bool = False) -> tuple[bool, bool]:
    """Return whether a switch is on, at prime and at non-prime time; every word but false switches it on.

    :param default: value for times without a line.
    """
    state = dict.fromkeys(_TIMES, default)
    for line in lines_of(text, option):
        state |= dict.fromkeys(line.times, re.match(r"false$|0+(?!\d)", line.value, re.IGNORECASE) is None)
    return state["prime"], state["non_prime"]


def members(text: str, option: str) -> list[str]:
    """Return the members of an option that is a list; the scheduler unites its lines."""
    return [part.strip(" \t\\\n") for value in values_of(text, option) for part in value.split(",") if part.strip()]
