"""Dashboard and monitoring roles: every name exists, the SQL runs, and the roles read only the views."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import postgres
from sqlalchemy import Engine, text

from softwalltime.core.errors import StoreError
from softwalltime.core.promises import Outcome, Promise
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.store.definitions import views
from softwalltime.store.forecast_rows import StoredStart, judge_starts, publish_starts
from softwalltime.store.migrations import check, upgrade
from softwalltime.store.promises import GuardState, store_promises, store_state
from tests.deploy.dashboard import DASHBOARD, DEPLOY, POSTGRESQL, PROMETHEUS, QUERIES
from tests.samples import job
from tests.store.monitored import NOW, asked, fresh, lately, store
from tests.store.stored import add_jobs

ROLE = (DEPLOY / "sql" / "monitoring-role.sql").read_text()


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
        # A missing value must not look like a good one.  Mode and predictor show it themselves.
        unknown = [each for each in panel["fieldConfig"]["defaults"].get("mappings", []) if each["type"] == "special"]
        assert [each["options"]["match"] for each in unknown] == ["null"] or " or " in panel["targets"][0]["expr"]
        assert all(each["options"]["result"]["color"] not in ("green", "blue") for each in unknown), panel["title"]


RANGES = {"long": timedelta(days=36500), "some days": timedelta(days=3)}


def window(length: timedelta) -> tuple[datetime, datetime]:
    """Return a range of this length: a short one is in the past and within one month, a long one around now."""
    end = datetime.fromtimestamp(NOW, UTC)
    if length > timedelta(days=20):
        return end - length, end + length
    while end.day <= length.days + 1:
        end -= timedelta(days=1)
    return end - length, end


def expanded(query: str, length: timedelta) -> str:
    """Replace the macros of a query, as Grafana does."""
    begin, end = (f"'{time:%Y-%m-%dT%H:%M:%S.5Z}'" for time in window(length))
    replaced = re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 BETWEEN {begin} AND {end}", query)
    replaced = replaced.replace("$__timeFrom()", begin).replace("$__timeTo()", end)
    assert "$" not in replaced, "a macro that this test does not know"
    return replaced


@pytest.fixture(scope="module")
def filled(module_engine: Engine) -> Engine:
    """A store with jobs and predictions of the last weeks."""
    workload = Workload(lately(generate(1500, users=10, processors=1024, seed=3), days=30))
    decisions = asked(workload, mode="on", waiting="v1", ordering="v2")[0]
    store(module_engine, workload.jobs, decisions)
    with module_engine.begin() as connection:
        for number, each in enumerate(workload.jobs[::5]):
            began, submission = each.start or each.end, each.submission
            outcome = Outcome.LATE if number % 4 == 0 else Outcome.KEPT
            promise = Promise(submission.job_id, began - 900, began - 70, began, outcome, began, "q", submission.ncpus)
            store_promises(connection, "", [promise])
            store_state(connection, GuardState("srv", began, submission.job_id if number % 3 else ""))
    fresh(module_engine)
    # Within the short range, wherever that lies.
    now = int(window(RANGES["some days"])[1].timestamp())
    start = StoredStart(
        "7.srv", now, now + 60, now, now + 30, now + 90, now + 120, None, 60, 4, "ann", "g", "p", "long", "first"
    )
    with module_engine.begin() as connection:
        for at in (now - 86400, now - 4 * 86400):
            publish_starts(connection, "srv", [start], at, 600)
        add_jobs(connection, [replace(job(job_id="7.srv", end=now), start=now - 600)])
        judge_starts(connection, "srv", now)
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
    # A panel with its own time range is not tested with a few days.
    if length == "long" or "timeFrom" not in panel:
        of_now = ("jobs_now", "jobs_overdue", "ingest_lag", "queues_to_leave", "starts_now")
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
    anonymous = views().keys() - {view.removesuffix("_anonymous") for view in views() if view.endswith("_anonymous")}
    # Views for users' own queries: finer than a panel, or the same data in another form.
    assert anonymous - shown == {
        "scores_anonymous", "scores_by_user_anonymous", "scores_by_predictor", "hook_latency",
    }  # fmt: skip
    assert shown <= anonymous


@pytest.fixture(scope="module")
def role(module_engine: Engine) -> Iterator[None]:
    """Create the monitoring roles; the script runs twice."""
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
    """Return the tables and views that a role can read; read each of them."""
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
    all_views = views().keys()
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
    assert readable(filled, "softwalltime_monitor") == views().keys()
