"""Sort recorded jobs by submission, each run once, in memory that the number of jobs does not set.

Jobs are sorted a million at a time into temporary files, which are then merged.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path

from softwalltime.accounting.tally import Tally
from softwalltime.core.errors import SourceError
from softwalltime.core.jobs import CompletedJob, Values
from softwalltime.measure.replay.job_columns import NAMES, JobColumns, run_key
from softwalltime.measure.replay.parquet import read_groups, write_parquet

RUN = 1_000_000
"""Jobs that are sorted in memory, of 150 bytes each."""
GROUP = 1 << 12
"""Jobs of a row group of a run: while runs are merged, one row group of each is in memory."""
_SUBMITTED = NAMES.index("submitted")


def sorted_runs(
    rows: Iterable[Values | CompletedJob], folder: Path, chosen: Callable[[JobColumns], JobColumns]
) -> list[Iterable[JobColumns]]:
    """Return the jobs as runs, each sorted by submission; all but the last are in files in ``folder``.

    :param chosen: returns those of some jobs that are wanted.
    :raises SourceError: if a file cannot be written.
    """
    runs: list[Iterable[JobColumns]] = []
    for jobs in JobColumns.groups_of(rows, RUN):
        run = chosen(jobs).by_submission()
        if not run:
            continue
        if len(jobs) < RUN:
            runs.append(run.in_groups(GROUP))
            break
        path = folder / f"{len(runs)}.parquet"
        try:
            with path.open("xb") as stream:
                write_parquet(run.in_groups(GROUP), stream, {})
        except OSError as error:
            message = f"{folder}: the jobs cannot be sorted there: {error.strerror or error}"
            raise SourceError(f"{message}; name another folder with TMPDIR") from error
        runs.append(read_groups(path))
    return runs


def merged(runs: Sequence[Iterable[JobColumns]], tally: Tally) -> Iterator[Values]:
    """Yield the values of all jobs in order of submission; those submitted at once in the order of the runs.

    :param runs: sorted by submission.
    :param tally: counts further records of the same run of a job, which are left out.
    """
    rows = (chain.from_iterable(group.rows(*NAMES) for group in run) for run in runs)
    now, seen = None, set[object]()
    for row in heapq.merge(*rows, key=itemgetter(_SUBMITTED)):
        if row[_SUBMITTED] != now:
            now, seen = row[_SUBMITTED], set()
        key = run_key(row)
        if key in seen:
            tally.repeated += 1
        else:
            seen.add(key)
            yield row
