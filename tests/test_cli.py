"""The commands as an administrator types them."""

import gc
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import softwalltime
from softwalltime.cli import cli, run
from softwalltime.core.garbage import rare_collections
from softwalltime.core.written import write_csv
from tests.samples import RECORDED_LOG


def commands(group: click.Group = cli, *path: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


@pytest.fixture(scope="module")
def accounting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated") / "accounting"
    assert run(["generate", str(folder), "--jobs", "600", "--seed", "3"]) == 0
    return folder


@pytest.mark.parametrize("arguments", [["--version"], ["frobnicate"], ["--help"], []], ids=" ".join)
def test_what_runs_no_command_imports_none(arguments: list[str]) -> None:
    script = f"from softwalltime.cli import run; run({arguments}); import sys; print(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    imported = set(output.split())
    heavy = {"numpy", "sqlalchemy", "pydantic", "psycopg", "joblib"}
    assert not heavy & imported
    assert {name for name in imported if name.startswith("softwalltime.")} == {
        "softwalltime.cli", "softwalltime.cli.interruption", "softwalltime.core", "softwalltime.core.errors",
        "softwalltime.core.extras",
    }  # fmt: skip


def test_garbage_is_collected_rarely_during_a_replay_and_as_before_after_it(
    accounting: Path,
) -> None:
    before = gc.get_threshold()
    assert run(["replay", str(accounting), "--predictors", "v1"]) == 0
    assert run(["replay", str(accounting / "missing")]) == 2
    assert gc.get_threshold() == before
    with rare_collections():
        assert gc.get_threshold()[0] > 100 * before[0]
    assert gc.get_threshold() == before


def test_the_help_of_a_command_imports_no_large_library() -> None:
    helps = [[*command, "--help"] for command in commands()]
    assert ["replay-starts", "--help"] in helps
    script = f"from softwalltime.cli import run; codes = [run(each) for each in {helps}]; import sys; "
    script += "print(set(codes), *sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr.split()
    assert done[0] == "{0}"
    large = {
        "numpy", "joblib", "pydantic", "pandas", "jinja2", "sqlalchemy", "alembic", "psycopg",
        "prometheus_client",
    }  # fmt: skip
    assert not large & set(done)


def test_the_names_that_help_prints_are_those_that_exist() -> None:
    from softwalltime.measure.simulation import names
    from softwalltime.measure.simulation.backfilling import DISCIPLINES
    from softwalltime.measure.simulation.orders import ORDERS

    assert tuple(ORDERS) == names.ORDERS
    assert tuple(DISCIPLINES) == names.BACKFILLS


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_list_of_commands_has_the_summaries_of_the_commands(columns: int) -> None:
    lazy = click.HelpFormatter(width=columns)
    eager = click.HelpFormatter(width=columns)
    cli.format_commands(click.Context(cli), lazy)
    click.Group.format_commands(cli, click.Context(cli), eager)
    assert lazy.getvalue() == eager.getvalue()


@pytest.mark.parametrize("incomplete", ["", "re", "--", "frobnicate"])
def test_completion_is_that_of_the_commands(incomplete: str) -> None:
    lazy = cli.shell_complete(click.Context(cli), incomplete)
    eager = click.Group.shell_complete(cli, click.Context(cli), incomplete)
    assert [(item.value, item.help) for item in lazy] == [(item.value, item.help) for item in eager]
    assert bool(lazy) is (incomplete != "frobnicate")


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_every_command_has_help_with_an_example(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"Example:\n    softwalltime {' '.join(command)}" in text


@pytest.mark.parametrize("group", [(), ("db",)])
def test_the_list_of_commands_fits_into_80_columns(
    group: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*group, "--help"]) == 0
    assert [
        line for line in capsys.readouterr().out.splitlines() if line.endswith("...") and line.startswith("  ")
    ] == []


def test_every_option_has_help() -> None:
    for path in commands():
        command: click.Command = cli
        for name in path:
            assert isinstance(command, click.Group)
            command = command.commands[name]
        for option in command.params:
            assert not isinstance(option, click.Option) or option.help, f"{' '.join(path)} {option.name}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["replay"], "Missing argument 'SOURCE...'"),
        (["replay", "/nowhere"], "/nowhere: No such file or directory"),
        (["replay", str(RECORDED_LOG), "--predictors", "v9"], "no predictor is called 'v9'"),
        (["replay", str(RECORDED_LOG), "--predictor", "percentile:p=x"], "p=x: should be a valid number"),
        (["replay", str(RECORDED_LOG), "--predictors", ""], "the list of predictors '' has an empty entry"),
        (["replay", str(RECORDED_LOG), "--predictors", "v1,,v2"], "the list of predictors 'v1,,v2' has an empty entry"),
        (["sweep", str(RECORDED_LOG), "-o", "/tmp/x.csv", "--predictors", ""], "has an empty entry"),
        (["replay", str(RECORDED_LOG), "--min-soft-walltime", "1" + 30 * "0"], "is not in the range 1<=x<=31622400"),
        (["ingest", str(RECORDED_LOG), "--server", ""], "'' is not a server name"),
        (["convert", str(RECORDED_LOG), "x", "--server", "a b;c"], "'a b;c' is not a server name"),
        (["report", str(RECORDED_LOG), "-o", "/tmp/x.html", "--pseudonyms", "/etc/passwd"], "no key for pseudonyms"),
        (["replay", str(RECORDED_LOG), "--limit", "0"], "0 is not in the range x>=1"),
        (["replay", str(RECORDED_LOG), "--limit", "many"], "'many' is not a valid integer"),
        (["replay", str(RECORDED_LOG), "--format", "xml"], "'xml' is not one of"),
        (["replay", str(RECORDED_LOG), "--frob"], "No such option '--frob'"),
        (["ingest", "/nowhere"], "Path '/nowhere' does not exist"),
        (["ingest", str(RECORDED_LOG), "--config", "/nowhere.toml"], "/nowhere.toml"),
        (["convert", str(RECORDED_LOG)], "Missing argument 'FOLDER'"),
        (["generate", "/proc/nowhere/x"], "/proc/nowhere/x: cannot be written"),
        (["generate", "/tmp", "--jobs", "10"], "/tmp: the folder is not empty"),
        (["generate", "x", "--jobs", "0"], "0 is not in the range"),
    ],
)
def test_a_wrong_argument_gets_one_clear_line_and_exit_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_without_arguments_help_is_printed_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Commands:" in captured.err


FIGURES = {
    "jobs", "accuracy_mean", "accuracy_median", "underestimated", "badly_underestimated", "over", "not_adjusted",
    "mean_absolute_error", "extensions_mean",
}  # fmt: skip


def test_replay_prints_one_json_object(accounting: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = "percentile:p=95,keys=user+project,window=30d,threshold=0.5"
    assert run(["replay", str(accounting), "--predictors", f"v1,{spec}", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["source"] == str(accounting)
    assert document["scored"] + sum(document["skipped"].values()) == document["jobs"]
    assert list(document["predictors"]) == ["request", "v1", spec]
    for figures in document["predictors"].values():
        assert set(figures) == FIGURES | {"jobs_per_second"}
        assert figures["jobs"] == document["scored"]
    assert document["predictors"]["request"]["not_adjusted"] == 1
    assert document["after_warm_up"]["v1"]["jobs"] == document["scored"] - document["scored"] // 100


def test_replay_prints_a_table_of_the_published_predictors(
    accounting: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", str(accounting)]) == 0
    captured = capsys.readouterr()
    names = [line.split()[1] for line in captured.out.splitlines() if line.startswith("| ")]
    assert names == ["predictor", *["-" * len(names[1])], "request", "v1", "v2", "v3", "v4", "percentile"]
    assert captured.err == ""


def test_piped_output_holds_no_control_characters(accounting: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "softwalltime", "replay", accounting], capture_output=True, check=True, text=True
    )
    assert done.stdout.replace("\n", "").isprintable()
    assert done.stderr == ""


def test_a_full_disk_gets_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "softwalltime", "completion", "bash"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"softwalltime: standard output: cannot be written: No space left on device\n"


def test_an_interrupted_table_leaves_the_earlier_file(tmp_path: Path) -> None:
    target = tmp_path / "dump.csv"
    target.write_text("earlier")

    def rows() -> Iterator[tuple[int]]:
        yield (1,)
        assert target.read_text() == "earlier"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_csv(target, ["number"], rows())
    assert target.read_text() == "earlier"
    write_csv(target, ["number"], [(1,)])
    assert target.read_text() == "number\n1\n"
    assert list(tmp_path.iterdir()) == [target]


def test_limit_reduces_the_number_of_jobs(accounting: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(accounting), "--limit", "50", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 50


def test_a_period_without_jobs_says_what_to_correct(accounting: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(accounting), "--score", "2999-01-01..2999-01-02"]) == 0
    assert "correct --score" in capsys.readouterr().err


def test_the_same_log_given_twice_counts_once(
    accounting: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in accounting.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert run(["replay", str(accounting), "--format", "json"]) == 0
    once = json.loads(capsys.readouterr().out)
    assert run(["replay", str(accounting), str(tmp_path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == once["jobs"]


def test_the_log_of_another_program_is_named_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "11/20/2026 10:16:10;0100;Server@pbs1;Job;1.pbs1;enqueuing into workq, state 1 hop 1\n"
    for day in range(1, 21):
        (tmp_path / f"202611{day:02}").write_text(line * 50)
    assert run(["replay", str(tmp_path)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"{tmp_path / '20261101'} and 19 other files: a server_log of PBS, or a log of its ")
    assert lines[0].endswith("give the accounting logs: PBS_HOME/server_priv/accounting")
    assert lines[1].endswith(f"no completed job in {tmp_path}")


def test_a_folder_of_a_published_log_is_replayed_and_the_rest_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "2026").mkdir()
    (tmp_path / "2026" / "20261120.anon").write_bytes(RECORDED_LOG.read_bytes())
    (tmp_path / "LICENSE").write_text("Do what you like.\n")
    assert run(["replay", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert f"{tmp_path}: 42 jobs, " in captured.out
    assert captured.err == f"left out: {tmp_path / 'LICENSE'}: no accounting record in it\n"


def test_a_record_twice_in_one_file_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "20261120"
    ended = [line for line in RECORDED_LOG.read_bytes().splitlines(keepends=True) if line[19:22] == b";E;"]
    log.write_bytes(RECORDED_LOG.read_bytes() + ended[0] + ended[3])
    assert run(["replay", str(log), "--format", "json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["jobs"] == 42
    assert captured.err == "2 records of runs that other records describe too: each run counts once\n"
    assert len(softwalltime.read_jobs(log)) == 42


def test_one_bad_line_of_a_trace_does_not_end_a_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "t.swf"
    huge = f"2 9 0 60 {2**31 - 1} {10**12 - 1} {2**39} {2**31 - 1} 3600 {2**39} 1 1 1 -1 -1 -1 -1 -1"
    trace.write_text(f"1 0 5 60 8 -1 -1 8 3600 4096 1 1 1 -1 -1 -1 -1 -1\n{huge}\n")
    assert run(["replay", str(trace)]) == 0
    captured = capsys.readouterr()
    assert "2 jobs, 2 scored" in captured.out
    assert "2 values of optional fields cannot be read and were left out: " in captured.err
    assert "requested memory (above 1,073,741,824, in kilobytes per processor) (1)" in captured.err


def test_the_recorded_log_of_a_real_server_is_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(RECORDED_LOG)]) == 0
    assert f"{RECORDED_LOG}: 42 jobs, " in capsys.readouterr().out


def test_malformed_lines_are_printed_and_other_lines_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "20261120"
    log.write_bytes(b"rubbish\n" * 12 + RECORDED_LOG.read_bytes())
    assert run(["replay", str(log)]) == 0
    captured = capsys.readouterr()
    assert "42 jobs" in captured.out
    lines = captured.err.splitlines()
    assert lines[0] == f"{log}:1: not an accounting record: fewer than 3 semicolons ('rubbish')"
    assert lines[-1] == "... and 2 more malformed lines"


def test_a_file_without_jobs_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "20261120"
    log.write_bytes(b"rubbish\n" * 3)
    assert run(["replay", str(log)]) == 2
    assert f"no completed job in {log}" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\0\xff" * 100 + b"\n", "a binary file (or UTF-16 text), neither an accounting log nor a trace"),
        (bytes(3 << 20), "a binary file (or UTF-16 text), neither an accounting log nor a trace"),
        (RECORDED_LOG.read_text().encode("utf-16-le"), "a binary file (or UTF-16 text), neither"),
        (RECORDED_LOG.read_text().encode("utf-16"), "UTF-16 text; convert it to UTF-8 first: iconv"),
    ],
    ids=["binary", "zeros", "UTF-16 without a mark", "UTF-16"],
)
def test_a_binary_file_is_an_error_with_exit_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, problem: str
) -> None:
    log = tmp_path / "20261120"
    log.write_bytes(content)
    for command in ("replay", "report", "sweep"):
        output = ["--output", str(tmp_path / f"{command}.csv")] if command != "replay" else []
        assert run([command, str(log), *output]) == 1
        errors = capsys.readouterr().err.splitlines()
        assert errors[0].startswith(f"{log}: {problem}")
        assert len(errors) == 2
    # Beside it the others count.
    assert run(["replay", str(log), str(RECORDED_LOG)]) == 1
    assert "42 jobs" in capsys.readouterr().out


@pytest.mark.parametrize("special", ["FIFO", "dangling link", "looping link", "device", "folder"])
@pytest.mark.parametrize("command", ["replay", "report", "sweep"])
def test_a_special_file_does_not_affect_other_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], special: str, command: str
) -> None:
    folder = tmp_path / "accounting"
    folder.mkdir()
    (folder / "20261120").write_bytes(RECORDED_LOG.read_bytes())
    log = folder / "20261119"
    match special:
        case "FIFO":
            os.mkfifo(log)
        case "dangling link":
            log.symlink_to("nowhere")
        case "looping link":
            log.symlink_to(log)
        case "device":
            log.symlink_to("/dev/zero")
        case _:
            log.mkdir()
    output = ["--output", str(tmp_path / "out.csv")] if command != "replay" else []
    assert run([command, str(folder), "--predictors", "v1", *output]) == 1
    captured = capsys.readouterr()
    (problem,) = [line for line in captured.err.splitlines() if str(log) in line]
    assert problem.startswith(f"{log}: ")
    assert "Traceback" not in captured.err
    assert command != "replay" or "42 jobs" in captured.out


def test_a_copy_of_a_log_under_another_name_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("20261120", "20261121"):
        (tmp_path / name).write_bytes(RECORDED_LOG.read_bytes())
    first, later = RECORDED_LOG.read_bytes()[:20000], RECORDED_LOG.read_bytes()[20000:]
    (tmp_path / "20261122.gz").write_bytes(gzip.compress(b"11/20/2026 00:00:00;L;license;floating\n" + first))
    (tmp_path / "20261123").write_bytes(later.partition(b"\n")[2])
    assert run(["replay", str(tmp_path)]) == 0
    assert f"{tmp_path}: 42 jobs, " in capsys.readouterr().out
    trace = tmp_path / "one.swf"
    trace.write_text(f"1 0 0 100 1 {'-1 ' * 13}\n2 0 0 100 1 {'-1 ' * 13}\n")
    shutil.copy(trace, tmp_path / "copy.swf")
    (tmp_path / "other.swf").write_text(f"1 0 0 200 1 {'-1 ' * 13}\n")
    assert run(["replay", *(str(tmp_path / f"{name}.swf") for name in ("one", "copy", "other"))]) == 0
    assert "3 jobs, " in capsys.readouterr().out


def test_convert_writes_a_trace_as_logs_that_replay_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "Tiny.swf"
    trace.write_text(
        "; UnixStartTime: 1700000000\n"
        "1 0 10 600 4 -1 -1 4 3600 -1 1 1 1 -1 1 -1 -1 -1\n"
        "2 86400 0 -1 4 -1 -1 4 3600 -1 5 1 1 -1 1 -1 -1 -1\n"
    )
    folder = tmp_path / "accounting"
    assert run(["convert", str(trace), str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder}: 2 jobs, 5 records, 2 files\n"
    assert sorted(file.name for file in folder.iterdir()) == ["20231114", "20231115"]
    records = [line.split(";")[:3] for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]
    assert records == [
        ["11/14/2023 22:13:20", "Q", "1.tiny"],
        ["11/14/2023 22:13:30", "S", "1.tiny"],
        ["11/14/2023 22:23:30", "E", "1.tiny"],
        ["11/15/2023 22:13:20", "Q", "2.tiny"],
        ["11/15/2023 22:13:20", "D", "2.tiny"],
    ]


def test_generate_is_reproducible(accounting: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = tmp_path / "again"
    assert run(["generate", str(again), "--jobs", "600", "--seed", "3"]) == 0
    assert {file.name: file.read_bytes() for file in again.iterdir()} == {
        file.name: file.read_bytes() for file in accounting.iterdir()
    }


def test_predictors_lists_rule_source_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predictors"]) == 0
    text = capsys.readouterr().out
    assert "percentile\n" in text
    assert "source: Tang" in text
    assert "keys=user+project+walltime: what like jobs have in common" in text
    assert "usage, v3\n" in text
    assert "  p=85: " in text


def test_a_data_folder_on_the_command_line_means_the_embedded_postgresql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Whoever tries the demo on a host where the daemon runs must not fill its store.
    config = tmp_path / "softwalltime.toml"
    config.write_text('dsn = "postgresql://127.0.0.1:1/production"\n')
    monkeypatch.setenv("SOFTWALLTIME_CONFIG", str(config))
    assert run(["ingest", str(RECORDED_LOG)]) == 1
    assert "production" in capsys.readouterr().err
    # Not below pytest's own folder, which PostgreSQL's unprivileged user may not enter where this runs as root.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        assert run(["ingest", str(RECORDED_LOG), "--data-dir", f"{folder}/data"]) == 0
    assert "jobs stored          42" in capsys.readouterr().out
