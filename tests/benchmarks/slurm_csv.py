"""Write the jobs of mila-iqia/slurm-queue-time-pred (Graham and Cedar, MIT licence) as traces, for softwalltime train.

    git clone https://github.com/mila-iqia/slurm-queue-time-pred
    python -m tests.benchmarks.slurm_csv slurm-queue-time-pred/data/data_on_submit_days/graham graham.swf

The files hold the jobs that waited at noon, one file for each day of submission.
"""

import calendar
import csv
import sys
import time
from pathlib import Path

STATUS = {"COMPLETED": 1, "CANCELLED": 5}
"""Status in a trace; others failed, 0."""


def main(folder: Path, target: Path) -> None:
    """Write the jobs of all files of a folder, each once, in order of submission; users are accounts."""
    jobs: dict[str, dict[str, str]] = {}
    for file in sorted(folder.glob("*.csv")):
        with file.open(newline="") as lines:
            jobs |= {row["job_unique_id"]: row for row in csv.DictReader(lines)}
    ordered = sorted(jobs.values(), key=lambda row: (_seconds(row["submit_time"]), int(row["job_unique_id"])))
    first = _seconds(ordered[0]["submit_time"])
    with target.open("w") as out:
        out.write(f"; Version: 2.2\n; UnixStartTime: {first}\n; MaxNodes: 1000\n")
        for number, row in enumerate(ordered, 1):
            submitted = _seconds(row["submit_time"])
            wait = _seconds(row["start_time"]) - submitted
            runtime, cpus, walltime = (int(float(row[name])) for name in ("run_time_sec", "req_cpus", "time_limit_sec"))
            status = STATUS.get(row["state"], 0)
            out.write(
                f"{number} {submitted - first} {wait} {runtime} {cpus} -1 -1 {cpus} {walltime} -1 {status} "
                f"{row['account_id']} -1 -1 {row['partition_id_x']} -1 -1 -1\n"
            )
    print(f"{target}: {len(ordered):,} jobs")


def _seconds(text: str) -> int:
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%d %H:%M:%S"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
