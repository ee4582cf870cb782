"""Weights of calibrated for each trace, trained on the logs of other institutions.

SOFTWALLTIME_TEST_WEIGHTS names a folder with a file NAME.json for each trace, where NAME begins the trace's name; from
``softwalltime train`` with the other traces, ``--weights random`` and ``--output FOLDER/NAME.json``.  Without a file
the weights in the package are measured, where they were not trained on the trace.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from softwalltime.predict.predictors.learned.network import SHIPPED, load

NAMES = ("KTH", "SDSC", "LLNL", "HPC2N", "CEA")


def weights_folder() -> Path:
    """Return the folder that SOFTWALLTIME_TEST_WEIGHTS names."""
    return Path(os.environ.get("SOFTWALLTIME_TEST_WEIGHTS", "/nonexistent"))


def held_out(trace: str, folder: Path) -> Iterator[str]:
    """Yield weights for a trace that were not trained on it, if there are any."""
    files = [file for file in sorted(folder.glob("*.json")) if trace.startswith(file.stem)]
    if files:
        yield str(files[0])
    elif trace not in load(SHIPPED).about["logs"]:
        yield SHIPPED
