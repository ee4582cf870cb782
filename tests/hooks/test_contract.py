"""Hook and daemon implement the same protocol."""

from collections.abc import Callable
from pathlib import Path

import pytest

from softwalltime.emulation.pbs.hook_runner import HookOutcome
from softwalltime.emulation.pbs.pbs_events import Event, Site, altered, postqueued, queued, started
from softwalltime.service import protocol
from tests.hooks import recordings
from tests.hooks.jobs import AT_QUEUEJOB, NOW, submission
from tests.hooks.peer import Peer
from tests.hooks.test_recordings import RECORDED

Run = Callable[..., HookOutcome]


def read(request: Path) -> list[protocol.Request]:
    return [protocol.read_request(line + b"\n") for line in (request / "asked.jsonl").read_bytes().splitlines()]


def test_the_daemon_reads_the_request_of_every_recording(run: Run, peer: Peer) -> None:
    for path in RECORDED:
        run(recordings.read(path), events=AT_QUEUEJOB)
    requests = read(peer.folder)
    assert len(requests) > 40
    assert {request.event for request in requests} == {"queuejob", "modifyjob", "runjob"}
    assert all(request.job.user for request in requests)


@pytest.mark.parametrize("name", ["queuejob", "postqueuejob", "modifyjob", "runjob"])
def test_the_daemon_reads_the_values_of_the_job(name: str, run: Run, peer: Peer, site: Site) -> None:
    job = submission(ncpus=4, nodect=2, ngpus=1, mem=2**30, select="2:ncpus=2", place="scatter", interactive=False)
    events: dict[str, Event] = {
        "queuejob": queued(job, site=site, array_indices="1-3", now=NOW),
        "postqueuejob": postqueued(job, site=site, now=NOW),
        "modifyjob": altered(job, {"walltime": "01:00:00"}, site=site, now=NOW, soft_walltime=900),
        "runjob": started(job, site=site, now=NOW, soft_walltime=900),
    }
    run(events[name])
    (request,) = read(peer.folder)
    assert (request.event, request.now) == (name, NOW)
    assert request.soft_walltime == (900 if name == "runjob" else None)
    if name != "queuejob":
        assert request.job == job


def test_the_daemon_reads_a_request_with_long_texts(run: Run, peer: Peer, site: Site) -> None:
    job = submission(account="a" * 5000, project="p" * 5000, job_name="n" * 5000, select="1:ncpus=1+" * 3000)
    run(postqueued(job, site=site))
    (request,) = read(peer.folder)
    assert request.job.account == "a" * 512
    assert request.job.select == job.select


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (protocol.answer_set(1200, "because"), 1200),
        (protocol.answer_none("why not"), None),
        (protocol.answer_error("no"), None),
    ],
)
def test_the_hook_reads_every_answer_of_the_daemon(
    answer: bytes, expected: int | None, run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(raw=answer.decode())
    outcome = run(postqueued(submission(), site=site))
    assert outcome.soft_walltime == expected
    assert ("no answer" in outcome.log[0][1]) == (b"error" in answer)
