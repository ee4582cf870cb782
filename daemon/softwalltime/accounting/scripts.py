"""What a job executes, as a digest: it shows that two jobs of a user execute the same, and not what."""

from hashlib import blake2b

DIGEST_BYTES = 8


def script_digest(user: str, path: str) -> str:
    """Return the digest of the path of a user's script, or of an executable with its first argument.

    It is different for each user: jobs of two users that execute the same do not show it.  Whoever guesses user and
    path can compute it.
    """
    content = f"{user}\0{path}".encode("utf-8", "surrogatepass")
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()
