"""Corrections in a file: measured on a site's own log, used for its live forecasts."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from softwalltime.errors import OptionError, SourceError
from softwalltime.forecast.calibration import GROUPS, Corrections
from softwalltime.forecast.start_times import LEVELS
from softwalltime.predictors.registry import make

FORMAT: Literal[3] = 3
"""Changes with the meaning of the corrections: since 3 jobs that start at once are a group of their own."""


@dataclass(frozen=True, slots=True)
class CalibrationFile:
    """Corrections, and whose errors they come from: the jobs and the predictor of runtimes."""

    corrections: Corrections
    source: str
    predictor: str
    forecasts: int
    format: Literal[3] = FORMAT


def save_calibration(path: Path, calibration: CalibrationFile) -> None:
    """Write the file.

    :raises SourceError: if it cannot be written.
    """
    try:
        path.write_text(json.dumps(asdict(calibration), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise SourceError(f"{path}: cannot be written: {error.strerror}") from error


def load_calibration(path: Path) -> CalibrationFile:
    """Return the content of the file.

    :raises SourceError: if it cannot be read, or holds something else.
    """
    advice = f"write it with softwalltime replay-starts LOGS --save-calibration {path.name}"
    try:
        calibration = TypeAdapter(CalibrationFile).validate_json(path.read_bytes())
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        raise SourceError(f"{path}: no calibration: {error.errors()[0]['msg']}: {advice}") from error
    corrections = calibration.corrections
    shapes = {len(shift) for shift in corrections.shifts} - {0, len(LEVELS)}
    if shapes or (len(corrections.shifts), len(corrections.weights)) != (GROUPS, GROUPS):
        raise SourceError(f"{path}: a calibration of another version: {advice}")
    return calibration


def why_not_corrected(calibration: CalibrationFile | None, spec: str, learnt: int) -> tuple[str, ...]:
    """Why the calibration does not apply to these forecasts, one sentence; empty if it does or there is none."""
    if calibration is None:
        return ()
    if not learnt:
        reason = "the calibration is for learnt runtimes, and no job was learnt: give --log LOGS"
    elif not _same(spec, calibration.predictor):
        reason = f"the calibration was measured with --predictor {calibration.predictor}, not {spec}"
    else:
        return ()
    return (f"forecasts are not corrected: {reason}",)


def _same(spec: str, other: str) -> bool:
    """Whether both specs are of one predictor with the same options; defaults and aliases may be written out."""
    if spec == other:
        return True
    try:
        first, second = make(spec), make(other)
    except OptionError:
        return False
    return type(first) is type(second) and first.options == second.options
