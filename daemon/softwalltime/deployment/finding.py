"""Results of checks, with severity and remedy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "advice", "warning", "problem", "skipped"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of ``doctor``."""

    check: str
    """Name of the check."""
    verdict: Verdict
    """Its result; only a problem makes the exit status 1."""
    text: str
    """What was found."""
    act: str = ""
    """What to do, by whom; empty: nothing."""

    def __str__(self) -> str:
        return f"{self.verdict:<9}{self.check:<21} {self.text}{f'  -> {self.act}' if self.act else ''}"


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """An error in a configuration, or a note about it."""

    file: str
    """The file; environment for a variable."""
    line: int | None
    """Its line, from 1; null: not known."""
    key: str
    """The wrong key; empty: the whole file."""
    text: str
    """What is wrong."""
    severity: Literal["error", "note"] = "error"
    """error, or note: the value has no effect."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line is not None else self.file
        return f"{where}: {f'{self.key}: ' if self.key else ''}{self.text}"


def ok(check: str, text: str) -> Finding:
    return Finding(check, "ok", text)


def skipped(check: str, text: str) -> Finding:
    return Finding(check, "skipped", text)


def _finding(verdict: Verdict) -> Callable[[str, str, str], Finding]:
    return lambda check, text, act: Finding(check, verdict, text, act)


advice = _finding("advice")
"""Return a finding of level advice: a choice of the site limits the effect of soft walltimes."""
warning, problem = _finding("warning"), _finding("problem")
