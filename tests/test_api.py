"""The Python interface: the examples of its page print what the page shows, and nothing is loaded before it is used."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import softwalltime
from softwalltime import Predictor, api, generate, read_jobs, replay, simulate
from softwalltime.errors import OptionError, SourceError
from softwalltime.replay import drive
from tests.samples import RECORDED_LOG, ROOT

PAGE = (ROOT / "daemon" / "softwalltime" / "API.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("code", "output"), EXAMPLES, ids=["compare", "own predictor", "simulate"])
def test_an_example_prints_what_the_page_shows(code: str, output: str) -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == output


def test_the_import_loads_neither_numpy_nor_the_interface() -> None:
    script = "import softwalltime, sys; print(dir(softwalltime)); print(*sys.modules)"
    names, modules = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert not {"numpy", "softwalltime.api", "pydantic"} & set(modules.split())
    assert set(softwalltime.__all__) <= set(re.findall(r"'(\w+)'", names))


def test_the_package_offers_all_names_of_the_interface() -> None:
    assert set(softwalltime.__all__) == {*api.__all__, "__version__"}
    assert Predictor is api.Predictor
    with pytest.raises(AttributeError, match="no attribute 'Frobnicator'"):
        softwalltime.Frobnicator  # noqa: B018


def test_replay_is_the_function_also_after_its_package_was_imported() -> None:
    jobs = generate(300, seed=2)
    found = replay(jobs, ["v1"])["v1"]
    workload = drive.Workload(jobs)
    assert found.soft_walltimes.tolist() == drive.drive_specs(workload, ["v1"])["v1"].soft_walltimes.tolist()
    assert found.row()["predictor"] == "v1"
    assert found.row()["jobs"] == int(found.scored.sum()) == found.scores.jobs


def test_jobs_are_read_from_logs_and_a_wrong_file_is_named(tmp_path: Path) -> None:
    jobs = read_jobs(RECORDED_LOG)
    assert jobs.numbers("runtime").tolist() == [job.runtime for job in jobs]
    (tmp_path / "empty").write_text("")
    for path in (tmp_path / "nowhere", tmp_path / "empty"):
        with pytest.raises(SourceError, match=path.name):
            read_jobs(path)


def test_a_schedule_has_an_entry_for_each_simulated_job() -> None:
    jobs = generate(300, seed=2)
    schedule = simulate(jobs, 64, order="sjf")
    assert schedule.policy.order == "sjf"
    assert len(schedule.starts) + sum(schedule.left_out.values()) == len(jobs)
    assert (schedule.starts - schedule.submitted == schedule.waits).all()
    assert schedule.left_out["larger than the machine"] > 0
    with pytest.raises(OptionError, match="unknown key ordr; is order meant"):
        simulate(jobs, ordr="sjf")


def test_two_results_of_one_name_are_refused() -> None:
    with pytest.raises(OptionError, match="two predictors are called 'v1'"):
        replay(generate(10), ["v1", "v1"])
