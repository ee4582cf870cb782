"""The daemon on a server where a second stands for two minutes: its own times are shorter by that factor.

``fast_daemon.py serve ...`` is ``softwalltime serve ...``.
"""

from softwalltime.cli import main
from softwalltime.service.live import promise_ledger

UNIT = 120
"""Seconds of the simulation for a second of the server: minutes stand for hours, and a preset is simulated as it is."""

if __name__ == "__main__":
    # A minute is half a second, less than PBS's times can tell: a promise counts as late after ten minutes.
    scaled = {"LATE_AFTER_S": 600, "CORRECTION_WINDOW_S": promise_ledger.CORRECTION_WINDOW_S,
              "WITHDRAWN_AFTER_S": promise_ledger.WITHDRAWN_AFTER_S}  # fmt: skip
    for name, seconds in scaled.items():
        setattr(promise_ledger, name, seconds // UNIT)
    main()
