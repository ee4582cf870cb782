"""Switch to a policy: change PBS, manager privilege and agent of live values, settings, and reload the daemon."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from softwalltime.cli.completing import POLICIES
from softwalltime.cli.install import REMOVE_SOFT_WALLTIMES, HookOptions, SwitchOptions, install_hook
from softwalltime.core.errors import UsageError
from softwalltime.core.settings import Settings, load_settings
from softwalltime.deployment import configuration, live_setup, probes
from softwalltime.deployment.preset_setup import setup_of, shows_starts
from softwalltime.deployment.probes import SubprocessError
from softwalltime.deployment.qmgr import Qmgr, QmgrObject, find, run
from softwalltime.deployment.sched_config import refuse_open, rewrite
from softwalltime.deployment.settings_file import policy_file, read, with_values
from softwalltime.predict.policy.plan_file import Plan, read_plan
from softwalltime.predict.policy.presets import PRESETS, UNDO, PresetName
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.live.live_options import (
    LiveOptions,
    inert,
    read_policy,
    unguarded,
    without_live,
)
from softwalltime.service.status import OK

RELOAD_TIMEOUT_S = 10.0
"""Timeout in seconds for the daemon to load the new policy."""
_BY_HAND = "to do: systemctl reload softwalltime"


@dataclass(frozen=True, slots=True)
class PolicySwitch:
    """Target of a switch: values for the settings by table, and derived changes.

    ``setup`` is the preset that PBS is set up for, ``none`` for none.  ``formula``: the job_sort_formula to set in
    place of the site's, empty to keep that.
    """

    values: Mapping[str, Mapping[str, Any]]
    policy: SitePolicy
    live: LiveOptions
    setup: str
    formula: str

    @property
    def ordered(self) -> bool:
        return self.setup in ("balanced", "order")


def switch_to(options: SwitchOptions, settings: Settings) -> PolicySwitch:
    """Return the target for a preset or plan file, on a site with these settings.

    :raises UsageError: if it is neither, or would change nothing.
    """
    plan = None
    if options.target not in POLICIES:
        if not Path(options.target).exists():
            text = f"no policy ({', '.join(POLICIES)}), and there is no plan file of this name"
            raise UsageError(f"{options.target}: {text}")
        plan = read_plan(Path(options.target))
    values = _preset_values(options, settings) if plan is None else _plan_values(plan, options, settings)
    policy, live = read_policy({**settings.policy, **values["policy"]}, {**settings.live, **values["live"]})
    setup, formula = setup_of(policy) or "none", options.formula
    switch = PolicySwitch(values, policy, live, setup, formula or _own_formula(plan, setup))
    if formula and not switch.ordered:
        raise UsageError("--formula is for balanced, order, and plans that order the queue")
    if unguarded(policy, live) and not switch.ordered:
        raise UsageError(
            f"{inert(policy, live)}. Without its guard {policy.preset} would change nothing; balanced would change the "
            "order alone"
        )
    return switch


def _preset_values(options: SwitchOptions, settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the values for a preset.

    If live values are not on, the order has no guard, and a note says so.  off switches them off.
    """
    name: PresetName = next(name for name in PRESETS if name == options.target)
    share = {} if options.share is None else {"share": options.share}
    _, live = read_policy({**settings.policy, "preset": name}, settings.live)
    alone = PRESETS[name].order is not None and live.mode != "on" and live.guard is not None
    changed: dict[str, Any] = {"guard": "off"} if alone else {}
    if name == "off" and live.mode != "off":
        changed = {"mode": "off"}
    return {"policy": {"preset": name, **share}, "live": changed}


def _plan_values(plan: Plan, options: SwitchOptions, settings: Settings) -> dict[str, dict[str, Any]]:
    policy, live = plan.policy.values(), dict(plan.live.model_dump())
    if options.share is not None:
        policy["share"] = options.share
    if plan.policy.preset == "custom" and "ordering" not in policy and settings.policy.get("ordering"):
        # Otherwise an ordering value of an earlier custom policy remains effective.
        policy["ordering"] = "keep"
    if live["mode"] == "off" and settings.live.get("mode", "off") != "on":
        del live["mode"]
    agent = live_setup.usual_agent()
    if live.get("mode") == "on" and agent is not None and "agent" not in settings.live:
        live["agent"] = str(agent)
    return {"policy": policy, "live": live}


def _own_formula(plan: Plan | None, setup: str) -> str:
    """Return the plan's formula; empty if it is the preset's own."""
    order = next((preset.order for preset in PRESETS.values() if preset.name == setup), None)
    if plan is None or plan.pbs is None or order is None:
        return ""
    formula = plan.pbs.job_sort_formula
    return "" if formula == order.formula("predicted") else formula


def switch_policy(options: SwitchOptions) -> None:
    """List the changes that a switch needs, and make them if wanted, until a SoftwalltimeError says what is wrong."""
    file, config, do = policy_file(options.config), options.config, options.do
    before = read(file)
    # Check the settings first: the daemon would refuse wrong ones.
    settings = load_settings(config)
    switch = switch_to(options, settings)
    after, lines = with_values(before, switch.values, str(file))
    if do and after != before:
        refuse_open(file)
    hook = HookOptions(
        folder=options.folder, preset=switch.setup, formula=switch.formula, config=config, do=do,
        effective=(switch.policy, switch.live), command=f"softwalltime policy set {options.target}",
    )  # fmt: skip
    # The custom resource must exist as long as the daemon gives it a value, and the right as long as it alters jobs.
    if switch.ordered:
        install_hook(hook)
    _allow_live(switch, settings, do=do)
    if do and after != before:
        rewrite(file, before, after)
    for line in lines:
        click.echo(f"{'done' if do else 'to do'}: {file}: {line}")
    if not lines:
        click.echo(f'{file} has preset = "{switch.policy.preset}"')
    if do:
        click.echo(_reload_daemon(load_settings(config).socket, switch.policy))
    elif lines:
        click.echo(_BY_HAND)
    if not switch.ordered:
        install_hook(hook)
    _withdraw_live(switch, settings, do=do)
    for note in _notes(switch, options):
        click.echo(f"note: {note}")


def _allow_live(switch: PolicySwitch, settings: Settings, *, do: bool) -> None:
    """List the changes that live values need besides their settings; make them if wanted."""
    if switch.live.mode != "on" or switch.policy.mode != "on":
        return
    account = live_setup.account_of(settings, switch.live)
    why = f"{account} alters the soft walltimes of waiting jobs; {UNDO} names how to take the right away"
    pbs, server = _server()
    if statement := live_setup.missing_right(server, account):
        _change(pbs.execute, statement, why, do=do)
    if command := live_setup.agent_change(switch.live, wanted=True):
        _change(lambda words: run(words.split()), command, "it talks to PBS for the daemon", do=do)


def _withdraw_live(switch: PolicySwitch, settings: Settings, *, do: bool) -> None:
    """List the changes that undo the setup of live values; make them if wanted.

    The setup is kept if expected starts are shown on the jobs, which need it too.
    """
    if switch.policy.preset != "off" or shows_starts(settings):
        return
    pbs, server = _server()
    for statement in live_setup.remaining_rights(server, configuration.shipped()["daemon_users"]):
        _change(pbs.execute, statement, "the manager right was for live values", do=do)
    if command := live_setup.agent_change(switch.live, wanted=False):
        _change(lambda words: run(words.split()), command, "nothing is altered any more", do=do)


def _change(run: Callable[[str], object], command: str, why: str, *, do: bool) -> None:
    if do:
        run(command)
    click.echo(f"{'done' if do else 'to do'}: {command}  # {why}")


def _notes(switch: PolicySwitch, options: SwitchOptions) -> Iterator[str]:
    """Yield notes; the last one is the command that undoes the switch."""
    if unmet := without_live(switch.policy, switch.live):
        yield unmet
    if switch.policy.rules and options.target not in POLICIES:
        yield f"the rules in [policy] stay in force, and were not simulated: {len(switch.policy.rules)}"
    if switch.policy.mode == "on":
        if options.target not in POLICIES:
            yield f"in a week or more: softwalltime verify {options.target}"
        yield f"undo: {UNDO}"
        return
    if switch.policy.preset != "off":
        yield f"live values keep agent and manager right, if they have them; {UNDO} takes both away"
    else:
        yield f"jobs keep the soft walltimes that they have; a PBS manager removes them: {REMOVE_SOFT_WALLTIMES}"


def _server() -> tuple[Qmgr, QmgrObject]:
    """Return PBS and the server's attributes."""
    pbs = find()
    return pbs, pbs.objects("server").get(("server", ""), QmgrObject())


def _reload_daemon(socket: Path, policy: SitePolicy) -> str:
    """Send the daemon SIGHUP and wait until it has the policy; return a line with the result or the remaining step."""
    wanted = policy.model_dump(mode="json")
    try:
        status = probes.probe_daemon(socket).status
        if b"softwalltime" not in Path("/proc", str(status.pid), "cmdline").read_bytes():
            return f"{_BY_HAND}  # process {status.pid} is no softwalltime here"
        os.kill(status.pid, signal.SIGHUP)
        deadline = time.monotonic() + RELOAD_TIMEOUT_S
        while time.monotonic() < deadline:
            status = probes.probe_daemon(socket).status
            # A daemon of another version may know other keys.
            same = all(status.policy[key] == value for key, value in wanted.items() if key in status.policy)
            if same and status.settings == OK:
                return f"done: the daemon has the preset {policy.preset}"
            time.sleep(0.2)
    except SubprocessError as error:
        return f"to do: systemctl start softwalltime  # {error}"
    except OSError as error:
        return f"{_BY_HAND}  # {error.strerror}"
    if status.settings == OK:
        return "done: SIGHUP to the daemon  # it learns for the new policy; softwalltime status shows when it has it"
    return f"{_BY_HAND}  # the daemon's settings: {status.settings}"
