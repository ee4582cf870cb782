"""The protocol of exactly-once ingestion as a state machine that drives the real followers and the real store.

Actions in random order: PBS writes, or compresses an old log; a follower polls, or is killed before or after its
commit; the standby of the store catches up; the store fails over to it and loses its newest commits, with or without an
error on the connections.  In the end the store holds each record of the log once.

SOFTWALLTIME_TEST_WALKS: number of random walks through the protocol for each test; default 3.
"""

import gzip
import os
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import Engine, text

from softwalltime.service import ingest
from softwalltime.service.follow import Follower
from softwalltime.store.connections import connect
from softwalltime.store.logs import Position
from tests.service.histories import history, random_plans, with_rubbish
from tests.service.stored import assert_as_the_log
from tests.service.test_exactly_once import write_logs

pytestmark = pytest.mark.postgres

WALKS = int(os.environ.get("SOFTWALLTIME_TEST_WALKS", "3"))
STEPS = 50
ACTIONS = {
    "pbs_writes": 8, "an_old_log_is_compressed": 1, "a_follower_polls": 8, "a_follower_is_killed": 1,
    "the_standby_catches_up": 2, "the_store_fails_over": 2,
}  # fmt: skip
"""How often each action is taken, relative to the others."""
NUMBERED = ("completed_jobs", "queue_changes", "malformed_lines")
TABLES = (*NUMBERED, "interrupted_runs", "current_jobs", "malformed_dropped", "log_positions")
"""All tables that reading logs changes."""


class KilledError(BaseException):
    """The process was killed at this point."""


class Protocol:
    """One PBS server, one or two followers of its logs, and a store whose standby lags."""

    def __init__(self, chance: Random, dsn: str, folder: Path, *, followers: int, reuse_ids: bool) -> None:
        self.chance, self.dsn, self.reuse_ids = chance, dsn, reuse_ids
        self.written, self.folder = folder / "all", folder / "accounting"
        self.folder.mkdir(parents=True)
        lines = history(random_plans(chance, 30, 4 * 86400))
        lines[1:] = with_rubbish(lines[1:], chance)
        self.future = [(log.name, log.read_bytes()) for log in sorted(write_logs(self.written, lines).iterdir())]
        self.admin = connect(dsn)
        self.engines = [connect(dsn) for _ in range(followers)]
        self.followers = [Follower(self.folder) for _ in range(followers)]
        self.dies = ""
        self.store("TRUNCATE " + ", ".join(f"softwalltime.{table}" for table in TABLES))
        self.the_standby_catches_up()
        self.pbs_writes()

    def pbs_writes(self) -> None:
        """Write a piece that may end within a record; then go on with the next day's log if this one is complete."""
        if self.future:
            name, content = self.future.pop(0)
            size = self.chance.randrange(1, 6000)
            with (self.folder / name).open("ab") as log:
                log.write(content[:size])
            if content[size:]:
                self.future.insert(0, (name, content[size:]))

    def an_old_log_is_compressed(self) -> None:
        """As log rotation does."""
        old = [log for log in sorted(self.folder.iterdir())[:-1] if log.suffix != ".gz"]
        if old:
            Path(f"{old[0]}.gz").write_bytes(gzip.compress(old[0].read_bytes()))
            old[0].unlink()

    def a_follower_polls(self) -> None:
        """Store what is new."""
        number = self.chance.randrange(len(self.followers))
        self.followers[number].poll(self.engines[number])

    def a_follower_is_killed(self) -> None:
        """At a moment of its commit, if it has something to commit; another one begins."""
        number = self.chance.randrange(len(self.followers))
        self.dies = self.chance.choice(["before", "after"])
        try:
            self.followers[number].poll(self.engines[number])
        except KilledError:
            self.followers[number] = Follower(self.folder)
        finally:
            self.dies = ""

    def the_standby_catches_up(self) -> None:
        """Keep the store's present state: what a failover leaves."""
        for table in TABLES:
            self.store(
                f"DROP TABLE IF EXISTS public.{table}", f"CREATE TABLE public.{table} AS TABLE softwalltime.{table}"
            )

    def the_store_fails_over(self) -> None:
        """Lose what was committed since; a pooler may hide the error from the followers."""
        for table in TABLES:
            copy = f"INSERT INTO softwalltime.{table} OVERRIDING SYSTEM VALUE TABLE public.{table}"
            # Without the triggers, which write changes.
            self.store("SET LOCAL session_replication_role = replica", f"DELETE FROM softwalltime.{table}", copy)
        for table in NUMBERED if self.reuse_ids else ():
            following = f"(SELECT coalesce(max(id), 0) + 1 FROM public.{table})"
            self.store(f"SELECT setval(pg_get_serial_sequence('softwalltime.{table}', 'id'), {following}, false)")
        if self.chance.random() < 0.5:
            for number, engine in enumerate(self.engines):
                engine.dispose()
                self.engines[number] = connect(self.dsn)

    def end(self) -> None:
        """Let PBS write the rest and one more record, and the followers read it; compare the store with the logs."""
        while self.future:
            self.pbs_writes()
        for folder in (self.folder, self.written):
            (folder / "20261130").write_bytes(b"11/30/2026 10:00:00;L;license;floating license\n")
        for follower, engine in [*zip(self.followers, self.engines, strict=True)] * 3:
            follower.poll(engine)
        assert_as_the_log(self.admin, self.written)

    def store(self, *statements: str) -> None:
        """Run statements in the store, in one transaction."""
        with self.admin.begin() as connection:
            for statement in statements:
                connection.execute(text(statement))


@pytest.mark.parametrize("reuse_ids", [False, True], ids=["ids go on", "ids are given again"])
@pytest.mark.parametrize("followers", [1, 2])
def test_each_record_is_stored_once_whatever_happens_in_any_order(
    followers: int, reuse_ids: bool, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = ingest._Transaction.commit

    def commit_or_die(transaction: ingest._Transaction, engine: Engine, last: Position | None) -> int:
        if protocol.dies == "before":
            raise KilledError
        stored = commit(transaction, engine, last)
        if protocol.dies == "after":
            raise KilledError
        return stored

    monkeypatch.setattr(ingest._Transaction, "commit", commit_or_die)
    monkeypatch.setattr(ingest, "OVERTAKEN_PAUSE_S", 0)
    for seed in range(WALKS):
        chance = Random(seed)
        protocol = Protocol(chance, database, tmp_path / str(seed), followers=followers, reuse_ids=reuse_ids)
        try:
            for _ in range(STEPS):
                getattr(protocol, chance.choices([*ACTIONS], [*ACTIONS.values()])[0])()
            protocol.end()
        finally:
            for engine in (protocol.admin, *protocol.engines):
                engine.dispose()
