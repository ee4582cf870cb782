"""The emulated server behaves as the real one was seen to behave, above all where that surprises."""

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from softwalltime.accounting.values import clock
from softwalltime.errors import SourceError
from softwalltime.replay.emulation import (
    Event,
    HookScript,
    Outcome,
    Site,
    altered,
    postqueued,
    queued,
    recordings,
    started,
)
from tests.hooks.conftest import HUNG
from tests.hooks.test_events import NOW, submission
from tests.hooks.test_recordings import EVENTS

Do = Callable[..., Outcome]


@pytest.fixture
def do(tmp_path: Path) -> Do:
    """Runs lines of Python as a hook, with ``pbs``, ``event`` and ``job`` at hand; ``show(x)`` logs x."""

    def do(event: Event, *lines: str, **options: Any) -> Outcome:
        file = tmp_path / "hook.py"
        head = [
            "import pbs",
            "event = pbs.event()",
            "job = event.job",
            "show = lambda x: pbs.logmsg(pbs.LOG_DEBUG, str(x))",
        ]
        file.write_text("\n".join([*head, *lines]) + "\n")
        return HookScript(file).run(event, **options)

    return do


def shown(outcome: Outcome) -> list[str]:
    assert not outcome.error, outcome.error
    return [line for _, line in outcome.log]


def all_events(site: Site) -> list[Event]:
    job = submission()
    return [
        queued(job, site=site),
        postqueued(job, site=site),
        altered(job, {"walltime": "00:30:00"}, site=site, now=NOW),
        started(job, site=site, now=NOW),
    ]


# ---- How a hook is run -----------------------------------------------------------------------------------------------


def test_a_hook_finds_the_name_of_the_builtins_and_fresh_globals(do: Do, site: Site) -> None:
    event = postqueued(submission(), site=site)
    assert shown(do(event, "show(__name__)", "show('x' in globals())", "x = 1")) == ["builtins", "False"]
    assert shown(do(event, "show('x' in globals())")) == ["False"]
    assert "pbs" not in sys.modules


def test_imported_modules_outlive_a_run(do: Do, site: Site) -> None:
    event = postqueued(submission(), site=site)
    do(event, "import json; json.mark_of_a_test = 1")
    assert shown(do(event, "import json; show(json.__dict__.pop('mark_of_a_test', None))")) == ["1"]


@pytest.mark.parametrize("name", ["queuejob", "modifyjob", "runjob"])
def test_an_exception_rejects_the_request(name: str, do: Do, site: Site) -> None:
    event = next(event for event in all_events(site) if event.name == name)
    outcome = do(event, 'job.Resource_List["soft_walltime"] = pbs.duration(77)', "1 / 0")
    assert not outcome.accepted
    assert outcome.message.endswith("encountered an exception. Please inform Admin")
    assert "ZeroDivisionError" in outcome.error
    assert outcome.resources == {}


def test_at_postqueuejob_it_is_too_late_to_reject(do: Do, site: Site) -> None:
    assert do(postqueued(submission(), site=site), "1 / 0").accepted
    assert do(postqueued(submission(), site=site), "event.reject('no')").accepted


def test_a_rejection_carries_its_message(do: Do, site: Site) -> None:
    outcome = do(queued(submission(), site=site), "event.reject('not today')", "1 / 0")
    assert (outcome.accepted, outcome.message, outcome.error) == (False, "not today", "")


def test_a_hook_that_ends_without_a_word_accepts(do: Do, site: Site) -> None:
    assert do(queued(submission(), site=site), "pass").accepted


def test_the_alarm_interrupts_and_rejects(do: Do, site: Site) -> None:
    event = replace(queued(submission(), site=site), alarm=1)
    begin = time.monotonic()
    outcome = do(event, "import time", "time.sleep(3600)", alarm=True)
    assert time.monotonic() - begin < HUNG
    assert outcome.message.endswith("got an alarm call. Please inform Admin")


def test_a_changed_file_is_compiled_again(tmp_path: Path, site: Site) -> None:
    file = tmp_path / "hook.py"
    script = HookScript(file)
    for word in ("first", "second one"):
        file.write_text(f"import pbs\npbs.logmsg(pbs.LOG_DEBUG, {word!r})\n")
        assert shown(script.run(postqueued(submission(), site=site))) == [word]


def test_a_hook_that_cannot_be_read_says_so(tmp_path: Path, site: Site) -> None:
    with pytest.raises(SourceError, match="cannot read the hook"):
        HookScript(tmp_path / "missing.py").run(postqueued(submission(), site=site))


def test_the_hooks_clock_is_the_events_and_its_stopwatch_the_true_one(do: Do, site: Site) -> None:
    event = postqueued(submission(), site=site, now=12345)
    begin = time.monotonic()
    lines = shown(do(event, "import time", "show(time.time())", "show(time.monotonic())"))
    assert lines[0] == "12345.0"
    assert begin <= float(lines[1]) <= time.monotonic()
    assert float(shown(do(replace(event, now=None), "import time", "show(time.time())"))[0]) > 1.7e9


def test_several_threads_may_run_one_script(tmp_path: Path, site: Site) -> None:
    file = tmp_path / "hook.py"
    file.write_text(
        "import pbs\njob = pbs.event().job\njob.Resource_List['soft_walltime'] = pbs.duration(int(str(job.Job_Name)))\n"
    )
    script = HookScript(file)
    wrong = []

    def work(number: int) -> None:
        for value in range(60 + number, 1000, 8):
            found = script.run(postqueued(submission(job_name=str(value)), site=site)).soft_walltime
            if found != value:
                wrong.append((value, found))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# ---- What a hook sees ------------------------------------------------------------------------------------------------


def test_most_values_are_no_str(do: Do, site: Site) -> None:
    lines = [
        "show(job.Job_Name == 'x')",
        "show(str(job.Job_Name) == 'x')",
        "show(job.euser == 'alice')",
        "show(job.project == 'astro')",
    ]
    assert shown(do(postqueued(submission(), site=site), *lines)) == ["False", "True", "True", "False"]


def test_a_duration_is_a_number_that_prints_as_it_was_given(do: Do, site: Site) -> None:
    lines = ["w = job.Resource_List['walltime']", "show(w)", "show(w + 1)", "show(w == 3600)"]
    assert shown(do(postqueued(submission(), site=site), *lines)) == ["01:00:00", "3601", "True"]


def test_a_resource_that_is_not_set_is_none_and_one_that_is_unset_is_empty(do: Do, site: Site) -> None:
    event = altered(submission(), {"walltime": ""}, site=site, now=NOW)
    lines = ["show(repr(job.Resource_List['walltime']))", "show(repr(job.Resource_List['min_walltime']))"]
    assert shown(do(event, *lines)) == ["''", "None"]


def test_a_resource_list_of_a_whole_job_is_empty_until_it_is_indexed(do: Do, site: Site) -> None:
    lines = ["r = job.Resource_List", "show(r.keys())", "show(r.walltime)", "show(r['walltime'])", "show(r.keys())"]
    assert shown(do(started(submission(), site=site, now=NOW), *lines)) == ["[]", "None", "01:00:00", "['walltime']"]
    assert shown(do(queued(submission(), site=site), "show(job.Resource_List.keys())")) == ["['walltime']"]


def test_at_queuejob_the_durations_of_queues_are_texts(do: Do, site: Site) -> None:
    line = "show(type(pbs.server().queue('short').resources_default['walltime']).__name__)"
    assert shown(do(queued(submission(), site=site), line)) == ["str"]
    assert shown(do(postqueued(submission(), site=site), line)) == ["Duration"]


def test_a_queue_that_is_not_there_is_none(do: Do, site: Site) -> None:
    assert shown(do(queued(submission(), site=site), "show(pbs.server().queue('nosuch'))")) == ["None"]
    assert "please specify a queue name only" in do(queued(submission(), site=site), "pbs.server().queue('a@b')").error


def test_an_alter_shows_the_request_and_the_job_as_it_was(do: Do, site: Site) -> None:
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
        ("pbs.vnode('n')", "NotImplementedError"),
        ("pbs.ND_OFFLINE", "NotImplementedError"),
        ("pbs.logmsg(12345, 'x')", "TypeError"),
        ("pbs.logmsg(pbs.LOG_DEBUG, '\\udc80')", "UnicodeEncodeError"),
        ("pbs.logjobmsg('', 'x')", "ValueError"),
        ("pbs.size('x')", "BadResourceValueError"),
        ("job.Resource_List['mem'] = '4gb'", "BadResourceValueTypeError"),
        ("pbs.pbs_bool('perhaps')", "BadAttributeValueError"),
    ],
)
def test_what_pbs_does_not_have_raises_at_every_event(line: str, error: str, do: Do, site: Site) -> None:
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


def test_after_the_verdict_nothing_can_be_set(do: Do, site: Site) -> None:
    lines = ["try:", "    event.accept()", "except SystemExit:", "    job.comment = 'x'"]
    assert "already called" in do(queued(submission(), site=site), *lines).error


def test_sizes_are_compared_by_what_they_mean(do: Do, site: Site) -> None:
    lines = [
        "s = pbs.size",
        "show(s('1gb') == s('1024mb'))",
        "show(s('1gb') > s('10mb'))",
        "show(s('1kw'))",
        "show(s(4096))",
        "show(s('1kw') == s('8kb'))",
    ]
    assert shown(do(queued(submission(), site=site), *lines)) == ["True", "True", "1kw", "4096b", "True"]


def test_variables_of_the_job_may_be_added_but_not_those_of_pbs(do: Do, site: Site) -> None:
    event = replace(queued(submission(), site=site), job={"Variable_List": "PBS_O_HOME=/home/alice,X=a\\,b"})
    lines = ["v = job.Variable_List", "v['Y'] = 'c'", "show(v)", "v['PBS_O_HOME'] = '/root'"]
    outcome = do(event, *lines)
    assert outcome.log[0][1] == "PBS_O_HOME=/home/alice,X=a\\,b,Y=c"
    assert "BadAttributeValueError" in outcome.error


# ---- What PBS makes of it --------------------------------------------------------------------------------------------

SET = 'job.Resource_List["soft_walltime"] = pbs.duration({})'


def test_queuejob_and_modifyjob_refuse_a_soft_walltime_above_the_walltime(do: Do, site: Site) -> None:
    for event in all_events(site):
        outcome = do(event, SET.format(99999))
        assert outcome.accepted == (event.name in ("postqueuejob", "runjob"))
        assert outcome.soft_walltime == (99999 if outcome.accepted else None)


def test_a_walltime_that_comes_from_a_default_is_not_compared(do: Do, site: Site) -> None:
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


def test_an_alter_below_the_soft_walltime_is_refused_unless_a_hook_helps(do: Do, site: Site) -> None:
    event = altered(submission(), {"walltime": "00:10:00"}, site=site, now=NOW, soft_walltime=900)
    assert not do(event, "pass").accepted
    for help_, soft in ((SET.format(600), 600), ('job.Resource_List["soft_walltime"] = None', None)):
        outcome = do(event, help_)
        assert outcome.accepted
        assert outcome.soft_walltime == soft


def test_users_may_not_set_it_but_managers_and_hooks_may(do: Do, site: Site) -> None:
    for requestor, accepted in (("alice", False), ("root", True)):
        event = altered(submission(), {"soft_walltime": "00:10:00"}, site=site, now=NOW, requestor=requestor)
        assert do(event, "pass").accepted == accepted
        assert do(event, SET.format(600)).accepted


def test_what_is_set_on_an_array_at_postqueuejob_is_dropped(do: Do, site: Site) -> None:
    assert do(postqueued(submission(job_id="7[].pbs1"), site=site), SET.format(600)).soft_walltime is None
    assert do(postqueued(submission(job_id="7[1].pbs1"), site=site), SET.format(600)).soft_walltime == 600


@pytest.mark.parametrize(
    "line", ['job.Resource_List["ncpus"] = 2', "job.project = 'p'", 'job.Resource_List["select"] = None']
)
def test_a_start_that_changes_what_it_may_not_is_refused(line: str, do: Do, site: Site) -> None:
    outcome = do(started(submission(), site=site, now=NOW), line)
    assert not outcome.error
    assert not outcome.accepted


# ---- Recordings ------------------------------------------------------------------------------------------------------


def test_a_resource_list_printed_again_under_another_name_is_not_believed() -> None:
    """PBS prints the queue's default a second time as if it were the server's."""
    event = recordings.read(EVENTS / "postqueuejob-p4.in")
    assert event.site.server["resources_default"] == {"ncpus": "1"}
    assert event.site.queues["short"]["resources_default"] == {"walltime": "00:30:00"}
    assert "Resource_List" not in event.site.server
    routed = recordings.read(EVENTS / "queuejob-routed.in")
    assert "resources_default" not in routed.site.queues["route_q"]


def test_a_recording_is_read_with_all_that_it_holds() -> None:
    event = recordings.read(EVENTS / "modifyjob-held-2.in")
    assert (event.name, event.job_id, event.requestor, event.alarm) == ("modifyjob", "17.pbs1", "root", 30)
    assert event.job == {"Resource_List": {"soft_walltime": "00:08:00"}}
    assert event.original is not None
    assert event.original["job_state"] == "H"
    account = recordings.read(EVENTS / "queuejob-acct.in").job["Account_Name"]
    assert account == 'chem grant; 2026 "x=1"'


def test_a_value_may_hold_line_breaks(tmp_path: Path) -> None:
    lines = ["pbs.event().job.Variable_List=A=1\n2,B=3", "pbs.event().type=queuejob", ""]
    (tmp_path / "x.in").write_text("\n".join(lines))
    (tmp_path / "x.data").write_text("")
    assert recordings.read(tmp_path / "x.in").job["Variable_List"] == "A=1\n2,B=3"


@pytest.mark.parametrize(
    ("request_", "data", "said"),
    [
        ("hello", "", r"x\.in:1: not a line of a recording"),
        ("pbs.event().type=movejob", "", "no event of type 'movejob' is emulated"),
        ("pbs.event().type=queuejob", "pbs.server()=x", r"x\.data:1: not a line"),
    ],
)
def test_what_is_no_recording_is_refused(request_: str, data: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.in").write_text(request_)
    (tmp_path / "x.data").write_text(data)
    with pytest.raises(SourceError, match=said):
        recordings.read(tmp_path / "x.in")


def test_a_missing_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot read"):
        recordings.read(tmp_path / "x.in")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "00:00:00"), (59, "00:00:59"), (3600, "01:00:00"), (360000, "100:00:00")]
)
def test_durations_are_printed_as_pbs_prints_them(seconds: int, text: str) -> None:
    assert clock(seconds) == text


def test_what_is_set_is_written_as_the_server_writes_it(do: Do, site: Site) -> None:
    """Seen on the server: at postqueuejob and runjob only what is set, before the verdict."""
    verdict = "pbs.event().accept=True\npbs.event().reject=False\n"
    for event in (postqueued(submission(), site=site), started(submission(), site=site, now=NOW)):
        written = recordings.write(do(event, SET.format(200)), event)
        assert written == f"pbs.event().job.Resource_List[soft_walltime]=200\n{verdict}"
    event = altered(submission(), {"walltime": "00:30:00"}, site=site, now=NOW)
    written = recordings.write(do(event, SET.format(77)), event)
    changes = ["walltime]=00:30:00", "soft_walltime]=77"]
    assert written == verdict + "".join(f"pbs.event().job.Resource_List[{change}\n" for change in changes)
    refused = recordings.write(do(event, "event.reject('no thanks')"), event)
    assert refused == "pbs.event().reject=True\npbs.event().accept=False\npbs.event().reject_msg=no thanks\n"
