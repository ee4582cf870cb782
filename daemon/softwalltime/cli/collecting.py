"""The file that ``softwalltime collect`` writes, and what pseudonyms replace in it."""

import re
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.accounting.writer import write_logs
from softwalltime.cli.sources import problems
from softwalltime.core.jobs import CompletedJob
from softwalltime.core.written import replaced
from softwalltime.measure.forecast.snapshot import DEDICATED, SCHED_CONFIG_UNREAD, ServerSnapshot
from softwalltime.measure.simulation.shares import ENTITIES, ROOT, UNKNOWN, FairShareSettings, ShareGroup
from softwalltime.reports.pseudonyms import Pseudonyms

SERVER = "pbs"
"""In place of the server's name."""
_PLACED = re.compile(r"\b(host|vnode)=([^:+]+)")
_NAMED = re.compile(r"""\b([ugp]):(?!PBS_|_pbs_)["']?([^"'=\],]+)["']?""")
"""A user, group or project in a limit, as in ``[u:alice=5]``."""
_KINDS = {"u": "user", "g": "group", "p": "project"}


def write_archive(target: Path, files: Mapping[str, Path], when: datetime) -> None:
    """Write a tar file, readable by its owner only; ``files``: paths by name in it.  It does not say who owns them."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        return entry.replace(mode=0o600, mtime=int(when.timestamp()), uid=0, gid=0, uname="", gname="", deep=False)

    with replaced(target, 0o600) as stream, tarfile.open(fileobj=stream, mode="w:gz", dereference=True) as archive:
        for name, path in files.items():
            archive.add(path, name, filter=plain)


def distinct_names(files: Sequence[Path]) -> dict[str, Path]:
    """Return the files by name; a name that two files have gets the folder's before it."""
    counts = Counter(path.name for path in files)
    return {path.name if counts[path.name] == 1 else f"{path.parent.name}/{path.name}": path for path in files}


def anonymous_snapshot(snapshot: ServerSnapshot, names: Pseudonyms) -> ServerSnapshot:
    """Return the snapshot without names of hosts, vnodes, reservations, users, groups and projects."""

    def limits(named: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return tuple(
            (name, _NAMED.sub(lambda found: f"{found[1]}:{names(_KINDS[found[1]], found[2].strip())}", value))
            for name, value in named
        )

    hosts = {host: f"host-{number}" for number, host in enumerate(dict.fromkeys(v.host for v in snapshot.vnodes), 1)}
    return replace(
        snapshot,
        server=SERVER,
        jobs=(),
        vnodes=tuple(
            replace(vnode, name=f"vnode-{number}", host=hosts[vnode.host])
            for number, vnode in enumerate(snapshot.vnodes, 1)
        ),
        reservations=tuple(
            each if each.name == DEDICATED else replace(each, name=f"{each.name[:1]}{number}")
            for number, each in enumerate(snapshot.reservations, 1)
        ),
        queues=tuple(
            replace(
                queue, limits=limits(queue.limits), destinations=tuple(d.partition("@")[0] for d in queue.destinations)
            )
            for queue in snapshot.queues
        ),
        scheduler=replace(
            snapshot.scheduler,
            limits=limits(snapshot.scheduler.limits),
            shares=snapshot.scheduler.shares and _anonymous_shares(snapshot.scheduler.shares, names),
            # A peer queue names its server.
            unmodelled=tuple(text.partition("@")[0] for text in snapshot.scheduler.unmodelled),
        ),
        # Other remarks may hold names.
        remarks=tuple(remark for remark in snapshot.remarks if remark == SCHED_CONFIG_UNREAD),
    )


def _anonymous_shares(shares: FairShareSettings, names: Pseudonyms) -> FairShareSettings:
    kinds = ENTITIES[shares.entity]

    def named(name: str) -> str:
        if name in (ROOT, UNKNOWN):
            return name
        return ":".join(names(*pair) for pair in zip(kinds, name.split(":", len(kinds) - 1), strict=False))

    groups = tuple(ShareGroup(named(each.name), named(each.parent), each.shares) for each in shares.groups)
    return replace(shares, groups=groups, used=(), decayed=None)


def anonymous_logs(files: Sequence[Path], names: Pseudonyms, folder: Path) -> list[str]:
    """Write a log with pseudonyms for each day (UTC) into a new folder; return a line for each problem of the old logs.

    They hold only what this program reads: no path, no environment, no comment.
    """
    tally = Tally()
    write_logs([_anonymous(job, names) for job in read_jobs(files, tally)], folder, UTC)
    return list(problems(tally))


def _anonymous(job: CompletedJob, names: Pseudonyms) -> CompletedJob:
    submission = job.submission

    def named(kind: str, name: str) -> str:
        return names(kind, name) if name else ""

    return replace(
        job,
        server=SERVER,
        submission=replace(
            submission,
            job_id=f"{submission.job_id.partition('.')[0]}.{SERVER}",
            user=named("user", submission.user),
            group=named("group", submission.group),
            project=named("project", submission.project),
            account=named("account", submission.account),
            job_name=named("job", submission.job_name),
            queue=named("queue", submission.queue),
            select=_PLACED.sub(lambda found: f"{found[1]}={names('host', found[2])}", submission.select),
            script="",
        ),
    )
