"""What the deployment's tests share: packages, built once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.machine import built_packages


@pytest.fixture(scope="session")
def packages() -> Iterator[dict[str, Path]]:
    """The packages that the checkout builds, by kind: deb and rpm."""
    with built_packages() as found:
        yield found
