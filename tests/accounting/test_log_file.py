"""Opening of files: compressed, damaged, special, or with a byte order mark."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from softwalltime.accounting import log_file
from softwalltime.accounting.daily_files import log_files
from softwalltime.accounting.log_file import opened, size_on_disk
from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.core.errors import SourceError
from tests.samples import RECORDED_LOG
from tests.test_extras import without_extras

RECORDED = RECORDED_LOG.read_bytes()
FORMATS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}
try:
    from compression import zstd
except ImportError:
    zstd = pytest.importorskip("backports.zstd", reason="backports.zstd is missing: pip install backports.zstd")
FORMATS["zstd"] = zstd.compress
compressed = pytest.mark.parametrize("name", FORMATS)


def jobs(path: Path) -> tuple[int, Tally]:
    tally = Tally()
    return len(list(read_jobs([path], tally))), tally


def contents(path: Path, size: int = 1000) -> tuple[bytes, str]:
    """Return the readable contents of a file, and the error at the end."""
    read, error = b"", "none"
    with opened(path) as file:
        try:
            while data := file.contents.read(size):
                read += data
        except SourceError as caught:
            error = str(caught)
    return read, error


@compressed
@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz", ".zst"])
def test_a_compressed_log_is_read_whatever_its_name(name: str, suffix: str, tmp_path: Path) -> None:
    log = tmp_path / f"20261120{suffix}"
    log.write_bytes(FORMATS[name](RECORDED))
    assert log_files(tmp_path) == [log]
    found, tally = jobs(log)
    assert (found, tally.lines, tally.broken) == (42, RECORDED.count(b"\n"), [])


@compressed
@pytest.mark.parametrize("padding", [b"", bytes(4), bytes(70_000)])
def test_consecutive_members_are_read_as_one_file(name: str, padding: bytes, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(FORMATS[name](part) + padding for part in (RECORDED[:9999], b"", RECORDED[9999:])))
    assert contents(log) == (RECORDED, "none")


@compressed
def test_any_position_can_be_read_again(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "_STEP_BYTES", 1000)
    monkeypatch.setattr(log_file, "_INPUT", 300)
    log, chance = tmp_path / "log", Random(1)
    log.write_bytes(FORMATS[name](RECORDED))
    with opened(log) as file:
        for _ in range(100):
            place, size = chance.randrange(len(RECORDED) + 100), chance.randrange(5000)
            file.contents.seek(place)
            assert file.contents.read(size) == RECORDED[place : place + size]


@compressed
@pytest.mark.parametrize("lines", [10, 168, 168 * 50])
def test_a_truncated_file_is_read_up_to_its_end(name: str, lines: int, tmp_path: Path) -> None:
    whole = b"".join((RECORDED.splitlines(keepends=True) * 50)[:lines])
    log = tmp_path / "log"
    data = FORMATS[name](whole)
    log.write_bytes(data[:-12])
    read, error = contents(log)
    assert whole.startswith(read)
    # bzip2 compresses 900 kB as a whole and zstd 128 kB: half a block gives nothing.
    assert len(read) > (0 if name in ("gzip", "xz") else -1)
    assert len(read) >= len(whole) - 900_000
    assert error == f"{log}: damaged {name} file, read up to the damage: unexpected end of file"


@compressed
@pytest.mark.parametrize("lines", [10, 168, 168 * 20])
def test_a_file_with_other_data_after_its_end_is_read_to_its_end(name: str, lines: int, tmp_path: Path) -> None:
    whole = b"".join((RECORDED.splitlines(keepends=True) * 20)[:lines])
    log = tmp_path / "log"
    log.write_bytes(FORMATS[name](whole) + b"rubbish")
    read, error = contents(log, size=10**6)
    assert read == whole
    assert error.endswith("read up to the damage: other data after its end")
    found, tally = jobs(log)
    assert found == sum(line[19:22] == b";E;" and b"[]" not in line for line in whole.splitlines())
    assert len(tally.broken) == 1


@pytest.mark.parametrize("name", ["gzip", "xz"])
def test_a_file_with_a_wrong_byte_is_read_nearly_up_to_the_damage(name: str, tmp_path: Path) -> None:
    # Random texts, which do not compress well: half of the file is half of the contents.
    chance = Random(1)
    whole = b"".join(b"%064x\n" % chance.getrandbits(256) for _ in range(168 * 100))
    data = bytearray(FORMATS[name](whole))
    data[len(data) // 2 : len(data) // 2 + 100] = bytes(100)
    log = tmp_path / "log"
    log.write_bytes(data)
    read, error = contents(log)
    common = next((place for place, pair in enumerate(zip(read, whole, strict=False)) if pair[0] != pair[1]), len(read))
    assert common > len(whole) * 0.45
    assert "damaged" in error


def test_a_byte_order_mark_is_not_part_of_the_first_record(tmp_path: Path) -> None:
    log = tmp_path / "20261120"
    record = next(line for line in RECORDED.splitlines() if line[19:22] == b";E;")
    log.write_bytes(b"\xef\xbb\xbf" + record + b"\nrubbish\n")
    found, tally = jobs(log)
    assert (found, tally.malformed) == (1, 1)
    assert tally.kept[0].offset == len(record) + 4
    log.write_bytes(b"\xef\xbb\xbfrubbish\n" + RECORDED)
    found, tally = jobs(log)
    assert (found, tally.kept[0].offset, tally.kept[0].content) == (42, 3, b"rubbish")


def test_only_the_line_with_zeros_at_the_start_of_a_log_is_malformed(tmp_path: Path) -> None:
    log = tmp_path / "20261120"
    log.write_bytes(bytes(3 << 20) + RECORDED)
    found, tally = jobs(log)
    assert (found, tally.malformed, tally.broken) == (42, 1, [])


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/null", "/dev/tty"])
def test_a_device_is_not_opened(target: str, tmp_path: Path) -> None:
    log = tmp_path / "20261120"
    log.symlink_to(target)
    assert size_on_disk(log) == 0
    with pytest.raises(SourceError, match="not a regular file"), opened(log):
        pass


@pytest.mark.skipif(not Path("/proc/kmsg").exists(), reason="there is no /proc/kmsg here")
def test_files_in_proc_which_may_never_end_are_read_as_empty(tmp_path: Path) -> None:
    log = tmp_path / "20261120"
    log.symlink_to("/proc/kmsg")
    assert jobs(log)[0] == 0


def test_only_files_named_by_a_date_are_logs(tmp_path: Path) -> None:
    for name in ("20262101", "20260230", "20261120.zip", "20260228.bz2", "20240229", "2026112", "00000101"):
        (tmp_path / name).touch()
    assert [log.name for log in log_files(tmp_path)] == ["20240229", "20260228.bz2"]


def test_a_zstd_file_without_its_package_says_what_to_do(tmp_path: Path) -> None:
    for day in range(1, 6):
        (tmp_path / f"2026110{day}.zst").write_bytes(zstd.compress(RECORDED))
    (tmp_path / "20261120").write_bytes(RECORDED)
    code = """
    import sys
    from pathlib import Path
    from softwalltime.accounting.folders import find_logs
    from softwalltime.accounting.reader import read_jobs
    from softwalltime.accounting.tally import Tally
    from softwalltime.cli.sources import problems
    tally = Tally()
    print(len(list(read_jobs(find_logs([Path(sys.argv[1])]).files, tally))), *problems(tally), sep="\\n")
    """
    done = without_extras(code, str(tmp_path), more=("compression.zstd", "backports"))
    assert done.stdout.splitlines() == [
        "42",
        f"{tmp_path / '20261101.zst'} and 4 other files: {log_file._NO_ZSTD}",
    ], done.stderr
