"""The guard: while the top job is later than promised, waiting jobs are planned with their walltimes.

Short waiting values let jobs be backfilled that outlive them, so a wide job at the head of the queue can be put off
again and again.  With the guard nothing that could delay it longer is started once it is late.
"""

from collections.abc import Mapping


def late_job(promised: Mapping[str, int], now: int, seconds: int) -> str:
    """Return the job that is late for longest; empty if none is.

    :param promised: the start first promised to each waiting job, epoch seconds.
    :param seconds: how late a job may be before it counts.

    >>> late_job({"1.srv": 100, "2.srv": 50}, now=200, seconds=60)
    '2.srv'
    >>> late_job({"1.srv": 100, "2.srv": 50}, now=110, seconds=60)
    ''
    """
    late = [(promise, job) for job, promise in promised.items() if now > promise + seconds]
    return min(late)[1] if late else ""
