"""Workers for tasks: processes on this machine, or a Dask cluster."""

import logging
import multiprocessing.resource_tracker
import signal
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from socket import gethostname
from typing import TYPE_CHECKING, TypeVar

from joblib import Parallel, cpu_count, delayed  # type: ignore[import-untyped]  # joblib has no types
from joblib.externals import loky  # type: ignore[import-untyped]  # joblib has no types

from softwalltime import __version__
from softwalltime.core.errors import SoftwalltimeError, UsageError
from softwalltime.core.formatting import plural

if TYPE_CHECKING:
    from distributed import Client

log = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")

_PACKAGE = "pbs-softwalltime"
_SCHEDULER_TIMEOUT_S = 10.0
"""Seconds to wait for a scheduler to answer."""
_WORKER_TIMEOUT_S = 5.0
"""Seconds to wait for the first worker of a cluster."""
_POLL_S = 0.05
"""Seconds between two looks for results of a cluster."""
MAX_JOBS_IN_PROCESS = 150_000
"""Simulated jobs up to which no further processes are started, because starting them takes longer."""
_IDLE_TIMEOUT_S = 10
"""Seconds after which an idle process ends, also if its parent was killed."""


@dataclass(frozen=True, slots=True)
class Workers:
    """A number of local processes, or the cluster of a Dask client."""

    processes: int
    words: str
    client: "Client | None" = None

    def do(self, function: Callable[[T], R], tasks: Sequence[T]) -> Generator[R]:
        """Yield the function's result for each task, in the order of completion.

        :raises SoftwalltimeError: what the function raises, or why the workers cannot go on.
        """
        if not tasks:
            return
        if self.client is not None:
            results = _by_cluster(self.client, function, tasks)
        elif self.processes > 1:
            results = _by_processes(self.processes, function, tasks)
        else:
            yield from map(function, tasks)
            return
        with _explained():
            yield from results


def _by_processes(processes: int, function: Callable[[T], R], tasks: Sequence[T]) -> Generator[R]:
    parallel = Parallel(
        min(processes, len(tasks)), "loky", "generator_unordered", pre_dispatch="2 * n_jobs", batch_size=1,
        idle_worker_timeout=_IDLE_TIMEOUT_S,
    )  # fmt: skip
    with warnings.catch_warnings(), ExitStack() as at_the_end:
        # joblib warns of processes that it replaces because they have grown, and of tasks that are left undone.
        warnings.filterwarnings("ignore", module="joblib")
        with _deaf_to_interrupts():
            results = parallel(delayed(function)(task) for task in tasks)
            at_the_end.callback(results.close)
        yield from results


def _by_cluster(client: "Client", function: Callable[[T], R], tasks: Sequence[T]) -> Generator[R]:
    from distributed import as_completed

    # A cluster may grow, so all tasks are submitted at once.  Dropping these futures cancels the remaining ones.
    with warnings.catch_warnings():
        # Thousands of tasks with some of the earlier jobs of each are no mistake.
        warnings.filterwarnings("ignore", "Sending large graph")
        futures = client.map(function, tasks, pure=False)
    completed = as_completed(futures, loop=client.loop)
    # Results that were taken need not stay in the memory of the cluster.
    del futures
    had_workers = True
    while not completed.is_empty():
        if completed.has_ready():
            yield next(completed).result()
            continue
        time.sleep(_POLL_S)
        # Workers that are jobs end with their walltime, and others start after a while.
        has_workers = bool(client.scheduler_info()["workers"])
        if had_workers and not has_workers:
            log.warning("The cluster has lost all workers; this command waits until others start.")
        had_workers = has_workers


def require_version(started: str) -> None:
    """Refuse to work for a command of another version: figures of different versions must not be mixed unnoticed.

    :raises SoftwalltimeError: names both versions.
    """
    if started != __version__:
        raise SoftwalltimeError(
            f"softwalltime is {__version__} on {gethostname()} and {started} where the command was started: "
            "install the same version"
        )


def local_workers(processes: int | None = None) -> Workers:
    """Processes on this machine; by default as many as there are cores for us, by taskset, cgroup or PBS."""
    processes = processes or cpu_count()
    return Workers(processes, "one process" if processes == 1 else f"{processes} processes")


def chosen_workers(processes: int | None, scheduler: str | None) -> AbstractContextManager[Workers]:
    """Return :func:`dask_workers` if there is the address of a scheduler, else :func:`local_workers`."""
    return dask_workers(scheduler) if scheduler else nullcontext(local_workers(processes))


@contextmanager
def dask_workers(address: str) -> Iterator[Workers]:
    """The workers of a running Dask cluster, whose scheduler has this address, such as ``tcp://host:8786``.

    :raises UsageError: if Dask is not installed, or the address is none.
    :raises SoftwalltimeError: if no scheduler or worker answers there, or one has another version of softwalltime.
    """
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError as error:
        raise UsageError("a Dask cluster needs Dask: pip install 'pbs-softwalltime[dask]'") from error
    # Dask logs lost connections and workers often, without more information than the error.
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        # Check the address first: a client with an invalid one takes 20 s to end.
        get_address_host_port(address)
        client = Client(address, timeout=_SCHEDULER_TIMEOUT_S, set_as_default=False, name="softwalltime-sweep")
    except ValueError as error:
        raise UsageError(f"{address!r} is no scheduler's address, such as tcp://host:8786: {error}") from error
    except OSError as error:
        raise SoftwalltimeError(f"no Dask scheduler answers at {address}: start one, or correct the address") from error
    with client:
        try:
            # Without workers tasks would wait for ever.
            client.wait_for_workers(1, timeout=_WORKER_TIMEOUT_S)
        except TimeoutError as error:
            raise SoftwalltimeError(
                f"the Dask scheduler at {address} has no workers: start some with dask worker {address}"
            ) from error
        _check_versions(client)
        threads = client.nthreads()
        number = f"{plural(len(threads), 'worker')} and {plural(sum(threads.values()), 'thread')}"
        yield Workers(len(threads), f"the cluster at {address}, which has {number} now", client)


def _check_versions(client: "Client") -> None:
    """Refuse a cluster with another version of softwalltime, or none."""
    # A worker exits if it cannot import a task; each one can import this function.
    there = client.run(version, _PACKAGE, on_error="return")
    versions: dict[str, object] = {f"worker {address}": answer for address, answer in there.items()}
    try:
        versions["scheduler"] = client.run_on_scheduler(version, _PACKAGE)
    except PackageNotFoundError as error:
        versions["scheduler"] = error
    for which, answer in versions.items():
        if answer != __version__:
            has = f"softwalltime {answer}" if isinstance(answer, str) else "no softwalltime"
            raise SoftwalltimeError(f"the cluster's {which} has {has}: install {__version__} for it, as here")


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let processes that are started inside this context ignore Ctrl-C: each would print a traceback."""
    # The first process needs both; starting one of them later would let this thread, and the processes, hear again.
    multiprocessing.resource_tracker.ensure_running()
    loky.backend.resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _explained() -> Iterator[None]:
    advice = "finished results are saved; run the same command to continue"
    try:
        yield
    except SoftwalltimeError:
        raise
    except BrokenProcessPool as error:
        raise SoftwalltimeError(
            f"a process was killed, perhaps because memory ran out: try fewer --processes; {advice}"
        ) from error
    except (Exception, CancelledError) as error:
        kind = type(error).__name__
        reason = f"the workers failed: {kind}: {error}"
        if kind == "KilledWorker":
            reason = "a task was given up after several workers had died on it, perhaps because memory ran out"
        elif isinstance(error, CancelledError):
            reason = "the Dask scheduler is gone"
        raise SoftwalltimeError(f"{reason}; {advice}") from error
