"""Writes accounting logs as a PBS server does: ``python -m tests.service.pbs_server FROM TO SECONDS``.

It appends the contents of the logs in one folder to the logs of the same names in another, day by day, in pieces that
end anywhere.
"""

import sys
import time
from pathlib import Path
from random import Random

PIECE = 700


def main(source: Path, target: Path, seconds: float) -> None:
    """Write all logs within about this number of seconds."""
    chance = Random(1)
    logs = sorted(source.iterdir())
    pieces = sum(log.stat().st_size for log in logs) / PIECE
    for log in logs:
        content = log.read_bytes()
        with (target / log.name).open("ab", buffering=0) as stream:
            written = 0
            while written < len(content):
                size = chance.randrange(1, 2 * PIECE)
                stream.write(content[written : written + size])
                written += size
                time.sleep(seconds / pieces)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
