"""A Debian of its own to install packages on and, with systemd as its init, to run units in.

``SOFTWALLTIME_TEST_ROOTFS`` names a folder that is not changed (an overlay is), made by::

    debootstrap --variant=minbase bookworm FOLDER
    chroot FOLDER apt-get install -y --no-install-recommends systemd systemd-sysv dbus python3 procps postgresql

``SOFTWALLTIME_TEST_PACKAGES`` may name a folder with packages that were built before; otherwise they are built, which
takes minutes.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.service.running import PATIENT
from tests.workloads import ROOT

ROOTFS, PACKAGES = "SOFTWALLTIME_TEST_ROOTFS", "SOFTWALLTIME_TEST_PACKAGES"


class Machine:
    """A root folder, and once it is booted the processes in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._boot: subprocess.Popen[bytes] | None = None
        self._init = 0

    def run(self, command: str, *, check: bool = True) -> str:
        """The output, of both kinds, of a shell command in it, as root."""
        inside = ["chroot", str(self.root)]
        if self._init:
            inside = ["nsenter", "-t", str(self._init), "-m", "-p", "-u", "-i", "-C", "env", "-C", "/"]
        done = subprocess.run(
            [*inside, "/bin/bash", "-c", command],
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

    def install(self, package: Path) -> str:
        """Install a package of Debian's kind."""
        shutil.copy(package, self.root / package.name)
        try:
            return self.run(f"dpkg --install /{package.name}")
        finally:
            (self.root / package.name).unlink()

    def boot(self) -> None:
        """Start its systemd, and wait until it is up."""
        self._boot = subprocess.Popen(
            ["bash", Path(__file__).parent / "boot.sh", self.root],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.until(self._find_init)
        self.until(lambda: "running" in self.run("systemctl is-system-running", check=False).split())

    def _find_init(self) -> bool:
        assert self._boot is not None
        children = Path(f"/proc/{self._boot.pid}/task/{self._boot.pid}/children").read_text().split()
        named = [child for child in children if Path(f"/proc/{child}/comm").read_text().strip() == "systemd"]
        self._init = int(named[0]) if named else 0
        return bool(named)

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so, or fail."""
        deadline = time.monotonic() + PATIENT
        while not condition():
            assert time.monotonic() < deadline, "it did not come about in time"
            time.sleep(0.2)

    def shut_down(self) -> None:
        """End all processes in it."""
        if self._boot is not None:
            if self._init:
                os.kill(self._init, signal.SIGKILL)
            self._boot.kill()
            self._boot.wait(PATIENT)


@contextmanager
def machine() -> Iterator[Machine]:
    """A fresh one; the test is skipped where there can be none."""
    lower = os.environ.get(ROOTFS)
    if not lower or os.geteuid() != 0:
        pytest.skip(f"{ROOTFS} names no Debian for tests (see tests/deploy/machine.py), or this is not root")
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="softwalltime-machine-") as folder:
        upper, work, root = (Path(folder) / name for name in ("upper", "work", "root"))
        for each in (upper, work, root):
            each.mkdir(mode=0o755)
        Path(folder).chmod(0o755)
        subprocess.run(
            ["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", root],
            check=True,
        )
        found = Machine(root)
        try:
            yield found
        finally:
            found.shut_down()
            subprocess.run(["umount", "-l", root], check=True)


@contextmanager
def built_packages() -> Iterator[dict[str, Path]]:
    """Both packages, by the kind of each."""
    folder = os.environ.get(PACKAGES)
    if folder:
        yield {path.suffix[1:]: path for path in Path(folder).iterdir()}
        return
    for tool in ("dpkg-deb", "rpmbuild"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool} to build packages with")
    if not os.environ.get(ROOTFS):
        pytest.skip(f"building takes minutes: done where {ROOTFS} or {PACKAGES} is set (see tests/deploy/machine.py)")
    pip = shutil.which("pip", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as output:
        done = subprocess.run(
            [ROOT / "deploy" / "packages" / "build", "all", output],
            env={**os.environ, "PIP": str(pip)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        yield {path.suffix[1:]: path for path in map(Path, done.stdout.split())}
