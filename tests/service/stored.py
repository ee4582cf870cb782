"""Compare the contents of a store with the state after a log."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import Engine, text

from softwalltime.accounting.daily_files import log_files
from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.store.completed_jobs import read_jobs as read_stored
from softwalltime.store.current import read_current
from softwalltime.store.logs import read_malformed
from tests.service.histories import ExpectedState, expected_state


def lines_of(folder: Path) -> list[bytes]:
    """Return all complete lines of a folder's logs, by day."""
    return [line for path in log_files(folder) for line in path.read_bytes().split(b"\n")[:-1]]


def current(engine: Engine) -> dict[str, tuple[int | None, int | None, int | None]]:
    """Return the current jobs in the form of :class:`ExpectedState`."""
    with engine.connect() as connection:
        return {
            job.submission.job_id: (job.start, job.submission.walltime, job.soft_walltime)
            for job in read_current(connection)
        }


def interrupted(engine: Engine) -> Counter[tuple[str, int]]:
    """Count the interrupted runs by job id and start."""
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT job_id, start_time FROM softwalltime.interrupted_runs")).all()
    return Counter((job_id, start) for job_id, start in rows)


def assert_as_the_log(engine: Engine, folder: Path, *, but_current: bool = False) -> ExpectedState:
    """Assert that the store has exactly the state after the logs in a folder, each entry once."""
    state = expected_state(lines_of(folder))
    with engine.connect() as connection:
        jobs = list(read_stored(connection))
        malformed = read_malformed(connection)
    found = Counter((job.submission.job_id, job.start) for job in jobs)
    assert_same(found, Counter(dict.fromkeys(state.completed, 1)))
    assert {(job.submission.job_id, job.start): job.runtime for job in jobs} == state.completed
    read = {(job.submission.job_id, job.start): job for job in read_jobs(log_files(folder), Tally())}
    assert read == {(job.submission.job_id, job.start): job for job in jobs}
    assert_same(interrupted(engine), Counter(dict.fromkeys(state.interrupted, 1)))
    places = Counter((line.path, line.byte_offset) for line in malformed)
    assert set(places.values()) <= {1}
    assert len(malformed) == state.malformed_lines
    assert {line.line for line in malformed} == state.malformed
    if not but_current:
        assert current(engine) == state.current
    return state


def assert_same(found: Counter[tuple[str, int]], expected: Counter[tuple[str, int]]) -> None:
    """Assert that both are equal; the message shows only the difference."""
    assert not (missing := list((expected - found).elements())[:10]), f"missing: {missing}"
    assert not (surplus := list((found - expected).elements())[:10]), f"too many: {surplus}"


def positions_reach(engine: Engine, paths: Iterable[Path]) -> bool:
    """Return whether these logs were read to their ends."""
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT path, byte_offset FROM softwalltime.log_positions")).all()
    reached = dict(map(tuple, rows))
    return all(reached.get(str(path)) == path.stat().st_size for path in paths)
