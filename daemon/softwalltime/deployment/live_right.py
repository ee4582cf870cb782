"""The manager right of PBS, which live values and expected starts on the jobs need: and how it is taken away."""

from collections.abc import Collection, Iterator

from softwalltime.deployment.finding import Finding, ok, problem, skipped
from softwalltime.deployment.pbs import QmgrObject


def check_right(answer: tuple[bool, str] | str) -> Finding:
    """Report whether the account that alters jobs is a manager.

    :param answer: of :func:`softwalltime.deployment.probes.probe_manager`, or why there is none.
    """
    check = "live manager right"
    if isinstance(answer, str):
        return skipped(check, f"not tried: {answer}")
    manager, user = answer
    if manager:
        return ok(check, f"PBS lets {user} alter jobs")
    act = f"root: qmgr -c 'set server managers += {user}@*'; see deploy/LIVE.md"
    return problem(check, f"{user} is no manager of PBS, which will refuse all alters", act)


def remaining_rights(server: QmgrObject, accounts: Collection[str]) -> Iterator[str]:
    """Yield for each manager of PBS that is one of these accounts the statement for qmgr that takes the right away."""
    managers = server.parts("managers")
    ours = [entry for entry in managers if entry.partition("@")[0] in accounts]
    if ours and len(ours) == len(managers):
        # The removal of the last entry by -= is not saved (OpenPBS master cd7ab5eda).
        yield "unset server managers"
        return
    yield from (f"set server managers -= {entry}" for entry in ours)
