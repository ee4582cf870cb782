"""``policy set`` applies a plan: one list of all changes, the same changes with --apply, and the way back."""

import os
import socket
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from softwalltime.cli import run
from softwalltime.core.settings import load_settings
from softwalltime.deployment import live_setup
from softwalltime.predict.policy.plan_file import Plan, PlannedLive, PlannedPbs, PlannedPolicy, plan_text
from softwalltime.predict.policy.presets import PRESETS
from softwalltime.service.live.live_options import inert, read_policy
from tests.deploy.qmgr_scripts import qmgr
from tests.policy.test_plan_file import PLAN

QMGR = """\
echo "$2" >> {folder}/statements
case $2 in
"list server pbs_version") echo '    pbs_version = 23.06.06' ;;
"print server") grep '^set server' {folder}/statements ;;
"print resource")
    grep -q '^create resource' {folder}/statements && printf '%s resource predicted%s\\n' \\
        create '' set ' type = long' set ' flag = r' ;;
esac
true"""
"""A server that remembers what is set."""
SCHED_CONFIG = 'strict_ordering: false\tALL\nby_queue: True\tprime\nresources: "ncpus, mem"\n'
SETTINGS = '# ours\ndsn = "postgresql:///softwalltime"\n\n[policy]\npreset = "shadow"   # for now\nshare = 0.5\n'
FORMULA = PRESETS["balanced"].order.formula("predicted") if PRESETS["balanced"].order else ""
BALANCED = PLAN.model_copy(update={"pbs": PlannedPbs(job_sort_formula=FORMULA)})
ALONE = BALANCED.model_copy(update={"live": PlannedLive(mode="off", guard="off")})
CUSTOM = PLAN.model_copy(
    update={
        "policy": PlannedPolicy(preset="custom", mode="on", waiting="v3", running="walltime"),
        "live": PlannedLive(mode="on", guard=3600), "pbs": None,
    }
)  # fmt: skip


@dataclass(frozen=True)
class Site:
    """A host with a PBS server and systemd, which are scripts here."""

    folder: Path

    def write(self, plan: Plan) -> None:
        (self.folder / "plan.toml").write_text(plan_text(plan, "plan.toml"))

    def set(self, target: str, *options: str) -> int:
        config, hook = str(self.folder / "site.toml"), str(self.folder / "hook")
        name = str(self.folder / target) if target.endswith(".toml") else target
        return run(["policy", "set", name, "--config", config, "--folder", hook, *options])

    @property
    def settings(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "site.toml").read_text())

    @property
    def statements(self) -> list[str]:
        """What qmgr was told to change."""
        file = self.folder / "statements"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if line.startswith(("set server", "create resource", "unset", "delete"))]

    @property
    def units(self) -> list[str]:
        """What systemctl was called with."""
        file = self.folder / "units"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    conf = qmgr(tmp_path, QMGR.format(folder=tmp_path))
    conf.write_text(conf.read_text().replace("/scratch/pbs", str(tmp_path)))
    (tmp_path / "sched_priv").mkdir()
    (tmp_path / "sched_priv" / "sched_config").write_text(SCHED_CONFIG)
    (tmp_path / "site.toml").write_text(f'socket = "{tmp_path}/hook.sock"\n{SETTINGS}')
    (tmp_path / "hook").mkdir(mode=0o755)
    systemctl = tmp_path / "bin" / "systemctl"
    systemctl.parent.mkdir()
    systemctl.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/units\n')
    systemctl.chmod(0o755)
    (tmp_path / "units.d").mkdir()
    (tmp_path / "units.d" / live_setup.UNIT).touch()
    monkeypatch.setattr(live_setup, "SYSTEMD", tmp_path)
    monkeypatch.setattr(live_setup, "UNITS", (tmp_path / "units.d",))
    monkeypatch.setattr(live_setup, "SOCKET", tmp_path / "live.sock")
    monkeypatch.setenv("PBS_CONF_FILE", str(conf))
    monkeypatch.setenv("PATH", f"{systemctl.parent}:/usr/bin:/bin")
    return Site(tmp_path)


def listed(text: str, state: str) -> list[str]:
    """The changes in this state, without reasons and folders."""
    lines = (line.partition(": ") for line in text.splitlines())
    return [change.partition("  # ")[0] for found, _, change in lines if found == state]


def test_the_dry_run_lists_everything_and_changes_nothing(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.write(BALANCED)
    assert site.set("plan.toml") == 0
    said = capsys.readouterr()
    folder = site.folder
    to_do = listed(said.out, "to do")
    pbs = [line for line in to_do if line.startswith(("server ", "resource ", f"{folder}/sched_priv"))]
    assert pbs == [
        "resource predicted: no such resource -> type=long,flag=r",
        "server eligible_time_enable: not set -> True",
        "server clear_topjob_estimates_enable: not set -> True",
        f"{folder}/sched_priv/sched_config: strict_ordering: false -> True",
        f"{folder}/sched_priv/sched_config: resources: without it -> soft_walltime",
        f"{folder}/sched_priv/sched_config: by_queue: True -> False",
        f"server job_sort_formula: not set -> {FORMULA}",
    ]
    assert to_do[-8:] == [
        "set server managers += softwalltime-live@*",
        "systemctl enable --now softwalltime-live.socket",
        f'{folder}/site.toml: [policy] preset = "balanced" (was "shadow")',
        f"{folder}/site.toml: [policy] share = 1.0 (was 0.5)",
        f'{folder}/site.toml: [live] mode = "on"',
        f"{folder}/site.toml: [live] guard = 3600",
        f'{folder}/site.toml: [live] agent = "{folder}/live.sock"',
        "systemctl reload softwalltime",
    ]
    assert "create hook softwalltime" in to_do
    assert said.out.splitlines()[-1] == "note: undo: softwalltime policy set off --apply"
    assert f"note: in a week or more: softwalltime verify {folder}/plan.toml" in said.out
    assert said.err == f"nothing was changed; run softwalltime policy set {folder}/plan.toml --apply\n"
    assert (site.statements, site.units) == ([], [])
    assert (folder / "site.toml").read_text().endswith(SETTINGS)
    assert (folder / "sched_priv" / "sched_config").read_text() == SCHED_CONFIG


def test_a_plan_is_applied_and_undone(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.write(BALANCED)
    assert site.set("plan.toml", "--apply") == 0
    settings = load_settings(site.folder / "site.toml")
    policy, live = read_policy(settings.policy, settings.live)
    assert (policy.preset, policy.share, live.mode, live.guard) == ("balanced", 1.0, "on", 3600)
    assert live.agent == site.folder / "live.sock"
    assert inert(policy, live) == ""
    assert run(["config", "check", str(site.folder / "site.toml")]) == 0
    text = (site.folder / "site.toml").read_text()
    assert 'preset = "balanced"   # for now' in text
    assert "# ours\n" in text
    assert "set server managers += softwalltime-live@*" in site.statements
    assert site.units == ["enable --now softwalltime-live.socket"]
    assert "strict_ordering: True" in (site.folder / "sched_priv" / "sched_config").read_text()
    capsys.readouterr()
    # A second time only the hook, which this qmgr does not show, remains to be done.
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(site.folder / "live.sock"))
        assert site.set("plan.toml") == 0
    again = listed(capsys.readouterr().out, "to do")
    assert not [line for line in again if "managers" in line or "systemctl" in line or "site.toml" in line]
    assert not [line for line in again if line.startswith(("server", "resource"))]
    before = site.statements
    with socket.socket(socket.AF_UNIX) as agent:
        (site.folder / "live.sock").unlink()
        agent.bind(str(site.folder / "live.sock"))
        assert site.set("off") == 0
        to_do = listed(capsys.readouterr().out, "to do")
        assert site.statements == before
        assert site.set("off", "--apply") == 0
    said = capsys.readouterr().out
    for line in (
        f"server job_sort_formula: {FORMULA} -> not set",
        f'{site.folder}/site.toml: [policy] preset = "off" (was "balanced")',
        f'{site.folder}/site.toml: [live] mode = "off" (was "on")',
        "unset server managers",
        "systemctl disable --now softwalltime-live.socket",
    ):
        assert line in to_do
        assert "job_sort_formula" in line or line in listed(said, "done")
    assert (site.settings["policy"]["preset"], site.settings["live"]["mode"]) == ("off", "off")
    assert {"unset server job_sort_formula", "unset server managers"} <= {*site.statements}
    assert site.units[-1] == "disable --now softwalltime-live.socket"
    assert (site.folder / "sched_priv" / "sched_config").read_text() == SCHED_CONFIG
    assert "note: jobs keep the soft walltimes that they have" in said
    assert "undo:" not in said


def test_off_keeps_what_expected_starts_on_the_jobs_need(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    with (site.folder / "site.toml").open("a") as file:
        file.write('[starts]\nmode = "on"\nshow = true\n')
    site.write(BALANCED)
    assert site.set("plan.toml", "--apply") == 0
    assert site.set("off", "--apply") == 0
    assert site.settings["live"]["mode"] == "off"
    assert "unset server managers" not in site.statements
    assert [line for line in site.units if line.startswith("disable")] == []


def test_a_custom_policy_is_applied_with_its_guard(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    with (site.folder / "site.toml").open("a") as file:
        file.write('ordering = "v2"\n[[policy.rules]]\nqueue = "a"\nmode = "off"\n')
    site.write(CUSTOM)
    assert site.set("plan.toml", "--apply", "--share", "0.1") == 0
    said = capsys.readouterr().out
    settings = load_settings(site.folder / "site.toml")
    policy, live = read_policy(settings.policy, settings.live)
    assert (policy.preset, policy.mode, policy.waiting, policy.share) == ("custom", "on", "v3", 0.1)
    assert policy.ordering == "keep", "the ordering value of before was not simulated"
    assert (live.mode, live.guard, inert(policy, live)) == ("on", 3600, "")
    assert not [line for line in site.statements if "job_sort_formula" in line]
    assert "strict_ordering: True" in (site.folder / "sched_priv" / "sched_config").read_text()
    assert "note: the rules in [policy] stay in force, and were not simulated: 1" in said


def test_a_plan_without_guard_says_so_in_the_settings(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    with (site.folder / "site.toml").open("a") as file:
        file.write('[live]\nmode = "shadow"\n')
    site.write(ALONE)
    assert site.set("plan.toml", "--apply") == 0
    assert site.settings["live"] == {"mode": "shadow", "guard": "off"}, "recording in shadow mode goes on"
    assert (site.units, [line for line in site.statements if "managers" in line]) == ([], [])
    assert "note: strict_ordering stays off, as the order alone does not need it" in capsys.readouterr().out
    assert "strict_ordering: false" in (site.folder / "sched_priv" / "sched_config").read_text()
    assert run(["config", "check", str(site.folder / "site.toml")]) == 0


def test_live_values_that_are_on_are_switched_off_for_a_plan_without_them(site: Site) -> None:
    with (site.folder / "site.toml").open("a") as file:
        file.write('[live]\nmode = "on"\n')
    site.write(ALONE)
    assert site.set("plan.toml", "--apply") == 0
    assert site.settings["live"] == {"mode": "off", "guard": "off"}


def test_a_formula_of_its_own_replaces_the_sites(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    (site.folder / "statements").write_text("set server job_sort_formula = job_priority\n")
    site.write(BALANCED)
    assert site.set("plan.toml") == 0
    assert "the site's formula is job_priority and stays" in capsys.readouterr().out
    site.write(BALANCED.model_copy(update={"pbs": PlannedPbs(job_sort_formula="eligible_time / predicted")}))
    assert site.set("plan.toml") == 0
    assert "to do: server job_sort_formula: job_priority -> eligible_time / predicted" in capsys.readouterr().out


def test_without_systemd_the_daemons_account_gets_the_right(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live_setup, "SYSTEMD", site.folder / "none")
    monkeypatch.setattr(live_setup, "service_user", lambda settings: "softwalltime")
    site.write(BALANCED)
    assert site.set("plan.toml") == 0
    to_do = listed(capsys.readouterr().out, "to do")
    assert "set server managers += softwalltime@*" in to_do
    assert not [line for line in to_do if "agent" in line or "enable --now" in line]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("fast", "fast: no policy (off, shadow, safe, balanced, order), and there is no plan file of this name"),
        ("site.toml", "site.toml: "),
    ],
)
def test_what_is_neither_a_policy_nor_a_plan_is_named(
    target: str, says: str, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (site.folder / "site.toml").read_text()
    assert site.set(target, "--apply") == 2
    assert says in capsys.readouterr().err
    assert (site.folder / "site.toml").read_text() == before
    assert site.statements == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root refuses files that others can write")
def test_settings_that_others_can_write_are_refused_before_anything_is_changed(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.write(BALANCED)
    (site.folder / "site.toml").chmod(0o666)
    assert site.set("plan.toml", "--apply") == 2
    assert "site.toml" in capsys.readouterr().err
    assert (site.statements, site.units) == ([], [])
