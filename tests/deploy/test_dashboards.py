"""Dashboard, alerts and monitoring role: all that they name exists, their SQL runs, and the role reads nothing else."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from psycopg import postgres
from sqlalchemy import Engine, text

from softwalltime.errors import StoreError
from softwalltime.replay.workload import Workload
from softwalltime.service.metrics import MetricsEndpoint
from softwalltime.service.status import DecisionCount
from softwalltime.store.definitions import views
from softwalltime.store.migrations import check, upgrade
from softwalltime.store.quality import Quality
from softwalltime.workloads.synthetic import generate
from tests.samples import ROOT
from tests.service.statuses import new_status, working_status
from tests.store.monitored import NOW, asked, fresh, lately, store

DEPLOY = ROOT / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "softwalltime.json").read_text())
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
ROLE = (DEPLOY / "sql" / "monitoring-role.sql").read_text()
PROMTOOL = shutil.which(os.environ.get("SOFTWALLTIME_TEST_PROMTOOL", "promtool"))
# Made by Prometheus itself, or functions, labels and keywords of its language.
NOT_OURS = {
    "up", "sum", "by", "rate", "increase", "changes", "histogram_quantile", "le", "max", "min", "time", "and", "or",
    "on", "job", "instance", "event", "action", "operation", "mode", "waiting", "predictor", "label_values",
    "label_replace", "max_over_time", "vector",
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
    status = working_status(
        decisions=(DecisionCount("runjob", "on", "set", 1),),
        requests={"failed": 1},
        week=(Quality("on", "v1", 1, 1.0, 0.0, 0.0, 1.0),),
    )
    endpoint = MetricsEndpoint(("127.0.0.1", 0), lambda: status)
    try:
        page = endpoint.page().decode()
    finally:
        endpoint.close()
    return {
        sample.name: set(sample.labels) for family in text_string_to_metric_families(page) for sample in family.samples
    }


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_named_metric_and_label_exists(expression: str, metrics: dict[str, set[str]]) -> None:
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]', "", expression)
    named = set(re.findall(r"[a-zA-Z_][a-zA-Z_0-9]*", bare)) - NOT_OURS
    assert named <= metrics.keys(), named - metrics.keys()
    assert named or expression.startswith("up{")
    for labels in re.findall(r"by \(([^)]*)\)", expression):
        for label in filter(None, labels.replace(" ", "").split(",")):
            assert label == "instance" or any(label in metrics[name] for name in named), label


def test_legends_and_annotations_use_existing_labels(metrics: dict[str, set[str]]) -> None:
    known = {"instance"}.union(*metrics.values())
    legends = [target["legendFormat"] for panel in PROMETHEUS for target in panel["targets"]]
    texts = [*legends, *(annotation for rule in RULES for annotation in rule["annotations"].values())]
    used = {name for each in texts for name in re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", each)}
    assert used <= known
    assert used


def test_rates_are_of_counters_only(metrics: dict[str, set[str]]) -> None:
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
def test_promtool_accepts_the_rules_and_they_fire(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [str(PROMTOOL), *arguments], cwd=DEPLOY / "prometheus", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


EXPECTED = {
    # Panel: series at three moments (a minute each), and what it shows then.  Panels ask for one instance here.
    "Daemon": (
        {
            'softwalltime_ready{instance="a", job="softwalltime"}': "0 1 stale",
            'up{instance="a", job="softwalltime"}': "1 1 0",
        },
        [0, 1, -1],
    ),
    "Mode": ({'softwalltime_policy_info{instance="a", mode="on", waiting="v1", share="1.0"}': "1 1 stale"}, [1, 1, 0]),
    "Log behind": (
        {'softwalltime_accounting_up{instance="a"}': "1 1 0", 'softwalltime_log_behind_seconds{instance="a"}': "0 7 0"},
        [0, 7, -1],
    ),
    "Accuracy, last 7 days B": (
        {
            'softwalltime_week_request_accuracy_ratio{instance="a", mode="on", predictor="v1"}': "0.2x2",
            'softwalltime_week_jobs{instance="a", mode="on", predictor="v1"}': "30x2",
            'softwalltime_week_request_accuracy_ratio{instance="a", mode="shadow", predictor="v1"}': "0.6x2",
            'softwalltime_week_jobs{instance="a", mode="shadow", predictor="v1"}': "10x2",
        },
        [0.3, 0.3, 0.3],
    ),
}  # fmt: skip


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed, and SOFTWALLTIME_TEST_PROMTOOL names none")
def test_prometheus_answers_the_queries_of_the_panels(tmp_path: Path) -> None:
    asked = {
        f"{panel['title']} {target['refId']}": target["expr"]
        .replace("$instance", "a")
        .replace("$__rate_interval", "1m")
        for panel in PROMETHEUS
        for target in panel["targets"]
    }
    rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(asked.values())]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in given.items()],
            "promql_expr_test": [
                {
                    # Without labels: what a stat shows is the number.
                    "expr": f"sum({asked.get(panel) or asked[panel + ' A']})",
                    "eval_time": f"{minute}m",
                    "exp_samples": [{"labels": "{}", "value": value}],
                }
                for minute, value in enumerate(shown)
            ],
        }
        for panel, (given, shown) in EXPECTED.items()
    ]
    (tmp_path / "tests.yml").write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "tests": tests}))
    for arguments in (("check", "rules", "rules.yml"), ("test", "rules", "tests.yml")):
        done = subprocess.run(
            [str(PROMTOOL), *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed, and SOFTWALLTIME_TEST_PROMTOOL names none")
def test_promtool_accepts_the_metrics(tmp_path: Path) -> None:
    endpoint = MetricsEndpoint(("127.0.0.1", 0), new_status)
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


def test_the_first_rows_show_mode_state_and_accuracy() -> None:
    second_row = [panel["gridPos"]["y"] for panel in DASHBOARD["panels"] if panel["type"] == "row"][1]
    top = [panel for panel in DASHBOARD["panels"] if panel["gridPos"]["y"] < second_row and panel["type"] != "row"]
    asked = " ".join(target.get("expr") or target["rawSql"] for panel in top for target in panel["targets"])
    for wanted in (
        "policy_info", "ready", "store_up", "log_behind_seconds", "since_newest_job", "rate(softwalltime_decisions",
        "hook_timeouts", "week_accuracy", "week_request_accuracy", "week_underestimated", "mean_request_error",
    ):  # fmt: skip
        assert wanted in asked
    for panel in top:
        # Nothing known yet, or no longer, must not look as if all were well.  Mode and predictor say so by themselves.
        unknown = [each for each in panel["fieldConfig"]["defaults"].get("mappings", []) if each["type"] == "special"]
        assert [each["options"]["match"] for each in unknown] == ["null"] or " or " in panel["targets"][0]["expr"]
        assert all(each["options"]["result"]["color"] not in ("green", "blue") for each in unknown), panel["title"]


RANGES = {"long": timedelta(days=36500), "some days": timedelta(days=3)}


def window(length: timedelta) -> tuple[datetime, datetime]:
    """A time so long that lies in the past but for the longest, with no first of a month in it if it is short."""
    end = datetime.fromtimestamp(NOW, UTC)
    if length > timedelta(days=20):
        return end - length, end + length
    while end.day <= length.days + 1:
        end -= timedelta(days=1)
    return end - length, end


def expanded(query: str, length: timedelta) -> str:
    """A query as Grafana sends it: its macros replaced."""
    begin, end = (f"'{time:%Y-%m-%dT%H:%M:%S.5Z}'" for time in window(length))
    replaced = re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 BETWEEN {begin} AND {end}", query)
    replaced = replaced.replace("$__timeFrom()", begin).replace("$__timeTo()", end)
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
@pytest.mark.parametrize("length", RANGES)
def test_every_query_of_the_dashboard_runs_as_the_anonymous_role(
    title: str, length: str, filled: Engine, role: None
) -> None:
    panel = next(panel for panel in POSTGRESQL if title[:-2] == panel["title"])
    with filled.connect() as connection:
        connection.execute(text("SET ROLE softwalltime_monitor_anonymous"))
        result = connection.exec_driver_sql(expanded(QUERIES[title], RANGES[length]).replace("%", "%%"))
        types = {column[0]: column[1] for column in result.cursor.description}
        found = result.all()
    columns = list(types)
    assert "user_name" not in columns
    # Grafana shows dates as times in the zone of the browser, where they may be the day before, and intervals as text.
    assert not {postgres.types[name].oid for name in ("date", "interval")} & set(types.values())
    if panel["targets"][0]["format"] == "time_series":
        assert columns[0] == "time"
        assert [name for name in columns if types[name] == postgres.types["text"].oid] in ([], ["metric"])
        times = [row[0] for row in found]
        assert all(time.tzinfo for time in times)
        assert times == sorted(times)
        series = [row[: 1 + ("metric" in columns)] for row in found]
        assert len(set(series)) == len(series), "two values of one series at one time"
    # A panel with a time of its own is not asked about a few days.
    if length == "long" or "timeFrom" not in panel:
        of_now = ("jobs_now", "jobs_overdue", "ingest_lag", "queues_to_leave")
        if not any(view in QUERIES[title] for view in of_now):
            assert found, "no data, so nothing was tried"


def test_overrides_name_existing_fields() -> None:
    for panel in PROMETHEUS + POSTGRESQL:
        queries = " ".join(target.get("rawSql", "") for target in panel["targets"])
        legends = [target.get("legendFormat") for target in panel["targets"]]
        for override in panel["fieldConfig"]["overrides"]:
            kind, chosen = override["matcher"]["id"], override["matcher"]["options"]
            if kind == "byFrameRefID":
                assert chosen in {target["refId"] for target in panel["targets"]}
            elif kind == "byName":
                named = rf'AS "?{re.escape(chosen)}"?[,\n ]|[ ,]{re.escape(chosen)}[,\n ]'
                assert chosen in legends or re.search(named, queries), (panel["title"], chosen)
            else:
                assert kind == "byRegexp"
                assert chosen.strip("/^$") in ("on", "shadow", "off", "not known")


@pytest.mark.postgres
@pytest.mark.parametrize(
    "panel", [panel for panel in POSTGRESQL if panel["type"] == "table"], ids=lambda each: each["title"]
)
def test_tables_fit_on_a_screen(panel: dict[str, Any], filled: Engine) -> None:
    # Grafana makes columns 150 pixels wide or more, unless it is told otherwise, and lets one scroll for the rest.
    (query,) = (target["rawSql"] for target in panel["targets"])
    with filled.connect() as connection:
        columns = list(connection.exec_driver_sql(expanded(query, RANGES["long"]).replace("%", "%%")).keys())
    least = panel["fieldConfig"]["defaults"].get("custom", {}).get("minWidth", 150)
    own = {
        override["matcher"]["options"]: each["value"]
        for override in panel["fieldConfig"]["overrides"]
        for each in override["properties"]
        if each["id"] == "custom.width"
    }
    assert sum(own.get(name, least) for name in columns) < panel["gridPos"]["w"] * 1600 / 24 - 40
    # Headers need about seven pixels a letter.
    share = (panel["gridPos"]["w"] * 1600 / 24 - 40 - sum(own.values())) / max(1, len(columns) - len(own))
    assert all(len(name) * 7 + 6 <= own.get(name, share) for name in columns), share


def test_the_dashboard_shows_every_view_without_user_names() -> None:
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
def test_an_upgrade_grants_recreated_views_again(filled: Engine, role: None) -> None:
    with filled.begin() as connection:
        connection.exec_driver_sql("DROP VIEW softwalltime.scores CASCADE; DROP VIEW softwalltime.drift")
        connection.exec_driver_sql("CREATE VIEW softwalltime.drift AS SELECT 1 AS other")
    upgrade(filled)
    assert check(filled) == []
    assert readable(filled, "softwalltime_monitor") == {view.name for view in views()}
