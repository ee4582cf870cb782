"""Jobs for tests: short ways to write them, hypothesis strategies for arbitrary ones, and the recorded traces."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from softwalltime.core.jobs import MAX_WALLTIME, CompletedJob, Submission
from softwalltime.measure.replay.workload import Workload
from tests.traces import SOURCES, TRACES

ROOT = Path(__file__).resolve().parents[1]
RECORDED_LOG = Path(__file__).parent / "accounting" / "data" / "20261120"


def trace(name: str) -> Path:
    """A recorded trace by the beginning of its name; skips the test where it is not there."""
    (source,) = [source for source in SOURCES if source.name.startswith(name)]
    path = TRACES / f"{source.name}.swf.gz"
    if not path.exists():
        pytest.skip(f"no {path}: fetch it with python -m tests.traces fetch {source.name}")
    return path


def job(
    user: str = "alice", *, submitted: int = 0, end: int | None = None, runtime: int = 100,
    walltime: int | None = 1000, project: str = "p", job_id: str = "1.srv", **more: Any,
) -> CompletedJob:  # fmt: skip
    """A completed job with what a test does not care about filled in."""
    end = submitted + 10 + runtime if end is None else end
    of_submission = {name: more.pop(name) for name in Submission.__dataclass_fields__.keys() & more.keys()}
    submission = Submission(job_id, user, submitted, walltime, project=project, **of_submission)
    fields: dict[str, Any] = {"server": "srv", "start": end - runtime, "end": end, "runtime": runtime}
    return CompletedJob(submission, **(fields | more))


def events(workload: Workload) -> Iterator[tuple[int, int, int]]:
    """The submissions and ends of a workload in order: kind, index of the job, and time."""
    for stride in workload.stream():
        yield from zip(stride.kinds, stride.numbers, stride.times, strict=True)


times = st.integers(1, 10**12 - 1)
seconds = st.integers(0, 10**12 - 1)
walltimes = st.integers(0, MAX_WALLTIME)
counts = st.integers(0, 2**31 - 1)
sizes = st.integers(0, 2**62)
names = st.from_regex(r"[A-Za-z0-9_+.\-]{1,15}", fullmatch=True)


def _maybe(strategy: st.SearchStrategy[int]) -> st.SearchStrategy[int | None]:
    return st.none() | strategy


_printable = st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0")
# The one thing that PBS's format cannot tell: an account that itself holds a quote and what follows accounts.
accounts = st.text(_printable, max_size=30).filter(
    lambda text: not any(f'" {field}' in text for field in ("project=", "accounting_id=", "jobname=", "queue="))
)
# PBS refuses double quotes in projects.
projects = st.text(_printable, max_size=20).map(lambda text: text.replace('"', "").strip(" "))
chunks = st.one_of(names, st.from_regex(r"[1-9]:ncpus=[1-9]\d?(:mem=\dgb)?(\+1:host=n\d)?", fullmatch=True))


@st.composite
def completed_jobs(draw: st.DrawFn) -> CompletedJob:
    """Any job that a PBS server could write an E record for."""
    server = draw(st.from_regex(r"[a-z][a-z0-9\-]{0,8}(\.[a-z]{2,5})?", fullmatch=True))
    index = draw(st.sampled_from(["", "[0]", "[17]"]))
    submission = Submission(
        f"{draw(st.integers(0, 10**9))}{index}.{server}",
        draw(st.from_regex(r"[a-z][a-z0-9._\-]{0,12}", fullmatch=True)),
        draw(times),
        draw(_maybe(walltimes)),
        draw(st.from_regex(r"([a-z]([a-z0-9 ._\-]{0,10}[a-z0-9])?)?", fullmatch=True)),
        draw(projects),
        draw(accounts),
        draw(names),
        draw(names),
        draw(_maybe(walltimes)),
        draw(_maybe(walltimes)),
        draw(_maybe(counts)),
        draw(_maybe(counts)),
        draw(_maybe(counts)),
        draw(_maybe(sizes)),
        draw(st.just("") | chunks),
        draw(st.sampled_from(["", "free", "scatter:excl"])),
        draw(st.none() | st.booleans()),
    )
    return CompletedJob(
        submission,
        server,
        draw(_maybe(times)),
        draw(seconds),
        draw(seconds),
        draw(_maybe(times)),
        draw(_maybe(times)),
        draw(_maybe(walltimes)),
        draw(_maybe(st.integers(-(2**31), 2**31 - 1))),
        draw(_maybe(counts)),
        draw(_maybe(seconds)),
        draw(_maybe(sizes)),
    )


def jobs_of_three_users(min_size: int = 0) -> st.SearchStrategy[list[CompletedJob]]:
    """Any jobs of three users and two projects within some minutes, of which not all teach."""
    one = st.builds(
        lambda submitted, wait, **fields: job(submitted=submitted, end=submitted + wait + fields["runtime"], **fields),
        user=st.sampled_from(["alice", "bob", "carol"]),
        project=st.sampled_from(["p", "q"]),
        submitted=st.integers(0, 400),
        wait=st.integers(0, 100),
        runtime=st.integers(0, 300),
        walltime=st.sampled_from([None, 100, 250, 4000]),
        exit_status=st.sampled_from([0, 1, -11]),
    )
    return st.lists(one, min_size=min_size, max_size=40)
