"""Read the chunks of a job's ``select``."""

from collections.abc import Mapping
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


def requested_select(resources: Mapping[str, str]) -> str:
    """Return a user's request as ``select``; PBS converts ``nodes=2:ppn=4`` and ``ncpus`` likewise.

    >>> requested_select({"nodes": "2:ppn=4+node7#excl"}), requested_select({})
    ('2:ncpus=4+1', 'ncpus=1')
    """
    if "select" in resources or "nodes" not in resources:
        return resources.get("select", f"ncpus={resources.get('ncpus', '1')}")
    chunks = []
    for node in resources["nodes"].partition("#")[0].split("+"):
        count, *parts = node.split(":")
        # A node may be named; properties are no resources.
        parts = [part.replace("ppn=", "ncpus=") for part in parts if "=" in part]
        chunks.append(":".join((count if count.isdecimal() else "1", *parts)))
    return "+".join(chunks)


def totals(select: str) -> tuple[int, int, int, int]:
    """Return processors, chunks, GPUs and bytes of memory of all chunks: PBS's ncpus, nodect, ngpus and mem.

    >>> totals("1:ncpus=2:mem=500kb+2:ncpus=1:mem=250kb:ngpus=1")
    (4, 3, 2, 1024000)

    :raises ValueError: if a number cannot be read, or is negative.
    """
    chunks = chunks_of(select)
    processors, memory, gpus = (sum(some.count * some.resources[which] for some in chunks) for which in range(3))
    return processors, sum(some.count for some in chunks), gpus, memory
