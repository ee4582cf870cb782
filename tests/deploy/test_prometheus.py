"""Prometheus: alerts and panels use existing metrics, and promtool accepts the configuration."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from softwalltime.predict.drive import PredictorFailure
from softwalltime.service.metrics import MetricsEndpoint
from softwalltime.service.status import DecisionCount, LiveStatus, StartsStatus
from softwalltime.store.quality import Quality, WaitOfSize
from tests.deploy.dashboard import DEPLOY, PROMETHEUS
from tests.service.statuses import new_status, working_status

ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
EXPRESSIONS = [target["expr"] for panel in PROMETHEUS for target in panel["targets"]] + [rule["expr"] for rule in RULES]
PROMTOOL = shutil.which(os.environ.get("SOFTWALLTIME_TEST_PROMTOOL", "promtool"))
# Metrics, functions, labels and keywords of Prometheus itself.
NOT_OURS = {
    "up", "sum", "by", "rate", "increase", "changes", "histogram_quantile", "le", "max", "min", "time", "and", "or",
    "on", "job", "instance", "event", "action", "operation", "mode", "outcome", "waiting", "predictor", "label_values",
    "label_replace", "max_over_time", "vector", "widest",
}  # fmt: skip
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed, and SOFTWALLTIME_TEST_PROMTOOL names none"
)


@pytest.fixture(scope="module")
def metrics() -> dict[str, set[str]]:
    """Every metric of a daemon, with its labels."""
    status = working_status(
        decisions=(DecisionCount("runjob", "on", "set", 1),),
        requests={"failed": 1},
        week=(Quality("on", "v1", 1, 1.0, 0.0, 0.0, 1.0),),
        waits=(WaitOfSize("65 or more", True, 30, 20_000.0, 300, 10_000.0),),
        live=LiveStatus("on"),
        starts=StartsStatus("on", taken=1),
        failures=(PredictorFailure("v1", "learn", 1, "KeyError: 'x'"),),
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
    wanted_ones = "hook_timeouts", "log_behind", "underestimated", "start_time", "store_up", "malformed", "widest"
    for wanted in wanted_ones:
        assert any(wanted in rule["expr"] for rule in RULES), wanted


@needs_promtool
@pytest.mark.parametrize("arguments", [("check", "config", "prometheus.yml"), ("test", "rules", "alerts_test.yml")])
def test_promtool_accepts_the_rules_and_they_fire(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [str(PROMTOOL), *arguments], cwd=DEPLOY / "prometheus", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


EXPECTED = {
    # Panel: series at three times, one minute apart, and the value shown at each.
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


@needs_promtool
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
                    # A stat panel shows the number without labels.
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


@needs_promtool
def test_promtool_accepts_the_metrics(tmp_path: Path) -> None:
    endpoint = MetricsEndpoint(("127.0.0.1", 0), new_status)
    page = endpoint.page()
    endpoint.close()
    done = subprocess.run([str(PROMTOOL), "check", "metrics"], input=page, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
