"""Checks of PBS's settings: whether its scheduler plans ahead, and how its queues use walltimes.

These are choices of the site, so what limits soft walltimes is advice and not an error.
"""

from collections.abc import Iterator, Mapping

from softwalltime.deployment.finding import Finding, advice, ok, skipped, warning
from softwalltime.deployment.qmgr import QmgrObject, QmgrObjects
from softwalltime.deployment.sched_config import switched


def check_scheduler(server: QmgrObjects, files: Mapping[str, str | None]) -> Iterator[Finding]:
    """Check whether there are top jobs: soft walltimes work in the calendar of top jobs and nowhere else.

    :param files: sched_config of each scheduler, ``None`` where it cannot be read.
    """
    yield from _depth(server)
    for file, text in files.items():
        if text is None:
            yield skipped("strict ordering", f"{file} cannot be read from here: strict_ordering must be true in it")
        else:
            yield _ordering(file, text)


def _ordering(file: str, text: str) -> Finding:
    """Check whether the scheduler plans ahead with this sched_config."""
    check = "strict ordering"
    if True not in switched(text, "strict_ordering"):
        # strict_ordering also changes the order of the jobs, so it is for the site to decide.
        act = (
            f"a PBS manager, if that is the site's policy: strict_ordering: true ALL in {file}, kill -HUP the scheduler"
        )
        nothing = "so no job is a top job, nothing is planned ahead, and soft walltimes have no effect"
        return advice(check, f"{file}: strict_ordering is not true, {nothing}", act)
    if False in switched(text, "backfill", default=True):
        return advice(check, f"{file}: backfill is false", "a PBS manager: backfill: true ALL in it")
    return ok(check, f"{file}: jobs are planned ahead")


def _depth(server: QmgrObjects) -> Iterator[Finding]:
    check = "backfill_depth"
    attributes = server.get(("server", ""), QmgrObject())
    if attributes.get("scheduling", "True").lower() == "false":
        yield warning("scheduling", "the server's scheduling is off", "qmgr -c 'set server scheduling = True'")
    depth = attributes.get("backfill_depth")
    off = [name for (kind, name), found in server.items() if kind == "queue" and found.get("backfill_depth") == "0"]
    if depth == "0":
        yield advice(check, "0 on the server: nothing is backfilled", "qmgr -c 'set server backfill_depth = 10'")
    elif off:
        act = f"qmgr -c 'set queue {off[0]} backfill_depth = 10'"
        yield advice(check, f"0 in {', '.join(off)}: nothing is planned there", act)
    elif depth in ("", "1"):
        yield ok(
            check,
            "1: only the first waiting job is promised a start; with a greater depth, more jobs are",
        )
    else:
        yield ok(check, f"{depth} waiting jobs are promised a start")


def check_queues(server: QmgrObjects) -> Iterator[Finding]:
    """Check for queues that accept jobs by walltime, and for queues without a default walltime.

    A job stays in the queue that its walltime led to, however short its soft walltime is (Chlumsky and Klusacek 2022,
    section 3.3).
    """
    queues = {name: found for (kind, name), found in server.items() if kind == "queue"}
    limited = [
        name
        for name, found in queues.items()
        if any(found.get(f"resources_{end}.walltime") for end in ("min", "max")) and found.get("queue_type")[:1] != "R"
    ]
    if limited:
        yield advice(
            "queue limits",
            f"{', '.join(limited)}: accepts jobs by walltime, and a job with a long walltime stays in a long queue "
            "though its soft walltime is short",
            "nothing is wrong; limits on jobs or cores instead let soft walltimes do more",
        )
    else:
        yield ok("queue limits", "no queue accepts jobs by walltime")
    # Without a default, PBS gives a job the maximum.
    sources = ("resources_default.walltime", "resources_max.walltime")
    everywhere = any(server.get(("server", ""), QmgrObject()).get(source) for source in sources)
    without = [
        name
        for name, found in queues.items()
        if found.get("queue_type")[:1] == "E" and not everywhere and not any(found.get(source) for source in sources)
    ]
    if without:
        yield advice(
            "default walltimes",
            f"{', '.join(without)}: jobs that request no walltime have none, and get no soft walltime",
            f"qmgr -c 'set queue {without[0]} resources_default.walltime = 24:00:00', or as fits",
        )
    else:
        yield ok("default walltimes", "every job has a walltime")
