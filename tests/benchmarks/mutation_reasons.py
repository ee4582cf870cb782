"""The mutations that no test can notice, and why: by file, line before the change, and line after it."""

REASONS: dict[tuple[str, str, str], str] = {}
