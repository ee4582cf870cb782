"""Pseudonyms, so that a report can be shown to people who must not know who the users are.

A pseudonym is a keyed hash of the name: with the same key the same name gets the same pseudonym in every report, and
without the key nobody can find out by trying names.  The key is kept in a file, as a command line is seen by all users
of a machine.
"""

import hmac
import secrets
from pathlib import Path

from softwalltime.errors import SourceError

SHORTEST_KEY = 16
"""Bytes that a key must have at least."""
_DIGITS = 10
"""Hexadecimal digits of a pseudonym: that two of 10,000 names share one happens in one report out of 20,000."""


class Pseudonyms:
    """Replaces names of users and projects, and of queues if asked."""

    def __init__(self, key: bytes, *, queues: bool = False) -> None:
        """:param queues: also replace the names of queues, which mostly tell nothing of persons."""
        self._key = key
        self._kept = frozenset() if queues else frozenset({"queue"})

    def __call__(self, kind: str, name: str) -> str:
        """The pseudonym of a name of this kind (user, project, account, group, queue), such as ``user-3f9a1c02b7``."""
        if kind in self._kept:
            return name
        message = f"{kind}\0{name}".encode("utf-8", "surrogatepass")
        digest = hmac.new(self._key, message, "sha256").hexdigest()
        return f"{kind}-{digest[:_DIGITS]}"


def read_key(file: Path) -> bytes:
    """The key in a file; a file that is not there is made, readable by its owner only, with a key by chance.

    :raises SourceError: if the file can be neither read nor made, or holds too short a key.
    """
    try:
        if not file.exists():
            file.touch(mode=0o600, exist_ok=False)
            file.write_text(secrets.token_hex(32) + "\n", encoding="ascii")
        key = file.read_bytes().strip()
    except OSError as error:
        raise SourceError(f"{file}: the key for pseudonyms cannot be read or made: {error.strerror}") from error
    if len(key) < SHORTEST_KEY:
        raise SourceError(
            f"{file}: the key for pseudonyms has {len(key)} bytes; name a file with at least {SHORTEST_KEY}, "
            "or one that is not there yet"
        )
    return key
