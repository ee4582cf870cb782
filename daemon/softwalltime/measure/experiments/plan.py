"""The runs of ``softwalltime experiment all``: which paper is repeated on which public log."""

from typing import NamedTuple


class PlannedRun(NamedTuple):
    """A paper, the name of a log, and its settings; by default the whole log on its own machine, as recorded."""

    paper: str
    log: str
    processors: int | None = None
    limit: int | None = None
    months: tuple[int, ...] = ()
    seeds: tuple[int, ...] = ()

    @property
    def source(self) -> str:
        """The log, and the size of another machine."""
        return f"{self.log} on {self.processors:,} processors" if self.processors else self.log


PLAN = (
    # Mira succeeded Intrepid at the same site; SDSC-SP2 has groups and two years.
    PlannedRun("tang2013", "ALCF-Mira"),
    PlannedRun("tang2013", "SDSC-SP2"),
    # Both have queues.
    PlannedRun("chlumsky2022", "SDSC-SP2", seeds=(31, 32, 33)),
    PlannedRun("chlumsky2022", "UniLu-Gaia"),
    # The paper's machine, four years later.
    PlannedRun("fan2017", "ALCF-Mira"),
    # The paper's logs.  Its waits on Gaia are 80 times ours on the whole machine, and alike on 1,175 processors.
    PlannedRun("rubio2021", "UniLu-Gaia"),
    PlannedRun("rubio2021", "UniLu-Gaia", processors=1175),
    PlannedRun("rubio2021", "CEA-Curie", limit=11_268),
    PlannedRun("rubio2021", "HPC2N", months=tuple(range(1, 13))),
    PlannedRun("li2004", "UniLu-Gaia"),
    PlannedRun("li2004", "SDSC-SP2"),
)
INTRODUCTION = """\
# Results of the experiments

`softwalltime experiment all TRACES` repeats the experiments of five papers on public logs of the Parallel Workloads
Archive and of ALCF, and writes this page. `softwalltime experiment tang2013 LOGS` repeats one on your own logs.

A claim is held if our figure reaches the level that it names, or at least half of the change that it names with a 95%
interval beyond zero. Negative changes are shorter waits or smaller slowdowns. "Broken promises" is the share of the
starts promised to top jobs that came later. Intervals are over months, or over workloads shaken by weeks.
"""
