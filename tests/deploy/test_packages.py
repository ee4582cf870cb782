"""The packages: what is in them, and what installing, upgrading and removing them does to a machine."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.machine import Machine, Packages, machine
from tests.samples import ROOT

SETTINGS = "/etc/softwalltime/softwalltime.toml"
SHIPPED = (
    "/opt/softwalltime/bin/softwalltime",
    "/usr/bin/softwalltime",
    "/usr/bin/swt",
    "/usr/lib/systemd/system/softwalltime.service",
    "/usr/lib/systemd/system/softwalltime-ingest.service",
    "/usr/lib/systemd/system/softwalltime-live.socket",
    "/usr/lib/systemd/system/softwalltime-live@.service",
    "/usr/lib/systemd/system/softwalltime-me.service",
    "/usr/lib/systemd/system/softwalltime-me.socket",
    "/usr/lib/systemd/system/softwalltime-web.service",
    "/usr/lib/systemd/system/softwalltime-web.socket",
    "/usr/lib/sysusers.d/softwalltime.conf",
    "/usr/lib/tmpfiles.d/softwalltime.conf",
    "/usr/share/doc/pbs-softwalltime/deploy/GUIDE.md",
    "/usr/share/doc/pbs-softwalltime/hooks/README.md",
    "/usr/share/man/man1/softwalltime-replay.1.gz",
    "/usr/share/man/man5/softwalltime.toml.5.gz",
    "/usr/share/bash-completion/completions/softwalltime",
    "/usr/share/zsh/vendor-completions/_softwalltime",
    "/usr/share/fish/vendor_completions.d/softwalltime.fish",
    SETTINGS,
)


@pytest.fixture
def bare(debian: Path) -> Iterator[Machine]:
    """A machine without systemd running, as a container is."""
    with machine(debian) as found:
        yield found


def output(*command: object) -> str:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def content(package: Path) -> dict[str, tuple[str, str]]:
    """Owner and permissions by path."""
    found = {}
    if package.suffix == ".deb":
        for line in output("dpkg-deb", "--contents", package).splitlines():
            mode, owner, _, _, _, path, *_ = line.split()
            found[path[1:].rstrip("/")] = (owner, mode)
    else:
        listed = "[%{FILENAMES} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILEMODES:perms}\n]"
        for line in output("rpm", "-qp", "--queryformat", listed, package).splitlines():
            path, owner, mode = line.rsplit(" ", 2)
            found[path] = (owner, mode)
    return found


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_a_package_contains_the_files_and_only_root_can_write_them(packages: Packages, kind: str) -> None:
    found = content(packages[kind])
    assert set(SHIPPED) <= found.keys()
    for path, (owner, mode) in found.items():
        assert owner in ("root/root", "root/softwalltime"), path
        assert mode[0] == "l" or (mode[5] == mode[8] == "-"), f"{path} can be written by others"
        assert "s" not in mode, path
    assert found[SETTINGS][1] == "-rw-r-----"
    elsewhere = [path for path in found if path and not path.startswith(("/opt", "/usr", "/etc"))]
    assert elsewhere == []


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_the_libraries_that_measure_are_in_a_package_of_their_own(packages: Packages, kind: str) -> None:
    daemon, report = content(packages[kind]), content(packages[f"{kind}-report"])
    assert {owner for owner, _ in report.values()} == {"root/root"}
    # Those of softwalltime web are in the first one.
    for library in ("flask", "jinja2", "waitress"):
        assert [path for path in daemon if f"site-packages/{library}/" in path]
    for library in ("numpy", "numba", "joblib"):
        assert not [path for path in daemon if f"site-packages/{library}/" in path]
        assert [path for path in report if f"site-packages/{library}/" in path]
    assert not {path for path, (_, mode) in daemon.items() if mode[0] != "d"} & report.keys()
    if kind == "deb":
        version = output("dpkg-deb", "--field", packages["deb"], "Version").strip()
        depends = output("dpkg-deb", "--field", packages["deb-report"], "Depends").strip()
        assert depends == f"pbs-softwalltime (= {version})"
    else:
        version = output("rpm", "-qp", "--queryformat", "%{VERSION}", packages["rpm"])
        assert f"pbs-softwalltime = {version}\n" in output("rpm", "-qp", "--requires", packages["rpm-report"])


def test_an_upgrade_keeps_the_settings(packages: Packages) -> None:
    assert output("dpkg-deb", "--info", packages["deb"], "conffiles").split() == [SETTINGS]
    flags = output("rpm", "-qp", "--queryformat", "[%{FILEFLAGS:fflags} %{FILENAMES}\n]", packages["rpm"])
    assert [line.split() for line in flags.splitlines() if line.endswith(SETTINGS)] == [["cn", SETTINGS]]


def test_a_package_depends_on_its_python_version(packages: Packages) -> None:
    version = output("/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    depends = output("dpkg-deb", "--field", packages["deb"], "Depends")
    assert f"python3 (>= {version}), python3 (<< 3.{int(version[2:]) + 1})" in depends
    requires = output("rpm", "-qp", "--requires", packages["rpm"]).split()
    assert f"/usr/bin/python{version}" in requires
    assert not [each for each in requires if each.endswith("()(64bit)")], "its own libraries are no requirements"


def test_a_deb_is_installed_upgraded_and_removed(packages: Packages, bare: Machine, tmp_path: Path) -> None:
    said = bare.install(packages["deb"])
    assert "PBS was not changed" in said
    assert bare.run("id -nG softwalltime") == "softwalltime"
    assert bare.run(f"stat -c '%a %U %G' {SETTINGS}") == "640 root softwalltime"
    assert bare.run("systemctl is-enabled softwalltime") == "enabled"
    assert bare.run("cd /tmp && softwalltime --version && swt predictors").startswith("softwalltime, version ")
    assert bare.run("runuser -u softwalltime -- softwalltime --version").startswith("softwalltime, version ")
    bare.run(f"sed -i 's/^# dsn.*/dsn = \"ours\"/' {SETTINGS}")

    newer = rebuilt(packages["deb"], tmp_path)
    assert "db upgrade" in bare.install(newer)
    assert 'dsn = "ours"' in bare.run(f"cat {SETTINGS}")
    assert bare.run("dpkg-query --show --showformat '${Version}' pbs-softwalltime") == "99"
    assert bare.run(f"stat -c '%a %U %G' {SETTINGS}") == "640 root softwalltime"

    bare.run("mkdir /etc/softwalltime/hook; touch /etc/softwalltime/hook/softwalltime_hook.py")
    assert "qmgr -c 'delete hook softwalltime'" in bare.run("dpkg --remove pbs-softwalltime")
    assert bare.run("ls /opt/softwalltime /usr/bin/swt 2>/dev/null", check=False) == ""
    assert 'dsn = "ours"' in bare.run(f"cat {SETTINGS}")
    bare.run("dpkg --purge pbs-softwalltime")
    assert bare.run("ls /etc/softwalltime 2>/dev/null", check=False) == ""
    assert bare.run("find /etc/systemd -name '*softwalltime*'") == ""


def rebuilt(package: Path, folder: Path) -> Path:
    """The same as a later version."""
    tree = folder / "tree"
    output("dpkg-deb", "--raw-extract", package, tree)
    control = tree / "DEBIAN" / "control"
    lines = control.read_text().splitlines()
    control.write_text("".join(f"{'Version: 99' if line.startswith('Version:') else line}\n" for line in lines))
    output("dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, folder / "newer.deb")
    return folder / "newer.deb"


def test_an_rpm_is_installed_and_removed(packages: Packages, bare: Machine) -> None:
    if shutil.which("rpm") is None:
        pytest.skip("there is no rpm")
    # The requirements are installed, but rpm's database on a Debian lacks them.
    bare.run_outside("rpm", "--root", "ROOT", "--install", "--nodeps", packages["rpm"])
    assert bare.run(f"stat -c '%a %U %G' {SETTINGS}") == "640 root softwalltime"
    assert bare.run("systemctl is-enabled softwalltime") == "enabled"
    assert bare.run("softwalltime --version").startswith("softwalltime, version ")
    bare.run(f"sed -i 's/^# dsn.*/dsn = \"ours\"/' {SETTINGS}")
    bare.run_outside("rpm", "--root", "ROOT", "--upgrade", "--nodeps", "--force", packages["rpm"])
    assert 'dsn = "ours"' in bare.run(f"cat {SETTINGS}")
    bare.run_outside("rpm", "--root", "ROOT", "--install", "--nodeps", packages["rpm-report"])
    assert "500 jobs" in bare.run("softwalltime generate /tmp/logs --jobs 500")
    bare.run_outside("rpm", "--root", "ROOT", "--erase", "pbs-softwalltime-report", "pbs-softwalltime")
    assert (
        bare.run("ls -d /opt/softwalltime /usr/bin/swt /usr/lib/systemd/system/softwalltime* 2>/dev/null", check=False)
        == ""
    )
    assert 'dsn = "ours"' in bare.run(f"cat {SETTINGS}.rpmsave")


def test_an_unsuitable_python_or_tool_is_refused_in_one_line(tmp_path: Path) -> None:
    def build(*arguments: str, **environment: str) -> tuple[int, str]:
        done = subprocess.run(
            [ROOT / "deploy" / "packages" / "build", *arguments],
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin", **environment},
            check=False,
        )
        return done.returncode, done.stderr

    assert build("tarball", str(tmp_path / "output"))[0] == 2
    assert not (tmp_path / "output").exists(), "nothing is made before it is known that there will be a package"
    own = tmp_path / "python3"
    own.write_text('#!/bin/sh\nexec /usr/bin/python3 "$@"\n')
    own.chmod(0o755)
    status, said = build("deb", str(tmp_path), PYTHON=str(own))
    assert status == 1
    assert said.count("\n") == 1
    assert "not the system's Python" in said or "there is no dpkg-deb" in said or "3.11 or later" in said


def test_no_command_needs_the_removed_parts_of_libraries(packages: Packages, bare: Machine) -> None:
    for kind in ("deb", "deb-report"):
        assert not [path for path in content(packages[kind]) if "/tests/" in path or path.endswith(".c")]
    bare.install(packages["deb"])
    assert "install pbs-softwalltime-report" in bare.run("softwalltime replay /tmp", check=False)
    bare.install(packages["deb-report"])
    bare.run("softwalltime generate /tmp/logs --jobs 500 --seed 1")
    assert "500 jobs" in bare.run("softwalltime replay /tmp/logs")
    assert "2 of them new" in bare.run("softwalltime sweep /tmp/logs -o /tmp/results.csv --predictors v1 --processes 2")
    assert "500 jobs" in bare.run("softwalltime report /tmp/logs -o /tmp/report.html")
