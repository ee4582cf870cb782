"""Records forged with line breaks in values of qsub, which PBS writes unchanged."""

from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from softwalltime.accounting import cut, daily_files
from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.core.jobs import CompletedJob
from softwalltime.predict.predictors.registry import make

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
EPOCH = int(NOON.timestamp())


def stamp(seconds: int) -> str:
    return f"{NOON + timedelta(seconds=seconds):%m/%d/%Y %H:%M:%S}"


def record(
    kind: str, at: int, number: int, user: str, account: str | None = None, project: str = "p", resource: str = "",
    runtime: int = 30,
) -> str:  # fmt: skip
    """Return a record in PBS's format, ``at`` seconds after noon."""
    time = EPOCH + at
    ended = kind in "ER"
    start = time - runtime if ended else time
    queued = start - 10 if kind != "Q" else time
    texts = [f"user={user}", "group=g"]
    texts += [f'account="{account}"'] if account is not None else []
    texts += [f'project="{project}"' if " " in project else f"project={project}"]
    texts += ["jobname=j", "queue=q", f"ctime={queued}", f"qtime={queued}", f"etime={queued}"]
    texts += [f"start={start}", "exec_host=n1/0", "exec_vnode=(n1:ncpus=1)"] if kind != "Q" else []
    texts += [f'Resource_List.note="{resource}"'] if resource else []
    texts += ["Resource_List.select=1:ncpus=1", "Resource_List.walltime=01:00:00"]
    if ended:
        texts += ["session=99", f"end={time}", "Exit_status=0", "resources_used.walltime=00:00:30", "run_count=1"]
    return f"{stamp(at)};{kind};{number}.pbs1;{' '.join(texts)}{' ' if not ended else ''}\n"


def day(injected: list[str]) -> str:
    """Return a log with other users' jobs before and after the records with the injected text."""
    before = "".join(record(kind, at, 1 + at, "bob") for at in range(-500, -99, 50) for kind in "QSE")
    after = "".join(record(kind, at, 1000 + at, "bob") for at in range(100, 900, 50) for kind in "QSE")
    return before + "".join(injected) + after


FORGED = [
    record("E", at, 777_000 + number, "bob", runtime=7)
    for number, at in enumerate((-3600, -1, 0, 0, 1, 3, 60, 900, 90_000))
]
"""Return complete records of another user's jobs at several times."""


def forged_ends(kind: str) -> dict[str, str]:
    """Ends of the injected text, before PBS's closing quotation mark."""
    own = record(kind, 0, 9, "mallory", account="y").partition('account="y')[0] + 'account="y'
    bobs = record(kind, 0, 777_777, "bob", account="y").partition('account="y')[0] + 'account="y'
    return {
        "any text": "y",
        "his own record": own,
        "another user's record": bobs,
        "another user's record, without an account": bobs.partition(" account")[0],
        "a record of another type": f"{stamp(0)};L;license;y",
        "a record of long ago": bobs.replace(stamp(0), stamp(-86_400)),
        "a record of the next day": bobs.replace(stamp(0), stamp(86_400)),
        "a record without a time": "11/20/2026;E;777777.pbs1;user=bob y",
        "nothing": "",
    }


def imitated_starts(kind: str) -> dict[str, str]:
    """Starts of the injected text, which imitate the end of the user's own record."""
    rest = record(kind, 0, 9, "mallory", account="x").partition('account="x')[2]
    return {
        "nothing": "x\n",
        "fields without the quotation mark": "x" + rest[1:].rstrip() + "\n",
        "an end on a line of its own": "x\n" + rest,
        "a record of his own": "x\n" + record(kind, 0, 9, "mallory", account="z"),
        "quotation marks": '"x" "\n',
        "a blank line": "x\n\n",
    }


def jobs(tmp_path: Path, content: str) -> tuple[list[CompletedJob], Tally]:
    log = tmp_path / "20261120"
    log.write_text(content)
    tally = Tally()
    return list(read_jobs([log], tally)), tally


def injections(kind: str) -> list[tuple[str, str, str]]:
    return [(kind, begin, end) for begin, end in product(imitated_starts(kind), forged_ends(kind))]


@pytest.mark.parametrize(("kind", "begin", "end"), [each for kind in "QSER" for each in injections(kind)])
def test_an_account_with_line_breaks_adds_no_job(tmp_path: Path, kind: str, begin: str, end: str) -> None:
    account = imitated_starts(kind)[begin] + "".join(FORGED) + forged_ends(kind)[end]
    honest, _ = jobs(tmp_path, day([]))
    read, tally = jobs(tmp_path, day([record(kind, 0, 9, "mallory", account=account)]))
    assert read == honest
    lines = record(kind, 0, 9, "mallory", account=account).count("\n")
    assert tally.malformed + tally.blank == lines
    reasons = [line.error.reason for line in tally.kept]
    assert reasons[0] == "a line break in a value cuts this record"
    assert set(reasons[1:]) == {"part of a record that a line break in a value cut"}


@pytest.mark.parametrize("field", ["project", "resource"])
@pytest.mark.parametrize("kind", "QSE")
@pytest.mark.parametrize("end", ["y", f"{stamp(0)};L;license;y"])
def test_other_values_with_line_breaks_add_no_job(tmp_path: Path, kind: str, field: str, end: str) -> None:
    injected = record(kind, 0, 9, "mallory", **{field: "x\n" + "".join(FORGED) + end})  # type: ignore[arg-type]
    honest, _ = jobs(tmp_path, day([]))
    read, _ = jobs(tmp_path, day([injected]))
    if field == "resource" and kind != "E" and end != "y":
        pytest.xfail("the end of a record that is cut after its times has none by which it is known")
    assert read == honest


@pytest.mark.parametrize("gridname", ['g" user=bob x="', 'g" user=bob group=g account="', 'g" group=other x="'])
def test_a_gridname_makes_no_job_another_users(tmp_path: Path, gridname: str) -> None:
    """PBS writes it before the names of user and group, and a client may send any text."""
    own = [
        record(kind, at, 9, "mallory").replace(";user=", f';gridname="{gridname}" user=')
        for kind, at in (("Q", 0), ("E", 9))
    ]
    honest, _ = jobs(tmp_path, day([]))
    read, tally = jobs(tmp_path, day(own))
    assert (read, tally.malformed) == (honest, 1)
    plain = [line.replace(gridname, "https://grid/1 2") for line in own]
    assert [job.submission.user for job in jobs(tmp_path, day(plain))[0] if job.submission.job_id == "9.pbs1"] == [
        "mallory"
    ]


def test_forged_texts_in_any_record_do_not_affect_the_records_around_it(tmp_path: Path) -> None:
    account = "x\n" + "".join(FORGED) + "y"
    injected = [record(kind, at, 9, "mallory", account=account) for kind, at in (("Q", 0), ("S", 20), ("E", 40))]
    honest, _ = jobs(tmp_path, day([]))
    between = [record("E", at, 500 + at, "carol") for at in (10, 30, 50)]
    read, _ = jobs(tmp_path, day([injected[0], between[0], injected[1], between[1], injected[2], between[2]]))
    carols = [job for job in read if job.submission.user == "carol"]
    assert [job for job in read if job.submission.user != "carol"] == honest
    assert [job.submission.job_id for job in carols] == ["510.pbs1", "530.pbs1", "550.pbs1"]


def test_another_users_prediction_does_not_change(tmp_path: Path) -> None:
    account = "x\n" + "".join(FORGED) + forged_ends("Q")["another user's record"]
    predictions = []
    for injected in ([], [record("Q", 950, 9, "mallory", account=account)]):
        predictor = make("v1")
        read, _ = jobs(tmp_path, day(injected))
        for job in sorted(read, key=lambda job: job.end):
            predictor.learn(job)
        predictions.append(predictor.predict(read[-1].submission, EPOCH + 10_000))
    assert predictions[0] == predictions[1]


@pytest.mark.parametrize("size", [100, 3000, 10**6])
def test_block_boundaries_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(daily_files, "BLOCK_BYTES", size)
    account = "x\n" + "".join(FORGED) * 30 + forged_ends("E")["another user's record"]
    honest, _ = jobs(tmp_path, day([]))
    assert jobs(tmp_path, day([record("E", 0, 9, "mallory", account=account)]))[0] == honest


def test_a_text_of_a_megabyte_is_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut, "SEARCH_BYTES", 20_000)
    honest, _ = jobs(tmp_path, day([]))
    for times, caught in ((50, True), (100, False)):
        account = "x\n" + FORGED[1] * times + "y"
        assert (jobs(tmp_path, day([record("E", 0, 9, "mallory", account=account)]))[0] == honest) is caught


@pytest.mark.parametrize(
    "account",
    ['chem grant; 2026 "x=1"', '"', "'", "it's", '""', 'a="b', "x='y z", "x" * 5000, "11/20/2026 12:00:00;E;1;"],
)
def test_accounts_without_line_breaks_are_not_set_aside(tmp_path: Path, account: str) -> None:
    records = [record(kind, at, 9, "carol", account=account) for kind, at in (("Q", 0), ("S", 20), ("E", 40))]
    read, tally = jobs(tmp_path, day(records))
    assert tally.malformed == 0
    assert [job.submission.account for job in read if job.submission.user == "carol"] == [account]


def test_a_forgery_after_a_complete_record_is_not_detected(tmp_path: Path) -> None:
    """SECURITY.md documents this limit: each line of such a log is a valid record of PBS."""
    own = record("E", 0, 9, "mallory", account="x").partition('account="x')[2]
    account = "x" + own + forged_ends("E")["another user's record"]
    written = record("E", 0, 9, "mallory", account=account)
    honest = record("E", 0, 9, "mallory", account="x") + record("E", 0, 777_777, "bob", account="y")
    assert written == honest
