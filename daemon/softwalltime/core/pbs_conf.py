"""Read /etc/pbs.conf, which has the location of PBS's installation."""

import os
from pathlib import Path

CONF = Path("/etc/pbs.conf")
USUAL = Path("/opt/pbs")
"""The default folder of PBS."""


def conf_file() -> Path:
    """Return the path of PBS's configuration file: $PBS_CONF_FILE, or /etc/pbs.conf."""
    return Path(os.environ.get("PBS_CONF_FILE") or CONF)


def read_conf(file: Path) -> dict[str, str]:
    """Return the variables of a file; none if it cannot be read."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.lstrip().startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, value in pairs}


def pbs_home(file: Path | None = None) -> Path:
    """Return PBS_HOME as the configuration file of PBS defines it, or its default."""
    return Path(read_conf(file or conf_file()).get("PBS_HOME") or "/var/spool/pbs")
