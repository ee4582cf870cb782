"""Presets on a real server: PBS's settings there and back."""

import json
import os
import re
import signal
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from softwalltime.deployment.preset_setup import requirements
from softwalltime.predict.policy.plan_file import PlannedLive, PlannedPolicy, plan_text
from softwalltime.predict.policy.power_order import EXPANSION_FACTOR
from softwalltime.predict.policy.presets import PRESETS, PresetName
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.live.live_options import LiveOptions
from tests.acceptance.lab import STRICT, Lab
from tests.policy.test_plan_file import PLAN
from tests.service.running import Daemon


class Administrator:
    """Commands of ours, with settings of their own, where PBS is."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder / "hook"
        self.config = folder / "softwalltime.toml"
        self.config.write_text(f'socket = "{folder}/hook.sock"\n')
        self.sched_config = lab.home / "sched_priv" / "sched_config"

    def softwalltime(self, *arguments: str) -> str:
        return self.lab.must(sys.executable, "-m", "softwalltime", *arguments)

    def install(self, *options: str) -> str:
        return self.softwalltime("install", str(self.folder), "--config", str(self.config), *options)

    def settings(self) -> tuple[list[str], bytes]:
        """All of PBS's settings that a preset changes and takes back; the resource stays."""
        lines = self.lab.qmgr("print server").splitlines()
        return [line for line in lines if " resource " not in line], self.sched_config.read_bytes()

    def managers(self) -> set[str]:
        """The managers of PBS."""
        return set(re.findall(r"^set server managers \+?= (\S+)$", self.lab.qmgr("print server"), re.MULTILINE))

    def verdicts(self) -> dict[str, str]:
        """The verdict of each check of doctor."""
        asked = ("doctor", "--format", "json", "--config", str(self.config))
        done = self.lab.run(sys.executable, "-m", "softwalltime", *asked)
        return {finding["check"]: finding["verdict"] for finding in json.loads(done.output)}


@pytest.fixture
def administrator(lab: Lab, sched_config: Callable[[str, str], None], tmp_path: Path) -> Administrator:
    """An administrator of a server whose scheduler is as PBS is delivered: it plans no job ahead."""
    if os.geteuid() != 0:
        pytest.skip("the scheduler's settings are root's to change")
    lab.uninstall()
    sched_config(STRICT, "strict_ordering: false\tALL")
    tmp_path.chmod(0o755)
    return Administrator(lab, tmp_path)


def test_a_preset_is_shown_made_and_taken_back(administrator: Administrator, lab: Lab) -> None:
    before = administrator.settings()
    had = "Resource predicted" in lab.qmgr("list resource")

    # Shown, and nothing is changed.
    shown = administrator.install("--preset", "order")
    assert ("to do: resource predicted: no such resource -> type=long,flag=r  # " in shown) != had
    formula = EXPANSION_FACTOR.formula("predicted")
    for line in (
        "to do: server eligible_time_enable: False -> True  # ",
        f"to do: {administrator.sched_config}: strict_ordering: false -> True  # ",
        f"to do: {administrator.sched_config}: resources: without it -> soft_walltime  # ",
        f"to do: {administrator.sched_config}: by_queue: True,True -> False,False  # ",
        f"to do: server job_sort_formula: not set -> {formula}  # ",
    ):
        assert line in shown
    assert administrator.settings() == before
    assert not administrator.folder.exists()
    try:
        # From safe to order to safe: only what differs changes.
        administrator.install("--preset", "safe", "--apply")
        safe = administrator.settings()
        assert safe[0] == before[0]
        said = administrator.install("--preset", "order", "--apply")
        assert "done: SIGHUP to the scheduler" in said
        assert "PBS has what the preset order needs" in administrator.install("--preset", "order")
        # Users see the resource and cannot set it.
        assert not lab.run("qsub", "-l", "predicted=5", "--", "/bin/true", user="alice").ok
        administrator.install("--preset", "safe", "--apply")
        assert administrator.settings() == safe
    finally:
        administrator.softwalltime("uninstall", str(administrator.folder), "--apply")
    assert administrator.settings() == before
    assert not administrator.folder.exists()


def test_fair_share_stays_a_factor_of_the_order(administrator: Administrator, lab: Lab) -> None:
    with lab.fair_share({"alice": "10 root 10", "bob": "11 root 10"}, {"alice": 1_000_000, "bob": 1}):
        try:
            administrator.install("--preset", "order", "--apply")
            assert EXPANSION_FACTOR.formula("predicted", fair_share=True) in lab.qmgr("print server")
            with lab.virtual_processors(4):
                whole = ("-q", "workq", "-l", "select=1:ncpus=4", "-l", "walltime=60")
                lab.qsub(*whole, user="carol", command=("/bin/sleep", "5"))
                jobs = [lab.qsub(*whole, user=user, command=("/bin/sleep", "1")) for user in ("alice", "bob")]
                first, second = (lab.wait(job, "F", 60)["stime"] for job in reversed(jobs))
            assert first < second, "bob has used less, and has waited as long"
        finally:
            administrator.softwalltime("uninstall", str(administrator.folder), "--apply")
    assert "job_sort_formula" not in lab.qmgr("print server")


def test_uninstall_leaves_the_resource_and_says_why(administrator: Administrator, lab: Lab) -> None:
    # One that the server does not have: the command speaks only of what it has created.
    name = f"predicted_{uuid4().hex[:8]}"
    administrator.folder.mkdir()
    (administrator.folder / "softwalltime_hook.json").write_text(json.dumps({"ordering": name}))
    administrator.install("--preset", "order", "--apply")
    lab.qmgr("set server managers = softwalltime-live@*")
    try:
        done = lab.run(sys.executable, "-m", "softwalltime", "uninstall", str(administrator.folder), "--apply")
        assert done.ok, done.error
        assert f"stays: resource {name}: it is harmless without values." in done.output
        assert "note: uninstall does not run: qmgr -c 'unset server managers'" in done.output
        assert f"Resource {name}" in lab.qmgr("list resource")
    finally:
        lab.qmgr("unset server managers")


def test_off_shadow_balanced_order_balanced_off_in_six_commands(
    administrator: Administrator, lab: Lab, database: str, tmp_path: Path
) -> None:
    daemon = Daemon(tmp_path, database, 'preset = "off"  # for now\n')
    administrator.config = daemon.config
    before = administrator.settings()
    daemon.start()

    def switch(name: str) -> str:
        folder = str(administrator.folder)
        return administrator.softwalltime(
            "policy", "set", name, "--apply", "--config", str(daemon.config), "--folder", folder
        )

    def waiting() -> dict[str, str]:
        """What a waiting job of 10 min gets."""
        job = lab.qsub("-h", "-q", "short", "-l", "walltime=600")
        found = lab.job(job)["Resource_List"]
        lab.delete_jobs()
        return {key: found[key] for key in ("soft_walltime", "predicted") if key in found}

    try:
        switches: tuple[tuple[PresetName, dict[str, object], bool], ...] = (
            ("off", {}, False),
            ("shadow", {}, False),
            # Live values are off here, so there is no guard, and balanced sets no soft walltime.
            ("balanced", {"predicted": 600}, True),
            ("order", {"soft_walltime": "00:05:00", "predicted": 600}, True),
            ("balanced", {"predicted": 600}, True),
            ("off", {}, False),
        )
        for name, expected, formula in switches:
            assert f"done: the daemon has the preset {name}" in switch(name)
            assert f'preset = "{name}"  # for now' in daemon.config.read_text()
            assert waiting() == expected, name
            assert ("job_sort_formula" in lab.qmgr("print server")) == formula
            verdicts = administrator.verdicts()
            # balanced leaves the planning as it is, and takes back what order needed.
            effective = None if name == "order" else (SitePolicy(waiting="walltime"), LiveOptions())
            needed = {need.name for need in requirements(name, effective=effective)}
            strict = "strict_ordering: True" in (lab.home / "sched_priv" / "sched_config").read_text()
            assert strict == (name == "order"), name
            assert {verdicts[check] for check in needed} <= {"ok"}, name
            own = PRESETS[name].order
            assert own is None or own.formula("predicted") in lab.qmgr("print server")
        refused = lab.run(
            sys.executable, "-m", "softwalltime", "policy", "set", "safe", "--apply", "--config", str(daemon.config)
        )
        assert refused.status == 2
        assert administrator.settings() == before
    finally:
        daemon.end(signal.SIGTERM)
        administrator.softwalltime("uninstall", str(administrator.folder), "--apply")
    assert administrator.settings() == before


def test_a_plan_is_listed_applied_and_undone(
    administrator: Administrator, lab: Lab, database: str, tmp_path: Path
) -> None:
    agent = tmp_path / "agent.sock"
    # A socket of the agent means its account; nothing listens there.
    daemon = Daemon(tmp_path, database, f'preset = "off"\n[live]\nagent = "{agent}"\n')
    administrator.config = daemon.config
    before, managers = administrator.settings(), administrator.managers()
    custom = {"preset": "custom", "mode": "on", "waiting": "factor:0.5", "running": "walltime"}
    plan = PLAN.model_copy(
        update={"policy": PlannedPolicy(**custom), "live": PlannedLive(mode="on", guard=3600), "pbs": None}
    )
    file = tmp_path / "plan.toml"
    file.write_text(plan_text(plan, file.name))
    daemon.start()

    def switch(target: str, *options: str) -> str:
        folder = str(administrator.folder)
        return administrator.softwalltime(
            "policy", "set", target, "--config", str(daemon.config), "--folder", folder, *options
        )

    def changes(said: str, state: str) -> set[str]:
        lines = (line.partition(": ") for line in said.splitlines())
        return {text.partition("  # ")[0] for found, _, text in lines if found == state and "SIGHUP" not in text}

    try:
        listed = changes(switch(str(file)), "to do")
        assert administrator.settings() == before
        assert {"set server managers += softwalltime-live@*", f'{daemon.config}: [live] mode = "on"'} <= listed
        said = switch(str(file), "--apply")
        assert "done: the daemon has the preset custom" in said
        assert listed - changes(said, "done") <= {"systemctl reload softwalltime"}, "what is listed is done"
        assert "softwalltime-live@*" in lab.qmgr("print server")
        verdicts = administrator.verdicts()
        assert {verdicts[need.name] for need in requirements("safe")} <= {"ok"}
        assert "no error" in administrator.softwalltime("config", "check", str(daemon.config))
        job = lab.qsub("-h", "-q", "short", "-l", "walltime=600")
        assert lab.job(job)["Resource_List"]["soft_walltime"] == "00:05:00"
        lab.delete_jobs()
        applied = administrator.settings()
        listed = changes(switch("off"), "to do")
        assert administrator.settings() == applied
        off = {
            f'{daemon.config}: [live] mode = "off" (was "on")',
            f'{daemon.config}: [policy] preset = "off" (was "custom")',
        }
        assert off <= listed
        assert any("server managers" in line for line in listed)
        undone = changes(switch("off", "--apply"), "done")
        assert listed - undone <= {"systemctl reload softwalltime"}, "what is listed is done"
        assert administrator.settings() == before, "strict_ordering, resources: and the manager right too"
        assert tomllib.loads(daemon.config.read_text())["live"]["mode"] == "off"
        assert daemon.status()["policy"]["mode"] == "off"
        job = lab.qsub("-h", "-q", "short", "-l", "walltime=600")
        assert "soft_walltime" not in lab.job(job)["Resource_List"]
    finally:
        daemon.end(signal.SIGTERM)
        for entry in administrator.managers() - managers:
            lab.run("qmgr", "-c", f"set server managers -= {entry}")
        administrator.softwalltime("uninstall", str(administrator.folder), "--apply")
    assert administrator.settings() == before
