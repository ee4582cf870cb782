"""The option ``--walltime-from``: walltimes of jobs that have none."""

from pathlib import Path

import click

from softwalltime.accounting.queue_limits import read_queue_limits
from softwalltime.cli.parameters import option
from softwalltime.errors import UsageError


class QueueWalltimes(click.ParamType[dict[str, int]]):
    """Walltimes in seconds by queue: pairs, a file of pairs, or a snapshot of the PBS server."""

    name = "walltimes"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, int]:
        """Return the walltimes.

        :raises UsageError: if a pair is malformed, or a snapshot has no default.
        :raises SourceError: if the file cannot be read.
        """
        if isinstance(value, dict):
            return value
        text = str(value)
        return _of_snapshot(Path(text)) if "=" not in text and _is_json(Path(text)) else read_queue_limits(text)


WALLTIMES = option(
    "Walltimes of jobs that have none, by queue: queue=HH:MM:SS,...; * for other queues; or a file of such "
    "lines; or the queue defaults in a file of softwalltime snapshot.",
    "--walltime-from", type=QueueWalltimes(), metavar="PAIRS|FILE",
)  # fmt: skip


def _is_json(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(64).lstrip().startswith(b"{")
    except OSError:
        return False


def _of_snapshot(path: Path) -> dict[str, int]:
    # The help of a command does not need pydantic, which takes long to import.
    from softwalltime.forecast.snapshot import default_walltimes, load_snapshot

    defaults = default_walltimes(load_snapshot(path))
    if not defaults:
        raise UsageError(f"{path}: no queue of this snapshot has a default or maximum walltime: give queue=HH:MM:SS")
    return defaults
