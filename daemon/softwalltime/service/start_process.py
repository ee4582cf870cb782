"""Entry point of the forecast process: run :mod:`.start_publisher`, or report a missing package.

The daemon writes one line of JSON with the settings to its input, and reads a line of JSON after each forecast.
"""

import json
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Thread

from softwalltime.core.extras import what_to_install
from softwalltime.core.settings import Settings
from softwalltime.service.log_output import set_up_logging
from softwalltime.service.status import StartsStatus

NICENESS = 19
"""Niceness of the process."""
OUT_OF_MEMORY = 800
"""``oom_score_adj``, at most 1000: when memory runs out the kernel kills this process, not the daemon."""


def main() -> None:
    # Control-C and systemd signal all processes; the daemon ends this one itself.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    set_up_logging()
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(OUT_OF_MEMORY), encoding="ascii")
    with suppress(OSError):
        os.nice(NICENESS)
    settings = Settings(**json.loads(sys.stdin.readline()))
    ending = Thread(target=_end_with_input, daemon=True)
    ending.start()
    try:
        from softwalltime.service.start_publisher import publish
    except ImportError as error:
        _report(StartsStatus("on", problem=what_to_install(error) or f"forecasts cannot be made: {error}"))
        ending.join()
    else:
        publish(settings, _report, time.sleep)


def _end_with_input() -> None:
    with suppress(OSError, ValueError):
        for _ in sys.stdin:
            pass
    # Exit at once: forecasts are stored in one transaction, so none is stored in part.
    os._exit(0)


def _report(status: StartsStatus) -> None:
    sys.stdout.write(json.dumps(asdict(status)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
