"""Set up live values: the agent's socket, and manager privilege for its account."""

import getpass
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from softwalltime.core.settings import Settings, service_user
from softwalltime.deployment.finding import Finding, ok, problem, skipped
from softwalltime.deployment.probes import PROBE_TIMEOUT_S, SubprocessError, call_in_subprocess
from softwalltime.deployment.qmgr import QmgrObject
from softwalltime.service.live.connection import PbsConnection
from softwalltime.service.live.live_options import LiveOptions

UNIT: Final = "softwalltime-live.socket"
SOCKET = Path("/run/softwalltime-live.sock")
"""The unit's socket; it exists while the unit is active."""
ACCOUNT: Final = "softwalltime-live"
"""The account of the unit's agents."""
SYSTEMD = Path("/run/systemd/system")
"""Path that exists if systemd manages this host."""
UNITS = (Path("/etc/systemd/system"), Path("/usr/lib/systemd/system"), Path("/lib/systemd/system"))


def usual_agent() -> Path | None:
    """Return the socket of the agent that systemd starts; ``None`` where the unit is not installed."""
    installed = SYSTEMD.is_dir() and any((folder / UNIT).is_file() for folder in UNITS)
    return SOCKET if installed else None


def agent_change(live: LiveOptions, *, wanted: bool) -> str:
    """Return the command that starts or stops the agent's socket, also after each boot.

    It is empty if the settings name another socket, or if the unit is already in the wanted state.
    """
    if live.agent != SOCKET or SOCKET.is_socket() == wanted:
        return ""
    return f"systemctl {'enable' if wanted else 'disable'} --now {UNIT}"


def account_of(settings: Settings, live: LiveOptions) -> str:
    """Return the account that alters jobs; without a socket for the agent it is the daemon's."""
    return ACCOUNT if live.agent is not None else service_user(settings) or getpass.getuser()


def missing_right(server: QmgrObject, account: str) -> str:
    """Return the qmgr statement that makes the account a manager of PBS; empty: it is one already."""
    # Without any entry root is the manager.
    names = {entry.partition("@")[0] for entry in server.parts("managers")} or {"root"}
    return "" if account in names else f"set server managers += {account}@*"


def check_right(server: str, agent: Path | None, user: str) -> Finding:
    """Test, as the daemon's user, whether the account that alters jobs is a PBS manager.

    :param server: host of the PBS server; empty: that of /etc/pbs.conf.
    :param agent: socket of the process that alters jobs; ``None``: one is started.
    """

    def ask() -> tuple[bool, str]:
        with closing(PbsConnection(server, agent, PROBE_TIMEOUT_S)) as connection:
            return connection.manager()

    check = "live manager right"
    try:
        manager, account = call_in_subprocess(ask, PROBE_TIMEOUT_S + 1, user)
    except SubprocessError as error:
        return skipped(check, f"not tried: {error}")
    if manager:
        return ok(check, f"PBS lets {account} alter jobs")
    act = f"root: qmgr -c 'set server managers += {account}@*'; see deploy/LIVE.md"
    return problem(check, f"{account} is no manager of PBS, which will refuse all alters", act)


def remaining_rights(server: QmgrObject, accounts: Collection[str]) -> Iterator[str]:
    """Yield the qmgr statements that remove these accounts from PBS's managers."""
    managers = server.parts("managers")
    ours = [entry for entry in managers if entry.partition("@")[0] in accounts]
    if ours and len(ours) == len(managers):
        # The removal of the last entry by -= is not saved (OpenPBS master cd7ab5eda).
        yield "unset server managers"
        return
    yield from (f"set server managers -= {entry}" for entry in ours)
