"""What the deployment's tests share: packages, built once, and a Debian to install them on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.debian import bare_debian
from tests.deploy.machine import Packages, built_packages, why_not_to_be_booted


@pytest.fixture(scope="session")
def packages() -> Iterator[Packages]:
    """The packages that the checkout builds, by kind: deb and rpm."""
    with built_packages() as found:
        yield found


@pytest.fixture(scope="session")
def debian() -> Path:
    """What machines begin as."""
    return bare_debian()


@pytest.fixture(scope="session")
def bootable(debian: Path) -> Path:
    """The same, on a host where its systemd comes up; whether ours then does is the tests' question."""
    reason = why_not_to_be_booted(debian)
    if reason:
        pytest.skip(f"no systemd runs in a Debian here, even without our package: {reason}")
    return debian
