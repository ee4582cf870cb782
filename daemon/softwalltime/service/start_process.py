"""Starts :mod:`.start_publisher`, or reports which package is missing for forecasts."""

import json
import sys
from dataclasses import asdict

from softwalltime.extras import what_to_install
from softwalltime.service.status import StartsStatus


def main() -> None:
    """Publish until the input ends."""
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
