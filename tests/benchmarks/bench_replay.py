"""The fast replay: jobs a second for each predictor, and the whole command with time and memory."""

import json
import tempfile
from pathlib import Path

from tests.benchmarks.markdown import table
from tests.benchmarks.workload import CURIE, accounting_folder, softwalltime

RUNS = 3


def main() -> None:
    """Replay the five published predictors; the best of three runs counts."""
    with tempfile.TemporaryDirectory() as scratch:
        source = CURIE if CURIE.exists() else accounting_folder(Path(scratch))[1]
        runs = [softwalltime("replay", source, "--format", "json") for _ in range(RUNS)]
    documents = [json.loads(run.output)["predictors"] for run in runs]
    best = {name: max(document[name]["jobs_per_second"] for document in documents) for name in documents[0]}
    rows = [[name, f"{speed:,}", f"{speed / best['request']:.2f}"] for name, speed in best.items()]
    print(table(["predictor", "jobs/s", "of the bare replay"], rows))
    fastest = min(runs, key=lambda run: run.seconds)
    print(f"\nwhole command on {source.name}: {fastest.seconds:.1f} s, {max(run.megabytes for run in runs):.0f} MB")
