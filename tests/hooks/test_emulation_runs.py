"""The emulated server runs hooks as observed on the real one."""

import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from softwalltime.core.errors import SourceError
from softwalltime.emulation.pbs.hook_runner import HookScript
from softwalltime.emulation.pbs.pbs_events import Site, postqueued, queued
from tests.hooks.alarm import alarm
from tests.hooks.conftest import HUNG
from tests.hooks.emulated import Do, all_events, shown
from tests.hooks.jobs import submission


def test_a_hook_has_the_name_of_the_builtins_and_new_globals(do: Do, site: Site) -> None:
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


def test_a_rejection_at_postqueuejob_has_no_effect(do: Do, site: Site) -> None:
    assert do(postqueued(submission(), site=site), "1 / 0").accepted
    assert do(postqueued(submission(), site=site), "event.reject('no')").accepted


def test_a_rejection_has_its_message(do: Do, site: Site) -> None:
    outcome = do(queued(submission(), site=site), "event.reject('not today')", "1 / 0")
    assert (outcome.accepted, outcome.message, outcome.error) == (False, "not today", "")


def test_a_hook_that_neither_accepts_nor_rejects_accepts(do: Do, site: Site) -> None:
    assert do(queued(submission(), site=site), "pass").accepted


def test_the_alarm_interrupts_and_rejects(do: Do, site: Site) -> None:
    event = queued(submission(), site=site)
    begin = time.monotonic()
    with alarm(1):
        outcome = do(event, "import time", "time.sleep(3600)")
    assert time.monotonic() - begin < HUNG
    assert outcome.message.endswith("got an alarm call. Please inform Admin")


def test_an_unreadable_hook_is_an_error(tmp_path: Path, site: Site) -> None:
    with pytest.raises(SourceError, match="cannot read the hook"):
        HookScript(tmp_path / "missing.py").run(postqueued(submission(), site=site))


def test_the_hook_gets_the_events_time_and_the_real_monotonic_clock(do: Do, site: Site) -> None:
    event = postqueued(submission(), site=site, now=12345)
    begin = time.monotonic()
    lines = shown(do(event, "import time", "show(time.time())", "show(time.monotonic())"))
    assert lines[0] == "12345.0"
    assert begin <= float(lines[1]) <= time.monotonic()
    assert float(shown(do(replace(event, now=None), "import time", "show(time.time())"))[0]) > 1.7e9


def test_several_threads_can_run_one_script(tmp_path: Path, site: Site) -> None:
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
