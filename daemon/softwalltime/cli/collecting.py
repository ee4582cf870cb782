"""The file that ``softwalltime collect`` writes, and what pseudonyms replace in it."""

import io
import os
import re
import tarfile
import tempfile
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
from softwalltime.measure.forecast.snapshot import ServerSnapshot
from softwalltime.reports.pseudonyms import Pseudonyms

SERVER = "pbs"
"""In place of the server's name."""
_PLACED = re.compile(r"\b(host|vnode)=([^:+]+)")
_NAMED = re.compile(r"\b([ugp]):(?!PBS_)[^=\],]+")
"""A user, group or project in a limit, as in ``[u:alice=5]``."""


def write_archive(target: Path, files: Mapping[str, bytes | Path], when: datetime) -> None:
    """Write a tar file, readable by its owner only; owners of the files are not in it.

    :param files: content or path, by name.
    :raises SourceError: if it cannot be written.
    """
    with replaced(target, 0o600) as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode, entry.mtime = 0o600, int(when.timestamp())
            with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as source:
                # A log of today may grow meanwhile: no more is read than it has now.
                entry.size = source.seek(0, os.SEEK_END)
                source.seek(0)
                archive.addfile(entry, source)


def distinct_names(files: Sequence[Path]) -> dict[str, Path]:
    """Return the files by name; a name that two files have gets the folder's before it."""
    counts = Counter(path.name for path in files)
    return {path.name if counts[path.name] == 1 else f"{path.parent.name}/{path.name}": path for path in files}


def anonymous_snapshot(snapshot: ServerSnapshot) -> ServerSnapshot:
    """Return the snapshot without names of hosts, vnodes, reservations, users, groups and projects."""

    def limits(named: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return tuple((name, _NAMED.sub(r"\1:NAME", value)) for name, value in named)

    return replace(
        snapshot,
        server=SERVER,
        jobs=(),
        vnodes=tuple(
            replace(vnode, name=f"vnode-{number}", host=f"vnode-{number}")
            for number, vnode in enumerate(snapshot.vnodes, 1)
        ),
        reservations=(),
        queues=tuple(
            replace(
                queue, limits=limits(queue.limits), destinations=tuple(d.partition("@")[0] for d in queue.destinations)
            )
            for queue in snapshot.queues
        ),
        scheduler=replace(snapshot.scheduler, limits=limits(snapshot.scheduler.limits)),
        remarks=(),
    )


def anonymous_logs(files: Sequence[Path], names: Pseudonyms) -> tuple[dict[str, bytes], list[str]]:
    """Return accounting logs by day with pseudonyms, and one line for each problem of the logs that were read.

    They hold only what this program reads: no path, no environment, no comment.  Times are UTC.
    """
    tally = Tally()
    jobs = [_anonymous(job, names) for job in read_jobs(files, tally)]
    with tempfile.TemporaryDirectory(prefix="softwalltime-collect-") as folder:
        logs = Path(folder) / "accounting"
        write_logs(jobs, logs, UTC)
        return {log.name: log.read_bytes() for log in sorted(logs.iterdir())}, list(problems(tally))


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
