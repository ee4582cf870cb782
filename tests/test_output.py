"""Tables in a terminal, in a pipe, as JSON and as CSV."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from softwalltime.cli import cli, run
from softwalltime.cli.output import Output
from softwalltime.cli.terminal import draw, fit
from softwalltime.core.text_table import Cell, TextColumn, TextTable, sentence_column
from softwalltime.deployment import qmgr
from softwalltime.measure.simulation.differences import RELATIVE, Interval
from softwalltime.reports.simulation_document import changes_table
from tests.documented import SHAPES, documented, documented_rows
from tests.reports.fixtures import Elements
from tests.samples import ROOT
from tests.test_cli import commands

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
TABLE = TextTable.of(
    (sentence_column("predictor"), TextColumn("accuracy"), TextColumn("not adjusted", 1), TextColumn("extensions", 2)),
    [["request", "0.393", "100.0%", "0.00"], [Cell("v1", "strong"), Cell("0.542", "good"), "16.5%", "9.17"]],
)


@pytest.fixture(scope="module")
def accounting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated") / "accounting"
    assert run(["generate", str(folder), "--jobs", "300", "--seed", "3"]) == 0
    return folder


@pytest.mark.parametrize("width", range(19, 60))
def test_a_table_fits_into_every_width_that_its_important_columns_fit_into(width: int) -> None:
    text, left_out = draw(TABLE, width, color=True)
    lines = ESCAPES.sub("", text).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[-1].startswith("v1")
    assert "0.542" in lines[-1]
    assert ("extensions" in text) is ("extensions" not in left_out)


def test_the_least_important_columns_are_left_out_first() -> None:
    everything = {name.name for name in TABLE.columns}
    left_out = [[TABLE.columns[index].name for index in fit(TABLE, width)[1]] for width in range(60, 18, -1)]
    assert [names for index, names in enumerate(left_out) if names != left_out[index - 1]][-2:] == [
        ["extensions"], ["not adjusted", "extensions"],
    ]  # fmt: skip
    assert left_out[0] == []
    assert everything > set(left_out[-1])


def test_long_texts_are_broken_into_lines_without_a_loss() -> None:
    spec = "percentile:p=95,keys=user+project,window=30d,threshold=0.5"
    table = TextTable.of(TABLE.columns, [[spec, "0.500", "1%", "2"]])
    wide = fit(table, 60)[0][0]
    lines = draw(table, 60, color=False)[0].splitlines()
    assert "".join(line[:wide].rstrip() for line in lines[lines.index("─" * 60) + 1 :]) == spec


def test_users_texts_are_no_markup_and_no_colours() -> None:
    text, _ = draw(TextTable.of(TABLE.columns, [["[red]bob[/red]", "1", "2", "3"]]), 80, color=True)
    assert "[red]bob[/red]" in text


def test_a_pipe_gets_the_whole_table_as_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    Output.given().table(TABLE)
    assert capsys.readouterr().out == (
        "| predictor | accuracy | not adjusted | extensions |\n"
        "| --------- | -------: | -----------: | ---------: |\n"
        "| request   |    0.393 |       100.0% |       0.00 |\n"
        "| v1        |    0.542 |        16.5% |       9.17 |\n"
    )


class Screen(io.TextIOWrapper):
    """Standard output that is a terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "colored"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colours_are_for_terminals_that_want_them(
    environment: dict[str, str], colored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", "COLUMNS": "40", **environment}.items():
        monkeypatch.setenv(name, value)
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    output = Output.given()
    output.table(TABLE)
    output.paragraph("some words " * 10, "warning")
    screen.flush()
    text = screen.buffer.getvalue().decode()  # type: ignore[attr-defined]  # our own stream
    assert ("\x1b[" in text) is colored
    assert max(len(line) for line in ESCAPES.sub("", text).splitlines()) <= 40
    assert "without extensions: the terminal is too narrow" in " ".join(ESCAPES.sub("", text).split())
    assert "extensions" in ESCAPES.sub("", draw(TABLE, 80, color=False)[0])


def test_wide_characters_take_two_columns() -> None:
    table = TextTable.of(
        (sentence_column("user", least=8), TextColumn("jobs")), [["漢字漢字漢字", "1"], ["e\u0301a", "12"]]
    )
    assert draw(table, 80, color=False)[0].splitlines()[2:] == ["漢字漢字漢字     1", "e\u0301a              12"]
    assert draw(table, 14, color=False)[0].splitlines()[2:] == ["漢字漢字     1", "漢字", "e\u0301a          12"]


def test_an_interval_without_room_beside_its_mean_gets_a_line_of_its_own() -> None:
    table = TextTable.of(
        (TextColumn("policy", left=True), sentence_column("wait", least=8)), [["a", "12.5 [11.0, 14.0]"]]
    )
    assert draw(table, 25, color=False)[0].splitlines()[2:] == ["a       12.5 [11.0, 14.0]"]
    assert draw(table, 20, color=False)[0].splitlines()[2:] == ["a       12.5", "        [11.0, 14.0]"]


def test_the_intervals_of_changes_fit_beside_each_other_in_80_columns_also_beyond_100_percent() -> None:
    wide, narrow = Interval(-0.253, -1.04, 0.53), Interval(-0.1, -0.101, -0.099)
    changes = {name: dict.fromkeys(RELATIVE, wide) for name in ("safe", "order, guard 1 h")}
    text, left_out = draw(changes_table(changes, {name: {"broken": narrow} for name in changes}), 80, color=False)
    assert left_out == ["weighted"]
    assert len(text.splitlines()) == 2 + 2 * len(changes)
    assert "[-104, +53]" in text
    assert "[-10.1, -9.9]" in text


def test_a_piped_command_imports_no_rich_and_prints_no_escape_codes(accounting: Path) -> None:
    script = (
        "import sys; from softwalltime.cli.output import Output; from softwalltime.core.text_table import TextTable; "
        "Output.given().table(TextTable((), ())); print(*sys.modules)"
    )
    modules = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not [name for name in modules if name.split(".")[0] == "rich"]
    command = [sys.executable, "-m", "softwalltime", "replay", str(accounting), "--predictors", "v1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"COLUMNS": "30"})
    assert "\x1b" not in done.stdout
    assert "extensions |" in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        ["replay", "LOGS", "--waiting", "v1"],
        ["simulate", "LOGS", "--waiting", "factor:0.5", "--by", "size"],
        ["replay-starts", "LOGS", "--runs", "1", "--sample", "10", "--predictor", "last2"],
        ["advise", "USER", "--log", "LOGS", "--seeds", "31-32"],
    ],
    ids=lambda command: command[0],
)
def test_json_and_csv_hold_the_same_figures(
    command: list[str], accounting: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"LOGS": str(accounting), "USER": _busiest(accounting)}
    arguments = [names.get(word, word) for word in command]
    assert run([*arguments, "--format", "json"]) == 0
    document = documented(command[0], capsys.readouterr().out)
    assert run([*arguments, "--format", "csv"]) == 0
    rows = documented_rows(command[0], capsys.readouterr().out)
    match command[0]:
        case "replay":
            figures = [document["predictors"]["v1"]["accuracy_mean"], document["after_warm_up"]["v1"]["over"]]
            shown = next(row for row in rows if (row["predictor"], row["event"]) == ("v1", "submission"))
            found = [shown["accuracy_mean"], shown["after_warm_up_over"]]
        case "simulate":
            changes = [next(iter(document["relative_changes"].values()))["wait_mean"]["mean"]]
            figures = [*(one["wait_mean"] for one in document["policies"].values()), *changes]
            found = [row["wait_mean"] for row in rows if not row["kind"]] + [rows[1]["change_wait_mean"]]
        case "replay-starts":
            figures = [one["error"] for part in document["forecasts"].values() for one in part.values()]
            found = [row["error"] for row in rows]
        case _:
            figures = [one["longest"] for one in document["users"][0]["requests"]]
            found = [row["longest"] for row in rows]
    assert figures
    assert [float(value) for value in found] == figures


@pytest.mark.parametrize(
    ("name", "arguments", "status"),
    [
        ("doctor", ["doctor"], 1), ("config show", ["config", "show"], 0),
        ("config check", ["config", "check", "wrong.toml"], 1),
        ("experiment", ["experiment", "tang2013", "LOGS", "--limit", "100"], 0),
        ("report", ["report", "LOGS", "--no-simulation"], 0),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_other_commands_print_what_is_documented(
    name: str, arguments: list[str], status: int, accounting: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("wrong.toml").write_text("keep_days = -1\n")
    # No PBS of this machine.
    monkeypatch.setattr(qmgr, "USUAL", Path("/nonexistent"))
    monkeypatch.setenv("PBS_CONF_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    arguments = [str(accounting) if word == "LOGS" else word for word in arguments]
    assert run([*arguments, "--format", "json"]) == status
    documented(name, capsys.readouterr().out)
    assert run([*arguments, "--format", "csv"]) == status
    # Without a simulation there are no figures of settings.
    assert documented_rows(name, capsys.readouterr().out) or name == "report"


def test_the_summary_of_a_report_has_the_figures_of_each_setting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs, page = tmp_path / "logs", tmp_path / "report.html"
    assert run(["generate", str(logs), "--jobs", "1500", "--seed", "3"]) == 0
    capsys.readouterr()
    command = [
        "report",
        str(logs),
        "--predictors",
        "v1",
        "--simulated-jobs",
        "300",
        "--seeds",
        "31-32",
    ]
    command += ["--processes", "1", "-o", str(page)]
    assert run([*command, "--format", "json"]) == 0
    document = documented("report", capsys.readouterr().out)
    assert document["page"] == str(page)
    assert document["advice"]["sentence"] in Elements(page.read_text()).text
    assert document["advice"]["verdict"] in ("on", "off", "unknown")
    assert (document["not_simulated"], document["simulated_jobs"]) == (None, 300)
    assert document["predictors"]["v1"]["jobs"] == document["scored"]
    assert run([*command, "--format", "csv"]) == 0
    today, *rows = documented_rows("report", capsys.readouterr().out)
    assert (today["setting"], float(today["wait_mean"])) == ("today", document["today"]["wait_mean"])
    assert [row["setting"] for row in rows] == list(document["settings"])
    for row in rows:
        one = document["settings"][row["setting"]]
        assert float(row["wait_mean"]) == one["metrics"]["wait_mean"]
        assert float(row["change_wait_mean_low"]) == one["relative_changes"]["wait_mean"]["low"]
    assert run([*command[:-1], "-", "--format", "json"]) == 2


def test_the_document_about_the_output_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "--markdown"]) == 0
    assert capsys.readouterr().out == (ROOT / "deploy" / "OUTPUT.md").read_text(), (
        "run: softwalltime schema --markdown > deploy/OUTPUT.md"
    )


def test_every_command_with_formats_is_documented_and_every_field_described() -> None:
    formatted = {
        " ".join(path) for path in commands() if any("--format" in option.opts for option in _command(path).params)
    }
    assert {name.partition(" --")[0] for name in SHAPES} == formatted
    assert not [line for line in (ROOT / "deploy" / "OUTPUT.md").read_text().splitlines() if line.endswith("|  |")]


@pytest.mark.parametrize("name", SHAPES)
def test_the_schema_of_a_command_describes_its_fields(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", *name.split()[: 1 if "--" in name else None]]) == 0
    schema = json.loads(capsys.readouterr().out)
    objects = [schema, *schema.get("$defs", {}).values()]
    fields = [field for each in objects for field in each.get("properties", {}).values()]
    assert fields
    assert all(field.get("description") for field in fields)


def _command(path: tuple[str, ...]) -> click.Command:
    command: click.Command = cli
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    return command


def _busiest(accounting: Path) -> str:
    users = re.findall(r"user=(\S+)", "".join(file.read_text() for file in accounting.iterdir()))
    return max(set(users), key=users.count)
