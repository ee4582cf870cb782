"""A running daemon reloads any settings file, and continues."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.settings import Settings, load_settings
from softwalltime.predict.policy.site import SitePolicy, site_policy
from softwalltime.predict.predictors.baselines import Constant
from softwalltime.service.daemon import PredictionDaemon
from softwalltime.service.forecast_thread import StartOptions, start_options
from softwalltime.service.live.live_options import LiveOptions, live_options
from softwalltime.service.status import OK

POLICY = SitePolicy(mode="shadow", waiting="v2")
FILES = 500
TABLES = {"policy": SitePolicy, "live": LiveOptions, "starts": StartOptions}
VALUES = (
    "5", "-1", "0", "1e400", "nan", "true", '""', '"\\u0000"', '"on"', '"127.0.0.1:0"', '"[::1]:9105"', '"safe"', "[]",
    '["v1", "v2"]', "[5]", "[[]]", "{}", "{a = 1}", "1979-05-27", "07:32:00", "9" * 30, "9" * 5000, '"v1:margin=inf"',
    '"postgresql://"', '"~nobody/x"', "'''\n'''", "'%s'", "[" * 2000, '"\ud800"', '"percentile:p=0"',
)  # fmt: skip


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[PredictionDaemon]:
    """A daemon whose threads are not started."""
    daemon = PredictionDaemon(Settings(socket=tmp_path / "s"), POLICY, "1")
    yield daemon
    daemon.server.close()


def random_file(chance: Random) -> bytes:
    """Return a settings file with keys in any case, wrong values, or bytes that are not TOML."""

    def lines(names: list[str]) -> list[str]:
        keys = [chance.choice((str.lower, str.upper, str.title))(name) for name in names]
        return [f"{json.dumps(key)} = {chance.choice(VALUES)}" for key in keys]

    known = [*Settings.model_fields, "colour", "", "a.b"]
    text = lines(chance.sample(known, chance.randrange(3)))
    for table in chance.sample(sorted(TABLES), chance.randrange(3)):
        text.append(f"[{chance.choice((table, table.title()))}]")
        text += lines(chance.sample(sorted(TABLES[table].model_fields), chance.randrange(3)))
    content = bytearray("\n".join(text).encode(errors="surrogatepass"))
    if content and chance.random() < 0.2:
        content[chance.randrange(len(content))] = chance.randrange(256)
    return bytes(content)


def check(file: Path) -> None:
    """Check a settings file as at the start of a daemon."""
    settings = load_settings(file)
    policy = site_policy(settings.policy)
    live_options(settings.live, policy.preset)
    start_options(settings.starts)


@pytest.mark.parametrize("seed", range(4))
def test_no_settings_file_ends_a_running_daemon(daemon: PredictionDaemon, tmp_path: Path, seed: int) -> None:
    chance, file = Random(seed), tmp_path / "softwalltime.toml"
    outcomes = set()
    for _ in range(FILES):
        file.write_bytes(content := random_file(chance))
        daemon.reload(partial(load_settings, file))
        refused = daemon.status().settings
        assert "unexpected" not in refused, content
        outcomes.add(refused == OK)
        if refused == OK:
            continue
        # The start ends with the same message, and no traceback.
        with pytest.raises(SoftwalltimeError):
            check(file)
    assert outcomes == {True, False}


def test_an_error_that_nobody_expects_keeps_the_old_policy(
    daemon: PredictionDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Constant, options: object) -> None:
        raise ZeroDivisionError("a predictor of another package")

    monkeypatch.setattr(Constant, "__init__", fail)
    file = tmp_path / "softwalltime.toml"
    file.write_text('[policy]\nwaiting = "constant"\n')
    daemon.reload(partial(load_settings, file))
    assert "ZeroDivisionError: a predictor of another package" in daemon.status().settings
    file.write_text('[policy]\nwaiting = "v1"\n')
    daemon.reload(partial(load_settings, file))
    assert daemon.status().settings == OK
