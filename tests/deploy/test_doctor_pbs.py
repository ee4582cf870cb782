"""Each check of the hook and of PBS's settings says what is wrong and who must fix it."""

import os
from pathlib import Path

import pytest

from softwalltime.deployment.check_pbs import check_folder, check_hook, check_planning, check_queues, check_transport
from softwalltime.deployment.finding import Finding
from softwalltime.deployment.hook import transport
from softwalltime.deployment.qmgr import QmgrObjects, parse
from tests.deploy.findings import bad
from tests.deploy.installations import ALL, present

SOCKET = Path("/run/softwalltime/hook.sock")
HOOKS = "create hook softwalltime\nset hook softwalltime event = queuejob\nset hook softwalltime order = 900\n"


def hook_findings(hook: object, hooks: str = HOOKS) -> list[Finding]:
    return check_hook(hook, parse(hooks), SOCKET)[0]


def test_an_installed_hook_has_no_problem() -> None:
    findings = hook_findings(present())
    assert bad(findings) == []
    assert {finding.check for finding in findings} == {
        "hook", "hook enabled", "hook configuration", "socket", "hook events", "hook order",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"script": "another"}, ("hook", "problem")),
        ({"enabled": "false"}, ("hook enabled", "problem")),
        ({"debug": "true"}, ("hook debug", "warning")),
        ({"configuration": "{"}, ("hook configuration", "problem")),
        ({"values": {"deadline_ms": 0}}, ("hook configuration", "problem")),
        ({"values": {"no_such_key": 0}}, ("hook configuration", "problem")),
        ({"values": {"socket": "/run/other.sock"}}, ("socket", "problem")),
        ({"events": ALL - {"modifyjob"}}, ("hook events", "problem")),
        ({"events": ALL - {"runjob"}}, ("hook events", "warning")),
    ],
)
def test_problems_of_the_hook_are_reported(changes: dict[str, object], found: tuple[str, str]) -> None:
    assert bad(hook_findings(present(**changes))) == [found]


def test_a_missing_hook_is_a_problem() -> None:
    assert bad(hook_findings(None)) == [("hook", "problem")]


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ("event = modifyjob\nset hook other order = 950\nset hook other enabled = true", [("hook order", "warning")]),
        ("event = modifyjob\nset hook other order = 950\nset hook other enabled = false", []),
        ("event = modifyjob\nset hook other order = 10\nset hook other enabled = true", []),
        ("event = execjob_begin\nset hook other order = 950\nset hook other enabled = true", []),
    ],
)
def test_later_hooks_of_the_same_events_are_named(other: str, found: list[tuple[str, str]]) -> None:
    findings = hook_findings(present(), f"{HOOKS}create hook other\nset hook other {other}\n")
    assert bad(findings) == found
    assert not found or "other" in next(each for each in findings if each.check == "hook order").text


@pytest.mark.skipif(os.geteuid() != 0, reason="files of another owner are made")
def test_psycopg_path_must_be_writable_by_root_only(tmp_path: Path) -> None:
    folder = tmp_path / "psycopg"
    (folder / "psycopg").mkdir(parents=True)
    library = folder / "psycopg" / "__init__.py"
    library.touch()
    assert bad([check_folder(str(folder))]) == []
    library.chmod(0o664)
    assert bad([check_folder(str(folder))]) == [("psycopg_path", "problem")]
    library.chmod(0o644)
    os.chown(library, 65534, 65534)
    assert bad([check_folder(str(folder))]) == [("psycopg_path", "problem")]
    os.chown(library, 0, 0)
    tmp_path.chmod(0o777)
    assert bad([check_folder(str(folder))]) == [("psycopg_path", "problem")]
    assert bad([check_folder(str(tmp_path / "nowhere")), check_folder("")]) == [("psycopg_path", "problem")] * 2


@pytest.mark.skipif(os.geteuid() != 0, reason="files of another owner are made")
def test_the_file_of_the_transport_must_be_of_this_version_and_roots(tmp_path: Path) -> None:
    file = tmp_path / "softwalltime_postgres.py"
    assert bad([check_transport(""), check_transport(str(file))]) == [("transport", "problem")] * 2
    file.write_text(transport())
    file.chmod(0o644)
    assert bad([check_transport(str(file))]) == []
    file.chmod(0o664)
    assert "can be written by others" in check_transport(str(file)).text
    file.chmod(0o644)
    file.write_text(transport() + "# altered")
    assert "has another version" in check_transport(str(file)).text
    file.write_text(transport())
    os.chown(file, 65534, 65534)
    assert "belongs to another user" in check_transport(str(file)).text
    # A link of root's to such a file is no better.
    link = tmp_path / "link.py"
    link.symlink_to(file)
    assert "belongs to another user" in check_transport(str(link)).text


STRICT = {"sched_config": "# strict_ordering: false ALL\nstrict_ordering: true\tALL\n"}


def server(*lines: str) -> QmgrObjects:
    return parse("\n".join(["set server scheduling = True", *lines]))


@pytest.mark.parametrize(
    ("lines", "files", "found"),
    [
        ([], STRICT, []),
        (["set queue q backfill_depth = 0"], STRICT, [("backfill_depth", "advice")]),
        (["set server scheduling = False"], STRICT, [("scheduling", "warning")]),
        ([], {"sched_config": "strict_ordering: true ALL\nbackfill: false ALL"}, [("strict_ordering", "advice")]),
        ([], {"sched_config": "strict_ordering: false ALL\nbackfill: false ALL"}, []),
    ],
)
def test_a_scheduler_without_planning_is_reported(
    lines: list[str], files: dict[str, str], found: list[tuple[str, str]]
) -> None:
    assert bad(check_planning(server(*lines), files)) == found


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["set queue q queue_type = Execution"], [("default walltimes", "advice")]),
        (["set queue q queue_type = Execution", "set server resources_default.walltime = 1:00:00"], []),
        (["set queue q queue_type = Execution", "set queue q resources_default.walltime = 1:00:00"], []),
        (["set queue q queue_type = Route"], []),
        (["set queue q queue_type = Execution", "set queue q resources_max.walltime = 1:00:00"], []),
    ],
)
def test_queues_without_default_walltime_are_named(lines: list[str], found: list[tuple[str, str]]) -> None:
    finding = check_queues(server(*lines))
    assert bad([finding]) == found
    assert not found or finding.text.startswith("q: ")
