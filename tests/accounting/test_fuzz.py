"""Mutated records of a real log, read into PostgreSQL: every line is counted, none ends the reading, no job is wrong.

The same few logs in each run.  SOFTWALLTIME_TEST_FUZZ_SECONDS says for how long to go on with new ones;
SOFTWALLTIME_TEST_FUZZ_SEED from which seed on.
"""

import gzip
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import Engine, text

from softwalltime.accounting import daily_files
from softwalltime.accounting.daily_files import Block
from softwalltime.accounting.reader import PART_OF_CUT, pbs_batch, read_jobs
from softwalltime.accounting.tally import MAX_LINE_BYTES, Tally
from softwalltime.core.jobs import CompletedJob
from softwalltime.service import ingest as ingesting
from softwalltime.service.ingest import ingest_logs
from softwalltime.store.completed_jobs import read_jobs as read_stored
from softwalltime.store.current import read_current
from softwalltime.store.logs import read_malformed
from tests.samples import RECORDED_LOG
from tests.store.stored import count_jobs

SECONDS = float(os.environ.get("SOFTWALLTIME_TEST_FUZZ_SECONDS", "0"))
SEED = int(os.environ.get("SOFTWALLTIME_TEST_FUZZ_SEED", "0"))
LOGS = 1 if "SOFTWALLTIME_TEST_FUZZ_SEED" in os.environ else 20
LINES = 250
CPU_SECONDS = 60
"""Limit for one log with so many lines, some of a megabyte; a quadratic algorithm takes hours."""

TORQUE = b"""\
04/21/2015 00:01:00;Q;123.srv;queue=batch
04/21/2015 00:02:00;S;123.srv;user=ann group=chem jobname=md queue=batch ctime=1500000000 qtime=1500000000 \
etime=1500000000 start=1500000100 owner=ann@login1 exec_host=n1/0-7+n2/0-7 Resource_List.nodes=2:ppn=8:gpus=1
04/21/2015 00:03:00;R;123.srv;
04/21/2015 01:03:00;E;123.srv;user=ann group=chem jobname=md queue=batch ctime=1500000000 qtime=1500000000 \
etime=1500000000 start=1500000200 owner=ann@login1 exec_host=n1/0-7 Resource_List.nodes=2:ppn=8:gpus=1+n7:ppn=4 \
Resource_List.walltime=12:00:00 session=999 end=1500003700 Exit_status=0 resources_used.mem=1.5gb
"""
RECORDED = (RECORDED_LOG.read_bytes() + TORQUE).splitlines()
LETTERS = b"QSERDaABUYKkFLCTMPpzrxucesN"
NUMBERS = (
    b"0", b"-1", b"00", b"9" * 9, b"4294967296", b"9" * 18, b"9" * 40, b"9" * 400 + b".5", b"1e308", b"inf", b"nan",
    b"0x10", b"1_0", "١٢".encode(), b"1:2:3:4:5", b"::", b"-00:10:00", b"99999999999:00:00", b"2147483648", b"UNSET",
    b"1.7976931348623157e309gb", b"9" * 5000, b"4tb", b"4zb", b"",
)  # fmt: skip
PIECES = (
    b"\0", b"\xff", b"\xfe\xff", b"\xed\xa0\x80", b"\r", b"\x1b[2J", b"\xe2\x80\xa8", b"\x85", b" ", b"  ", b"=", b'"',
    b"'", b";", b"[]", b"[1]", b'account="', b"user=", b" end=5 ", b"\\.", b"\\N", b"None", b"\t", b"%s", b"{}",
    b"\xc3\xa9",
)  # fmt: skip
HUGE: tuple[Callable[[Random], bytes], ...] = (
    lambda chance: b" " * chance.randrange(1, 200_000),
    lambda chance: b'a="x ' * chance.randrange(1, 20_000),
    lambda chance: b"a='x " * chance.randrange(1, 20_000),
    lambda chance: b'account="x ' * chance.randrange(1, 20_000),
    lambda chance: b"a.b" * chance.randrange(1, 100_000),
    lambda chance: b'" ' * chance.randrange(1, 100_000),
    lambda chance: b"\0" * chance.randrange(1, 1 << 20),
    lambda chance: b"1:ppn=2+" * chance.randrange(1, 20_000),
    lambda chance: b"9" * chance.randrange(1, 1 << 18),
    lambda chance: bytes(chance.choices(range(256), k=chance.randrange(1, 5000))).replace(b"\n", b""),
)


def mutated(line: bytes, chance: Random) -> bytes:
    """Return the record with a random mutation, as one line."""
    at = chance.randrange(len(line) + 1)
    match chance.randrange(11):
        case 0:
            flipped = bytearray(line)
            for _ in range(chance.randrange(1, 9)):
                flipped[chance.randrange(len(line))] ^= 1 << chance.randrange(8)
            line = bytes(flipped)
        case 1:
            other = chance.choice(RECORDED)
            line = line[:at] + other[chance.randrange(len(other)) :]
        case 2:
            line = line[:at]
        case 3:
            line = line[at:]
        case 4:
            line = line[:at] + chance.choice(PIECES) * chance.choice((1, 1, 2, 30)) + line[at:]
        case 5:
            line = line[:20] + bytes([chance.choice(LETTERS)]) + line[21:]
        case 6:
            fields = line.split(b"=")
            which = chance.randrange(len(fields))
            value, blank, following = fields[which].partition(b" ")
            fields[which] = chance.choice((chance.choice(NUMBERS), value * 2, b"x" * 400)) + blank + following
            line = b"=".join(fields)
        case 7:
            line = line[:at] + line[chance.randrange(at, len(line) + 1) :]
        case 8:
            words = line.split(b" ")
            chance.shuffle(words)
            line = b" ".join(words)
        case 9 if chance.random() < 0.1:
            line = line[:at] + chance.choice(HUGE)(chance) + line[at:]
        case _:
            pass
    return line.replace(b"\n", b"\v")


def fuzzed(chance: Random) -> tuple[list[bytes], list[bytes]]:
    """Return a log of mutated records, and its intact E records of jobs that occur in no other line."""
    lines, whole = [], []
    for number in range(LINES):
        line = chance.choice(RECORDED)
        for _ in range(chance.choice((1, 1, 2, 5))):
            line = mutated(line, chance) or b"x"
        lines.append(line)
        if number % 10 == 0:
            record = next(each for each in (chance.choice(RECORDED) for _ in iter(int, 1)) if each[19:22] == b";E;")
            if b"[]" not in record:
                whole.append(b";".join([*record.split(b";")[:2], b"%d.whole" % number, record.split(b";", 3)[3]]))
                lines.append(whole[-1])
    return lines, whole


def empty(engine: Engine) -> None:
    """Delete all stored rows."""
    logged = ("completed_jobs", "interrupted_runs", "current_jobs", "log_positions", "malformed_lines")
    with engine.begin() as connection:
        connection.execute(text(f"TRUNCATE {', '.join(f'softwalltime.{table}' for table in logged)}"))


def key(job: CompletedJob) -> tuple[str, str, int | None]:
    return job.server, job.submission.job_id, job.start


@pytest.mark.postgres
def test_each_line_of_a_mutated_log_is_counted_and_each_job_is_stored(module_engine: Engine, tmp_path: Path) -> None:
    until, executions = time.monotonic() + SECONDS, 0
    seed = SEED
    while seed < SEED + LOGS or time.monotonic() < until:
        seed += 1
        try:
            executions += one_log(module_engine, tmp_path, Random(seed))
        except BaseException as error:
            error.add_note(f"run it again with SOFTWALLTIME_TEST_FUZZ_SEED={seed - 1} SOFTWALLTIME_TEST_FUZZ_SECONDS=0")
            raise
    print(f"{executions:,} mutated lines, seeds {SEED + 1} to {seed}")


def one_log(engine: Engine, folder: Path, chance: Random) -> int:
    """Write a log, ingest it with random settings, and check the store; return the number of lines."""
    empty(engine)
    lines, whole = fuzzed(chance)
    content = b"\n".join(lines) + b"\n"
    log = folder / chance.choice(("20261120", "20261120.gz", "log"))
    begin, tally = time.process_time(), Tally()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(daily_files, "BLOCK_BYTES", chance.choice((100, 5000, 1 << 20)))
        patch.setattr(daily_files, "MAX_LOG_LINE_BYTES", chance.choice((20_000, 1 << 24)))
        patch.setattr(ingesting, "MAX_BATCH_LINES", chance.choice((1, 20, 50_000)))
        # The log grows between the calls.
        cuts = sorted(chance.randrange(len(content)) for _ in range(chance.choice((0, 1, 3))))
        for cut in (*cuts, len(content)):
            written = content[:cut]
            log.write_bytes(gzip.compress(written, 1) if log.suffix == ".gz" else written)
            ingest_logs(engine, [log], tally)
        assert time.process_time() - begin < CPU_SECONDS
        assert tally.broken == []
        counted = tally.jobs + tally.array_parents + tally.interrupted + tally.blank + tally.malformed + tally.others
        assert counted == tally.lines >= len(lines)
        assert min(tally.other.values(), default=0) >= 0
        at_once = Tally()
        read = {key(job): job for job in reversed(list(read_jobs([log], at_once)))}
    with engine.connect() as connection:
        stored = {key(job): job for job in read_stored(connection)}
        assert count_jobs(connection) == len(stored)
        malformed = read_malformed(connection)
        list(read_current(connection))
        connection.execute(text("SELECT count(*) FROM softwalltime.jobs_now")).one()
        connection.execute(text("SELECT * FROM softwalltime.jobs_overdue")).all()
    # No job comes from a cut record, but its end is known only when the whole record is written.
    of_cut = [line.content for line in at_once.kept if line.error.reason == PART_OF_CUT]
    if cuts and of_cut:
        assert stored.keys() >= read.keys()
    else:
        assert stored == read
    names = {line.split(b";")[2].decode() for line in whole if line not in of_cut}
    assert names <= {job.submission.job_id for job in stored.values()}
    assert len(malformed) == len({line.byte_offset for line in malformed}) == tally.malformed
    for line in malformed:
        assert content[line.byte_offset :].startswith(line.line)
        assert content[: line.byte_offset].count(b"\n") == line.line_number - 1
    log.unlink()
    return len(lines)


ENDED = b"11/20/2026 10:00:00;E;1.srv;user=bob ctime=100 start=110 "


@pytest.mark.parametrize(
    "text",
    [
        b" ", b"x ", b"a=b  ", b'a="x ', b"a='x ", b'account="x ', b'" ', b"' ", b"a.b", b"a.b=", b"=", b"[", b"\0",
        b"\xff", b"9", b"Resource_List.nodes=1:ppn=2+", b"1:", b"::", b'x" end=',
    ],
)  # fmt: skip
def test_parsing_time_is_linear_in_the_length_of_a_record(text: bytes) -> None:
    line = ENDED + text * ((1 << 20) // len(text)) + b" end=200"
    begin = time.process_time()
    batch = pbs_batch(Block(line, 0, 1, len(line) + 1), "log", Tally())
    assert len(batch.jobs) + len(batch.malformed) == 1
    # Linear parsing takes milliseconds, quadratic parsing takes minutes.
    assert time.process_time() - begin < 10


@pytest.mark.parametrize("size", [7, 1000, 4000, 10**6])
def test_a_record_that_is_too_long_is_not_read_as_a_job(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daily_files, "BLOCK_BYTES", size)
    monkeypatch.setattr(daily_files, "MAX_LOG_LINE_BYTES", 5000)
    log = tmp_path / "20261120"
    short = ENDED + b"end=200\n"
    # Every prefix of the line is a valid record, and so is every rest.
    too_long = ENDED.replace(b"1.srv", b"2.srv") + b"end=200 " + b" ".join([short.strip()] * 200) + b"\n"
    log.write_bytes(too_long + short + too_long * 2 + b"rubbish\n")
    tally = Tally()
    assert [job.submission.job_id for job in read_jobs([log], tally)] == ["1.srv"]
    assert {line.line for line in tally.kept} == {1, 3, 4, 5}
    assert tally.kept[-1].content == b"rubbish"
    assert tally.kept[-1].offset == 3 * len(too_long) + len(short)


def test_a_malformed_line_keeps_no_other_data_in_memory(tmp_path: Path) -> None:
    log = tmp_path / "20261120"
    log.write_bytes((b"x" * 100_000 + b"\n" + ENDED + b"end=soon" + b" " * 100_000 + b"\n") * 20)
    tally = Tally()
    assert list(read_jobs([log], tally)) == []
    assert len(tally.kept) == 40
    for line in tally.kept:
        assert len(line.content) <= MAX_LINE_BYTES
        assert len(line.error.value) <= MAX_LINE_BYTES
        assert line.error.__traceback__ is line.error.__context__ is line.error.__cause__ is None
