"""Installation of the hook: inspect PBS, plan, write the files, and apply on request."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from softwalltime.deployment import hook
from softwalltime.deployment.configuration import Values
from softwalltime.deployment.files import write
from softwalltime.deployment.hook import NAME, Hook
from softwalltime.deployment.installation_plan import InstallationPlan, InstallOptions, Step, make_plan
from softwalltime.deployment.qmgr import Qmgr


@dataclass(frozen=True, slots=True)
class Installation:
    """The target of an installation: files in this folder, and a hook in PBS that uses this socket.

    ``own`` is the configuration that the folder had before.
    """

    folder: Path
    socket: str
    choices: InstallOptions
    own: Values | None

    def plan(self, present: Hook | None, supported: frozenset[str]) -> InstallationPlan:
        return make_plan(self.folder, self.socket, supported, present, self.choices, self.own)

    def apply(self, pbs: Qmgr, plan: InstallationPlan, supported: frozenset[str]) -> Iterator[Step]:
        """Apply the plan in PBS, and yield each step that was done.

        PBS names its events only once the hook exists; if the version of PBS led to a wrong plan, the rest is
        planned anew.

        :raises PbsError: names the step that failed; earlier steps stay, and the next run continues from there.
        """
        steps = list(plan.steps)
        while steps:
            step = steps.pop(0)
            pbs.execute(step.statement)
            yield step
            if step.statement == f"create hook {NAME}":
                actual = hook.supported(pbs)
                if actual != supported:
                    plan = self.plan(None, actual)
                    write(plan, self.folder)
                    steps = list(plan.steps[1:])


def inspect_pbs(pbs: Qmgr) -> tuple[str, Hook | None, frozenset[str]]:
    """Return the version of PBS, the hook that it has, and those of our events that it supports.

    :raises PbsError: names who must do what.
    """
    version = pbs.version()
    present = hook.installed(pbs)
    return version, present, hook.expected(version) if present is None else hook.supported(pbs)
