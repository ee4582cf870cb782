"""Run chosen tests of a checkout many times, each time in a fork of one process that has imported what it can.

This program reads requests from its standard input and writes the answers to its standard output, as lines of JSON.
The first line says how to start.

To mutate a module, a child must import it anew: the process forks before it imports ``softwalltime``.  To mutate a
file that the tests read, such as the hook, it forks when the tests have been collected, which is several times as fast.
"""

import builtins
import contextlib
import faulthandler
import importlib
import json
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, TextIO

import hypothesis
import pytest

OWN_PACKAGES = ("softwalltime", "tests")
MARGIN_S = float(os.environ.get("SOFTWALLTIME_TEST_MARGIN", 5))
"""Seconds that any test may take; a test that took longer without a mutation may take five times as long."""
RECORD = "record_line_for_mutations"
"""The name of the builtin function that records a line."""


class Plugin:
    """Run the tests of a request in its order, and write what happened.

    A request has ``tests``: ids of the tests to run, in this order, with the seconds that each took (none: all);
    ``record``: whether to record the lines for which :data:`RECORD` is called; ``output``: the file for JSON lines, one
    at the start of each test, one at its end.

    :param request: the request; ``None`` to fork for each request as soon as the tests are collected.
    """

    def __init__(self, request: dict[str, Any] | None) -> None:
        self._lines: set[int] = set()
        self._seconds: dict[str, float] = {}
        self._record = False
        self._output: TextIO | None = None
        self.collected = request is None
        self.in_child = not self.collected
        if request is not None:
            self._begin(request)

    def _begin(self, request: dict[str, Any]) -> None:
        self._seconds = request["tests"]
        self._output = Path(request["output"]).open("w")  # noqa: SIM115 - open until the process ends
        self._record = request["record"]
        if self._record:
            setattr(builtins, RECORD, self._lines.add)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Look for no simpler example of a failure."""
        hypothesis.settings.register_profile(
            "mutations",
            hypothesis.settings.get_profile("suite"),
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        )
        hypothesis.settings.load_profile("mutations")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Choose the tests of the request; before it, fork for each request if there is none yet."""
        if self.collected:
            for request in _requests():
                if (status := _fork()) is None:
                    self.in_child = True
                    self._begin(request)
                    break
                _answer(status)
            else:
                return True
        # To record, all tests are to run, also after one that fails because the source is another one.
        session.config.option.maxfail = 0 if self._record else 1
        # What ran at import.
        self._write(test="", lines=self._taken())
        if self._seconds:
            by_id = {item.nodeid: item for item in session.items}
            session.items[:] = [by_id[name] for name in self._seconds]
        return None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run a test under its time limit."""
        self._write(begin=item.nodeid)
        begin = perf_counter()
        if self._seconds:
            # A thread of C, which also ends a loop that holds the interpreter.
            assert self._output is not None
            limit = MARGIN_S + 5 * self._seconds[item.nodeid]
            faulthandler.dump_traceback_later(limit, exit=True, file=self._output)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()
            uses_store = "postgres" in getattr(item, "fixturenames", ())
            self._write(test=item.nodeid, seconds=perf_counter() - begin, store=uses_store, lines=self._taken())

    def pytest_sessionfinish(self) -> None:
        """Write what was imported."""
        if self.in_child:
            self._write(modules=sorted(sys.modules))

    def _taken(self) -> list[int]:
        lines = sorted(self._lines)
        self._lines.clear()
        return lines

    def _write(self, **fields: object) -> None:
        assert self._output is not None
        self._output.write(json.dumps(fields) + "\n")
        self._output.flush()


def main() -> None:
    """Answer requests until the standard input ends."""
    start = next(_requests())
    for name in start["preload"]:
        if name.partition(".")[0] not in OWN_PACKAGES:
            # Some modules cannot be imported by themselves; the tests import them then.
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    if start["collected"]:
        _run(start, None)
        return
    for request in _requests():
        if (status := _fork()) is None:
            _run(start, request)
        else:
            _answer(status)


def _requests() -> Iterator[dict[str, Any]]:
    return map(json.loads, REQUESTS)


def _answer(status: int) -> None:
    os.write(ANSWERS, json.dumps(status).encode() + b"\n")


def _fork() -> int | None:
    """Return ``None`` in a new process; where it was forked, return its exit status when it has ended."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(ANSWERS)
        return None
    _, result = os.waitpid(child, 0)
    # What the tests have started.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(result)


def _run(start: dict[str, Any], request: dict[str, Any] | None) -> None:
    """Run pytest; a child ends with its exit status."""
    plugin = Plugin(request)
    options = ["-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:faulthandler"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    try:
        status = pytest.main([*options, *start["options"], *start["paths"]], plugins=[plugin])
    except BaseException:
        status = 70
    if plugin.in_child:
        os._exit(int(status))


if __name__ == "__main__":
    # Tests read and print nothing of it.
    REQUESTS, ANSWERS = os.fdopen(os.dup(0)), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    main()
