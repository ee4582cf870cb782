"""Commands of root connect as the daemon's user, where PostgreSQL knows only that user (peer authentication)."""

import os
import pwd
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from softwalltime.cli import run
from tests.samples import RECORDED_LOG
from tests.service.own_postgres import own_postgres

pytestmark = [pytest.mark.postgres, pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")]

ACCOUNT = "daemon"
"""A user that every host has."""


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    """Settings of a daemon of ACCOUNT, with a PostgreSQL that only ACCOUNT may connect to."""
    with own_postgres() as postgres, closing(socket.socket(socket.AF_UNIX)) as listener:
        dsn = conninfo_to_dict(postgres.dsn)
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute("CREATE ROLE daemon SUPERUSER LOGIN")
            hba = connection.execute("SHOW hba_file").fetchone()
            assert hba is not None
            Path(hba[0]).write_text(f"local all {ACCOUNT} peer\n")
            connection.execute("SELECT pg_reload_conf()")
        for folder in (Path(str(dsn["host"])), Path(str(dsn["host"])).parent):
            folder.chmod(0o755)
        path = tmp_path / "hook.sock"
        listener.bind(str(path))
        os.chown(path, pwd.getpwnam(ACCOUNT).pw_uid, -1)
        del dsn["user"]
        file = tmp_path / "softwalltime.toml"
        file.write_text(f'dsn = "{make_conninfo(**dsn)}"\nsocket = "{path}"\n')
        yield file


def test_commands_of_root_reach_the_store_of_the_daemon(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/root")
    assert run(["db", "check", "--config", str(config)]) == 0
    assert run(["ingest", str(RECORDED_LOG), "--config", str(config)]) == 0
    assert run(["starts", "--from-store", "--config", str(config)]) == 2
    assert "the store has no forecasts of starts" in capsys.readouterr().err
    assert (os.geteuid(), os.environ["HOME"]) == (0, "/root")


def test_a_role_in_the_dsn_is_not_replaced(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(config.read_text().replace('dsn = "', 'dsn = "user=alice '))
    assert run(["db", "check", "--config", str(config)]) == 1
    assert 'user "alice"' in capsys.readouterr().err
