"""Read the chunks of a job's ``select``."""

from dataclasses import dataclass

from softwalltime.accounting.conversions import size, whole


@dataclass(frozen=True, slots=True)
class Chunks:
    """A number of equal chunks with the resources of each."""

    count: int
    resources: tuple[int, int, int]
    """Processors, bytes of memory, GPUs."""


def chunks_of(select: str) -> tuple[Chunks, ...]:
    """Return the chunks of a text such as ``2:ncpus=4:mem=8gb+1:ncpus=16``.

    A chunk without ``ncpus`` has one processor; other resources are ignored.

    >>> chunks_of("2:ncpus=4+ncpus=16")
    (Chunks(count=2, resources=(4, 0, 0)), Chunks(count=1, resources=(16, 0, 0)))

    :raises ValueError: if a number cannot be read, or is negative.
    """
    return tuple(map(_chunks, select.split("+")))


def _chunks(text: str) -> Chunks:
    first, *rest = text.split(":") if "=" not in text.partition(":")[0] else ["1", *text.split(":")]
    count = whole(first)
    given = dict(part.partition("=")[::2] for part in rest)
    resources = (whole(given.get("ncpus", "1")), size(given.get("mem", "0")), whole(given.get("ngpus", "0")))
    if min(count, *resources) < 0:
        raise ValueError("a number is negative")
    return Chunks(count, resources)
