"""Read the settings of PBS that presets need, and the configuration of its schedulers."""

import re
from collections.abc import Mapping
from pathlib import Path

from softwalltime.deployment import probes
from softwalltime.deployment.qmgr import PbsError, Qmgr, QmgrObject
from softwalltime.deployment.scheduler_setup import PbsSettings


def read_settings(pbs: Qmgr) -> PbsSettings:
    """Return the settings of PBS.

    :raises PbsError: if PBS cannot be reached.
    """
    schedulers = {name: found for (kind, name), found in pbs.objects("sched").items() if kind == "sched"}
    return PbsSettings(
        pbs.objects("server").get(("server", ""), QmgrObject()),
        resources_of(pbs.execute("list resource")),
        sched_configs(pbs),
        schedulers,
    )


def resources_of(listed: str) -> Mapping[str, Mapping[str, str]]:
    """Return type and flag of the custom resources that ``list resource`` prints.

    >>> resources_of("Resource ngpus" + chr(10) + "    type = long" + chr(10) + "    flag = hn")
    {'ngpus': {'type': 'long', 'flag': 'hn'}}
    """
    found: dict[str, dict[str, str]] = {}
    name = ""
    for line in listed.splitlines():
        if match := re.match(r"Resource (\S+)", line):
            name = match[1]
            found[name] = {}
        elif name and (match := re.match(r"\s+(type|flag) = (\S+)", line)):
            found[name][match[1]] = match[2]
    return found


def sched_configs(pbs: Qmgr) -> dict[str, str | None]:
    """Return the sched_config of each scheduler, ``None`` where it cannot be read."""
    try:
        folders = [thing.get("sched_priv") for (kind, _), thing in pbs.objects("sched").items() if kind == "sched"]
    except PbsError:
        folders = []
    usual = pbs.home / "sched_priv"
    named = [Path(folder) for folder in folders if folder] or [usual]
    found = {str(folder / "sched_config"): probes.read_text(folder / "sched_config") for folder in named}
    # After PBS_HOME was moved, the server still names the old folder, but the scheduler reads the new one.
    if len(found) == 1 and None in found.values() and (text := probes.read_text(usual / "sched_config")) is not None:
        return {str(usual / "sched_config"): text}
    return found
