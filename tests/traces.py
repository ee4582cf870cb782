"""The recorded traces of tests and benchmarks: where each comes from, its terms, and a command that fetches them.

``python -m tests.traces`` prints the table, ``python -m tests.traces fetch [NAME...]`` fetches what is missing.  The
folder is SOFTWALLTIME_TEST_TRACES, else ../shared/traces if it exists, else build/traces.
"""

import csv
import gzip
import hashlib
import http.client
import os
import sys
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO, StringIO
from pathlib import Path
from urllib.error import URLError

from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.written import replaced

ROOT = Path(__file__).resolve().parents[1]
MAX_TRACE_BYTES = 64 * 2**20
"""Of a trace, uncompressed; the largest has 29 MB."""
TIMEOUT_S = 60


def _folder() -> Path:
    shared = ROOT.parent / "shared" / "traces"
    if named := os.environ.get("SOFTWALLTIME_TEST_TRACES"):
        return Path(named)
    return shared if shared.is_dir() else ROOT / "build" / "traces"


TRACES = _folder()


def swf_of_lumos(table: bytes, machine: str, nodes: int) -> bytes:
    """Convert a table of DIR-LAB/lumos to a trace: users and projects are numbered as they first appear."""
    rows = sorted(
        csv.DictReader(StringIO(table.decode())),
        key=lambda row: [float(row[name]) for name in ("submit_time", "wait_time", "run_time")],
    )
    users: dict[str, int] = {}
    projects: dict[str, int] = {}
    start = int(float(rows[0]["submit_time"]))
    lines = [
        "; Version: 2.2", f"; Computer: {machine}", f"; UnixStartTime: {start}", f"; MaxNodes: {nodes}",
        f"; MaxProcs: {nodes}",
    ]  # fmt: skip
    for number, row in enumerate(rows, 1):
        submitted, waited, ran, nodes, walltime = (
            int(float(row[name])) for name in ("submit_time", "wait_time", "run_time", "node_num", "wall_time")
        )
        user = users.setdefault(row["user"], len(users) + 1)
        project = projects.setdefault(row["project"], len(projects) + 1)
        lines.append(
            f"{number} {submitted - start} {waited} {ran} {nodes} -1 -1 {nodes} {walltime} -1 1 {user} {project}"
            " -1 1 -1 -1 -1"
        )
    return "".join(f"{line}\n" for line in lines).encode()


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace: its name, its address, the SHA-256 of the uncompressed trace, and the terms of its use."""

    name: str
    address: str
    sha256: str
    terms: str
    convert: Callable[[bytes], bytes] = bytes


ARCHIVE = "https://www.cs.huji.ac.il/labs/parallel/workload"
CITE = "acknowledge the Parallel Workloads Archive and"
SOURCES = (
    Trace(
        "KTH-SP2-1996-unfiltered",
        "https://raw.githubusercontent.com/jad-darrous/predictsim/174c453f60a1604f9471ebbaaaafdc766d59f382/"
        "experiments/data/KTH-SP2/swf_unfiltered/log.swf",
        "df76b94e5f670db52179688a98deec3e1887d10adb39f96c900b8e92abb386ab",
        f"{CITE} Lars Malinowsky",
    ),
    Trace(
        "SDSC-SP2-1998-4.2-cln",
        f"{ARCHIVE}/l_sdsc_sp2/SDSC-SP2-1998-4.2-cln.swf.gz",
        "2bb635f4b5793f52bd49ccb8fd913d95f9c5be6346925162cadcaf0117e28cf2",
        f"educational, research and non-profit use; {CITE} Victor Hazlewood",
    ),
    Trace(
        "HPC2N-2002-2.1-cln",
        f"{ARCHIVE}/l_hpc2n/HPC2N-2002-2.1-cln.swf.gz",
        "e2f6fb358e207aedac5cd1f9e30b7bf1198050cb2ef09abe6c050ab92fe9bf61",
        f"{CITE} Ake Sandgren",
    ),
    Trace(
        "LLNL-Atlas-2006-2.1-cln",
        f"{ARCHIVE}/l_llnl_atlas/LLNL-Atlas-2006-2.1-cln.swf.gz",
        "8b3aaab739fa0bda8abaccc37c207d0b19d9d147b19e7f47a1641133a56fd07f",
        f"{CITE} Moe Jette",
    ),
    Trace(
        "CEA-Curie-2011-2.1-cln",
        f"{ARCHIVE}/l_cea_curie/CEA-Curie-2011-2.1-cln.swf.gz",
        "b732a04aea71e2f154c8feee580be549d0bba1462bc91ec581944cb3dd6d442d",
        f"{CITE} Joseph Emeras, CEA/CNRS",
    ),
    Trace(
        "UniLu-Gaia-2014-1",
        f"{ARCHIVE}/l_unilu_gaia/UniLu-Gaia-2014-1.swf.gz",
        "e4587af1ae104f023b49b7f6adcd1c5c1d3be42551848f71962dd2c1d49a78c0",
        f"{CITE} Joseph Emeras, SnT",
    ),
    *(
        Trace(
            f"ALCF-{machine}-{year}",
            "https://raw.githubusercontent.com/DIR-LAB/lumos/cbafac8df8890c3236728b68aed30a0ce0806c6b/"
            f"lumos-site/data/data_{machine.lower()}.csv",
            sha256,
            "MIT, Copyright (c) 2023 DIR-LAB",
            partial(swf_of_lumos, machine=machine, nodes=nodes),
        )
        for machine, year, nodes, sha256 in (
            ("Mira", 2018, 49_152, "d3c1f174c67f0389c75ec9722bf75dde1c53d76c4c4e500675c4523d70df4c2f"),
            ("Theta", 2023, 4392, "79aae3a84cdcd4104596bdc0435e6bc66b957fe80f5f3f9696e4a67efc902dc5"),
            ("ThetaGPU", 2023, 24, "088edd0b0629b35f5a3df733e6308c3dc88f83d2c39ebf3f5f12cedeca89ad12"),
        )
    ),
)


def fetch(trace: Trace, folder: Path) -> str:
    """Fetch a trace unless the folder has it, and return what was done.

    :raises SoftwalltimeError: if it cannot be fetched, or what came or is there is not this trace; nothing is kept.
    """
    path = folder / f"{trace.name}.swf.gz"
    if path.exists():
        if _digest(_uncompressed(path.read_bytes(), str(path))) != trace.sha256:
            raise SoftwalltimeError(f"{path}: another version of the trace: remove the file and fetch it again")
        return f"{path}: is there"
    try:
        with urllib.request.urlopen(trace.address, timeout=TIMEOUT_S) as response:
            received = response.read(MAX_TRACE_BYTES + 1)
            if response.length and len(received) <= MAX_TRACE_BYTES:
                raise SoftwalltimeError(f"{trace.address}: ended {response.length} bytes early: fetch it again")
    except (URLError, http.client.HTTPException, OSError) as error:
        raise SoftwalltimeError(f"{trace.address}: {error}") from error
    try:
        text = trace.convert(_uncompressed(received, trace.address))
    except (LookupError, ValueError) as error:
        raise SoftwalltimeError(f"{trace.address}: not the table of this trace: {error}") from error
    if (digest := _digest(text)) != trace.sha256:
        raise SoftwalltimeError(f"{trace.address}: SHA-256 {digest}, not {trace.sha256}: another version of the trace")
    folder.mkdir(parents=True, exist_ok=True)
    with replaced(path) as stream:
        stream.write(gzip.compress(text, mtime=0))
    return f"{path}: fetched. Terms: {trace.terms}"


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _uncompressed(content: bytes, source: str) -> bytes:
    try:
        with gzip.open(BytesIO(content)) as stream:
            text = stream.read(MAX_TRACE_BYTES + 1) if content.startswith(b"\x1f\x8b") else content
    except (OSError, EOFError, zlib.error) as error:
        raise SoftwalltimeError(f"{source}: not a whole gzip file: {error}") from error
    if len(text) > MAX_TRACE_BYTES:
        raise SoftwalltimeError(f"{source}: more than {MAX_TRACE_BYTES:,} bytes: not a trace of this table")
    return text


def main(arguments: list[str]) -> int:
    """Print the table, or fetch traces; the exit status is 1 if one could not be fetched, 2 for a wrong argument."""
    if not arguments:
        for trace in SOURCES:
            print(f"{trace.name}\n  {trace.address}\n  sha256 {trace.sha256}\n  {trace.terms}")
        return 0
    command, *names = arguments
    known = {trace.name: trace for trace in SOURCES}
    if command != "fetch" or set(names) - known.keys():
        print(f"usage: python -m tests.traces [fetch [NAME...]]; names: {', '.join(known)}", file=sys.stderr)
        return 2
    failed = 0
    for name in names or known:
        try:
            print(fetch(known[name], TRACES), flush=True)
        except SoftwalltimeError as error:
            print(error, file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
