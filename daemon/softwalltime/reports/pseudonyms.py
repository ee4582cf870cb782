"""Pseudonyms for names in a report.

A pseudonym is a keyed hash of the name.  With the same key a name has the same pseudonym in every report; without the
key names cannot be found by trial.  The key is in a file, because all users of a host see command lines.
"""

import hmac
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from softwalltime.core.errors import SourceError

SHORTEST_KEY, LONGEST_KEY = 16, 1024
"""Bytes of a key."""
_DIGITS = 10
"""Hexadecimal digits of a pseudonym: with 10,000 names, one report in 20,000 has a collision."""


class Pseudonyms:
    """Replace the names of users and projects, but not of queues."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __call__(self, kind: str, name: str) -> str:
        """Return the pseudonym, such as ``user-3f9a1c02b7``; kinds are user, project, account, group and job."""
        if kind == "queue":
            return name
        message = f"{kind}\0{name}".encode("utf-8", "surrogatepass")
        digest = hmac.new(self._key, message, "sha256").hexdigest()
        return f"{kind}-{digest[:_DIGITS]}"


def read_key(file: Path) -> bytes:
    """Return the key in a file; create a missing file with a random key, readable by its owner only.

    :raises SourceError: if the file can be neither read nor created, or does not hold a secret key.
    """
    key = b""
    try:
        if not file.exists():
            with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=f".{file.name}.") as unfinished:
                unfinished.write(secrets.token_hex(32) + "\n")
                unfinished.flush()
                # os.link is atomic and never replaces a file that another process creates first.
                with suppress(FileExistsError):
                    os.link(unfinished.name, file)
        mode = file.stat().st_mode
        if stat.S_ISREG(mode):
            key = file.read_bytes()[: LONGEST_KEY + 2].strip()
    except OSError as error:
        raise SourceError(f"{file}: the key for pseudonyms cannot be read or created: {error.strerror}") from error
    problem = ""
    if not stat.S_ISREG(mode):
        problem = "not a regular file"
    elif len(key.split()) > 1:
        problem = "more than one word"
    elif not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
        problem = f"not {SHORTEST_KEY} to {LONGEST_KEY} bytes long"
    elif mode & 0o077:
        problem = f"readable by other users (mode {mode & 0o777:04o}): chmod 600 it if it is your key"
    if problem:
        raise SourceError(f"{file}: no key for pseudonyms: {problem}; name a new file, which will be created")
    return key
