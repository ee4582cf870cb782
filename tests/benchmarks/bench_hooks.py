"""The replay through hook and daemon: jobs a second for each predictor, in virtual time without a pause.

Each job fires queuejob, postqueuejob and runjob, of which two ask the daemon; the daemon follows the log, learns, and
records what it decided meanwhile.
"""

import json
import tempfile
from pathlib import Path

from tests.benchmarks.markdown import table
from tests.benchmarks.workload import softwalltime
from tests.traces import TRACES

JOBS = 20_000
TRACE = TRACES / "KTH-SP2-1996-unfiltered.swf.gz"


def main() -> None:
    """Replay the five published predictors through the hooks."""
    with tempfile.TemporaryDirectory() as scratch:
        source = TRACE
        if not source.exists():
            source = Path(scratch) / "accounting"
            softwalltime("generate", source, "--jobs", str(JOBS))
        run = softwalltime("replay", source, "--limit", str(JOBS), "--through-hooks", "--format", "json")
    document = json.loads(run.output)
    rows = [
        [
            name,
            f"{figures['jobs_per_second']:,}",
            f"{figures['events'] / figures['seconds']:,.0f}",
            f"{figures['unanswered']:,}",
            f"{figures['differing']:,}",
        ]
        for name, figures in document["through_hooks"].items()
    ]
    header = [f"{source.name}, {document['jobs']:,} jobs", "jobs/s", "events/s", "unanswered", "differing"]
    print(table(header, rows))
    print(f"\nwhole command: {run.seconds:.1f} s, {run.megabytes:.0f} MB")
