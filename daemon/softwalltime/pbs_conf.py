"""/etc/pbs.conf, the file that says where PBS is installed."""

import os
from pathlib import Path

CONF = Path("/etc/pbs.conf")
USUAL = Path("/opt/pbs")
"""The default folder of PBS."""


def conf_file() -> Path:
    """Return the file that PBS's commands and library read: $PBS_CONF_FILE, or /etc/pbs.conf."""
    return Path(os.environ.get("PBS_CONF_FILE") or CONF)


def parse_conf(text: str) -> dict[str, str]:
    """Return the variables.

    >>> parse_conf("# a comment\\nPBS_EXEC='/opt/pbs'\\nPBS_HOME = /var/spool/pbs\\n")
    {'PBS_EXEC': '/opt/pbs', 'PBS_HOME': '/var/spool/pbs'}
    """
    lines = text.splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.lstrip().startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, value in pairs}


def home_of(conf: Path = CONF) -> Path:
    try:
        values = parse_conf(conf.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        values = {}
    return Path(values.get("PBS_HOME") or "/var/spool/pbs")
