"""The hook into PBS, and out again: look, plan, write, and only then, and only if told to, do."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from softwalltime.deployment import hook
from softwalltime.deployment.configuration import Values
from softwalltime.deployment.files import write
from softwalltime.deployment.hook import NAME, Hook
from softwalltime.deployment.pbs import Pbs
from softwalltime.deployment.plan import Choices, Plan, Step, make_plan


@dataclass(frozen=True, slots=True)
class Installation:
    """What is wanted: in this folder the files, in PBS the hook that asks at this socket.

    ``own`` is the configuration that the folder held when it was begun.
    """

    folder: Path
    socket: str
    choices: Choices
    own: Values | None

    def plan(self, present: Hook | None, supported: frozenset[str]) -> Plan:
        """What is to be done."""
        return make_plan(self.folder, self.socket, supported, present, self.choices, self.own)

    def apply(self, pbs: Pbs, plan: Plan, supported: frozenset[str]) -> Iterator[Step]:
        """Do what was planned in PBS, and tell of each step that is done.

        Which events PBS has can be asked only once the hook is there; what was planned by the version is then
        planned anew if it was wrong.

        :raises PbsError: says which step failed; those before it stay done, and the next run goes on from there.
        """
        steps = list(plan.steps)
        while steps:
            step = steps.pop(0)
            pbs.tell(step.statement)
            yield step
            if step.statement == f"create hook {NAME}":
                really = hook.supported(pbs)
                if really != supported:
                    plan = self.plan(None, really)
                    write(plan, self.folder)
                    steps = list(plan.steps[1:])


def look(pbs: Pbs) -> tuple[str, Hook | None, frozenset[str]]:
    """The version of PBS, the hook that it has, and the events of ours that it supports.

    :raises PbsError: says who must do what.
    """
    version = pbs.version()
    present = hook.installed(pbs)
    return version, present, hook.expected(version) if present is None else hook.supported(pbs)
