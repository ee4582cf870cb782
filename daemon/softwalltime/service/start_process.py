"""Starts :mod:`.start_publisher`, or reports which package is missing for forecasts."""

import json
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from softwalltime.core.extras import what_to_install
from softwalltime.service.status import StartsStatus

OUT_OF_MEMORY = 800
"""Added to what the kernel chooses a process by that it kills for memory, of 1000: this one, not the daemon."""


def main() -> None:
    # Control-C and systemd send signals to all processes of the daemon, which ends this one itself.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(OUT_OF_MEMORY), encoding="ascii")
    try:
        from softwalltime.service.start_publisher import main as publish
    except ImportError as error:
        problem = what_to_install(error) or f"forecasts cannot be made: {error}"
        sys.stdout.write(json.dumps(asdict(StartsStatus("on", problem=problem))) + "\n")
        sys.stdout.flush()
        for _ in sys.stdin:
            pass
        return
    publish()


if __name__ == "__main__":
    main()
