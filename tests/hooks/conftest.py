"""Fixtures: the hook under test, a peer for its requests, and its configuration."""

import importlib.util
import json
import os
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from softwalltime.emulation.pbs.hook_runner import HookOutcome, HookScript
from softwalltime.emulation.pbs.pbs_events import NAMES, Event, Site
from tests.hooks.emulated import Do
from tests.hooks.peer import Peer
from tests.samples import ROOT

HOOK = ROOT / "hooks" / "softwalltime_hook.py"
TRANSPORT = ROOT / "hooks" / "softwalltime_postgres.py"
DEFAULTS = ROOT / "hooks" / "softwalltime_hook.json"
STATE = "SOFTWALLTIME_HOOK_TIMEOUTS"
PATIENT = 5000
"""The maximum deadline in milliseconds, for peers that answer, also on a busy machine."""
HASTY = 50
"""The default deadline in milliseconds, for peers that never answer."""
HUNG = 30
"""Seconds: longer than any run on a busy machine, shorter than a run that waits for a slow peer."""


@pytest.fixture(autouse=True)
def fresh_server() -> Iterator[None]:
    """Remove the hook's state in the process after each test."""
    yield
    os.environ.pop(STATE, None)
    os.environ.pop("PSYCOPG_IMPL", None)


@pytest.fixture(scope="session")
def hook() -> ModuleType:
    """The hook, imported as a module, which has no effect."""
    specification = importlib.util.spec_from_file_location("softwalltime_hook", HOOK)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def transport(tmp_path: Path) -> Path:
    """A copy of the transport for PostgreSQL that only root or this user can change."""
    file = tmp_path / TRANSPORT.name
    shutil.copyfile(TRANSPORT, file)
    file.chmod(0o644)
    return file


@pytest.fixture(scope="session")
def script() -> HookScript:
    """The hook file."""
    return HookScript(HOOK)


@pytest.fixture(scope="session")
def peer_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """One peer for all tests, because its start takes longer than most tests."""
    with Peer(tmp_path_factory.mktemp("peer")) as peer:
        yield peer


@pytest.fixture
def peer(peer_process: Peer) -> Iterator[Peer]:
    """A peer without requests that answers "none"."""
    peer_process.clear()
    peer_process.behave(none=True)
    yield peer_process
    peer_process.resume()


@pytest.fixture
def configured(tmp_path: Path) -> Callable[..., Path]:
    """Write a configuration file: the defaults with these keys changed and all events enabled."""
    numbers = count()
    defaults = {**json.loads(DEFAULTS.read_text()), "events": dict.fromkeys(NAMES, True)}

    def write(**changes: Any) -> Path:
        # A new file each time: the time stamp of a changed file may be the same.
        file = tmp_path / f"softwalltime_hook-{next(numbers)}.json"
        file.write_text(json.dumps({**defaults, **changes}))
        return file

    return write


@pytest.fixture
def run(script: HookScript, peer: Peer, configured: Callable[..., Path]) -> Callable[..., HookOutcome]:
    """Run the hook for an event, by default with the peer as daemon and the maximum deadline."""

    def run(event: Event, **changes: Any) -> HookOutcome:
        outcome = script.run(event, configured(**{"socket": str(peer.socket), "deadline_ms": PATIENT, **changes}))
        assert not outcome.error, outcome.error
        assert outcome.hook_accepted
        # The hook catches its own errors, which would otherwise look like a decision to set nothing.
        assert not any("accepted unchanged" in line for _, line in outcome.log), outcome.log
        return outcome

    return run


@pytest.fixture
def do(tmp_path: Path) -> Do:
    """Run lines of Python as a hook, with the names ``pbs``, ``event`` and ``job``; ``show(x)`` logs x."""

    def do(event: Event, *lines: str, **options: Any) -> HookOutcome:
        file = tmp_path / "hook.py"
        head = [
            "import pbs",
            "event = pbs.event()",
            "job = event.job",
            "show = lambda x: pbs.logmsg(pbs.LOG_DEBUG, str(x))",
        ]
        file.write_text("\n".join([*head, *lines]) + "\n")
        return HookScript(file).run(event, **options)

    return do


@pytest.fixture(scope="session")
def site() -> Site:
    """A site with execution queues, one without a default walltime, and routing queues, one with several defaults."""
    return Site(
        host="pbs1",
        server={"default_queue": "route_q", "resources_default": {"ncpus": "1"}},
        queues={
            "short": {
                "queue_type": "Execution",
                "resources_default": {"walltime": "00:30:00"},
                "resources_max": {"walltime": "02:00:00"},
            },
            "long": {"queue_type": "Execution", "resources_default": {"walltime": "24:00:00"}},
            "limited": {"queue_type": "Execution", "resources_max": {"walltime": "03:00:00"}},
            "nodefault": {"queue_type": "Execution"},
            "route_q": {"queue_type": "Route", "route_destinations": "short,long"},
            "to_short": {"queue_type": "Route", "route_destinations": "short"},
            "elsewhere": {"queue_type": "Route", "route_destinations": "short@other"},
            "circle": {"queue_type": "Route", "route_destinations": "circle"},
        },
    )
