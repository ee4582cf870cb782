"""The daemon on a server where a second stands for two minutes: its own times are shorter by as much.

``fast_daemon.py serve ...`` is ``softwalltime serve ...``.
"""

from softwalltime.cli import main
from softwalltime.predict.policy import promise_ledger

UNIT = 120
"""Seconds of the simulation for a second of the server: minutes stand for hours, and a preset is simulated as it is."""

if __name__ == "__main__":
    for name in ("CORRECTION_WINDOW_S", "WITHDRAWN_AFTER_S"):
        setattr(promise_ledger, name, getattr(promise_ledger, name) // UNIT)
    # Less than a second would be chance.
    promise_ledger.LATE_AFTER_S = 5  # type: ignore[misc]
    main()
