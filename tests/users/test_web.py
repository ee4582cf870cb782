"""``softwalltime web``: a real process at a Unix socket, the server of own jobs, PostgreSQL, and a browser."""

import grp
import http.client
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import make_conninfo
from sqlalchemy import Engine

from softwalltime.cli.web_staff import Staff, staff_sections
from softwalltime.core.errors import StoreError
from softwalltime.core.promises import LatestStart, Outcome, Promise
from softwalltime.service.users.own_jobs_server import MAX_LIVE_JOBS, AnswerRows, OwnJobsServer
from softwalltime.store.current import set_current
from softwalltime.store.forecast_rows import StoredProbe, publish_probes
from softwalltime.store.own_jobs_rows import read_live
from softwalltime.store.predictions import add_decisions
from softwalltime.store.promises import store_latest_starts, store_promises
from tests.browser import browser
from tests.samples import ROOT, job
from tests.service.running import PATIENT, Daemon, until
from tests.store.monitored import decision
from tests.users.site import HOUR, dsn_of, forecast, listening, now, publish, waits

pytestmark = pytest.mark.postgres
UIDS = {"ann": 1, "ben": 2, "mallory": 3, "many": 4}
HOSTILE = [
    "<script>document.title='hacked'</script>", "'\"><img src=x onerror=\"document.title='hacked'\">", "x" * 10_000,
    "\x1b[2J\u202e",
]  # fmt: skip
SAFE = {
    "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
}  # fmt: skip
COMMAND = (sys.executable, "-m", "softwalltime", "web")


class Page:
    """A response: status, headers and text."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers = response.status, response.headers
        self.text = response.read().decode()


class Web:
    """``softwalltime web`` at a socket in a folder, as a reverse proxy sees it."""

    def __init__(self, folder: Path, jobs: Path, **settings: str) -> None:
        self.socket = folder / "web.sock"
        environment = os.environ | {f"SOFTWALLTIME_{name.upper()}": value for name, value in settings.items()}
        command = [*COMMAND, "--socket", self.socket, "--jobs-socket", jobs]
        self.process = subprocess.Popen(command, env=environment)
        until(self.socket.exists)
        until(lambda: self.socket.stat().st_mode & 0o777 == 0o660)
        # The mode is set before the socket listens.
        until(self._listens)

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            return connection.connect_ex(str(self.socket)) == 0

    def get(self, address: str = "/", user: str | None = "ann", method: str = "GET", **headers: str) -> Page:
        connection = http.client.HTTPConnection("web", timeout=PATIENT)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.socket))
        connection.putrequest(method, address)
        for name, value in ({} if user is None else {"X-Remote-User": user} | headers).items():
            connection.putheader(name, value)
        connection.endheaders()
        page = Page(connection.getresponse())
        connection.close()
        return page

    def end(self) -> None:
        self.process.terminate()
        assert self.process.wait(PATIENT) == 0


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(scope="module")
def jobs(module_engine: Engine, folder: Path) -> Iterator[Path]:
    """The socket of the server of own jobs, which takes names from this account."""
    at, others = now(), {"3.srv": "ben", **{f"{number}[].srv": "ben" for number in range(20, 23)}}
    waiting = [waits("1.srv", at, "ann"), *(waits(name, at, user) for name, user in others.items())]
    waiting += [waits(f"{index}.srv", at, "mallory", job_name=name) for index, name in enumerate(HOSTILE, 50)]
    waiting += [waits(f"{number}.srv", at, "many") for number in range(1000, 3000)]
    starts = [forecast(job.submission.job_id, at, HOUR + 150 + 60 * index, job.submission.user)
              for index, job in enumerate(waiting)]  # fmt: skip
    with module_engine.begin() as connection:
        set_current(connection, waiting)
        publish(connection, at, starts, ["1.srv"])
        publish_probes(connection, "srv", [
            StoredProbe("long", ncpus, walltime * HOUR, ("", "long"), at, at + wait * HOUR, at, at + 30 * HOUR)
            for ncpus, walltime, wait in ((4, 1, 0), (4, 24, 3), (64, 1, 2), (64, 24, 25))
        ])  # fmt: skip
    with module_engine.connect() as connection:
        answers = AnswerRows(UIDS.get, read_live(connection, MAX_LIVE_JOBS), read_at=at, problem="").answers()
    path, ended = folder / "me.sock", threading.Event()
    with listening(path) as listener:
        server = OwnJobsServer(listener, lambda: answers, web=os.getuid())
        thread = threading.Thread(target=server.run, args=(ended.is_set,))
        thread.start()
        yield path
        ended.set()
        thread.join()


@pytest.fixture(scope="module")
def dsn(module_engine: Engine, postgres: str) -> str:
    return dsn_of(module_engine, postgres)


@pytest.fixture(scope="module")
def role(dsn: str) -> Iterator[str]:
    """DSN with the role of deploy/sql/web-role.sql."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = 'softwalltime_web'").fetchone() is not None:
            pytest.skip("this PostgreSQL has a role softwalltime_web, which is somebody's")
        for _ in range(2):
            connection.execute((ROOT / "deploy" / "sql" / "web-role.sql").read_bytes())
        yield make_conninfo(dsn, options="-c role=softwalltime_web")
        connection.execute("DROP OWNED BY softwalltime_web; DROP ROLE softwalltime_web")


@pytest.fixture(scope="module")
def web(jobs: Path, folder: Path, role: str) -> Iterator[Web]:
    made = Web(folder, jobs, dsn=role, web_staff="boss, @no such group,", socket=str(folder / "hook.sock"))
    yield made
    made.end()


def test_a_user_sees_when_his_jobs_start_and_nothing_of_others(web: Web) -> None:
    page = web.get()
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "Your next start" in page.text
    assert "1.srv" in page.text
    assert re.search(r'<time datetime="[\d-]+T[\d:]+\+00:00">[\w :]+</time> <small>in (1 h|60 min)', page.text)
    assert "1 waiting, 0 running" in page.text
    assert not re.search(r"\b(3|2\d\[\]|5\d|1\d\d\d)\.srv|ben|mallory|many", page.text)
    other = web.get(user="ben").text
    assert "3.srv" in other
    assert ">1.srv" not in other
    nobody = web.get(user="eve")
    assert (nobody.status, "no job of yours waits, runs, or ended in the last 28 days" in nobody.text) == (200, True)
    assert ".srv" not in nobody.text


@pytest.mark.parametrize("user", [None, "", "ann, ben", "ann ben", "ann\tben", "<b>", "\xff\xfe", "a" * 200, "../ann"])
def test_without_one_users_name_nothing_is_shown(user: str | None, web: Web) -> None:
    for address in ("/", "/queue", "/other"):
        page = web.get(address, user)
        assert page.status == 403
        assert "tell your administrators" in page.text
        assert ".srv" not in page.text


def test_a_user_who_asks_without_a_pause_is_refused_and_others_are_answered(web: Web) -> None:
    assert {web.get("/other", "eager").status for _ in range(80)} == {404, 429}
    assert web.get().status == 200


def test_a_name_in_a_header_with_another_spelling_is_ignored(web: Web) -> None:
    # A proxy that replaces X-Remote-User may pass these on.
    page = web.get(user="ann", X_Remote_User="ben", **{"Remote-User": "ben", "X-Forwarded-User": "ben"})
    assert "1.srv" in page.text
    assert "3.srv" not in page.text
    assert web.get(user=None, X_Remote_User="ben").status == 403
    assert web.get(**{"x-remote-user": "ben"}).status == 403


HIDDEN = b"GET / HTTP/1.1\r\nX-Remote-User: ben\r\n\r\n"
"""A request in another one, which a proxy may take for its body and pass on."""


@pytest.mark.parametrize(
    "after",
    [
        b"Content-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
        b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
        b"Content-Length: +%d\r\n\r\n" % len(HIDDEN) + HIDDEN,
        b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (len(HIDDEN) + 5) + HIDDEN,
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(HIDDEN) + HIDDEN + b"\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nTrailer: X-Remote-User\r\n\r\n0\r\nX-Remote-User: ben\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n" + HIDDEN, b"X-Other: a\nX-Remote-User: ben\r\n\r\n",
        b"X-Other: a\rX-Remote-User: ben\r\n\r\n", b"X-Remote-User : ben\r\n\r\n", b" ben\r\n\r\n",
    ],
)  # fmt: skip
def test_no_second_request_and_no_second_name_hide_in_a_request(after: bytes, web: Web) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(web.socket))
        client.sendall(b"GET / HTTP/1.1\r\nHost: web\r\nX-Remote-User: ann\r\n" + after)
        client.shutdown(socket.SHUT_WR)
        received = b""
        with suppress(ConnectionResetError):
            while part := client.recv(1 << 20):
                received += part
    assert re.match(rb"HTTP/1\.[01] (400|403|413|501) ", received)
    assert received.count(b"HTTP/1.") == 1
    assert b".srv" not in received


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_other_methods_are_refused(method: str, web: Web) -> None:
    page = web.get("/", method=method)
    assert page.status == 405
    assert ".srv" not in page.text


def test_every_response_forbids_scripts_frames_and_caches(web: Web) -> None:
    for page in (web.get(), web.get("/queue"), web.get("/<script>"), web.get(user=None), web.get(method="POST")):
        assert {name: page.headers[name] for name in SAFE} == SAFE
        policy = page.headers["Content-Security-Policy"]
        style = re.search("<style>(.*?)</style>", page.text, re.DOTALL)
        assert style is not None
        digest = b64encode(sha256(style[1].encode()).digest()).decode()
        assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'; ")
        assert "script" not in policy.partition(";")[2]
        assert "frame-ancestors 'none'" in policy
        assert page.headers["Server"] is None
        assert page.headers["Set-Cookie"] is None
        assert "<script" not in page.text
        assert not re.search(r"""(src|href|action)=["'](//|[a-z]+:)""", page.text)


def test_hostile_names_are_text(web: Web) -> None:
    shown = web.get(user="mallory").text
    assert "&lt;script&gt;document.title=" in shown
    assert "<script" not in shown
    assert "<img" not in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "x" * 300 not in shown


def test_the_queue_says_how_long_a_job_would_wait(web: Web) -> None:
    shown = web.get("/queue").text
    assert "Next free window" in shown
    assert "queue long of srv, by walltime" in shown
    assert re.search(r'class="good">now</td>', shown)
    assert re.search(r'class="bad">25 h|class="bad">1 d', shown)
    asked = web.get("/queue?processors=3&walltime=24:00:00&queue=long").text
    assert "rounded up to a job that is forecast: 4 processors for 24 h" in asked
    assert "-l walltime=01:00:00" in asked
    for query, said in {
        "processors=many": "write processors as 32 and the walltime as 4:00:00",
        "walltime=-1": "write processors as 32 and the walltime as 4:00:00",
        "processors=65": "have at most 64 processors and 24 h",
        "queue=<script>": "queue &lt;script&gt;: no job is forecast there",
        "processors=" + "9" * 5000: "write processors as 32",
    }.items():
        page = web.get(f"/queue?{query}")
        assert (page.status, said in page.text) == (200, True), query


def test_2000_waiting_jobs_are_pages_of_one_table(web: Web) -> None:
    begin = time.monotonic()
    first = web.get(user="many")
    assert time.monotonic() - begin < 1
    assert len(first.text) < 500_000
    assert "2,000 waiting" in first.text
    assert "Page 1 of 20" in first.text
    last = web.get("/?waiting=9999", "many").text
    assert "Page 20 of 20" in last
    assert re.findall(r">(\d+\.srv)</th>", first.text)[-1] == "1099.srv"
    assert re.findall(r">(\d+\.srv)</th>", last) == [f"{number}.srv" for number in range(2900, 3000)]
    assert "Page 1 of 20" in web.get("/?waiting=x", "many").text


def test_what_does_not_answer_is_named_with_who_must_act(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        made = Web(Path(name), folder / "nobody.sock", web_staff="boss", dsn="dbname=none host=/nowhere")
        page = made.get()
        assert page.status == 503
        assert "not there: this host does not offer it" in page.text
        page = made.get("/staff", "boss")
        assert (page.status, "Promises, waits and decisions are not shown: " in page.text) == (200, True)
        assert "/nowhere" in page.text
        # One that takes no names from this account must not show it the account's own jobs instead.
        with listening(folder / "nobody.sock") as listener:
            ended = threading.Event()
            answers = AnswerRows(UIDS.get, read_at=now()).answers()
            thread = threading.Thread(target=OwnJobsServer(listener, lambda: answers).run, args=(ended.is_set,))
            thread.start()
            page = made.get()
            ended.set()
            thread.join()
        assert (page.status, "takes no names from this account" in page.text) == (503, True)
        made.end()


def test_it_listens_at_a_unix_socket_and_nowhere_else(web: Web, tmp_path: Path) -> None:
    links = [str(link.readlink()) for link in Path(f"/proc/{web.process.pid}/fd").iterdir()]
    inodes = {match[1] for link in links if (match := re.fullmatch(r"socket:\[(\d+)\]", link))}
    for table in ("tcp", "tcp6", "udp", "udp6"):
        rows = Path(f"/proc/{web.process.pid}/net/{table}").read_text().splitlines()[1:]
        assert not inodes & {row.split()[9] for row in rows}
    # Of systemd it takes no other socket.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        script = 'export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@" 3<&"$0"'
        command = ["/bin/bash", "-c", script, str(listener.fileno()), *COMMAND]
        done = subprocess.run(
            command, pass_fds=[listener.fileno()], capture_output=True, text=True, check=False, timeout=PATIENT
        )
    assert (done.returncode, "must be the path of a Unix socket" in done.stderr) == (2, True)
    done = subprocess.run([*COMMAND, "--socket", tmp_path / "no" / "x"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        f"softwalltime: {tmp_path}/no/x: cannot listen: No such file or directory\n",
    )


def test_in_a_browser_nothing_overflows_and_axe_finds_no_fault(web: Web) -> None:
    pages = [web.get(address, "mallory").text for address in ("/", "/queue?processors=3", "/no")]
    with browser() as chromium:
        assert [fault for page in pages for fault in chromium.faults(page)] == []


def luminance(color: str) -> float:
    """Return the relative luminance of ``#rgb`` or ``#rrggbb`` as WCAG 2 defines it."""
    digits = color[1:] if len(color) == 7 else "".join(digit * 2 for digit in color[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_texts_have_the_contrast_of_wcag_aa_in_the_light_and_the_dark_scheme_and_on_paper() -> None:
    style = (ROOT / "daemon/softwalltime/cli/pages/web.css").read_text()
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    schemes = [colors for block in blocks if (colors := dict(re.findall(r"--([\w-]+): (#\w+)", block)))]
    assert len(schemes) == 3
    texts = [(text, ground) for text in ("ink", "muted", "link", "good", "warn", "bad") for ground in ("page", "card")]
    texts += [("ink", f"{name}-bg") for name in ("good", "mid", "warn", "bad")] + [("page", "link")]
    for scheme in schemes:
        for pair in texts:
            dark, light = sorted(luminance(scheme[name]) for name in pair)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, pair


def test_staff_see_who_waits_longest_decisions_and_the_daemon(
    web: Web, module_engine: Engine, folder: Path, dsn: str
) -> None:
    at, basis = now(), "<b>median</b> of 24 jobs"
    with module_engine.begin() as connection:
        add_decisions(connection, [decision("1.srv", at=at, basis=basis), decision("", at=at - 9, action="none")])
        starts = {name: LatestStart(name, at, at + wait, "x") for name, wait in (("3.srv", -9), ("1.srv", 99 * HOUR))}
        store_latest_starts(connection, "srv", starts)
        kept, late = ((n, Outcome.LATE if n > 1 else Outcome.KEPT) for n in (1, 2))
        store_promises(connection, "srv", [
            Promise(f"{number}.srv", at - 900, at - 600, at - 600, outcome, at - 600 + number * 60, "q", 4)
            for number, outcome in (kept, late)
        ])  # fmt: skip
    page = web.get("/staff", "boss")
    assert page.status == 200
    assert "status is not shown here" in page.text
    assert "no daemon answers there" in page.text
    assert re.findall(r">(\w+(?:\[\])?\.srv)</th>", page.text)[:4] == ["3.srv", "1.srv", "1000.srv", "1001.srv"]
    assert re.search(r'class="bad">10[12]%', page.text)
    assert "1 (50%)" in page.text
    assert "&lt;b&gt;median&lt;/b&gt; of 24 jobs" in page.text
    assert '<a href="./staff">' in web.get(user="boss").text
    daemon = Daemon(folder, dsn).start()
    try:
        daemon.append([job("ann", job_id="9.srv", submitted=at - 900, end=at - 60)])
        until(lambda: daemon.status()["stored"] == 1)
        page = web.get("/staff", "boss")
        assert f"softwalltime {daemon.status()['version']}, up" in page.text
        assert "<h2>accounting log</h2>" in page.text
        assert re.search(r'data-label="last record stored"[^>]*><time', page.text)
    finally:
        assert daemon.end() == 0
    for user in ("ann", "bos", "@no such group", "boss2"):
        page = web.get("/staff", user)
        assert (page.status, ".srv" in page.text) == (403, False)
    assert "staff" not in web.get().text


def test_without_a_store_the_staff_page_says_what_to_set() -> None:
    with pytest.raises(StoreError, match="set SOFTWALLTIME_DSN in softwalltime-web"):
        list(staff_sections(None, now()))


def test_staff_are_users_and_members_of_groups() -> None:
    group = next((group for group in grp.getgrall() if group.gr_mem), None)
    if group is None:
        pytest.skip("no group of this host has members")
    staff = Staff(f"ann,@{group.gr_name}, @no such group,")
    assert all(name in staff for name in ("ann", *group.gr_mem))
    assert not any(name in staff for name in ("ben", "", f"@{group.gr_name}", group.gr_name))


def test_the_role_of_the_staff_page_can_read_nothing_else_and_change_nothing(role: str) -> None:
    with psycopg.connect(role, autocommit=True) as connection:
        for statement in (
            "SELECT job_name FROM softwalltime.current_jobs", "SELECT project FROM softwalltime.predictions",
            "SELECT 1 FROM softwalltime.completed_jobs", "DELETE FROM softwalltime.predictions",
        ):  # fmt: skip
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(statement.encode())
