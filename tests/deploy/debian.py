"""The bare Debian that machines begin as: one that the environment names, or one that is made for the tests and kept.

``SOFTWALLTIME_TEST_ROOTFS`` names the folder of one with the packages below, which is not changed.

``SOFTWALLTIME_TEST_MACHINES=1`` lets the tests make one with debootstrap, as root, in
``/var/cache/softwalltime-tests``.  They touch nothing of the host but that folder, which may be removed at any time.
It needs saying all the same, as .ci/run does: ``make test`` is also for a laptop in a train, and should not fetch
120 MB from a mirror, fill 600 MB of a disk and take minutes longer because it was root who ran it.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import pytest

ROOTFS, MACHINES = "SOFTWALLTIME_TEST_ROOTFS", "SOFTWALLTIME_TEST_MACHINES"
CACHE = Path("/var/cache/softwalltime-tests")
HERE = Path(__file__).parent
PACKAGES = ("acl", "dbus", "postgresql", "procps", "python3", "systemd", "systemd-sysv")
# The package is built for the host's Python, and needs a Debian with the same.
SUITES = {"3.11": "bookworm", "3.13": "trixie"}
SECONDS = 300.0
"""How long debootstrap may take, of the minutes that a run of all tests may take; it takes one."""

TOOLS = {
    "debootstrap": "debootstrap", "mount": "mount", "unshare": "util-linux", "nsenter": "util-linux",
    "chroot": "coreutils",
}  # fmt: skip


def bare_debian() -> Path:
    """Its folder; the test is skipped, with the reason, where there can be none."""
    named = os.environ.get(ROOTFS)
    if not named and not os.environ.get(MACHINES):
        pytest.skip(
            f"{MACHINES}=1 would let root make a Debian in {CACHE}; {ROOTFS} names one: see {Path(__file__).name}"
        )
    if os.geteuid() != 0:
        pytest.skip("only root can have a Debian of its own to install packages on")
    lacking = {tool: package for tool, package in TOOLS.items() if shutil.which(tool) is None}
    if named:
        lacking.pop("debootstrap", None)
    if lacking:
        pytest.skip(f"there is no {', '.join(lacking)}: apt-get install {' '.join(sorted(set(lacking.values())))}")
    return Path(named) if named else _kept()


@cache
def namespaces() -> tuple[str, ...]:
    """Return the command prefix for separate mounts and processes; empty if not permitted."""
    prefix = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")
    allowed = subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    return prefix if allowed else ()


def scratch(kind: str) -> "tempfile.TemporaryDirectory[str]":
    """A folder in the cache; what a killed run left there is removed a day later."""
    CACHE.mkdir(mode=0o755, exist_ok=True)
    for left in CACHE.glob("tmp-*"):
        if left.stat().st_mtime < time.time() - 86400:
            shutil.rmtree(left, ignore_errors=True)
    return tempfile.TemporaryDirectory(dir=CACHE, prefix=f"tmp-{kind}-", ignore_cleanup_errors=True)


def _kept() -> Path:
    suite = SUITES.get(_python_version())
    if suite is None:
        pytest.skip(f"/usr/bin/python3 is {_python_version()}, that of no Debian known here ({SUITES})")
    recipe = hashlib.sha256((HERE / "debian.sh").read_bytes() + repr((suite, PACKAGES)).encode())
    found = CACHE / f"{suite}-{recipe.hexdigest()[:12]}"
    if not found.exists():
        _make(suite, found)
    return found


def _python_version() -> str:
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        return subprocess.run(
            ["/usr/bin/python3", "-I", "-c", asked], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no /usr/bin/python3, for which packages are built: apt-get install python3")


def _make(suite: str, found: Path) -> None:
    with scratch("debian") as folder:
        command = [*namespaces(), "bash", HERE / "debian.sh", folder, suite, ",".join(PACKAGES), *_mirror(suite)]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"debootstrap was not done after {SECONDS:.0f} s: is its mirror slow?")
        if done.returncode != 0:
            # Nothing is installed yet: the cause is the mirror, the disk, or a restriction of this host.
            said = done.stdout.splitlines()
            errors = [line for line in said if line.startswith(("E:", "W:"))]
            pytest.skip(f"debootstrap {suite} failed: {' / '.join(errors or said[-3:])}")
        try:
            (Path(folder) / "tree").rename(found)
        except OSError:
            # Another run has made one meanwhile.
            if not found.exists():
                raise


def _mirror(suite: str) -> list[str]:
    """Where the host's own apt has that suite from, if it has."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", f"Codename: {suite}"]
    try:
        said = subprocess.run([*asked, "Component: main"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return []
    return re.findall(r"^https?://\S+", said, re.MULTILINE)[:1]
