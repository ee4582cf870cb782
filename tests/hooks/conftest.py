"""The hook under test, a peer for it to ask, and its configuration."""

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from softwalltime.emulation.pbs.events import NAMES, Event, Site
from softwalltime.emulation.pbs.hook import HookOutcome, HookScript
from tests.hooks.emulated import Do
from tests.hooks.peer import Peer
from tests.samples import ROOT

HOOK = ROOT / "hooks" / "softwalltime_hook.py"
DEFAULTS = ROOT / "hooks" / "softwalltime_hook.json"
STATE = "SOFTWALLTIME_HOOK_TIMEOUTS"
PATIENT = 5000
"""The longest deadline in milliseconds that the hook accepts: who answers at all keeps it on any machine."""
HASTY = 50
"""The default deadline in milliseconds, for those who never answer."""
HUNG = 30
"""Seconds that no run takes on any machine, and that one would take that waits for those who dawdle here."""


@pytest.fixture(autouse=True)
def fresh_server() -> Iterator[None]:
    """What the hook keeps in pbs_server's process is gone after each test."""
    yield
    os.environ.pop(STATE, None)
    os.environ.pop("PSYCOPG_IMPL", None)
    sys.modules.pop("softwalltime_hook_kept", None)


@pytest.fixture(scope="session")
def hook() -> ModuleType:
    """The hook, imported like any module: it only defines then."""
    specification = importlib.util.spec_from_file_location("softwalltime_hook", HOOK)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def script() -> HookScript:
    """The hook file."""
    return HookScript(HOOK)


@pytest.fixture(scope="session")
def peer_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """One peer for all tests; it is started once, because that takes longer than most tests."""
    with Peer(tmp_path_factory.mktemp("peer")) as peer:
        yield peer


@pytest.fixture
def peer(peer_process: Peer) -> Iterator[Peer]:
    """A peer that knows nothing and has not been asked yet."""
    peer_process.forget()
    peer_process.behave(none=True)
    yield peer_process
    peer_process.resume()


@pytest.fixture
def configured(tmp_path: Path) -> Callable[..., Path]:
    """Writes a configuration file: the defaults, with these keys changed, and questions at every event."""
    numbers = count()
    defaults = {**json.loads(DEFAULTS.read_text()), "events": dict.fromkeys(NAMES, True)}

    def write(**changes: Any) -> Path:
        # Each a file of its own: the hook reads one again only when it has changed, by the clock of the file system.
        file = tmp_path / f"softwalltime_hook-{next(numbers)}.json"
        file.write_text(json.dumps({**defaults, **changes}))
        return file

    return write


@pytest.fixture
def run(script: HookScript, peer: Peer, configured: Callable[..., Path]) -> Callable[..., HookOutcome]:
    """Runs the hook for an event, by default with the peer as daemon, and with patience."""

    def run(event: Event, **changes: Any) -> HookOutcome:
        outcome = script.run(event, configured(**{"socket": str(peer.socket), "deadline_ms": PATIENT, **changes}))
        assert not outcome.error, outcome.error
        assert outcome.hook_accepted
        return outcome

    return run


@pytest.fixture
def do(tmp_path: Path) -> Do:
    """Runs lines of Python as a hook, with ``pbs``, ``event`` and ``job`` at hand; ``show(x)`` logs x."""

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
    """A site with execution queues, of which one has no default, and routing queues, of which one is ambiguous."""
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
