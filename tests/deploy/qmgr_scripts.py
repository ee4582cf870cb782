"""Scripts in place of qmgr, with recorded output of real servers."""

from pathlib import Path

# Recorded output for root on another host than the active server's, such as the passive failover server.
HIDDEN = """case $2 in
*hook*) echo root@sec is unauthorized to access hooks data from server prim >&2 ;;
*pbs_version*) echo pbs_version = 23.06.06 ;;
esac"""


def qmgr(folder: Path, script: str) -> Path:
    """Write a qmgr with this script below PBS_EXEC; return the path of its pbs.conf."""
    program = folder / "exec" / "bin" / "qmgr"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    conf = folder / "pbs.conf"
    conf.write_text(f"# PBS\nPBS_EXEC={folder}/exec\nPBS_HOME=/scratch/pbs\n")
    return conf
