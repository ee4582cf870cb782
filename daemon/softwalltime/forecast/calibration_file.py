"""Corrections in a file: measured on a site's own log, used for its live forecasts."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from softwalltime.errors import SourceError
from softwalltime.forecast.calibration import CLASSES, Corrections
from softwalltime.forecast.start_times import LEVELS

FORMAT: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class CalibrationFile:
    """Corrections, and whose errors they come from: the jobs and the predictor of runtimes."""

    corrections: Corrections
    source: str
    predictor: str
    forecasts: int
    format: Literal[1] = FORMAT


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
        found = TypeAdapter(CalibrationFile).validate_json(path.read_bytes())
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        raise SourceError(f"{path}: no calibration: {error.errors()[0]['msg']}: {advice}") from error
    corrections, classes = found.corrections, len(CLASSES) + 1
    shapes = {len(shift) for shift in corrections.shifts} - {0, len(LEVELS)}
    if shapes or (len(corrections.shifts), len(corrections.weights)) != (classes, classes):
        raise SourceError(f"{path}: a calibration of another version: {advice}")
    return found
