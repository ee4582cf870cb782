"""The accounts of this host: uid by user name, remembered for a while.

Only names of users with jobs are looked up, never what a client sends: nobody can make the process ask a slow
directory service.
"""

import pwd
from time import monotonic

KEPT = 3600.0
"""Seconds for which an account is remembered; one that does not exist for a sixth of that."""


class Accounts:
    """Looks accounts up where that is not remembered."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int | None, float]] = {}

    def uid(self, user: str) -> int | None:
        """Return the uid of a user, ``None`` if there is no such account."""
        now = monotonic()
        found, until = self._known.get(user, (None, 0.0))
        if now >= until:
            found = _uid(user)
            self._known[user] = found, now + (KEPT / 6 if found is None else KEPT)
        return found


def _uid(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError, OSError):
        # ValueError: a name with a null character, or that cannot be encoded.
        return None
