"""``doctor``: checks of PBS, hook, daemon, store and log, each with its result and who must fix it."""

import os
import pwd
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from softwalltime import __version__
from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.settings import ACCOUNT, Settings, hidden_file, load_settings, service_user
from softwalltime.deployment import check_service, configuration, preset_setup, probes
from softwalltime.deployment import hook as hooks
from softwalltime.deployment.check_pbs import check_hook, check_planning, check_queues
from softwalltime.deployment.finding import Finding, advice, ok, problem, skipped
from softwalltime.deployment.live_setup import check_right
from softwalltime.deployment.ownership import settings_writable_by_others
from softwalltime.deployment.probes import DaemonProbe, LogProbe, StoreProbe, SubprocessError
from softwalltime.deployment.qmgr import HooksHiddenError, PbsError, Qmgr, QmgrObjects, find
from softwalltime.deployment.scheduler_setup import read_settings
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.forecast_thread import start_options
from softwalltime.service.live.live_options import LiveOptions, inert, read_policy, without_live

CORRECT = "root: correct the settings, then systemctl restart softwalltime, or reload where only [policy] was wrong"

T = TypeVar("T")


@dataclass(slots=True)
class Doctor:
    """One run of all checks.

    :param config: settings file of the daemon; ``None``: the default ones.
    """

    config: Path | None
    hook: configuration.Values = field(default_factory=configuration.shipped)
    """Effective configuration of the hook; the shipped one where it is not known."""
    policy: SitePolicy | None = None
    live: LiveOptions = field(default_factory=LiveOptions)
    alters: tuple[str, Path | None] | None = None
    """Server and agent of live values, or of expected starts shown on the jobs; ``None``: neither is on."""
    unknown: str = ""
    """Why the settings could not be read."""

    def examine(self) -> Iterator[Finding]:
        """Yield the findings; each takes seconds at most, and none raises."""
        settings = yield from self._settings()
        yield from self._pbs(settings)
        daemon = yield from self._daemon(settings)
        logs: LogProbe | str = "no accounting folder in the settings"
        if (accounting := settings.accounting) is not None:
            logs = _or_why(lambda: probes.probe_logs(accounting))
        store = yield from self._store(settings, daemon, logs.first if isinstance(logs, LogProbe) else b"")
        yield from check_service.check_lag(logs, store, time.time())
        yield from check_service.check_users()
        if self.alters is not None:
            yield check_right(*self.alters, service_user(settings))

    def _settings(self) -> Generator[Finding, None, Settings]:
        try:
            settings = load_settings(self.config)
        except SoftwalltimeError as error:
            yield problem("settings", str(error), f"{CORRECT}; the other checks use the defaults")
            self.unknown = "the settings are wrong"
            # Settings() would read the environment, which may have the wrong value.
            return Settings.model_construct()
        if self.config is None and (hidden := hidden_file()) is not None:
            self.unknown = f"{hidden} permission denied: run this as root"
            yield skipped("settings", self.unknown)
            return settings
        owners = {0, os.geteuid(), *(account.pw_uid for account in pwd.getpwall() if account.pw_name == ACCOUNT)}
        if (current := settings_writable_by_others(self.config, owners)) is not None:
            text = f"{current.path} {current.reason}; serve refuses such settings where it runs as root"
            yield problem("settings", text, f"root: {current.remedy}")
        try:
            policy, live = read_policy(settings.policy, settings.live)
            self.policy, self.live = policy if settings.policy else None, live
            starts = start_options(settings.starts)
        except SoftwalltimeError as error:
            yield problem("settings", str(error), CORRECT)
            return settings
        yield ok("settings", f"valid; socket {settings.socket}, accounting {settings.accounting or 'not followed'}")
        if live.mode == "on":
            self.alters = live.server, live.agent
        elif preset_setup.shows_starts(settings):
            self.alters = starts.server or live.server, starts.agent or live.agent
        if self.policy is not None and (text := without_live(self.policy, live)):
            yield (problem if inert(self.policy, live) else advice)("live values", text, "follow deploy/LIVE.md")
        return settings

    def _pbs(self, settings: Settings) -> Iterator[Finding]:
        try:
            pbs = find()
            version = pbs.version()
            server = pbs.objects("server")
        except SoftwalltimeError as error:
            yield skipped("PBS", f"{error}; skipped: hook, scheduler, queues")
            return
        yield ok("PBS", f"version {version or 'unknown'} answers {pbs.qmgr}")
        yield from self._hook(pbs, settings)
        yield from self._scheduler(pbs, settings, server)
        yield check_queues(server)

    def _scheduler(self, pbs: Qmgr, settings: Settings, server: QmgrObjects) -> Iterator[Finding]:
        try:
            current = read_settings(pbs)
        except PbsError as error:
            yield skipped("scheduler", str(error))
            return
        yield from check_planning(server, current.readable)
        # Without a policy that is on: what soft walltimes need at least.
        needs = preset_setup.requirements(
            preset_setup.setup_of(self.policy) or "safe", preset_setup.resource_of(self.hook),
            effective=None if self.policy is None else (self.policy, self.live),
            any_formula=self.policy is not None and self.policy.preset == "custom",
        )  # fmt: skip
        yield from preset_setup.check_setup(self.policy, needs, current)
        if preset_setup.shows_starts(settings):
            yield preset_setup.check_shown_starts(current)

    def _hook(self, pbs: Qmgr, settings: Settings) -> Iterator[Finding]:
        if os.geteuid() != 0:
            yield skipped("manager rights", "PBS shows hooks only to root on the server's host; skipped: hook")
            return
        try:
            everything: QmgrObjects = pbs.objects("hook")
            present = hooks.installed(pbs)
        except HooksHiddenError:
            # For example on the passive server of a failover pair.
            text = "the PBS server runs on another host, and shows hooks only there; skipped: hook"
            yield skipped("manager rights", text)
            return
        except PbsError as error:
            act = "root on the PBS server's host: run this there"
            yield problem("manager rights", f"{error}; skipped: hook", act)
            return
        yield ok("manager rights", "hooks can be read and changed")
        findings, values = check_hook(present, everything, settings.socket)
        yield from findings
        if values is not None:
            self.hook = values

    def _daemon(self, settings: Settings) -> Generator[Finding, None, DaemonProbe | str]:
        if self.hook["transport"] != "daemon":
            yield skipped("daemon", "the hook queries PostgreSQL itself")
            return "the hook does not use it"
        yield check_service.check_socket(settings.socket)
        daemon = _or_why(lambda: probes.probe_daemon(settings.socket))
        yield from check_service.check_daemon(daemon, self.hook["deadline_ms"], __version__)
        if isinstance(daemon, DaemonProbe):
            yield from check_service.check_policy(daemon.status, self.policy, __version__)
        return daemon

    def _store(
        self, settings: Settings, daemon: DaemonProbe | str, first: bytes
    ) -> Generator[Finding, None, StoreProbe | str]:
        store: StoreProbe | str = "no dsn in the settings"
        if settings.dsn is None and self.unknown:
            yield skipped("store", self.unknown)
            return store
        if settings.dsn is not None:
            store = _or_why(lambda: probes.probe_store(settings, service_user(settings), first))
        yield from check_service.check_store(store, settings.dsn, answers=isinstance(daemon, DaemonProbe))
        return store


def _or_why(work: Callable[[], T]) -> T | str:
    try:
        return work()
    except SubprocessError as error:
        return str(error)
