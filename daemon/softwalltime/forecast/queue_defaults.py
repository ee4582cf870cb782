"""The walltimes that a PBS server gives to jobs without one."""

from softwalltime.forecast.snapshot import ServerSnapshot

OTHERS = "*"
"""Name for all queues that are not listed."""


def default_walltimes(snapshot: ServerSnapshot) -> dict[str, int]:
    """Return the default walltime of each execution queue in seconds, ``*`` for other queues.

    In PBS's order: the queue's resources_default, the server's, then the queue's resources_max.  A queue without any of
    them is not in the result: its jobs have no walltime.
    """
    server = snapshot.scheduler.default_walltime
    walltimes = {
        queue.name: walltime
        for queue in snapshot.queues
        if queue.execution and (walltime := queue.default_walltime or server or queue.max_walltime)
    }
    return walltimes | ({OTHERS: server} if server else {})
