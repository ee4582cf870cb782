"""What a request says of what the job executes; tests/service/test_command_line.py has what the daemon makes of it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from softwalltime.emulation.pbs.pbs_events import Event, Site, altered, postqueued, queued, started
from softwalltime.service.protocol import executed_path
from tests.hooks import recordings
from tests.hooks.jobs import AT_QUEUEJOB, NOW, Run, assert_harmless, submission
from tests.hooks.peer import Peer
from tests.hooks.test_recordings import EVENTS
from tests.service.test_command_line import written

SAID = ("submit_arguments", "executable", "argument_list", "workdir")
GIVEN = {
    "Submit_arguments": written("-l", "walltime=60", "run.sh"),
    "Variable_List": "PBS_O_HOME=/home/alice,PBS_O_WORKDIR=/work/alice,PBS_O_SYSTEM=Linux",
}
EXPECTED = (GIVEN["Submit_arguments"], "", "", "/work/alice")


def with_attributes(event: Event, **attributes: str) -> Event:
    job: Mapping[str, str | Mapping[str, str]] = {**event.job, **attributes}
    return replace(event, job=job)


def said(run: Run, peer: Peer, event: Event, **configuration: object) -> tuple[object, ...]:
    assert_harmless(run(event, **{"events": AT_QUEUEJOB, **configuration}))
    job = peer.asked()[-1]["job"]
    return tuple(job.get(name) for name in SAID)


def test_each_event_says_what_pbs_knows_there(run: Run, peer: Peer, site: Site) -> None:
    job = submission()
    for event in (queued(job, site=site), started(job, site=site, now=NOW)):
        assert said(run, peer, with_attributes(event, **GIVEN)) == EXPECTED
    at_postqueuejob = {**AT_QUEUEJOB, "postqueuejob": True}
    assert said(run, peer, with_attributes(postqueued(job, site=site), **GIVEN), events=at_postqueuejob) == EXPECTED
    alter = altered(job, {"walltime": "01:00:00"}, site=site, now=NOW)
    assert alter.original is not None
    assert said(run, peer, replace(alter, original={**alter.original, **GIVEN})) == EXPECTED


def test_an_executable_is_said_with_its_arguments(run: Run, peer: Peer, site: Site) -> None:
    given = {"executable": "python", "argument_list": written("a.py", "--seed=7")}
    event = with_attributes(queued(submission(), site=site), **given)
    assert said(run, peer, event) == ("", "python", given["argument_list"], "")


def test_an_alter_of_the_variables_does_not_change_the_script(run: Run, peer: Peer, site: Site) -> None:
    alter = altered(submission(), {"walltime": "01:00:00"}, site=site, now=NOW)
    assert alter.original is not None
    alter = with_attributes(replace(alter, original={**alter.original, **GIVEN}), Variable_List="DEBUG=1")
    assert said(run, peer, alter) == (*EXPECTED[:3], "")
    # Unknown: the store keeps what is known from the submission.
    assert executed_path(peer.asked()[-1]["job"]) == ""


def test_the_command_line_of_a_recorded_submission(run: Run, peer: Peer) -> None:
    event = recordings.read(EVENTS / "queuejob-afterok.in")
    arguments = written("-N", "afterok", "-W", "depend=afterok:17.pbs1")
    assert str(said(run, peer, event)[0]).startswith(arguments)
    assert executed_path(peer.asked()[-1]["job"]) == ""


def test_nothing_is_said_where_the_configuration_forbids_it(run: Run, peer: Peer, site: Site) -> None:
    event = with_attributes(started(submission(), site=site, now=NOW), **GIVEN)
    assert said(run, peer, event, attributes=False) == (None,) * 4


@pytest.mark.parametrize("arguments", ["&" * 70_000, written(*["-l"] * 2_000), written("/caf\udce9\x00.sh")])
def test_a_hostile_command_line_is_cut_and_costs_no_prediction(
    arguments: str, run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(set=900)
    event = with_attributes(queued(submission(), site=site), Submit_arguments=arguments, argument_list=arguments)
    assert run(event, events=AT_QUEUEJOB).soft_walltime == 900
    job = peer.asked()[-1]["job"]
    assert (job["submit_arguments"], job["argument_list"]) == (arguments[:16384], arguments[:16384])
