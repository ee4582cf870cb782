"""What a request says of script, submission host and dependencies."""

from collections.abc import Mapping
from dataclasses import replace
from xml.sax.saxutils import escape

import pytest

from softwalltime.emulation.pbs.events import Event, Site, altered, postqueued, queued, started
from tests.hooks import recordings
from tests.hooks.jobs import AT_QUEUEJOB, NOW, Run, assert_harmless, submission
from tests.hooks.peer import Peer
from tests.hooks.test_recordings import EVENTS

FOLDER = "PBS_O_HOME=/home/alice,PBS_O_WORKDIR=/work/alice,PBS_O_SYSTEM=Linux"
MAX_ARGUMENTS = 65536
"""Characters of the longest command line that the hook reads."""
SAID = ("script_path", "submit_host", "depend")


def written(*arguments: str) -> str:
    """Return arguments as PBS writes them."""
    return "".join(f"<jsdl-hpcpa:Argument>{escape(argument)}</jsdl-hpcpa:Argument>" for argument in arguments)


def with_attributes(event: Event, **attributes: str) -> Event:
    job: Mapping[str, str | Mapping[str, str]] = {**event.job, **attributes}
    return replace(event, job=job)


def said(run: Run, peer: Peer, event: Event, **configuration: object) -> tuple[object, ...]:
    outcome = run(event, events=AT_QUEUEJOB, **configuration)
    assert_harmless(outcome)
    job = peer.asked()[-1]["job"]
    return tuple(job[name] for name in SAID)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (("-l", "walltime=60", "run.sh"), "/work/alice/run.sh"),
        (("-lwalltime=60", "-N", "job", "./run.sh"), "/work/alice/run.sh"),
        (("/opt/a b/<run> & co.sh",), "/opt/a b/<run> & co.sh"),
        (("-Vhz", "-Vl", "select=1", "../run.sh"), "/work/alice/../run.sh"),
        (("run.sh", "-l", "walltime=60"), "/work/alice/run.sh"),
        (("-I", "run.sh"), "/work/alice/run.sh"),
        (("-W", "depend=afterok:1", "-I", "-X"), ""),
        (("-l", "walltime=60", "-"), ""),
        (("-", "a", "run.sh"), ""),
        (("--", "run.sh"), ""),
        (("-l",), ""),
        ((), ""),
    ],
)
def test_the_script_is_the_operand_of_qsub_in_its_folder(
    arguments: tuple[str, ...], path: str, run: Run, peer: Peer, site: Site
) -> None:
    given = {"Submit_arguments": written(*arguments), "Variable_List": FOLDER}
    asked = with_attributes(queued(submission(), site=site), **given)
    assert said(run, peer, asked) == (path, "pbs1", "")


def test_an_executable_counts_with_its_first_argument(run: Run, peer: Peer, site: Site) -> None:
    given = {
        "Submit_arguments": written("-l", "walltime=60", "--", "python", "a&b.py", "--seed=7"),
        "executable": "python",
        "argument_list": written("a&b.py", "--seed=7"),
    }
    assert said(run, peer, with_attributes(queued(submission(), site=site), **given))[0] == "python a&b.py"


def test_each_event_says_what_pbs_knows_there(run: Run, peer: Peer, site: Site) -> None:
    job = submission()
    given = {
        "Submit_arguments": written("run.sh"), "Variable_List": FOLDER, "Submit_Host": "login1",
        "depend": "afterok:17.pbs1@pbs1",
    }  # fmt: skip
    expected = ("/work/alice/run.sh", "login1", "afterok:17.pbs1@pbs1")
    assert said(run, peer, with_attributes(started(job, site=site, now=NOW), **given)) == expected
    run(with_attributes(postqueued(job, site=site), **given))
    assert tuple(peer.asked()[-1]["job"][name] for name in SAID) == expected
    alter = altered(job, {"walltime": "01:00:00"}, site=site, now=NOW)
    assert alter.original is not None
    assert said(run, peer, replace(alter, original={**alter.original, **given})) == expected


def test_an_alter_of_the_variables_does_not_change_the_script(run: Run, peer: Peer, site: Site) -> None:
    alter = altered(submission(), {"walltime": "01:00:00"}, site=site, now=NOW)
    assert alter.original is not None
    known = {**alter.original, "Submit_arguments": written("run.sh"), "Variable_List": FOLDER}
    alter = with_attributes(replace(alter, original=known), Variable_List="DEBUG=1")
    # Unknown: the store keeps what is known from the submission.
    assert said(run, peer, alter)[0] == ""


def test_the_recorded_submission_with_a_dependency(run: Run, peer: Peer) -> None:
    event = recordings.read(EVENTS / "queuejob-afterok.in")
    assert said(run, peer, event) == ("", "pbs1", "afterok:17.pbs1")


def test_nothing_is_said_where_the_configuration_forbids_it(run: Run, peer: Peer, site: Site) -> None:
    given = {"Submit_arguments": written("run.sh"), "Submit_Host": "login1", "depend": "afterok:1"}
    event = with_attributes(started(submission(), site=site, now=NOW), **given)
    assert said(run, peer, event, attributes=False) == (None, None, None)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ("run.sh", ""),
        ("<jsdl-hpcpa:Argument>run.sh", "/w/run.sh"),
        ("<jsdl-hpcpa:Argument>" * 3 + "</jsdl-hpcpa:Argument>" * 3, "/w/" + "<jsdl-hpcpa:Argument>" * 2),
        ("&" * 70_000, ""),
        (written("run.sh").ljust(MAX_ARGUMENTS), "/w/run.sh"),
        (written("run.sh").ljust(MAX_ARGUMENTS + 1), ""),
        (written(*["-l"] * 2_000), ""),
        (written("./" * 20_000), "./" * 256),
        (written("/" + "x" * 60_000), "x" * 512),
        (written("/caf\udce9\x00.sh"), "/caf\udce9\x00.sh"),
        (written("&lt;&amp;lt;"), "/w/&lt;&amp;lt;"),
    ],
)
def test_a_hostile_command_line_costs_no_prediction(
    arguments: str, path: str, run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(set=900)
    given = {"Submit_arguments": arguments, "Variable_List": "PBS_O_WORKDIR=/w"}
    event = with_attributes(queued(submission(), site=site), **given)
    outcome = run(event, events=AT_QUEUEJOB)
    assert outcome.soft_walltime == 900
    assert peer.asked()[-1]["job"]["script_path"] == path
