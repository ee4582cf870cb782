"""Traces are fetched with a hash: what is not the trace of the table, or not whole, is refused and not kept."""

import gzip
import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from softwalltime.core.errors import SoftwalltimeError
from tests import traces
from tests.samples import trace as recorded
from tests.traces import SOURCES, Trace, fetch, main, swf_of_lumos

TEXT = b"; Version: 2.2\n1 0 10 100 1 -1 -1 1 200 -1 1 1 1 -1 1 -1 -1 -1\n"
MIRA = b""",job,user,project,node_num,submit_time,wait_time,run_time,wall_time
0,7,81,91,512.0,1000.0,5,20.0,60.0
1,8,82,91,1024.0,1000.0,4,30.0,90.0
"""
ANSWERS = {
    "/plain": TEXT,
    "/compressed": gzip.compress(TEXT),
    "/half": gzip.compress(TEXT)[:40],
    "/mira.csv": MIRA,
    "/huge": gzip.compress(bytes(traces.MAX_TRACE_BYTES + 1)),
}


class Handler(BaseHTTPRequestHandler):
    """Serves the answers, and closes the connection of /closed after half of the announced bytes."""

    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(self.path)
        path = "/compressed" if self.path == "/closed" else self.path
        self.send_response(200 if path in ANSWERS else 404)
        content = ANSWERS.get(path, b"")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if self.path == "/closed" else content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    """The address of a web server."""
    Handler.requests = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def trace_at(address: str) -> Trace:
    return Trace("Small-1", address, hashlib.sha256(TEXT).hexdigest(), "free")


@pytest.mark.parametrize("path", ["/plain", "/compressed"])
def test_a_trace_is_fetched_once_and_its_terms_are_printed(path: str, server: str, tmp_path: Path) -> None:
    trace = trace_at(server + path)
    assert fetch(trace, tmp_path / "new") == f"{tmp_path}/new/Small-1.swf.gz: fetched. Terms: free"
    assert gzip.decompress((tmp_path / "new" / "Small-1.swf.gz").read_bytes()) == TEXT
    assert fetch(trace, tmp_path / "new").endswith("is there")
    assert Handler.requests == [path]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/closed", "bytes early: fetch it again"),
        ("/half", "not a whole gzip file"),
        ("/huge", "more than 67,108,864 bytes"),
        ("/mira.csv", "another version of the trace"),
        ("/missing", "404"),
    ],
)
def test_nothing_is_kept_of_what_is_not_the_trace(path: str, problem: str, server: str, tmp_path: Path) -> None:
    with pytest.raises(SoftwalltimeError, match=problem):
        fetch(trace_at(server + path), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_another_version_of_a_trace_is_not_overwritten(server: str, tmp_path: Path) -> None:
    (tmp_path / "Small-1.swf.gz").write_bytes(gzip.compress(b"mine"))
    with pytest.raises(SoftwalltimeError, match="remove the file"):
        fetch(trace_at(f"{server}/plain"), tmp_path)
    assert gzip.decompress((tmp_path / "Small-1.swf.gz").read_bytes()) == b"mine"
    assert Handler.requests == []


def test_a_table_of_jobs_is_converted(server: str, tmp_path: Path) -> None:
    convert = partial(swf_of_lumos, machine="Mira", nodes=49_152)
    text = convert(MIRA)
    assert text.splitlines()[-2:] == [
        b"1 0 4 30 1024 -1 -1 1024 90 -1 1 1 1 -1 1 -1 -1 -1",
        b"2 0 5 20 512 -1 -1 512 60 -1 1 2 1 -1 1 -1 -1 -1",
    ]
    trace = Trace("Mira", f"{server}/mira.csv", hashlib.sha256(text).hexdigest(), "MIT", convert)
    fetch(trace, tmp_path)
    assert gzip.decompress((tmp_path / "Mira.swf.gz").read_bytes()) == text
    with pytest.raises(SoftwalltimeError, match="not the table of this trace"):
        fetch(Trace("Other", f"{server}/plain", "", "", convert), tmp_path)


def test_the_command_goes_on_after_a_trace_that_cannot_be_fetched(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = Trace("Missing-1", f"{server}/missing", "", "")
    monkeypatch.setattr(traces, "SOURCES", (missing, trace_at(f"{server}/plain")))
    monkeypatch.setattr(traces, "TRACES", tmp_path)
    assert main(["fetch"]) == 1
    printed = capsys.readouterr()
    assert "Small-1.swf.gz: fetched" in printed.out
    assert printed.err == f"{server}/missing: HTTP Error 404: Not Found\n"
    assert main(["fetch", "Small-1"]) == 0
    assert main(["fetch", "Small-2"]) == 2
    assert main([]) == 0


def test_a_name_that_is_not_in_the_table_fails_and_does_not_skip() -> None:
    with pytest.raises(ValueError, match="unpack"):
        recorded("KTH-SP3")
    assert len({trace.sha256 for trace in SOURCES}) == len(SOURCES)
