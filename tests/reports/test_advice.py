"""Advice for users: suggestions worked out by hand, checked on jobs they were not made from, and simulated."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from softwalltime.cli import run
from softwalltime.core.shorter_walltimes import suggest
from softwalltime.measure.simulation.differences import Interval
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from softwalltime.reports.user_advice import advise_users, measure_earlier_starts, with_messages
from tests.samples import RECORDED_LOG, job, trace

HOUR = 3600


def jobs(user: str, runtimes: Sequence[int], walltime: int = 24 * HOUR, ncpus: int = 2) -> list[object]:
    return [
        job(user, submitted=n * 1000, runtime=runtime, walltime=walltime, ncpus=ncpus, job_id=f"{user}{n}.srv")
        for n, runtime in enumerate(runtimes)
    ]


def of(*records: object) -> Jobs:
    return jobs_of(records)  # type: ignore[arg-type]  # completed jobs


@pytest.mark.parametrize(
    ("runtimes", "expected"),
    [
        ([100] * 50, 5 * 60),
        ([250] * 50, 5 * 60),
        ([251] * 50, 10 * 60),
        ([4 * HOUR] * 50, 6 * HOUR),
        # The 99th percentile leaves one job of 200 out.
        ([60] * 199 + [9 * HOUR], 5 * 60),
        ([60] * 50 + [9 * HOUR], 12 * HOUR),
        ([41 * HOUR] * 20, 72 * HOUR),
    ],
)
def test_the_suggestion_is_enough_with_a_margin(runtimes: list[int], expected: int) -> None:
    assert suggest(runtimes) == expected


def test_each_request_gets_a_suggestion_or_the_reason_why_not() -> None:
    found = advise_users(
        of(
            *jobs("short", [4 * HOUR] * 40),
            *jobs("full", [20 * HOUR] * 40),
            *jobs("rare", [HOUR] * 19),
            # Fast tests first, then production: a suggestion from the former would kill the latter.
            *jobs("growing", [HOUR] * 20 + [10 * HOUR] * 20),
        )
    )
    only = {user: one.requests[0] for user, one in found.items()}
    assert only["short"].suggested == 6 * HOUR
    assert only["short"].used == pytest.approx(1 / 6)
    assert only["short"].saved == 40 * 2 * 18 * HOUR
    assert {user: one.reason for user, one in only.items()} == {
        "short": "", "full": "fits", "rare": "fewer than 20 jobs", "growing": "runtimes change too much",
    }  # fmt: skip
    assert only["growing"].killed == 1.0


@pytest.mark.parametrize(
    ("earlier", "said"),
    [
        (Interval(3600, 1800, 5400), "would have started 1 h earlier in the median (95% interval 30 min to 1.5 h)."),
        (Interval(3600, -600_000, 700_000), "The simulation does not show that these jobs would have started earlier."),
        (None, "request 6 h."),
    ],
)
def test_a_message_names_the_jobs_and_has_no_interval_that_says_nothing(earlier: Interval | None, said: str) -> None:
    names = ["relax\x1b[2J"] * 30 + ["md " * 30] * 9 + [""]
    records = [
        job("ann", submitted=n, runtime=4 * HOUR, walltime=24 * HOUR, job_id=f"{n}.srv", job_name=name, ncpus=2)
        for n, name in enumerate(names)
    ]
    (advice,) = with_messages([replace(advise_users(of(*records))["ann"], earlier=earlier)])
    assert advice.message.startswith("You request 24 h (jobs relax?[2J, md md md ")
    assert "md..." in advice.message
    assert advice.message.endswith(said)
    assert "\N{MINUS SIGN}" not in advice.message


def test_jobs_that_fit_a_gap_with_their_new_walltime_start_earlier() -> None:
    # Every 4 h a job takes 3 of 4 processors for 2 h, and one on all 4 waits for it and runs 1 h.  A job of 10 min
    # would delay neither, but the scheduler knows its 10 h: it starts after 3 h in place of 2 min.
    records = []
    for n in range(60):
        for seconds, runtime, walltime, ncpus in (
            (0, 2 * HOUR, 2 * HOUR, 3), (60, HOUR, HOUR, 4), (120, 600, 10 * HOUR, 1),
        ):  # fmt: skip
            records.append(
                job(
                    submitted=n * 4 * HOUR + seconds, runtime=runtime, walltime=walltime, ncpus=ncpus,
                    job_id=f"{n}.{ncpus}.srv",
                )
            )  # fmt: skip
    # From 10 users on, the jobs of each user are moved together.
    others = [job(f"other{n}", submitted=10**8 + n, job_id=f"other{n}.srv", ncpus=1) for n in range(9)]
    found = of(*records, *others)
    advice = advise_users(found)["alice"]
    assert [(one.walltime, one.suggested) for one in advice.suggestions] == [(10 * HOUR, 15 * 60)]
    earlier = measure_earlier_starts(found, 4, [advice], "fcfs", (31,))["alice"]
    assert (earlier.mean, earlier.low) == (3 * HOUR - 120, None), "one workload gives no interval"


def test_a_recorded_user_gets_a_table_and_everyone_a_line_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = ["--log", str(trace("SDSC-SP2")), "--processors", "128", "--simulated-jobs", "6000", "--seeds", "31,32"]
    merge = tmp_path / "advice.csv"
    assert run(["advise", "--mail-merge", str(merge), *log, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    with merge.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(document["users"]) > 3
    assert {row["user"] for row in rows} == {one["user"] for one in document["users"]}
    for row in rows:
        assert int(row["suggested_s"]) <= 0.75 * int(row["requested_s"])
        assert row["job_names"]
        assert row["message"].startswith(f"You request {row['requested']} (jobs {row['job_names']}) and use ")
    user = rows[0]["user"]
    assert run(["advise", user, *log]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{user}: ")
    assert f"request {rows[0]['suggested']}." in text
    assert "Simulated on 128 processors, order fcfs, EASY backfilling, 2 shaken workloads." in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a USER, or write a file for all users with --mail-merge FILE"),
        (["nobody"], "no job of nobody in"),
        (["--mail-merge", "/nowhere/advice.csv"], "/nowhere/advice.csv: cannot be written"),
    ],
)
def test_a_wrong_argument_is_one_clear_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["advise", *arguments, "--log", str(RECORDED_LOG)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def test_a_log_in_place_of_the_user_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["advise", str(RECORDED_LOG)]) == 2
    assert capsys.readouterr().err.startswith(
        f"softwalltime: {RECORDED_LOG} is not a user: give a log as --log {RECORDED_LOG}, and name a USER"
    )
