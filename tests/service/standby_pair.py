"""Two PostgreSQL servers, a primary and its standby, that change places as after a failover."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from softwalltime.store.embedded.programs import find_programs, server_account
from tests.fix_postgres import scratch
from tests.service.own_postgres import create_tables
from tests.service.running import until

USER = "softwalltime_test"


class StandbyPair:
    """The servers ``a`` and ``b``: each has its data and its socket in folders of these names."""

    def __init__(self, folder: Path, *, synchronous: bool) -> None:
        self._folder = folder
        self._synchronous = synchronous
        self._programs = find_programs(server_account(folder / "data"))
        self.primary, self.standby = folder / "a", folder / "b"
        sockets = f"{socket_of(self.primary)},{socket_of(self.standby)}"
        self.dsn = f"host={sockets} user={USER} dbname=postgres target_session_attrs=read-write"

    def create(self) -> None:
        """Create the primary and its standby, and wait until the standby follows."""
        self._make(self.primary)
        self._run("initdb", "-U", USER, "--auth=trust", "--encoding=UTF8", "--locale=C", "-N", cwd=self.primary)
        self._start(self.primary)
        self.join()

    def join(self) -> None:
        """Make the server that is not the primary its standby, from a copy of the primary."""
        shutil.rmtree(self.standby, ignore_errors=True)
        self._make(self.standby)
        source = f"host={socket_of(self.primary)} user={USER}"
        self._run("pg_basebackup", "-d", source, "-R", "-c", "fast", "--no-sync", cwd=self.standby)
        self._start(self.standby)
        states = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        until(lambda: self.ask(self.primary, states) == 1)
        if self._synchronous:
            self.ask(self.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")

    def detach(self) -> None:
        """Let the standby receive nothing more: what is committed from now on is lost with the primary."""
        self.ask(self.standby, "ALTER SYSTEM SET primary_conninfo = 'host=/nowhere'", "SELECT pg_reload_conf()")
        until(lambda: self.ask(self.standby, "SELECT count(*) FROM pg_stat_wal_receiver") == 0)

    def fail_over(self) -> None:
        """Kill the primary as a power cut does, and promote the standby."""
        process = int((self.primary / "postmaster.pid").read_text().split()[0])
        os.kill(process, signal.SIGQUIT)
        until(lambda: not Path(f"/proc/{process}").exists())
        # Its commits would wait for a standby that does not exist yet.
        self.ask(self.standby, "ALTER SYSTEM RESET synchronous_standby_names")
        self._run("pg_ctl", "promote", cwd=self.standby)
        self.primary, self.standby = self.standby, self.primary

    def stop(self) -> None:
        """Stop both servers."""
        for server in (self.standby, self.primary):
            if (server / "postmaster.pid").exists():
                self._run("pg_ctl", "stop", "-m", "immediate", cwd=server)

    def ask(self, server: Path, *statements: str) -> Any:
        """Run statements in this server; return the first value of the last one's result."""
        with psycopg.connect(host=str(socket_of(server)), user=USER, dbname="postgres", autocommit=True) as connection:
            for statement in statements:
                answer = connection.execute(statement.encode())
            return answer.fetchone()[0] if answer.description else None  # type: ignore[index]  # each has a row

    def _make(self, server: Path) -> None:
        for folder in (server, socket_of(server)):
            folder.mkdir(mode=0o700, exist_ok=True)
            os.chown(folder, self._programs.account.pw_uid, self._programs.account.pw_gid)

    def _start(self, server: Path) -> None:
        options = f"-F -h '' -k {socket_of(server)}"
        self._run("pg_ctl", "start", "-w", "-l", str(self._folder / f"{server.name}.log"), "-o", options, cwd=server)

    def _run(self, program: str, *arguments: str, cwd: Path) -> None:
        done = self._programs.run(program, [*arguments, "-D", str(cwd)], cwd)
        assert done.returncode == 0, done.stdout


def socket_of(server: Path) -> Path:
    """Return the folder of a server's socket; its data are copied to the standby, lock files too."""
    return server.with_name(f"{server.name}-socket")


@contextmanager
def standby_pair(*, synchronous: bool) -> Iterator[StandbyPair]:
    """Run both servers in a temporary folder; the store has all tables."""
    with scratch() as folder:
        # PostgreSQL's unprivileged user writes its log there.
        folder.chmod(0o777)
        pair = StandbyPair(folder, synchronous=synchronous)
        try:
            pair.create()
            create_tables(pair.dsn)
            yield pair
        finally:
            pair.stop()
