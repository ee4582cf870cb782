"""Embedded PostgreSQL for evaluation: the first process that uses it starts it, the last one stops it.

In the data folder::

    postgres/           accessible only to the account that runs the server
        data/           the database
        run/            the socket; there is no TCP port
        log
    postgres.turn       locked while a process starts or stops the server
    postgres.users      locked, shared, by each process that uses the server
    postgres.server     locked by all processes of the server itself; names their host
    postgres.socket     path of the socket's folder, if the path of run/ is too long or contains a comma

The locks are flock locks: the kernel releases them when a process ends in any way.
"""

import errno
import fcntl
import os
import pwd
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from softwalltime.core.errors import StoreError
from softwalltime.store.embedded.programs import MAJOR, find_programs, find_site, server_account

_SOCKET = ".s.PGSQL.5432"
_MAX_SOCKET_BYTES = 107
_MIN_FREE_BYTES = 100 * 2**20
_MAX_LOG_BYTES = 2**20
_TIMEOUT_S = 240
"""Timeout in seconds of a start or stop; recovery after a crash takes long."""
_EXIT_TIMEOUT_S = 30.0
"""Seconds to wait for the remaining processes of a server whose first process has just ended."""


def embedded_postgres(data_dir: Path, *, durable: bool = True) -> AbstractContextManager[str]:
    """Return the DSN of a PostgreSQL in ``data_dir`` that runs until the last process stops using it.

    Several processes of one host may use it at once.  If a process is killed, the server runs until the next one
    stops using it.  Without ``durable``, a crash of the machine may destroy the data: for tests.

    Entering raises :class:`StoreError` with reason and remedy if it is not installed or cannot be started.
    """
    return _Server(data_dir, durable=durable)


def has_data(data_dir: Path) -> bool:
    # Do not look deeper: only the server's account can read its folder.
    return (data_dir / "postgres").exists()


class _Server(AbstractContextManager[str]):
    def __init__(self, data_dir: Path, *, durable: bool) -> None:
        self._data_dir = data_dir.absolute()
        self._home = self._data_dir / "postgres"
        self._data = self._home / "data"
        self._durable = durable

    def __enter__(self) -> str:
        # Fail before any file is written.
        find_site()
        with _errors_translated(self._data_dir):
            _make_folder(self._data_dir)
            account = server_account(self._home)
            with self._locked():
                self._programs = find_programs(account)
                self._users = _open(self._data_dir / "postgres.users")
                fcntl.flock(self._users, fcntl.LOCK_SH)
                try:
                    self._ensure_running()
                    return self._dsn()
                except BaseException:
                    self._leave()
                    raise

    def __exit__(self, *_exception: object) -> None:
        with _errors_translated(self._data_dir), self._locked():
            self._leave()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        turn = _open(self._data_dir / "postgres.turn")
        try:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield
        finally:
            os.close(turn)

    def _leave(self) -> None:
        try:
            if _try_lock(self._users):
                self._stop()
        finally:
            os.close(self._users)

    def _ensure_running(self) -> None:
        server = _open(self._data_dir / "postgres.server")
        try:
            deadline = time.monotonic() + _EXIT_TIMEOUT_S
            while not _try_lock(server):
                self._refuse_other_host(server)
                if self._answers():
                    return
                if time.monotonic() > deadline:
                    raise StoreError(f"the embedded PostgreSQL in {self._home} does not answer; see the log there")
                time.sleep(0.02)
            self._start(server)
        finally:
            # The server keeps the lock through its own copy of the file descriptor.
            os.close(server)

    def _start(self, server: int) -> None:
        if not self._data.exists():
            self._create()
        if (held := (self._data / "PG_VERSION").read_text().strip()) != str(MAJOR):
            raise StoreError(
                f"{self._data} is of PostgreSQL {held}, the programs are of {MAJOR}: move {self._home} away and ingest "
                "the logs again, or copy its contents with pg_dump"
            )
        lock_file = self._data / "postmaster.pid"
        if lock_file.exists():
            # On file systems without locks across hosts, only this prevents two servers on the same files.
            self._refuse_other_host(server)
            # Otherwise PostgreSQL mistakes an unrelated process with the dead server's pid for the server.
            lock_file.unlink()
        os.ftruncate(server, 0)
        os.pwrite(server, socket.gethostname().encode(), 0)
        log = self._home / "log"
        if log.exists() and log.stat().st_size > _MAX_LOG_BYTES:
            log.unlink()
        options = ["-h", "", "-p", "5432", "-k", self._make_socket_folder(), *([] if self._durable else ["-F"])]
        started = self._run(
            "pg_ctl", "start", "-l", "../log", "-t", str(_TIMEOUT_S), "-o", shlex.join(options), keep_open=[server]
        )
        if started.returncode != 0:
            words = _last_lines(log.read_text(errors="replace") if log.exists() else started.stdout)
            raise StoreError(f"the embedded PostgreSQL in {self._home} does not start: {words}")

    def _create(self) -> None:
        for folder in (self._home, self._home / "run"):
            self._make_folder(folder)
        usage = os.statvfs(self._home)
        if usage.f_bavail * usage.f_frsize < _MIN_FREE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._home))
        # Create it under another name, and rename it when it is complete.
        unfinished = self._home / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        self._make_folder(unfinished)
        # Peer authentication: only this user can connect, without a password.
        options = ["--auth-local=peer", "--auth-host=reject", "-U", _own_name(), "--no-instructions"]
        options += ["--encoding=UTF8", "--locale=C", *([] if self._durable else ["--no-sync"])]
        created = self._run("initdb", *options, cwd=unfinished)
        if created.returncode != 0:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise StoreError(
                f"no PostgreSQL can be created in {self._home}: {_last_lines(created.stdout)}; give another "
                "--data-dir, or a --dsn"
            )
        unfinished.rename(self._data)

    def _make_folder(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            account = self._programs.account
            os.chown(folder, account.pw_uid, account.pw_gid, follow_symlinks=False)

    def _run(
        self, program: str, *arguments: str, cwd: Path | None = None, keep_open: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        folder = cwd or self._data
        with_folder = [*arguments, "-D", self._programs.here(folder)]
        return self._programs.run(program, with_folder, cwd=folder, keep_open=keep_open)

    def _stop(self) -> None:
        if not (self._data / "postmaster.pid").exists():
            return
        self._run("pg_ctl", "stop", "-m", "fast", "-t", str(_TIMEOUT_S))
        record = self._data_dir / "postgres.socket"
        if record.exists():
            with suppress(OSError):
                Path(record.read_text()).rmdir()
            record.unlink()

    def _refuse_other_host(self, server: int) -> None:
        host = os.pread(server, 255, 0).decode(errors="replace")
        if host != socket.gethostname():
            raise StoreError(
                f"the embedded PostgreSQL in {self._home} runs on host {host}: work there, or give another --data-dir; "
                f"if it no longer runs, because that host crashed, remove {self._data / 'postmaster.pid'}"
            )

    def _answers(self) -> bool:
        try:
            psycopg.connect(self._dsn(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _dsn(self) -> str:
        return make_conninfo(host=str(self._socket_folder()), port=5432, user=_own_name(), dbname="postgres")

    def _socket_folder(self) -> Path:
        if self._has_room_for_socket():
            return self._home / "run"
        return Path((self._data_dir / "postgres.socket").read_text())

    def _make_socket_folder(self) -> str:
        """Create the folder of the socket, and return its path, relative to the data if possible."""
        if self._has_room_for_socket():
            return "../run"
        folder = tempfile.mkdtemp(prefix="softwalltime-", dir="/tmp")  # mode 0700, and short
        os.chown(folder, self._programs.account.pw_uid, self._programs.account.pw_gid)
        (self._data_dir / "postgres.socket").write_text(folder)
        return folder

    def _has_room_for_socket(self) -> bool:
        path = os.fsencode(self._home / "run" / _SOCKET)
        # In a DSN a comma separates hosts.
        return len(path) <= _MAX_SOCKET_BYTES and b"," not in path


@contextmanager
def _errors_translated(data_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            reason = "its file system has no file locks"
        else:
            reason = f"{error.strerror}{f' ({error.filename})' if error.filename else ''}"
        raise StoreError(
            f"no PostgreSQL can be stored in {data_dir}: {reason}; give another --data-dir, or a --dsn"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise StoreError(
            f"{error.cmd[0]} did not end within {error.timeout:.0f} s, for {data_dir}; check its disk"
        ) from error


def _make_folder(data_dir: Path) -> None:
    # Another process may create it at the same moment.
    with suppress(FileExistsError):
        data_dir.mkdir(mode=0o700, parents=True)
        if os.geteuid() == 0:
            data_dir.chmod(0o755)
    if data_dir.stat().st_uid != os.geteuid():
        raise StoreError(f"{data_dir} belongs to another user: give a --data-dir of your own")


def _own_name() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _last_lines(output: str, count: int = 3) -> str:
    return "; ".join(" ".join(line.split()) for line in output.splitlines()[-count:] if line.strip())
