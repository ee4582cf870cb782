"""Draw the most important panels of the dashboard without a Grafana server: make dashboard.

A PostgreSQL holds synthetic jobs and what the daemon's handler decided about each.  A daemon answers requests, and a
Prometheus reads its metrics.  Each panel's own queries are run, and Grafana's own components (@grafana/ui, by npm) draw
what they find in Chromium.  Needs npm, Chromium and prometheus, which PROMETHEUS may name.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from deploy.site.pictures import screenshot
from sqlalchemy import Connection, Engine
from tests.deploy.dashboard import DASHBOARD
from tests.service.running import Daemon, until
from tests.store.monitored import NOW, asked, fresh, lately, store

from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.store.connections import connect
from softwalltime.store.embedded.postgres_process import embedded_postgres
from softwalltime.store.migrations import upgrade

HERE: Final = Path(__file__).parent
BUILD: Final = Path("build/dashboard").absolute()
PICTURE: Final = Path("deploy/pictures/dashboard.png")
PANELS: Final = {8: 0, 43: 0, 2: 0, 3: 0, 4: 0, 39: 0, 40: 0, 5: 0, 6: 0, 7: 0, 41: 0, 42: 0, 22: 32, 23: 32}
"""Ids of the panels, and how many rows of the dashboard each one moves up."""
WAITING: Final = "percentile"
DAYS: Final = 30
DAYS_ON: Final = 12
WIDTH: Final = 1280
ROW: Final = 38
GAP: Final = 8
METRICS: Final = "127.0.0.1:39105"
PROMETHEUS: Final = "127.0.0.1:39090"
SECONDS: Final = 25
"""Time for which requests are sent and metrics are read."""


def main() -> None:
    """Draw the picture."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/tmp") as name, embedded_postgres(Path(name) / "store") as dsn:
        folder = Path(name)
        folder.chmod(0o755)
        engine = connect(dsn)
        upgrade(engine)
        jobs = _fill(engine)
        daemon = Daemon(folder, dsn, f'mode = "on"\nwaiting = "{WAITING}"\n')
        daemon.config.write_text(f'metrics = "{METRICS}"\nrefresh_seconds = 10\n{daemon.config.read_text()}')
        daemon.append(sorted(jobs, key=lambda job: job.end)[-100:])
        daemon.start()
        try:
            with _prometheus(folder) as query:
                _ask(daemon)
                drawn = [_drawn(panel, engine, query) for panel in DASHBOARD["panels"] if panel["id"] in PANELS]
        finally:
            daemon.end()
            engine.dispose()
    _screenshot(drawn)


def _fill(engine: Engine) -> list[CompletedJob]:
    """Store jobs of the last days, predicted in mode shadow first and on for the last days; return the jobs."""
    workload = Workload(lately(generate(8000, users=40, processors=1024, seed=3), days=DAYS))
    switched = NOW - DAYS_ON * 86400
    before, after = (asked(workload, mode=mode, waiting=WAITING)[0] for mode in ("shadow", "on"))
    ends = {job.submission.job_id: job.end for job in workload.jobs}
    decisions = [
        one if ends[one.submission.job_id] < switched else other for one, other in zip(before, after, strict=True)
    ]
    store(engine, workload.jobs, decisions)
    fresh(engine)
    return list(workload.jobs)


@contextmanager
def _prometheus(folder: Path) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """Run a Prometheus that reads the metrics; yield what asks it."""
    binary = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
    if binary is None:
        sys.exit("dashboard: no prometheus: install it, or name it by PROMETHEUS")
    config = folder / "prometheus.yml"
    config.write_text(
        "scrape_configs:\n  - {job_name: softwalltime, scrape_interval: 1s, scrape_timeout: 1s, "
        f"static_configs: [{{targets: ['{METRICS}']}}]}}\n"
    )
    data, address = f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address={PROMETHEUS}"

    def query(expression: str) -> list[dict[str, Any]]:
        url = f"http://{PROMETHEUS}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        with suppress(OSError), urllib.request.urlopen(url) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return found
        return []

    with subprocess.Popen([binary, f"--config.file={config}", data, address], stderr=subprocess.DEVNULL) as run:
        try:
            until(lambda: query("softwalltime_week_jobs"))
            yield query
        finally:
            run.terminate()


def _ask(daemon: Daemon) -> None:
    """Submit jobs for a while."""
    chance, deadline = random.Random(1), time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        user, walltime = f"user{chance.randrange(40):03d}", chance.choice((3600, 14400, 86400))
        daemon.predict("postqueuejob", user=user, walltime=walltime)
        time.sleep(0.1)


def _drawn(panel: dict[str, Any], engine: Engine, query: Callable[[str], list[dict[str, Any]]]) -> dict[str, Any]:
    """Return a panel with what its queries found, as data frames, and its place."""
    frames: list[dict[str, Any]] = []
    for target in panel["targets"]:
        if "expr" in target:
            expression = target["expr"].replace("$instance", ".*").replace("$__rate_interval", "1m")
            frames += [_sample(target, found) for found in query(expression)]
        else:
            with engine.connect() as connection:
                frames += _table(target, connection)
    place = {**panel["gridPos"], "y": panel["gridPos"]["y"] - 1 - PANELS[panel["id"]]}
    return {"panel": panel, "frames": frames, "place": place}


def _sample(target: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return a sample of Prometheus with its legend."""
    at, value = found["value"]
    name = re.sub(r"{{\s*(\w+)\s*}}", lambda label: found["metric"].get(label[1], ""), target.get("legendFormat", ""))
    number = float(value)
    return _frame(target, {"Time": ("time", [int(at * 1000)]), "Value": ("number", [number])}, name)


def _table(target: dict[str, Any], connection: Connection) -> Iterator[dict[str, Any]]:
    """Run a query; yield its rows as a table, or a frame for each series."""
    begin, end = (f"'{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}'" for at in (NOW - DAYS * 86400, NOW))
    text = re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 BETWEEN {begin} AND {end}", target["rawSql"])
    result = connection.exec_driver_sql(text.replace("%", "%%"))
    names, rows = list(result.keys()), [[_plain(value) for value in row] for row in result]
    if target["format"] == "table":
        yield _frame(target, {name: _column([row[index] for row in rows]) for index, name in enumerate(names)})
        return
    metric = names.index("metric") if "metric" in names else None
    for series in dict.fromkeys(row[metric] if metric is not None else "" for row in rows):
        own = [row for row in rows if metric is None or row[metric] == series]
        for index, name in enumerate(names):
            if name not in ("time", "metric"):
                times = ("time", [row[0] for row in own])
                values = _column([row[index] for row in own])
                yield _frame(target, {"Time": times, "Value": values}, f"{series} {name}".strip())


def _frame(
    target: dict[str, Any], columns: dict[str, tuple[str, list[Any]]], legend: str | None = None
) -> dict[str, Any]:
    fields: list[dict[str, Any]] = [
        {"name": name, "type": kind, "values": values, "config": {}} for name, (kind, values) in columns.items()
    ]
    if legend:
        fields[-1]["config"] = {"displayNameFromDS": legend}
    return {"refId": target["refId"], "fields": fields}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.timestamp() * 1000
    return float(value) if isinstance(value, Decimal) else value


def _column(values: list[Any]) -> tuple[str, list[Any]]:
    return ("string" if any(isinstance(value, str) for value in values) else "number"), values


def _screenshot(drawn: list[dict[str, Any]]) -> None:
    """Let Grafana's components draw the panels."""
    for name in ("package.json", "panels.jsx"):
        shutil.copy(HERE / name, BUILD)
    npm = shutil.which("npm") or sys.exit("dashboard: npm is needed")
    subprocess.run([npm, "install", "--no-audit", "--no-fund", "--legacy-peer-deps"], cwd=BUILD, check=True)
    loaders = [f"--loader:.{kind}=dataurl" for kind in ("svg", "woff2", "ttf")]
    subprocess.run(
        [
            "node_modules/.bin/esbuild", "panels.jsx", "--bundle", "--minify", "--outfile=panels.js", *loaders,
            "--jsx=automatic", '--define:process.env.NODE_ENV="production"',
        ],
        cwd=BUILD, check=True,
    )  # fmt: skip
    height = max(one["place"]["y"] + one["place"]["h"] for one in drawn) * ROW + GAP
    given = {
        "panels": drawn, "width": WIDTH, "cell": (WIDTH - GAP) / 24, "row": ROW, "gap": GAP,
        "from": (NOW - DAYS * 86400) * 1000, "to": NOW * 1000,
    }  # fmt: skip
    page = BUILD / "dashboard.html"
    page.write_text(
        '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="panels.css"><style>body{margin:0}</style>'
        f'<div id="dashboard"></div><script>window.DRAWN={json.dumps(given)}</script><script src="panels.js"></script>'
    )
    screenshot(page, PICTURE, WIDTH, height, "--virtual-time-budget=10000", colors=256)


if __name__ == "__main__":
    main()
