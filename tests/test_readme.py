"""The documents say what is so: the table is what the demo prints, commands, options, settings and links exist."""

import re
import shlex
from dataclasses import fields

import click
import pytest

from softwalltime.cli import cli, run
from softwalltime.core.settings import Settings, load_settings
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.predict.policy.site import Rule, SitePolicy, site_policy
from softwalltime.service.forecast_thread import StartOptions
from softwalltime.service.live.live_options import LiveOptions
from tests.samples import ROOT

README = (ROOT / "README.md").read_text()
PAGES = sorted(
    path
    for pattern in ("*.md", "deploy/*.md", "hooks/*.md", "sql/*.md", "daemon/**/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"
)


def demo_steps() -> list[list[str]]:
    """The softwalltime commands of ``make demo``, as the Makefile has them."""
    makefile = (ROOT / "Makefile").read_text()
    recipe = makefile.split("\ndemo:")[1].split("\n\n")[0]
    return [shlex.split(line)[1:] for line in recipe.splitlines() if "$(BIN)/softwalltime" in line]


def test_the_table_is_what_the_demo_prints(
    database: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path_factory.mktemp("demo")
    steps = demo_steps()
    assert [step[0] for step in steps] == ["generate", "ingest", "replay"]
    for step in steps:
        arguments = [argument.replace("$(DEMO)", str(folder)) for argument in step]
        if "--data-dir" in arguments:
            place = arguments.index("--data-dir")
            arguments[place : place + 2] = ["--dsn", database]
        capsys.readouterr()
        assert run(arguments) == 0
    printed = capsys.readouterr().out
    shown = re.search(r"<!-- the table that `make demo` prints -->\n(.*?)\n<!-- end -->", README, re.DOTALL)
    assert shown is not None
    assert shown.group(1).strip() == printed.split("\n\n")[1].strip()


def commands() -> list[str]:
    """Every softwalltime command in the blocks and in the running text of the documents."""
    found: set[str] = set()
    for page in (path.read_text() for path in PAGES):
        for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL):
            for line in block.splitlines():
                match = re.search(r"(?:^|bin/|-- )(softwalltime .*)", line.partition("#")[0])
                found |= {match.group(1).strip()} if match else set()
        # The recipe of a new command is code.
        text = re.sub(r"```python.*?```", "", page, flags=re.DOTALL)
        found |= set(re.findall(r"`(?:runuser -u \w+ -- )?(softwalltime [^`]+)`", text))
    return sorted(found)


@pytest.mark.parametrize("line", commands())
def test_every_command_in_the_documents_exists_with_its_options(line: str) -> None:
    command: click.Command = cli
    words = shlex.split(line)[1:]
    while isinstance(command, click.Group) and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    assert command is not cli, line
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    assert {word for word in words if word.startswith("--")} <= known


def test_every_command_is_in_the_documents() -> None:
    text = "".join(page.read_text() for page in PAGES)
    for name in cli.commands:
        assert f"softwalltime {name}" in text, name


def test_the_readme_is_short_and_its_pictures_are_small() -> None:
    assert len(README.splitlines()) <= 130
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert pictures
    for picture in pictures:
        assert (ROOT / picture).stat().st_size < 150_000, picture


def test_the_documents_have_at_most_35000_words_without_those_that_a_command_writes() -> None:
    texts = [page.read_text() for page in PAGES]
    written = [text for text in texts if text.startswith("<!-- Written by: ")]
    assert len(written) == 2
    # A word has a letter or a digit: the bars of tables are none.
    words = sum(len(re.findall(r"\S*[^\W_]\S*", text)) for text in texts if text not in written)
    assert words <= 35_000


def test_every_link_between_the_documents_resolves() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_file_named_in_the_documents_exists() -> None:
    for page in PAGES:
        for name in re.findall(
            r"`(?:python -m )?((?:tests|deploy|sql|hooks|daemon|migrations)[/.][\w./-]+)`", page.read_text()
        ):
            path = name.replace(".", "/") + ".py" if name.startswith("tests.") else name
            places = [ROOT / path, page.parent / path, (ROOT / path).with_suffix("")]
            assert any(place.exists() for place in places), f"{page.name} names {name}"


def test_make_demo_and_make_clean_stay_in_the_checkout() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert not re.findall(r"(?:^|[\s=])(?:/|~|\.\./)\S*", makefile)


def test_every_make_target_in_the_documents_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = {target for line in re.findall(r"^(\w[\w ]*):", makefile, re.MULTILINE) for target in line.split()}
    for page in PAGES:
        for target in re.findall(r"(?:`|^)make (\w+)", page.read_text(), re.MULTILINE):
            assert target in targets, f"{page.name} names make {target}"


def test_every_setting_in_the_documents_exists() -> None:
    """In blocks of TOML, and where the text gives one a value."""
    known = set(Settings.model_fields) | set(SitePolicy.model_fields) | set(Rule.model_fields)
    known |= {field.name for field in fields(SchedulerPolicy)} | set(LiveOptions.model_fields)
    known |= set(StartOptions.model_fields)
    known.add("clear_topjob_estimates_enable")  # of PBS's scheduler
    for page in PAGES:
        text = page.read_text()
        lines = "\n".join(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)).splitlines()
        for line in [*lines, *re.findall(r"`(\w+ = [^`]+)`", text)]:
            if match := re.match(r"(\w+) = ", line):
                assert match[1] in known, f"{page.name} names {line}"


def test_the_shipped_settings_are_valid_defaults() -> None:
    settings = load_settings(ROOT / "deploy" / "softwalltime.toml")
    policy = site_policy(settings.policy)
    assert policy == SitePolicy(preset="shadow"), "what is shipped sets nothing, and the rest is the default"
    assert str(settings.socket) in (ROOT / "hooks" / "softwalltime_hook.json").read_text()
