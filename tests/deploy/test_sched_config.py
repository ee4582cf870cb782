"""sched_config is edited as an administrator would: values only, and back to the same bytes."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from softwalltime.core.errors import SourceError
from softwalltime.core.sched_config import lines_of, members, switches, values_of
from softwalltime.deployment import sched_config
from softwalltime.deployment.sched_config import (
    read,
    reload_scheduler,
    rewrite,
    with_member,
    with_switch,
    with_values,
    without_member,
)

TEXT = """\
# by_queue: True\tALL is a comment
by_queue: True\t\tprime
  by_queue:True  non_prime
strict_ordering: false\tALL

#
# resources
resources: "ncpus, mem, arch, host, vnode, aoe, eoe"
job_sort_key: "cput LOW"\tALL
"""


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("", {False}),
        ("strict_ordering: true ALL", {True}),
        ("strict_ordering: TRUE", {True}),
        ("strict_ordering: 1 all", {True}),
        ("strict_ordering: 0", {False}),
        ("strict_ordering: no", {True}),
        ("strict_ordering: true prime", {True, False}),
        ("strict_ordering: true prime\nstrict_ordering: true NON_PRIME", {True}),
        ("strict_ordering: true ALL\nstrict_ordering: false ALL", {False}),
        ("strict_ordering: true none", {False}),
        ("#strict_ordering: true ALL", {False}),
        ("strict_ordering true ALL", {True}),
        ("not_strict_ordering: true ALL", {False}),
    ],
)
def test_a_switch_is_read_as_the_scheduler_reads_it(text: str, state: set[bool]) -> None:
    assert set(switches(text, "strict_ordering")) == state


@pytest.mark.parametrize("option", ["by_queue", "strict_ordering", "round_robin"])
@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("text", [TEXT, TEXT + "strict_ordering: true prime\n", "by_queue: True prime\n", ""])
def test_a_switch_is_set_at_all_times_and_back_to_the_same_text(option: str, on: bool, text: str) -> None:
    after = with_switch(text, option, on=on)
    assert switches(after, option) == (on, on)
    assert [line for line in text.splitlines() if option not in line] == [
        line for line in after.splitlines() if option not in line and "added by softwalltime" not in line
    ]
    assert with_values(after, option, values_of(text, option)) == text


def test_only_values_change() -> None:
    after = with_switch(TEXT, "by_queue", on=False)
    assert after == TEXT.replace("by_queue: True\t\tprime", "by_queue: False\t\tprime").replace(
        "  by_queue:True  non_prime", "  by_queue:False  non_prime"
    )


def test_an_added_line_is_removed_also_without_its_comment() -> None:
    after = with_switch(TEXT, "round_robin", on=True).replace("# added by softwalltime install\n", "")
    assert with_values(after, "round_robin", ()) == TEXT


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "resources: 'ncpus,mem'\n",
        "resources: ncpus,mem\n",
        'resources: "ncpus, \\\n  mem"\n',
        'resources: ""\n',
        'resources: "ncpus"\nresources: "mem"\n',
    ],
)
def test_a_member_is_added_and_removed(text: str) -> None:
    after = with_member(text, "resources", "soft_walltime")
    assert members(after, "resources") == [*members(text, "resources"), "soft_walltime"]
    assert without_member(after, "resources", "soft_walltime") == text


def test_a_member_is_removed_wherever_the_site_has_moved_it() -> None:
    for value in ("soft_walltime, ncpus, my_soft_walltime", "ncpus, soft_walltime, my_soft_walltime"):
        after = without_member(f'resources: "{value}"\n', "resources", "soft_walltime")
        assert members(after, "resources") == ["ncpus", "my_soft_walltime"]


def test_quotes_and_the_time_after_them_are_read() -> None:
    (line,) = lines_of('job_sort_key: "cput LOW"\tprime', "job_sort_key")
    assert (line.value, line.times, line.quoted) == ("cput LOW", ("prime",), True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_the_file_keeps_group_mode_link_and_odd_bytes(tmp_path: Path) -> None:
    file = tmp_path / "real"
    file.write_bytes(b"# caf\xe9\r\nby_queue: True ALL\r\n")
    file.chmod(0o640)
    os.chown(file, 0, 4321)
    link = tmp_path / "sched_config"
    link.symlink_to("real")
    before = read(link)
    rewrite(link, before, with_switch(before, "by_queue", on=False))
    assert file.read_bytes() == b"# caf\xe9\r\nby_queue: False ALL\r\n"
    status = file.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (0, 4321, 0o640)
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["real", "sched_config"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
@pytest.mark.parametrize("changeable", ["folder", "file", "folder of the link"])
def test_root_writes_no_file_that_others_can_change(tmp_path: Path, changeable: str) -> None:
    folder, links = tmp_path / "real", tmp_path / "links"
    folder.mkdir()
    links.mkdir()
    file, link = folder / "sched_config", links / "sched_config"
    file.write_text("by_queue: True ALL\n")
    link.symlink_to(file)
    os.chown({"folder": folder, "file": file, "folder of the link": links}[changeable], 1234, -1)
    with pytest.raises(SourceError, match="belongs to another user: edit it by hand"):
        rewrite(link, read(link), "by_queue: False ALL\n")
    assert file.read_text() == "by_queue: True ALL\n"
    assert [path.name for path in folder.iterdir()] == ["sched_config"]


def test_a_file_that_somebody_else_changes_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "sched_config"
    file.write_text("by_queue: True ALL\n")
    before = read(file)
    file.write_text("by_queue: True ALL\nround_robin: True ALL\n")
    with pytest.raises(SourceError, match="changed by somebody else"):
        rewrite(file, before, "by_queue: False ALL\n")
    assert "round_robin" in file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["sched_config"]


def test_only_a_pbs_sched_gets_the_signal(tmp_path: Path) -> None:
    assert "names no running process" in reload_scheduler(tmp_path)
    waiting = """\
import signal, sys
signal.signal(signal.SIGHUP, lambda *_: sys.exit(7))
print("up", flush=True)
signal.pause()
"""
    for name, status in (("pbs_sched", 7), ("another", -signal.SIGKILL)):
        program = tmp_path / name
        program.symlink_to(os.path.realpath(sys.executable))
        with subprocess.Popen([program, "-c", waiting], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            (tmp_path / sched_config.LOCK).write_text(f"{process.pid}\n")
            said = reload_scheduler(tmp_path)
            assert said == "" if name == "pbs_sched" else "not pbs_sched" in said
            if name != "pbs_sched":
                process.kill()
            assert process.wait(60) == status
