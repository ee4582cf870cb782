"""The emulated server behaves as observed on the real one, especially in surprising cases."""

from dataclasses import replace

import pytest

from softwalltime.emulation.pbs.pbs_events import Site, altered, postqueued, queued, started
from tests.hooks.emulated import SET, Do, all_events, shown
from tests.hooks.jobs import NOW, submission

# ---- Values that a hook reads ----------------------------------------------------------------------------------------


def test_most_values_are_not_str(do: Do, site: Site) -> None:
    lines = [
        "show(job.Job_Name == 'x')",
        "show(str(job.Job_Name) == 'x')",
        "show(job.euser == 'alice')",
        "show(job.project == 'astro')",
    ]
    assert shown(do(postqueued(submission(), site=site), *lines)) == ["False", "True", "True", "False"]


def test_a_duration_is_a_number_and_prints_as_given(do: Do, site: Site) -> None:
    lines = ["w = job.Resource_List['walltime']", "show(w)", "show(w + 1)", "show(w == 3600)"]
    assert shown(do(postqueued(submission(), site=site), *lines)) == ["01:00:00", "3601", "True"]


def test_a_missing_resource_is_none_and_an_unset_one_is_empty(do: Do, site: Site) -> None:
    event = altered(submission(), {"walltime": ""}, site=site, now=NOW)
    lines = ["show(repr(job.Resource_List['walltime']))", "show(repr(job.Resource_List['min_walltime']))"]
    assert shown(do(event, *lines)) == ["''", "None"]


def test_a_resource_list_of_a_whole_job_is_empty_until_it_is_indexed(do: Do, site: Site) -> None:
    lines = ["r = job.Resource_List", "show(r.keys())", "show(r.walltime)", "show(r['walltime'])", "show(r.keys())"]
    assert shown(do(started(submission(), site=site, now=NOW), *lines)) == ["[]", "None", "01:00:00", "['walltime']"]
    assert shown(do(queued(submission(), site=site), "show(job.Resource_List.keys())")) == ["['walltime']"]


def test_durations_of_queues_are_texts_at_queuejob(do: Do, site: Site) -> None:
    line = "show(type(pbs.server().queue('short').resources_default['walltime']).__name__)"
    assert shown(do(queued(submission(), site=site), line)) == ["str"]
    assert shown(do(postqueued(submission(), site=site), line)) == ["Duration"]


def test_a_missing_queue_is_none(do: Do, site: Site) -> None:
    assert shown(do(queued(submission(), site=site), "show(pbs.server().queue('nosuch'))")) == ["None"]
    assert "please specify a queue name only" in do(queued(submission(), site=site), "pbs.server().queue('a@b')").error


def test_an_alter_has_the_request_and_the_job_before_it(do: Do, site: Site) -> None:
    event = altered(submission(), {"walltime": "00:30:00"}, site=site, now=NOW, soft_walltime=900)
    lines = [
        "show(job.Resource_List['walltime'])",
        "show(job.queue)",
        "show(event.job_o.Resource_List['walltime'])",
        "show(event.job_o.queue)",
        "show(pbs.server().job(job.id).Resource_List['soft_walltime'])",
    ]
    assert shown(do(event, *lines)) == ["00:30:00", "None", "01:00:00", "short", "00:15:00"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("job.Jobname", "AttributeError"),
        ("job.Resource_List['wall_time']", "AttributeError"),
        ("pbs.server().default_que", "AttributeError"),
        ("pbs.server().queue('short').route_destination", "AttributeError"),
        ("pbs.duratoin(5)", "AttributeError"),
        ("event.jobs", "EventIncompatibleError"),
        ("event.vnode", "EventIncompatibleError"),
        ("job.Jobname = 'x'", "UnsetAttributeNameError"),
        ("job.Resource_List['wall_time'] = 5", "UnsetResourceNameError"),
        ("event.requestors = 'x'", "UnsetAttributeNameError"),
        ("event.job = None", "BadAttributeValueError"),
        ("pbs.server().comment = 'x'", "BadAttributeValueError"),
        ("pbs.server().queue('short').resources_default['walltime'] = 5", "BadAttributeValueError"),
        ("pbs.vnode('n')", "AttributeError"),
        ("pbs.ND_OFFLINE", "AttributeError"),
        ("pbs.logmsg(12345, 'x')", "TypeError"),
        ("pbs.logmsg(pbs.LOG_DEBUG, '\\udc80')", "UnicodeEncodeError"),
        ("pbs.size('x')", "BadResourceValueError"),
        ("job.Resource_List['mem'] = '4gb'", "BadResourceValueTypeError"),
        ("pbs.pbs_bool('perhaps')", "BadAttributeValueError"),
    ],
)
def test_names_that_pbs_lacks_raise_at_every_event(line: str, error: str, do: Do, site: Site) -> None:
    for event in all_events(site):
        assert error in do(event, line).error


@pytest.mark.parametrize(
    ("line", "settable_at"),
    [
        ("job.Resource_List['soft_walltime'] = pbs.duration(60)", {"queuejob", "postqueuejob", "modifyjob", "runjob"}),
        ("job.Hold_Types = pbs.hold_types('u')", {"queuejob", "postqueuejob", "modifyjob", "runjob"}),
        ("job.project = 'p'", {"queuejob", "postqueuejob", "modifyjob", "runjob"}),
        ("job.Job_Name = 'x'", {"queuejob", "postqueuejob", "modifyjob"}),
        ("job.Priority = 5", {"queuejob", "postqueuejob", "modifyjob"}),
        ("job.queue = pbs.server().queue('long')", {"queuejob"}),
        ("job.euser = 'root'", set()),
        ("job.id = '8.pbs1'", set()),
        ("job.ctime = 5", set()),
        ("job.Variable_List = {}", set()),
        ("job.Resource_List = None", set()),
        ("job.resources_used['walltime'] = 5", set()),
        ("event.accept(); job.comment = 'x'", {"queuejob", "postqueuejob", "modifyjob", "runjob"}),
    ],
)
def test_each_event_lets_a_hook_set_certain_things(line: str, settable_at: set[str], do: Do, site: Site) -> None:
    assert {event.name for event in all_events(site) if not do(event, line).error} == settable_at


def test_nothing_can_be_set_after_accept_or_reject(do: Do, site: Site) -> None:
    lines = ["try:", "    event.accept()", "except SystemExit:", "    job.comment = 'x'"]
    assert "already called" in do(queued(submission(), site=site), *lines).error


def test_sizes_print_with_their_units(do: Do, site: Site) -> None:
    lines = ["s = pbs.size", "show(s('1kw'))", "show(s(4096))", "show(s('1gb'))"]
    assert shown(do(queued(submission(), site=site), *lines)) == ["1kw", "4096b", "1gb"]


def test_a_hook_may_add_variables_of_the_job_but_not_of_pbs(do: Do, site: Site) -> None:
    event = replace(queued(submission(), site=site), job={"Variable_List": "PBS_O_HOME=/home/alice,X=a\\,b"})
    lines = ["v = job.Variable_List", "v['Y'] = 'c'", "show(v)", "v['PBS_O_HOME'] = '/root'"]
    outcome = do(event, *lines)
    assert outcome.log[0][1] == "PBS_O_HOME=/home/alice,X=a\\,b,Y=c"
    assert "BadAttributeValueError" in outcome.error


# ---- Effects in PBS --------------------------------------------------------------------------------------------------


def test_queuejob_and_modifyjob_refuse_a_soft_walltime_above_the_walltime(do: Do, site: Site) -> None:
    for event in all_events(site):
        outcome = do(event, SET.format(99999))
        assert outcome.accepted == (event.name in ("postqueuejob", "runjob"))
        assert outcome.soft_walltime == (99999 if outcome.accepted else None)


def test_a_default_walltime_is_not_compared(do: Do, site: Site) -> None:
    outcome = do(queued(submission(walltime=None), site=site), SET.format(99999))
    assert outcome.accepted
    assert outcome.soft_walltime == 99999


def test_shrink_to_fit_and_soft_walltime_exclude_each_other(do: Do, site: Site) -> None:
    job = submission(min_walltime=600)
    assert not do(queued(job, site=site), SET.format(600)).accepted
    assert do(postqueued(job, site=site), SET.format(600)).accepted
    becomes = altered(submission(), {"min_walltime": "00:10:00"}, site=site, now=NOW, soft_walltime=900)
    assert do(becomes, "pass").message == "soft_walltime is not supported with Shrink to Fit jobs"
    assert do(becomes, 'job.Resource_List["soft_walltime"] = None').accepted


def test_an_alter_below_the_soft_walltime_is_refused_unless_a_hook_changes_it(do: Do, site: Site) -> None:
    event = altered(submission(), {"walltime": "00:10:00"}, site=site, now=NOW, soft_walltime=900)
    assert not do(event, "pass").accepted
    for help_, soft in ((SET.format(600), 600), ('job.Resource_List["soft_walltime"] = None', None)):
        outcome = do(event, help_)
        assert outcome.accepted
        assert outcome.soft_walltime == soft


def test_managers_and_hooks_may_set_a_soft_walltime_and_users_may_not(do: Do, site: Site) -> None:
    for requestor, accepted in (("alice", False), ("root", True)):
        event = altered(submission(), {"soft_walltime": "00:10:00"}, site=site, now=NOW, requestor=requestor)
        assert do(event, "pass").accepted == accepted
        assert do(event, SET.format(600)).accepted


def test_values_set_on_an_array_at_postqueuejob_are_dropped(do: Do, site: Site) -> None:
    assert do(postqueued(submission(job_id="7[].pbs1"), site=site), SET.format(600)).soft_walltime is None
    assert do(postqueued(submission(job_id="7[1].pbs1"), site=site), SET.format(600)).soft_walltime == 600


@pytest.mark.parametrize(
    "line", ['job.Resource_List["ncpus"] = 2', "job.project = 'p'", 'job.Resource_List["select"] = None']
)
def test_a_start_with_a_forbidden_change_is_refused(line: str, do: Do, site: Site) -> None:
    outcome = do(started(submission(), site=site, now=NOW), line)
    assert not outcome.error
    assert not outcome.accepted
