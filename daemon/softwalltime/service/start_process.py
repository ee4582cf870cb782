"""Entry point of the forecast process: start :mod:`.start_publisher`, or report a missing package."""

import json
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from softwalltime.core.extras import what_to_install
from softwalltime.service.status import StartsStatus

OUT_OF_MEMORY = 800
"""``oom_score_adj``, at most 1000: when memory runs out the kernel kills this process, not the daemon."""


def main() -> None:
    # Control-C and systemd signal all processes; the daemon ends this one itself.
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
