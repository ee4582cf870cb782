"""Machines of their own to install packages on and, with systemd as their init, to run units in.

Each begins as the bare Debian of tests/deploy/debian.py, and is gone with all its mounts and processes when the test
is done or killed.  ``SOFTWALLTIME_TEST_PACKAGES`` may name a folder with packages that were built before; otherwise
they are built, which takes half a minute.
"""

import inspect
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.deploy.debian import HERE, MACHINES, ROOTFS, namespaces, scratch
from tests.samples import ROOT
from tests.service.running import PATIENT

PACKAGES = "SOFTWALLTIME_TEST_PACKAGES"
TOOLS = {"deb": ("dpkg-deb",), "rpm": ("rpmbuild", "rpm")}
"""Tools to build and inspect a package of each kind."""
PYTHON = "/usr/bin/python3"
"""The interpreter for which deploy/packages/build builds."""


class Machine:
    """A root folder, and once it is booted the processes in it."""

    def __init__(self, folder: str, keeper: int) -> None:
        self._path = f"{folder}/root"
        self._inside = ["chroot", self._path]
        self._boot: subprocess.Popen[bytes] | None = None
        self._init = 0
        self._enter: list[str] = []
        if namespaces():
            self._enter = ["nsenter", "-t", str(_children(keeper)[0]), "-m", "-p"]
        self._output = Path(folder) / "boot"
        self.root = Path(f"/proc/{keeper}/root{self._path}")
        """Where its files are to be seen from outside."""

    def run(self, command: str, *, check: bool = True) -> str:
        """The output, of both kinds, of a shell command in it, as root."""
        done = subprocess.run(
            [*self._enter, *self._inside, "/bin/bash", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
            text=True,
            timeout=2 * PATIENT,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{command}: {done.stdout}"
        return done.stdout.strip()

    def run_outside(self, *command: str | Path) -> None:
        """Run a program of the host's, in which ROOT is the machine's root folder."""
        words = [str(word).replace("ROOT", self._path) for word in command]
        done = subprocess.run([*self._enter, *words], capture_output=True, text=True, timeout=2 * PATIENT, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"

    def install(self, package: Path) -> str:
        """Install a package of Debian's kind."""
        shutil.copy(package, self.root / package.name)
        try:
            return self.run(f"dpkg --install /{package.name}")
        finally:
            (self.root / package.name).unlink()

    def boot(self) -> None:
        """Start its systemd, and wait until it is up and all is well."""
        with self._output.open("wb") as output:
            self._boot = subprocess.Popen(
                [*self._enter, "bash", HERE / "boot.sh", self._path],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.until(self._find_init)
        self._enter = ["nsenter", "-t", str(self._init), "-m", "-p", "-u", "-i", "-n", "-C"]
        self._inside = ["env", "-C", "/"]
        states: list[str] = []
        self.until(lambda: self._check_boot() or self._settled(states))
        failed = [line.split()[0] for line in self.run("systemctl --failed --plain --no-legend").splitlines()]
        if states == ["degraded"] and not any("softwalltime" in unit for unit in failed):
            # On a busy host a unit of the distribution may need a second start.
            self.run(f"systemctl restart {' '.join(failed)}")
            return
        journal = "journalctl -b -p notice -n 40 --no-pager"
        assert states == ["running"], f"its systemd is {states}, {failed} failed: {self.run(journal, check=False)}"

    def _settled(self, states: list[str]) -> bool:
        said = self.run("systemctl is-system-running", check=False)
        states[:] = {"running", "degraded", "maintenance", "stopping"} & set(said.split())
        return bool(states)

    def _check_boot(self) -> bool:
        """False, as far as it still runs."""
        assert self._boot is not None
        assert self._boot.poll() is None, f"no systemd could be started: {self._output.read_text().strip()}"
        return False

    def _find_init(self) -> bool:
        assert self._boot is not None
        self._check_boot()
        descendants = [self._boot.pid]
        for process in descendants:
            if _name(process) == "systemd":
                self._init = process
                return True
            descendants += _children(process)
        return False

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so, or fail with what the units say: a CI's output may show nothing else."""
        deadline = time.monotonic() + PATIENT
        while not condition():
            if time.monotonic() > deadline:
                units = "systemctl --no-pager --lines=15 status 'softwalltime*' 'postgresql@*'; systemctl --failed"
                said = self.run(units, check=False) if self._boot is not None else ""
                raise AssertionError(f"not so in {PATIENT:.0f} s: {inspect.getsource(condition).strip()}\n{said}")
            time.sleep(0.2)

    def shut_down(self) -> None:
        """End all processes in it."""
        if self._boot is not None:
            if self._init:
                # It may have ended by itself, where it finds something lacking.
                with suppress(ProcessLookupError):
                    os.kill(self._init, signal.SIGKILL)
            self._boot.kill()
            self._boot.wait(PATIENT)


def _children(process: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def _name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


@contextmanager
def machine(lower: Path) -> Iterator[Machine]:
    """A fresh one, with the files of that Debian."""
    with scratch("machine") as folder:
        Path(folder).chmod(0o755)
        keeper = subprocess.Popen(
            [*namespaces(), "bash", HERE / "keep.sh", lower, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        try:
            assert keeper.stdout.readline() == b"made\n", f"there is no copy of {lower}: see standard error"
            found = Machine(folder, keeper.pid)
            try:
                yield found
            finally:
                found.shut_down()
        finally:
            keeper.stdin.close()
            keeper.wait(PATIENT)
            keeper.stdout.close()


def why_not_to_be_booted(lower: Path) -> str:
    """Return why systemd cannot run here, tested with the plain Debian; empty if it can."""
    if not namespaces():
        return "no namespaces are allowed here"
    # One option of each kind of sandboxing in units, not only those of this package.
    asked = "-p PrivateTmp=yes -p PrivateDevices=yes -p PrivateUsers=yes -p ProtectSystem=yes -p NoNewPrivileges=yes"
    with machine(lower) as probe:
        try:
            probe.boot()
            probe.run(f"systemd-run --wait --quiet {asked} -p User=nobody -p TemporaryFileSystem=/srv:ro true")
            probe.run("su postgres -c 'psql -c \"SELECT 1\"'")
        except (AssertionError, subprocess.TimeoutExpired) as error:
            return str(error)
    return ""


class Packages(dict[str, Path]):
    """Built packages by kind: deb and rpm, and those of the libraries for the report: deb-report and rpm-report."""

    @classmethod
    def of(cls, paths: Iterable[Path]) -> "Packages":
        return cls({path.suffix[1:] + "-report" * ("-report" in path.name): path for path in paths})

    def __missing__(self, kind: str) -> Path:
        tools = " and ".join(TOOLS[kind.removesuffix("-report")])
        pytest.skip(f"no {kind} can be built here: that takes {tools} (apt-get install dpkg rpm)")


@contextmanager
def built_packages() -> Iterator[Packages]:
    """The kinds of packages that can be built here."""
    folder = os.environ.get(PACKAGES)
    if not (folder or os.environ.get(ROOTFS) or os.environ.get(MACHINES)):
        pytest.skip(f"building takes a while: done where {MACHINES}, {ROOTFS} or {PACKAGES} is set (see machine.py)")
    kinds = [kind for kind, tools in TOOLS.items() if all(map(shutil.which, tools))]
    if folder:
        yield Packages.of(path for path in Path(folder).iterdir() if path.suffix[1:] in kinds)
        return
    fit = "import sys, venv; sys.exit(sys.version_info < (3, 11))"
    if shutil.which(PYTHON) is None or subprocess.run([PYTHON, "-I", "-c", fit], check=False).returncode != 0:
        pytest.skip(f"packages are for the system's Python, and {PYTHON} is not 3.11 or later, or has no venv")
    if not kinds:
        yield Packages()
        return
    pip = shutil.which("pip", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as output:
        done = subprocess.run(
            [ROOT / "deploy" / "packages" / "build", "all" if len(kinds) > 1 else kinds[0], output],
            env={**os.environ, "PIP": str(pip), "PYTHON": PYTHON},
            capture_output=True,
            text=True,
            timeout=5 * PATIENT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        yield Packages.of(map(Path, done.stdout.split()))
