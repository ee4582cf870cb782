"""Walltimes by queue, for jobs that have none.

A file has a line ``queue=HH:MM:SS`` for each queue; ``*`` is every other queue, ``#`` begins a comment::

    q_2h=2:00:00
    q_1d=24:00:00
    *=48:00:00
"""

from pathlib import Path

from softwalltime.accounting.conversions import duration
from softwalltime.core.errors import SourceError, UsageError

OTHERS = "*"
"""Name for all queues that are not listed."""


def read_queue_limits(text: str) -> dict[str, int]:
    """Return walltimes in seconds by queue, from comma-separated pairs ``queue=HH:MM:SS`` or a file of them.

    >>> read_queue_limits("short=1:00:00,*=24:00:00")
    {'short': 3600, '*': 86400}

    :raises UsageError: if a pair is malformed, or a queue is named twice.
    :raises SourceError: if the file cannot be read.
    """
    if "=" in text:
        pairs = text.split(",")
    else:
        try:
            lines = Path(text).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SourceError(f"{text}: {getattr(error, 'strerror', None) or error}") from error
        pairs = [pair for line in lines if (pair := line.partition("#")[0].strip())]
    limits: dict[str, int] = {}
    for pair in pairs:
        queue, _, walltime = (part.strip() for part in pair.partition("="))
        try:
            seconds = duration(walltime)
        except ValueError:
            seconds = 0
        if not queue or not seconds or queue in limits:
            problem = "is named twice" if queue in limits else "not of the form queue=HH:MM:SS"
            raise UsageError(f"queue limits: {pair.strip()!r}: {problem}")
        limits[queue] = seconds
    if not limits:
        raise UsageError(f"queue limits: {text}: no line of the form queue=HH:MM:SS")
    return limits
