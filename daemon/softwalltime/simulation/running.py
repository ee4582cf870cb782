"""The running jobs, sorted by their planned end."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from softwalltime.simulation.corrections import Correction


class RunningJobs:
    """The running jobs by planned end, ascending; ties by the job's position.

    A planned end is corrected when a scheduling pass finds that it has passed, never between two passes.  Each
    entry is one integer, planned end x 2^bits + job, which sorts faster than a tuple.  ``version`` changes whenever
    an entry does.
    """

    __slots__ = ("_correction", "_entry", "_margin", "bits", "entries", "extensions", "mask", "version")

    def __init__(self, count: int, correction: Correction) -> None:
        """
        :param count: number of simulated jobs.
        :param correction: the rule for a planned end that has passed.
        """
        self.bits = max(count, 1).bit_length()
        self.mask = (1 << self.bits) - 1
        self.entries: list[int] = []
        self.version = 0
        self.extensions = [0] * count
        self._entry = [0] * count
        self._correction = correction
        self._margin = correction.margin

    def add(self, job: int, end: int) -> None:
        """Add a job that starts, with its planned end (epoch seconds)."""
        entry = end << self.bits | job
        self._entry[job] = entry
        insort(self.entries, entry)
        self.version += 1

    def remove(self, job: int) -> None:
        entries = self.entries
        del entries[bisect_left(entries, self._entry[job])]
        self.version += 1

    def replan(self, job: int, end: int) -> None:
        self.remove(job)
        self.add(job, end)

    def planned_end(self, job: int) -> int:
        """The planned end of a running job (epoch seconds)."""
        return self._entry[job] >> self.bits

    def correct(self, now: int) -> None:
        """Correct every planned end that has passed at ``now``."""
        entries = self.entries
        limit = (now + self._margin + 1) << self.bits
        if not entries or entries[0] >= limit:
            return
        count = bisect_left(entries, limit)
        overdue = [entry & self.mask for entry in entries[:count]]
        for job in overdue:
            before = self._entry[job] >> self.bits
            after = max(self._correction.planned_end(job, before, now), now + 1)
            if after != before:
                self.extensions[job] += 1
                self.replan(job, after)

    def jobs(self) -> Iterator[tuple[int, int]]:
        """Planned end and job of each running job, by planned end."""
        bits, mask = self.bits, self.mask
        return ((entry >> bits, entry & mask) for entry in self.entries)

    def shadow(self, needed: int, free: int, sizes: Sequence[int]) -> tuple[int, int]:
        """The earliest planned end by which ``needed`` processors are free, and how many more are free then.

        All ends planned for that instant count.  ``needed`` is more than ``free`` and at most the machine.
        """
        bits, mask = self.bits, self.mask
        entries = iter(self.entries)
        entry = 0
        for entry in entries:
            free += sizes[entry & mask]
            if free >= needed:
                break
        shadow = entry >> bits
        beyond = (shadow + 1) << bits
        for entry in entries:
            if entry >= beyond:
                break
            free += sizes[entry & mask]
        return shadow, free - needed
