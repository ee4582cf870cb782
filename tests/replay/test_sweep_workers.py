"""Workers of a sweep: processes and a Dask cluster, and workers that crash."""

import operator
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from softwalltime.core.errors import SoftwalltimeError, UsageError
from softwalltime.measure.replay.sweep import workers as workers_module
from softwalltime.measure.replay.sweep.grid import expand
from softwalltime.measure.replay.sweep.trial import Trial, TrialTask, run_trial
from softwalltime.measure.replay.sweep.workers import Workers, dask_workers, local_workers
from tests.dask_cluster import cluster
from tests.replay.conftest import with_spec
from tests.service.running import PATIENT, until

GRID = ["request", "v1", "v2", "v3", "v4", *expand("percentile:p=50|95,keys=user|project")]


def outcomes(workers: Workers, task: TrialTask) -> dict[str, Trial]:
    found = workers.do(run_trial, [with_spec(task, spec) for spec in GRID])
    return {trial.spec: replace(trial, seconds=0) for _, trial in found}


@pytest.fixture
def alone(task: TrialTask) -> dict[str, Trial]:
    return outcomes(local_workers(1), task)


def test_many_processes_give_what_one_gives(task: TrialTask, alone: dict[str, Trial]) -> None:
    assert list(alone) == GRID
    assert outcomes(local_workers(2), task) == alone
    assert list(local_workers(2).do(run_trial, [])) == []


def test_an_error_on_a_worker_ends_the_run_as_it_is(task: TrialTask) -> None:
    tasks = [replace(task, version="99"), task, task]
    with pytest.raises(SoftwalltimeError, match="99 where the command was started"):
        list(local_workers(2).do(run_trial, tasks))


def test_a_process_that_is_killed_ends_the_run_with_advice() -> None:
    with pytest.raises(SoftwalltimeError, match="perhaps because memory ran out: try fewer --processes; finished"):
        list(local_workers(2).do(os._exit, [1, 1]))


HEARING = """
import functools, signal
from softwalltime.measure.replay.sweep.workers import local_workers
blocked = functools.partial(signal.pthread_sigmask, signal.SIG_BLOCK)
print(*(signal.SIGINT not in each for each in local_workers(2).do(blocked, [()] * 4)))
print(signal.SIGINT not in blocked(()))
"""
"""Which processes hear an interrupt."""


def test_processes_do_not_hear_an_interrupt_and_the_one_that_starts_them_does() -> None:
    # In a process of its own, which starts all that joblib needs; in this one other tests may have done so.
    done = subprocess.run([sys.executable, "-c", HEARING], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False False False False", "True"]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster may answer as late as it likes."""
    monkeypatch.setattr(workers_module, "_SCHEDULER_TIMEOUT_S", PATIENT)
    monkeypatch.setattr(workers_module, "_WORKER_TIMEOUT_S", PATIENT)


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    with cluster(workers=2) as address:
        yield address


def test_a_dask_cluster_gives_what_one_process_gives(scheduler: str, task: TrialTask, alone: dict[str, Trial]) -> None:
    with dask_workers(scheduler) as workers:
        assert workers.words == f"the cluster at {scheduler}, which has 2 workers and 2 threads now"
        assert outcomes(workers, task) == alone
        # A second time, and an error of a worker's own.
        assert outcomes(workers, task) == alone
        with pytest.raises(SoftwalltimeError, match="99 where the command was started"):
            list(workers.do(run_trial, [replace(task, version="99"), task]))


def test_a_cluster_of_one_core_is_used_too(task: TrialTask) -> None:
    with cluster(workers=1) as scheduler, dask_workers(scheduler) as workers:
        (found,) = workers.do(operator.call, [os.getpid])
    assert found != os.getpid()


@contextmanager
def worker(address: str) -> Iterator[None]:
    """A worker of a cluster, which ends as one whose walltime is over."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
    with subprocess.Popen([*command, "--no-nanny", "--no-dashboard"], stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def test_a_cluster_that_loses_all_workers_is_said_and_goes_on_with_new_ones(caplog: pytest.LogCaptureFixture) -> None:
    def rest() -> None:
        found.extend(results)

    found: list[None] = []
    with cluster(workers=0, allowed_failures=3) as address:
        with worker(address), ExitStack() as stack:
            workers = stack.enter_context(dask_workers(address))
            results = workers.do(time.sleep, [0, 1, 1, 1])
            assert next(results) is None
            connection = stack.pop_all()
        with connection:
            waiting = threading.Thread(target=rest)
            waiting.start()
            until(lambda: caplog.messages)
            with worker(address):
                waiting.join(PATIENT)
    assert found == [None, None, None]
    assert caplog.messages == ["The cluster has lost all workers; this command waits until others start."]


def test_a_task_that_kills_its_workers_is_given_up(scheduler: str) -> None:
    with dask_workers(scheduler) as workers, pytest.raises(SoftwalltimeError, match="after several workers had died"):
        list(workers.do(os._exit, [1]))


def test_a_cluster_with_another_version_is_refused(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "__version__", "99")
    with (
        pytest.raises(SoftwalltimeError, match=r"the cluster's worker tcp://.* has softwalltime .*: install 99 for it"),
        dask_workers(scheduler),
    ):
        pass


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        ("nonsense", UsageError, "'nonsense' is no scheduler's address, such as tcp://host:8786: missing port"),
        ("carrier://pigeon:1", UsageError, "unknown address scheme 'carrier'"),
        ("tcp://127.0.0.1:1", SoftwalltimeError, "no Dask scheduler answers at tcp://127.0.0.1:1"),
    ],
)
def test_an_address_where_no_scheduler_is_gets_a_clear_message(
    address: str, error: type[SoftwalltimeError], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    monkeypatch.setattr(workers_module, "_SCHEDULER_TIMEOUT_S", 0.5)
    with pytest.raises(error, match=message), dask_workers(address):
        pass
