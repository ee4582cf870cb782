"""The verdict about simulated logs: right and wrong machines, and the same from every command."""

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from softwalltime.cli import run
from softwalltime.cli.sources import load_columns
from softwalltime.core.jobs import CompletedJob
from softwalltime.core.settings import Settings
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.reports.recommendation import Recommendation, Verdict, WaitLimits, recommend
from softwalltime.reports.simulation import SimulationInput, SimulationOptions, prepare, simulate_candidates
from tests.samples import trace

DAY = 86400
JOBS = generate(1500, seed=1)


def advised(jobs: Sequence[CompletedJob], processors: int | None) -> Recommendation:
    """What is recommended where nothing can be switched on, which does not decide whether the simulation can tell."""
    options = SimulationOptions(processors=processors, seeds=(31, 32), processes=1)
    recorded = prepare(Workload(list(jobs)), options)
    assert isinstance(recorded, SimulationInput)
    return recommend(simulate_candidates(recorded, [], options), WaitLimits())


def without_walltimes() -> list[CompletedJob]:
    """The log of a site that gives walltimes to every third job only."""
    return [
        job if number % 3 == 0 else replace(job, submission=replace(job.submission, walltime=None))
        for number, job in enumerate(JOBS)
    ]


def two_clusters() -> list[CompletedJob]:
    """The logs of two machines of 128 processors in one."""
    both = [*JOBS, *(renamed(job) for job in generate(1500, seed=2))]
    return sorted(both, key=lambda job: job.end)


def renamed(job: CompletedJob) -> CompletedJob:
    """The same job with another identifier."""
    return replace(job, submission=replace(job.submission, job_id=f"x{job.submission.job_id}"))


def month_down() -> list[CompletedJob]:
    """The log of a machine that starts no job for 30 days, in which its users go on submitting."""
    stop = JOBS[len(JOBS) // 2].submission.submitted
    return [
        replace(job, start=job.start + 30 * DAY, end=job.end + 30 * DAY) if job.start and job.start >= stop else job
        for job in JOBS
        if not (job.start and job.start >= stop and job.submission.submitted < stop - 20 * DAY)
    ]


def other_site() -> list[CompletedJob]:
    """The log of another site."""
    return load_columns((str(trace("KTH")),), lambda **_: Settings())[0][:1500]


def test_on_the_right_machine_there_is_a_verdict() -> None:
    assert advised(JOBS, 128).verdict is not Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("jobs", "processors", "says"),
    [
        (lambda: JOBS, 64, "--processors"),
        (lambda: JOBS, 256, "--processors"),
        (without_walltimes, 128, "--walltime-from"),
        (two_clusters, 128, "--processors"),
        (month_down, 128, "--since"),
        (other_site, 128, "--processors"),
    ],
    ids=["half the size", "twice the size", "no walltimes", "two clusters", "a month down", "another site"],
)
def test_a_wrong_machine_cannot_tell_and_names_the_option(
    jobs: Callable[[], list[CompletedJob]], processors: int, says: str
) -> None:
    advice = advised(jobs(), processors)
    assert advice.verdict is Verdict.UNKNOWN
    assert advice.sentence.startswith("Cannot tell whether soft walltimes would help")
    assert says in " ".join((advice.sentence, *advice.reasons))
    assert advice.waits is None


def test_recorded_hours_and_simulated_seconds_are_never_a_reason_against() -> None:
    # On a machine of 28,416 processors nobody waits; the log says otherwise.
    advice = advised(JOBS, 28_416)
    assert advice.verdict is Verdict.UNKNOWN
    assert "nothing to shorten" not in advice.sentence


@pytest.mark.parametrize("waited", [False, True], ids=["no starts", "each starts when submitted"])
def test_without_recorded_waits_nobody_can_tell(waited: bool) -> None:
    jobs = [replace(job, start=job.submission.submitted if waited else None) for job in JOBS]
    advice = advised(jobs, 128)
    assert advice.verdict is Verdict.UNKNOWN
    assert "The log records no waits" in advice.sentence


def verdicts(source: str, processors: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The verdicts of the three commands about a log."""
    common = [source, "--processors", str(processors), "--seeds", "31-32", "--processes", "1", "--format", "json"]
    found = {}
    for command, more in (
        (["report"], ["--predictors", "v1", "-o", str(folder / "page.html")]),
        (["tune"], ["--predictors", "v1"]),
        (["policy", "compare"], []),
    ):
        assert run([*command, *common, *more]) == 0
        found[" ".join(command)] = json.loads(capsys.readouterr().out)["advice"]["verdict"]
    return found


def write_swf(source: Path, jobs: int, target: Path) -> str:
    """Write the first jobs of a trace."""
    lines = gzip.decompress(source.read_bytes()).decode(errors="replace").splitlines()
    head = [line for line in lines if line.startswith(";")]
    target.write_text("\n".join([*head, *[line for line in lines if not line.startswith(";")][:jobs]]) + "\n")
    return str(target)


def test_the_commands_agree_on_a_recorded_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_swf(trace("KTH"), 600, tmp_path / "trace.swf")
    found = verdicts(source, 100, tmp_path, capsys)
    assert set(found.values()) == {"unknown"}, "recorded waits are more than 1.5 times the simulated ones"


def test_the_commands_agree_on_a_synthetic_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "logs"
    assert run(["generate", str(folder), "--jobs", "1200", "--seed", "3"]) == 0
    capsys.readouterr()
    found = verdicts(str(folder), 128, tmp_path, capsys)
    assert len(set(found.values())) == 1
    assert set(found.values()) <= {"on", "off"}
