"""Logs of folders: by year, under other names and compressed; everything else is named."""

import gzip
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from softwalltime.accounting.folders import MAX_DEPTH, find_logs
from softwalltime.accounting.log_file import opened
from softwalltime.accounting.recognition import trace_format
from softwalltime.core.errors import SourceError, UnsuitableFileError, summary
from tests.samples import RECORDED_LOG

RECORDS = RECORDED_LOG.read_bytes()
SWF = b"    7  1000    50   600   16   590    -1   16  3600    -1   1   12    3   44    2   -1 -1 -1\n"
SERVER_LOG = b"11/20/2026 10:16:10;0100;Server@pbs1;Job;1.pbs1;enqueuing into workq, state 1 hop 1\n" * 3


def write(path: Path, content: bytes = RECORDS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def tar() -> bytes:
    stream = BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        member = tarfile.TarInfo("20261120")
        member.size = len(RECORDS)
        archive.addfile(member, BytesIO(RECORDS))
    return stream.getvalue()


def test_logs_in_folders_by_year_and_under_other_names_are_read_by_day(tmp_path: Path) -> None:
    logs = [
        write(tmp_path / "old" / "2024" / "12" / "20241231.gz", gzip.compress(RECORDS)),
        write(tmp_path / "2025" / "20250101"),
        write(tmp_path / "20250102.anon"),
        write(tmp_path / "cluster-20250103.log.gz", gzip.compress(RECORDS)),
    ]
    write(tmp_path / "2025" / "20250101.gz", b"half written by gzip, beside its plain file")
    found = find_logs([tmp_path])
    assert found.files == logs
    assert (found.left_out, found.broken) == ([], [])


def test_what_is_no_log_is_named_with_its_number(tmp_path: Path) -> None:
    write(tmp_path / "20250101")
    write(tmp_path / "README", b"These are the logs of our cluster.\n")
    write(tmp_path / "notes.txt", b"nothing\n")
    write(tmp_path / "trace.swf", b"; Version: 2.2\n" + SWF)
    write(tmp_path / ".20250102.swp")
    write(tmp_path / Path(*"abcdefg"[: MAX_DEPTH + 1]) / "20250103")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = find_logs([tmp_path])
    assert found.files == [tmp_path / "20250101"]
    assert list(summary(found.left_out)) == [
        f"{tmp_path / '.20250102.swp'}: hidden",
        f"{tmp_path / 'README'} and 1 other file: no accounting record in it",
        f"{tmp_path / 'a/b/c/d/e'}: a folder more than {MAX_DEPTH} levels down: give it too",
        f"{tmp_path / 'loop'}: a link to a folder above it",
        f"{tmp_path / 'trace.swf'}: a trace: give it by itself, not its folder",
    ]


def test_a_folder_without_a_log_says_what_is_in_it(tmp_path: Path) -> None:
    for day in range(1, 31):
        write(tmp_path / f"202501{day:02}.log", SERVER_LOG)
    with pytest.raises(SourceError) as caught:
        find_logs([tmp_path])
    assert str(caught.value) == (
        f"{tmp_path}: the folder holds no accounting log; {tmp_path / '20250101.log'} and 29 other files: a server_log "
        "of PBS, or a log of its scheduler, mom or comm: give the accounting logs: PBS_HOME/server_priv/accounting"
    )


def test_what_cannot_be_read_in_a_folder_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "20250101")
    (tmp_path / "20250102.anon").symlink_to(tmp_path / "gone")
    found = find_logs([tmp_path])
    assert list(map(str, found.broken)) == [f"{tmp_path / '20250102.anon'}: No such file or directory"]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (SERVER_LOG, "server_log of PBS"),
        (SERVER_LOG.replace(b":10;", b":10.123456;"), "server_log of PBS"),
        (b"Nov 20 10:16:10 login1 sshd[812]: Accepted publickey for alice\n", "syslog"),
        (b"<13>Nov  2 10:16:10 pbs1 PBS_server: job queued\n", "syslog"),
        (b"2026-11-20T10:16:10.123+01:00 login1 systemd[1]: Started.\n", "syslog"),
        (b"JobID|User|Submit|Start|End|State\n7|alice|2026-01-01T00:00:00|x|y|COMPLETED\n", "sacct"),
        (b"User,JobIDRaw,Elapsed\nalice,7,00:10:00\n", "sacct"),
        (b"       JobID    Account      State \n------------ ---------- ---------- \n", "sacct"),
        (b"1337_4|alice|debug|2026-01-01T00:00:00|COMPLETED|0:0\n", "sacct"),
        (b"JobId=7 UserId=alice(1000) GroupId=chem(100) Name=x JobState=COMPLETED\n", "completion log of Slurm"),
        (tar(), "tar archive"),
        (gzip.compress(tar(), mtime=0), "tar archive"),
        (b"PK\x03\x04" + bytes(100), "zip archive"),
        (b"PAR1" + bytes(100), "give it by itself, not its folder"),
        (b"\x1f\x9d\x90" + bytes(100), "lz4, compress or 7z"),
    ],
)
def test_other_files_are_recognised_and_what_to_do_is_said(content: bytes, what: str, tmp_path: Path) -> None:
    file = write(tmp_path / "20261120", content)
    with pytest.raises(UnsuitableFileError, match=what) as caught, opened(file) as log:
        trace_format(log)
    assert str(caught.value).startswith(f"{file}: ")
    assert any(
        verb in caught.value.reason for verb in ("give ", "convert it", "unpack it", "decompress it", "write it with")
    )


def test_a_log_that_begins_with_many_blank_lines_is_a_log(tmp_path: Path) -> None:
    with opened(write(tmp_path / "20261120", b" \n" * 500 + b"\n" * 500 + RECORDS)) as log:
        assert trace_format(log) is None


def test_many_blank_lines_before_other_lines_take_no_time(tmp_path: Path) -> None:
    """Each further line doubled it."""
    with opened(write(tmp_path / "20261120", b"\n" * 500 + b"x\n" + RECORDS)) as log:
        assert trace_format(log) is None


@pytest.mark.parametrize("before", [SERVER_LOG, b"Nov 20 10:16:10 login1 sshd[812]: x\n", b"JobID|User|State\n"])
def test_a_log_with_other_lines_before_its_records_is_a_log(before: bytes, tmp_path: Path) -> None:
    with opened(write(tmp_path / "20261120", before + RECORDS)) as log:
        assert not trace_format(log)
