"""What a check found, and who must act."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warning", "problem", "skipped"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's: what was checked, how it is, and what somebody must do about it (empty: nothing)."""

    check: str
    verdict: Verdict
    text: str
    act: str = ""

    def __str__(self) -> str:
        """The line."""
        return f"{self.verdict:<9}{self.check:<22}{self.text}{f'  -> {self.act}' if self.act else ''}"


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, "ok", text)


def warning(check: str, text: str, act: str) -> Finding:
    """It works, but not as well as it could."""
    return Finding(check, "warning", text, act)


def problem(check: str, text: str, act: str) -> Finding:
    """It does not work."""
    return Finding(check, "problem", text, act)


def skipped(check: str, text: str) -> Finding:
    """It cannot be seen from here; says why."""
    return Finding(check, "skipped", text)
