"""The figures of the report as one JSON object."""

import json
import math
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from softwalltime import __version__
from softwalltime.reports.candidates import Candidate
from softwalltime.reports.report import Report

SCHEMA = 1
"""Increased when a name changes its meaning or is removed."""
_DIGITS = 6


def to_document(report: Report, title: str, sources: list[str], selection: str = "") -> dict[str, Any]:
    """Return all figures as plain values: shares between 0 and 1, times and durations in seconds."""
    plain: dict[str, Any] = {
        "schema": SCHEMA,
        "program": f"softwalltime {__version__}",
        "title": title,
        "sources": sources,
        "selection": selection or None,
    }
    plain |= _plain(report)
    for spec, (overall, warmed_up) in report.scores.items():
        plain["scores"][spec] = {"all": _plain(overall), "after_warm_up": _plain(warmed_up)}
    plain["recommendation"]["policy"] = report.recommendation.policy
    return plain


def to_embedded_json(found: dict[str, Any]) -> str:
    """Return JSON for embedding in HTML: no character can end the element."""
    text = json.dumps(found, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(value: Any) -> Any:
    if isinstance(value, Candidate):
        policy = value.policy
        return {
            "name": value.name, "order": policy.order, "waiting": policy.waiting, "ordering": policy.ordering,
            "guard": policy.guard, "preset": value.preset,
        }  # fmt: skip
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value
