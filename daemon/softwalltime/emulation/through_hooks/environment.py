"""What the hook leaves in the environment of its process: in pbs_server it stays, here it must not."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

IMPLEMENTATION = "PSYCOPG_IMPL"
"""The variable that names psycopg's implementation."""


@contextmanager
def environment_restored(*names: str) -> Iterator[None]:
    """Give these variables the values back that they had, or none."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
