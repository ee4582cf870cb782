"""Fixtures of the tests of deployment: packages, built once, and a Debian to install them on."""

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
    """The initial Debian of all machines."""
    return bare_debian()


@pytest.fixture(scope="session")
def bootable(debian: Path) -> Path:
    """The same Debian; without a host on which its systemd boots, the tests are skipped."""
    reason = why_not_to_be_booted(debian)
    if reason:
        pytest.skip(f"no systemd runs in a Debian here, even without our package: {reason}")
    return debian
