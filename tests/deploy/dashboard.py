"""The Grafana dashboard: its panels and their queries."""

import json
from typing import Any

from tests.samples import ROOT

DEPLOY = ROOT / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "softwalltime.json").read_text())


def panels(kind: str) -> list[dict[str, Any]]:
    """Return the panels with this kind of data source."""
    return [panel for panel in DASHBOARD["panels"] if panel.get("datasource", {}).get("type", "") == kind]


PROMETHEUS, POSTGRESQL = panels("prometheus"), panels("grafana-postgresql-datasource")
QUERIES = {
    f"{panel['title']} {target['refId']}": target["rawSql"] for panel in POSTGRESQL for target in panel["targets"]
}
