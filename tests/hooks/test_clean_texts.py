"""The hook replaces control characters in texts of the accounting log, which prevents forged records."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from softwalltime.emulation.pbs.pbs_events import Event, Site, altered, queued
from tests.hooks.jobs import NOBODY, NOW, Run, submission
from tests.hooks.peer import Peer

FORGED = "x\n11/20/2026 12:00:00;E;7.pbs1;user=bob end=1795000000\ny"
CLEAN = FORGED.replace("\n", "_")
AT_SUBMISSION = ("Account_Name", "project", "Job_Name", "gridname")
AT_ALTER = (
    *AT_SUBMISSION, "stagein", "stageout", "Join_Path", "Mail_Users", "Mail_Points", "Shell_Path_List", "Output_Path",
    "Error_Path", "tolerate_node_failures", "Submit_arguments", "executable", "argument_list", "Submit_Host",
    "credential_id",
)  # fmt: skip
RESOURCES = ("software", "site", "pgov", "select", "vntype", "resc")


def submitted(site: Site, **attributes: Any) -> Event:
    event = queued(submission(), site=site)
    resources = {**dict(event.job["Resource_List"]), **attributes.pop("Resource_List", {})}
    return replace(event, job={**event.job, **attributes, "Resource_List": resources})


def alter(site: Site, attributes: dict[str, Any], **before: Any) -> Event:
    event = altered(submission(), {}, site=site, now=NOW, soft_walltime=1800)
    return replace(event, job=attributes, original={**(event.original or {}), **before})


@pytest.mark.parametrize("field", AT_SUBMISSION)
def test_line_breaks_in_texts_of_a_submission_are_replaced(field: str, run: Run, site: Site) -> None:
    outcome = run(submitted(site, **{field: FORGED}))
    assert {name: str(value) for name, value in outcome.attributes.items()} == {field: CLEAN}
    assert outcome.log[0][1] == (f"softwalltime: queuejob a new job of alice: control characters replaced in {field}")


@pytest.mark.parametrize("field", AT_ALTER)
def test_line_breaks_in_texts_of_an_alter_are_replaced(field: str, run: Run, site: Site) -> None:
    outcome = run(alter(site, {field: FORGED}))
    assert {name: str(value) for name, value in outcome.attributes.items()} == {field: CLEAN}
    assert f"modifyjob 7.pbs1 of alice: control characters replaced in {field}" in outcome.log[0][1]


def test_a_text_that_pbs_lets_no_hook_change_is_reported(hook: ModuleType) -> None:
    def refuse(*_: object) -> None:
        raise ValueError

    assert hook.clean(refuse, None, "cred", FORGED, keep=True) == "cred (not possible)"


def test_a_text_whose_clean_form_pbs_refuses_is_reduced_to_200_plain_characters(hook: ModuleType) -> None:
    tried: list[str] = []

    def refuse_spaces(_thing: object, _field: str, value: str) -> None:
        tried.append(value)
        if " " in value:
            raise ValueError

    assert hook.clean(refuse_spaces, None, "Job_Name", "a b\n" + 300 * "x", keep=True) == "Job_Name"
    assert tried == ["a b_" + 300 * "x", "a_b_" + 196 * "x"]


@pytest.mark.parametrize("name", RESOURCES)
@pytest.mark.parametrize("event", ["queuejob", "modifyjob"])
def test_line_breaks_in_requested_resources_are_replaced(event: str, name: str, run: Run, site: Site) -> None:
    request = {"Resource_List": {name: "a\nb"}}
    outcome = run(submitted(site, **request) if event == "queuejob" else alter(site, request))
    assert str(outcome.resources[name]) == "a_b"
    assert f"control characters replaced in {name}" in outcome.log[0][1]


@pytest.mark.parametrize("event", ["queuejob", "modifyjob"])
def test_a_sites_own_resource_is_unset(event: str, run: Run, site: Site) -> None:
    """It may be one that only managers may set, and PBS takes what a hook sets."""
    own = replace(site, resources={**site.resources, "license": "pbs_str"})
    request = {"Resource_List": {"license": "a\nb"}}
    outcome = run(submitted(own, **request) if event == "queuejob" else alter(own, request))
    assert outcome.resources["license"] == ""
    assert "control characters replaced in license" in outcome.log[0][1]


@pytest.mark.parametrize("character", ["\n", "\r", "\x00", "\x1b", "\x7f", "\x85", "\u2028", "\u2029"])
def test_every_line_separator_is_replaced(character: str, run: Run, site: Site) -> None:
    assert str(run(submitted(site, Account_Name=f"a{character}b")).attributes["Account_Name"]) == "a_b"


@pytest.mark.parametrize("text", ['chem grant; 2026 "x=1"', "Überstunden", "数学", "a\u00a0b", "\udc80"])
def test_other_texts_are_not_changed(text: str, run: Run, site: Site) -> None:
    outcome = run(submitted(site, Account_Name=text))
    assert outcome.attributes == {}
    assert not any("control characters" in line for _, line in outcome.log)


def test_several_texts_are_cleaned_and_the_request_has_the_clean_ones(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=600)
    event = submitted(site, Account_Name=FORGED, project="p\tq", array_indices_submitted="1-3")
    outcome = run(event)
    assert "replaced in Account_Name, project" in outcome.log[0][1]
    assert outcome.soft_walltime == 600
    (request,) = peer.asked()
    assert (request["job"]["account"], request["job"]["project"]) == (CLEAN, "p_q")


def test_cleaning_needs_no_daemon(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(**NOBODY)
    assert str(run(submitted(site, Account_Name=FORGED)).attributes["Account_Name"]) == CLEAN


def test_an_altered_environment_is_not_changed(run: Run, site: Site) -> None:
    """Shell functions in it have several lines, and PBS ignores its alter if a hook runs."""
    before = "PBS_O_HOME=/home/alice,F=() {\n},X=1"
    outcome = run(alter(site, {"Priority": "1", "Variable_List": before}, Variable_List=before))
    assert outcome.log == []
    assert str(outcome.pbs.event().job.Variable_List) == before
