"""Duration of a qsub on a real PBS server: without a hook, with an empty hook, and with the hook and the daemon.

All hooks are installed at once, and one at a time is enabled.  In each round every situation has its turn of some
qsubs, each timed by itself; the difference of two situations is that of their medians within a round.  Printed is the
median of these differences over all rounds with its 95% interval (order statistics, no assumption on the distribution),
so that a load that changes slowly cancels out.  Run it on a quiet machine.  The ratio is the difference above an empty
hook, as a share of what the empty hook costs above none.  The processor time is that of pbs_server's main thread.

The least hook shows what any hook costs that asks a daemon: it sends one constant request on an open connection, and
sets the answer.  It reads nothing of the job and handles no failure.

It needs a server for tests, which SOFTWALLTIME_TEST_PBS names (see tests/acceptance/lab.py), and reports without one.
"""

import json
import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.acceptance.lab import HOOK, RUNNER, Lab
from tests.benchmarks.markdown import table
from tests.benchmarks.workload import empty_store, scratch_folder
from tests.samples import ROOT, job
from tests.service.running import Daemon
from tests.store.stored import add_jobs

JOBS = 10
ROUNDS = int(os.environ.get("SOFTWALLTIME_BENCH_ROUNDS", "31"))
# The time of each qsub in nanoseconds; the jobs are held, and deleted after each turn.
SUBMIT = """
for i in $(seq {jobs}); do
    begin=$(date +%s%N)
    qsub -h -q short -l walltime=600 -- /bin/true >/dev/null || echo failed
    echo $(( $(date +%s%N) - begin ))
done
"""
# A qdel sometimes connects to the server and waits for ever, with and without hooks (OpenPBS master, 2026).
DELETE = """
for attempt in 1 2 3; do
    jobs=$(timeout 10 qselect) && [ -z "$jobs" ] && exit 0
    timeout 10 qdel -W force -x $jobs >/dev/null
done
[ -z "$(timeout 10 qselect)" ]
"""
EMPTY = "import pbs\npbs.event().accept()\n"
LEAST = """
import json, socket, sys
import pbs
kept = sys.modules.get("least_hook")
if kept is None:
    kept = sys.modules["least_hook"] = type(sys)("least_hook")
    with open(pbs.hook_config_filename) as file:
        path = json.load(file)["socket"]
    kept.peer = socket.socket(socket.AF_UNIX)
    kept.peer.connect(path)
kept.peer.sendall(%r)
answer = json.loads(kept.peer.recv(4096))
event = pbs.event()
if event.type == pbs.QUEUEJOB:
    event.job.Resource_List["soft_walltime"] = pbs.duration(answer["soft_walltime"])
event.accept()
"""
REQUEST: dict[str, Any] = {
    "v": 1, "op": "predict", "event": "queuejob", "now": 1795177168, "keep": True,
    "job": {"user": "alice", "project": "_pbs_project_default", "queue": "short", "job_name": "STDIN",
            "walltime": 600, "executable": "/bin/true"},
}  # fmt: skip
DEFAULTS = json.loads((ROOT / "hooks" / "softwalltime_hook.json").read_text())
DEFAULT_EVENTS = ("queuejob", "modifyjob", "runjob")
AT_POSTQUEUEJOB = ("postqueuejob", "modifyjob", "runjob")
ALL_EVENTS = ("queuejob", "postqueuejob", "modifyjob", "runjob")
NO_HOOK = "no hook"
STANDARD = "empty, default events"


@dataclass(frozen=True, slots=True)
class Situation:
    """A hook at some events; ``running``: whether a daemon listens at its socket."""

    name: str
    events: tuple[str, ...]
    script: str = ""
    """The hook; empty: ours."""
    running: bool = True
    base: str = ""
    """The empty hook at the same events."""


SITUATIONS = (
    Situation("empty, default events", DEFAULT_EVENTS, EMPTY),
    Situation("least, default events", DEFAULT_EVENTS, LEAST % (json.dumps(REQUEST) + "\n").encode(), base=STANDARD),
    Situation("ours, default events", DEFAULT_EVENTS, base=STANDARD),
    Situation("ours, daemon not running", DEFAULT_EVENTS, running=False, base=STANDARD),
    Situation("empty, postqueuejob", AT_POSTQUEUEJOB, EMPTY),
    Situation("ours, postqueuejob", AT_POSTQUEUEJOB, base="empty, postqueuejob"),
    Situation("empty, all four", ALL_EVENTS, EMPTY),
    Situation("ours, all four", ALL_EVENTS, base="empty, all four"),
)


def hook_name(number: int) -> str:
    """The name in PBS of a situation's hook."""
    return f"bench_{number}"


def install(lab: Lab, number: int, situation: Situation, folder: Path, socket: Path) -> None:
    """Add a situation's hook, not enabled."""
    name = hook_name(number)
    script, configuration = folder / f"{name}.py", folder / f"{name}.json"
    script.write_text(situation.script or HOOK.read_text())
    settings: dict[str, Any] = {
        **DEFAULTS,
        "socket": str(socket if situation.running else folder / "nobody.sock"),
        "log": "problems",
        "events": {event: event in situation.events for event in ALL_EVENTS},
    }
    configuration.write_text(json.dumps(settings))
    lab.qmgr(f"create hook {name}")
    lab.qmgr(f"set hook {name} enabled = false")
    lab.qmgr(f'set hook {name} event = "{",".join(event for event in situation.events if event in lab.events)}"')
    lab.qmgr(f"import hook {name} application/x-python default {script}")
    lab.qmgr(f"import hook {name} application/x-config default {configuration}")


def uninstall(lab: Lab) -> None:
    """Delete all hooks of this benchmark that are there."""
    for number in range(len(SITUATIONS)):
        lab.run("qmgr", "-c", f"delete hook {hook_name(number)}")


class Cost(NamedTuple):
    """Milliseconds of a qsub: the time that the user waits, and processor time of the server's main thread."""

    wall: float
    processor: float


def processor_time(lab: Lab) -> float:
    """The processor time that the server's main thread has used, in milliseconds."""
    pid = (lab.home / "server_priv" / "server.lock").read_text().strip()
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e6


def cost(lab: Lab) -> Cost:
    """The median time of a qsub in one turn, and the mean processor time."""
    before = processor_time(lab)
    output = lab.must("bash", "-c", SUBMIT.format(jobs=JOBS), user="alice").split()
    used = processor_time(lab) - before
    assert "failed" not in output, "a qsub failed"
    lab.must("bash", "-c", DELETE)
    return Cost(statistics.median(map(int, output)) / 1e6, used / JOBS)


def turn(lab: Lab, number: int | None) -> Cost:
    """One situation's turn; ``None``: no hook."""
    if number is None:
        return cost(lab)
    lab.qmgr(f"set hook {hook_name(number)} enabled = true")
    try:
        # PBS loads the hook at its first event; the job is deleted with the others.
        lab.must("qsub", "-h", "-q", "short", "-l", "walltime=600", "--", "/bin/true", user="alice")
        return cost(lab)
    finally:
        lab.qmgr(f"set hook {hook_name(number)} enabled = false")


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median and its 95% interval by order statistics (normal approximation of the binomial)."""
    ordered = sorted(values)
    count = len(ordered)
    half = 0.98 * math.sqrt(count)
    low = max(0, math.floor(count / 2 - half))
    high = min(count - 1, math.ceil(count / 2 + half))
    return statistics.median(ordered), ordered[low], ordered[high]


def difference(of: Sequence[float], base: Sequence[float], unit: float = 1.0) -> str:
    """The paired difference with its interval, in milliseconds or in parts of ``unit`` milliseconds."""
    median, low, high = (value / unit for value in median_interval([a - b for a, b in zip(of, base, strict=True)]))
    return f"{median:+.2f} ({low:+.2f} to {high:+.2f})"


def row(measured: dict[str, list[Cost]], situation: Situation) -> list[str]:
    """The row of the table about a situation: wall and processor time, above no hook and above an empty one."""
    cells = []
    for column in range(2):
        own, none = ([cost[column] for cost in measured[name]] for name in (situation.name, NO_HOOK))
        cells += [f"{statistics.median(own):.2f}", difference(own, none)]
        if situation.base:
            base = [cost[column] for cost in measured[situation.base]]
            empty = statistics.median([a - b for a, b in zip(base, none, strict=True)])
            cells += [difference(own, base), difference(own, base, empty)]
        else:
            cells += ["", ""]
    return [situation.name, *cells]


def main() -> None:
    """Measure every situation in turns, and print the paired differences."""
    lab = Lab.configured()
    if lab is None or (reason := lab.ready()):
        print(f"not measured: {reason if lab else f'{RUNNER} names no command that runs things on a PBS server'}")
        return
    measured: dict[str, list[Cost]] = {NO_HOOK: [], **{situation.name: [] for situation in SITUATIONS}}
    with scratch_folder() as folder, empty_store(folder) as (dsn, engine):
        with engine.begin() as connection:
            add_jobs(connection, [job(runtime=300, job_id=f"{number}.old") for number in range(2)])
        engine.dispose()
        daemon = Daemon(folder, dsn).start()
        lab.uninstall()
        uninstall(lab)
        try:
            for number, situation in enumerate(SITUATIONS):
                install(lab, number, situation, folder, daemon.socket)
            turns: list[int | None] = [None, *range(len(SITUATIONS))]
            for round_number in range(ROUNDS):
                # Another one begins each time, so that none always follows the same.
                first = round_number % len(turns)
                for which in turns[first:] + turns[:first]:
                    name = NO_HOOK if which is None else SITUATIONS[which].name
                    measured[name].append(turn(lab, which))
        finally:
            uninstall(lab)
            daemon.end()
    print(f"{ROUNDS} rounds of {JOBS} qsubs; milliseconds, medians, 95% intervals in brackets\n")
    head = ["above none", "above empty", "ratio"]
    none = (f"{statistics.median(values):.2f}" for values in zip(*measured[NO_HOOK], strict=True))
    rows = [[NO_HOOK, *(cell for value in none for cell in (value, "", "", ""))]]
    rows += [row(measured, situation) for situation in SITUATIONS]
    print(table(["situation", "ms a qsub", *head, "processor ms", *head], rows))


if __name__ == "__main__":
    main()
