"""Dashboard, alerts and monitoring role: all that they name exists, their SQL runs, and the role reads nothing else."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine, text

from softwalltime.errors import StoreError
from softwalltime.replay.workload import Workload
from softwalltime.service.meter import Meter
from softwalltime.service.metrics import Endpoint
from softwalltime.simulation.workload import generate
from softwalltime.store.migrations import check, upgrade
from softwalltime.store.views import views
from tests.store.monitored import asked, fresh, lately, store
from tests.workloads import ROOT

DEPLOY = ROOT / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "softwalltime.json").read_text())
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
ROLE = (DEPLOY / "sql" / "monitoring-role.sql").read_text()
PROMTOOL = shutil.which(os.environ.get("SOFTWALLTIME_TEST_PROMTOOL", "promtool"))
# Made by Prometheus itself, or functions, labels and keywords of its language.
NOT_OURS = {
    "up", "sum", "by", "rate", "increase", "changes", "histogram_quantile", "le", "max", "min", "time", "and",
    "job", "instance", "event", "action", "operation", "label_values",
}  # fmt: skip


def panels(kind: str) -> list[dict[str, Any]]:
    """The dashboard's panels that ask this kind of data source."""
    return [panel for panel in DASHBOARD["panels"] if panel.get("datasource", {}).get("type", "") == kind]


PROMETHEUS, POSTGRESQL = panels("prometheus"), panels("grafana-postgresql-datasource")
EXPRESSIONS = [target["expr"] for panel in PROMETHEUS for target in panel["targets"]] + [rule["expr"] for rule in RULES]
QUERIES = {
    f"{panel['title']} {target['refId']}": target["rawSql"] for panel in POSTGRESQL for target in panel["targets"]
}


@pytest.fixture(scope="module")
def metrics() -> dict[str, set[str]]:
    """Every metric that a daemon serves, with its labels."""
    from tests.service.test_metrics import STATUS

    meter = Meter().as_dict()
    meter["decisions"] = [{"event": "runjob", "mode": "on", "action": "set", "count": 1}]
    status = {**STATUS, **meter, "accounting": "ok", "requests": {"failed": 1}}
    status["week"] = [
        {
            "mode": "on",
            "predictor": "v1",
            "jobs": 1,
            "accuracy": 1,
            "request_accuracy": 1,
            "underestimated": 0,
            "badly_underestimated": 0,
        }
    ]
    endpoint = Endpoint(("127.0.0.1", 0), lambda: status)
    try:
        page = endpoint.page().decode()
    finally:
        endpoint.close()
    return {
        sample.name: set(sample.labels) for family in text_string_to_metric_families(page) for sample in family.samples
    }


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_that_is_named_exists(expression: str, metrics: dict[str, set[str]]) -> None:
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]', "", expression)
    named = set(re.findall(r"[a-zA-Z_][a-zA-Z_0-9]*", bare)) - NOT_OURS
    assert named <= metrics.keys(), named - metrics.keys()
    assert named or expression.startswith("up{")
    for labels in re.findall(r"by \(([^)]*)\)", expression):
        for label in labels.replace(" ", "").split(","):
            assert label == "instance" or any(label in metrics[name] for name in named), label


def test_legends_and_annotations_use_labels_that_are_there(metrics: dict[str, set[str]]) -> None:
    known = {"instance"}.union(*metrics.values())
    legends = [target["legendFormat"] for panel in PROMETHEUS for target in panel["targets"]]
    texts = [*legends, *(annotation for rule in RULES for annotation in rule["annotations"].values())]
    used = {name for each in texts for name in re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", each)}
    assert used <= known
    assert used


def test_rates_are_taken_of_counters_only(metrics: dict[str, set[str]]) -> None:
    for expression in EXPRESSIONS:
        for name in re.findall(r"(?:rate|increase)\((\w+)", expression):
            assert name.endswith(("_total", "_bucket")), expression


def test_alerts_are_well_formed() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES) >= 10
    for rule in RULES:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"Softwalltime[A-Z]\w+", rule["alert"])
        assert rule["labels"]["severity"] in ("info", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}
        assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))
    for wanted in ("hook_timeouts", "log_behind", "underestimated", "start_time", "store_up", "malformed"):
        assert any(wanted in rule["expr"] for rule in RULES), wanted


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed, and SOFTWALLTIME_TEST_PROMTOOL names none")
@pytest.mark.parametrize("arguments", [("check", "config", "prometheus.yml"), ("test", "rules", "alerts_test.yml")])
def test_prometheus_itself_takes_the_rules_and_they_fire_when_they_should(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [str(PROMTOOL), *arguments], cwd=DEPLOY / "prometheus", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed, and SOFTWALLTIME_TEST_PROMTOOL names none")
def test_prometheus_itself_finds_no_fault_with_the_metrics(tmp_path: Path) -> None:
    from tests.service.test_metrics import STATUS

    endpoint = Endpoint(("127.0.0.1", 0), lambda: {**STATUS, **Meter().as_dict()})
    page = endpoint.page()
    endpoint.close()
    done = subprocess.run([str(PROMTOOL), "check", "metrics"], input=page, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_dashboard_is_well_formed() -> None:
    assert (DASHBOARD["title"], DASHBOARD["uid"]) == ("softwalltime", "softwalltime")
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids) >= 25
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert place["x"] + place["w"] <= 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["datasource"]["uid"].strip("${}") in variables
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"]
            used = re.findall(r"\$(\w+)", target.get("expr", ""))
            assert set(used) <= variables | {"__rate_interval"}


def expanded(query: str) -> str:
    """A query as Grafana sends it: its macros replaced."""
    replaced = re.sub(
        r"\$__timeFilter\((\w+)\)", r"\1 BETWEEN '2020-01-01T00:00:00Z' AND '2100-01-01T00:00:00.5Z'", query
    )
    assert "$" not in replaced, "a macro that this test does not know"
    return replaced


@pytest.fixture(scope="module")
def filled(module_engine: Engine) -> Engine:
    """A store with jobs and predictions of the last weeks."""
    workload = Workload(lately(generate(1500, users=10, processors=1024, seed=3), days=30))
    store(module_engine, workload.jobs, asked(workload, mode="on", waiting="v1")[0])
    fresh(module_engine)
    return module_engine


@pytest.mark.postgres
@pytest.mark.parametrize("title", QUERIES)
def test_every_query_of_the_dashboard_runs_as_the_anonymous_role(title: str, filled: Engine, role: None) -> None:
    panel = next(panel for panel in POSTGRESQL if title.startswith(panel["title"]))
    with filled.connect() as connection:
        connection.execute(text("SET ROLE softwalltime_monitor_anonymous"))
        result = connection.exec_driver_sql(expanded(QUERIES[title]).replace("%", "%%"))
        columns = list(result.keys())
        found = result.all()
    assert "user_name" not in columns
    if panel["targets"][0]["format"] == "time_series":
        assert columns[0] == "time"
        times = [row[0] for row in found]
        assert all(time.tzinfo for time in times)
        assert times == sorted(times)
    for override in panel["fieldConfig"]["overrides"]:
        names = [name for name in columns if name == override["matcher"]["options"]]
        assert names or override["matcher"]["id"] == "byName"
    if not any(of_now in QUERIES[title] for of_now in ("jobs_now", "jobs_overdue", "ingest_lag", "queues_to_leave")):
        assert found, "no data, so nothing was tried"


def test_the_dashboard_shows_every_view_that_names_no_user() -> None:
    shown = set(re.findall(r"softwalltime\.(\w+)", " ".join(QUERIES.values())))
    anonymous = {view.name for view in views()} - {
        view.name.removesuffix("_anonymous") for view in views() if view.name.endswith("_anonymous")
    }
    # For questions of one's own: finer than a panel, or the same in another form.
    assert anonymous - shown == {
        "scores_anonymous", "scores_by_user_anonymous", "scores_by_predictor", "hook_latency",
    }  # fmt: skip
    assert shown <= anonymous


@pytest.fixture(scope="module")
def role(module_engine: Engine) -> Iterator[None]:
    """The monitoring roles, as the script makes them; run twice."""
    names = ("softwalltime_monitor", "softwalltime_monitor_anonymous")
    with module_engine.connect() as connection:
        there = connection.execute(
            text("SELECT rolname FROM pg_roles WHERE rolname = ANY (:names)"), {"names": list(names)}
        ).all()
    if there:
        pytest.skip("this server has the monitoring roles already, and they may be in use")
    for _ in range(2):
        with module_engine.begin() as connection:
            connection.exec_driver_sql(ROLE.replace("%", "%%"))
    yield
    with module_engine.begin() as connection:
        for name in names:
            connection.exec_driver_sql(f"DROP OWNED BY {name}; DROP ROLE {name}")


def readable(engine: Engine, role: str) -> set[str]:
    """Tables, views and sequences of ours that a role may read, after having tried each."""
    found = set()
    query = "SELECT relname FROM pg_class WHERE relnamespace = 'softwalltime'::regnamespace AND relkind IN ('r', 'v')"
    with engine.connect() as connection:
        names = connection.execute(text(query)).scalars().all()
    for name in names:
        with engine.connect() as connection:
            connection.exec_driver_sql(f"SET ROLE {role}")
            try:
                connection.exec_driver_sql(f"SELECT * FROM softwalltime.{name} LIMIT 1")
                found.add(name)
            except StoreError as error:
                assert "privilege" in str(error)
    return found


@pytest.mark.postgres
def test_the_monitoring_roles_read_the_views_and_nothing_else(filled: Engine, role: None) -> None:
    all_views = {view.name for view in views()}
    anonymous = {view.removesuffix("_anonymous") for view in all_views if view.endswith("_anonymous")}
    assert readable(filled, "softwalltime_monitor") == all_views
    assert readable(filled, "softwalltime_monitor_anonymous") == all_views - anonymous
    for statement in (
        "DELETE FROM softwalltime.daily_scores", "UPDATE softwalltime.monitoring SET jobs_id = 0",
        "CREATE TABLE softwalltime.mine ()", "INSERT INTO softwalltime.monitoring VALUES (2, 0, 0)",
    ):  # fmt: skip
        with filled.connect() as connection:
            connection.exec_driver_sql("SET ROLE softwalltime_monitor")
            with pytest.raises(StoreError, match="privilege"):
                connection.exec_driver_sql(statement)


@pytest.mark.postgres
def test_an_upgrade_that_makes_views_anew_lets_the_roles_read_them_again(filled: Engine, role: None) -> None:
    with filled.begin() as connection:
        connection.exec_driver_sql("DROP VIEW softwalltime.scores CASCADE; DROP VIEW softwalltime.drift")
        connection.exec_driver_sql("CREATE VIEW softwalltime.drift AS SELECT 1 AS other")
    upgrade(filled)
    assert check(filled) == []
    assert readable(filled, "softwalltime_monitor") == {view.name for view in views()}
