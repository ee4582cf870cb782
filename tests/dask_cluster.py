"""A Dask cluster on this machine, in a process of its own as a real one is."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

from tests.samples import ROOT

_PROGRAM = """
import sys
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=int(sys.argv[1]), threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@contextmanager
def cluster(workers: int, allowed_failures: int = 0) -> Iterator[str]:
    """The address of a cluster's scheduler; skips the test where Dask is not installed.

    :param allowed_failures: how many workers may die of a task, or while it runs.
    """
    if find_spec("distributed") is None:
        pytest.skip("Dask is not installed: pip install 'pbs-softwalltime[dask]'")
    # A worker that dies is replaced.
    environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(allowed_failures)}
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(workers)], cwd=ROOT, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.communicate()
