"""Duration of a qsub on a real PBS server: without a hook, with an empty hook, and with the hook and the daemon.

All hooks are installed at once, and one at a time is enabled.  In each round every situation has its turn of some
qsubs, each timed by itself; the difference of two situations is that of their medians within a round.  Printed is the
median of these differences over all rounds with its 95% interval (order statistics, no assumption on the distribution),
so that a load that changes slowly cancels out.  Run it on a quiet machine.

It needs a server for tests, which SOFTWALLTIME_TEST_PBS names (see tests/acceptance/lab.py), and reports without one.
"""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softwalltime.core.text_table import table
from tests.acceptance.lab import HOOK, RUNNER, Lab
from tests.benchmarks.workload import empty_store, scratch_folder
from tests.samples import ROOT, job
from tests.service.running import Daemon
from tests.store.stored import add_jobs

JOBS = 10
ROUNDS = 31
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
DEFAULTS = json.loads((ROOT / "hooks" / "softwalltime_hook.json").read_text())
DEFAULT_EVENTS = ("queuejob", "modifyjob", "runjob")
AT_POSTQUEUEJOB = ("postqueuejob", "modifyjob", "runjob")
ALL_EVENTS = ("queuejob", "postqueuejob", "modifyjob", "runjob")
NO_HOOK = "no hook"


@dataclass(frozen=True, slots=True)
class Situation:
    """A hook at some events; ``running``: whether a daemon listens at its socket."""

    name: str
    events: tuple[str, ...]
    empty: bool = False
    running: bool = True
    base: str = ""
    """The empty hook at the same events."""


SITUATIONS = (
    Situation("empty, default events", DEFAULT_EVENTS, empty=True),
    Situation("ours, default events", DEFAULT_EVENTS, base="empty, default events"),
    Situation("ours, daemon not running", DEFAULT_EVENTS, running=False, base="empty, default events"),
    Situation("empty, postqueuejob", AT_POSTQUEUEJOB, empty=True),
    Situation("ours, postqueuejob", AT_POSTQUEUEJOB, base="empty, postqueuejob"),
    Situation("empty, all four", ALL_EVENTS, empty=True),
    Situation("ours, all four", ALL_EVENTS, base="empty, all four"),
)


def hook_name(number: int) -> str:
    """The name in PBS of a situation's hook."""
    return f"bench_{number}"


def install(lab: Lab, number: int, situation: Situation, folder: Path, socket: Path) -> None:
    """Add a situation's hook, not enabled."""
    name = hook_name(number)
    script, configuration = folder / f"{name}.py", folder / f"{name}.json"
    script.write_text(EMPTY if situation.empty else HOOK.read_text())
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


def milliseconds(lab: Lab) -> float:
    """The median time of a qsub in one turn."""
    output = lab.must("bash", "-c", SUBMIT.format(jobs=JOBS), user="alice").split()
    assert "failed" not in output, "a qsub failed"
    lab.must("bash", "-c", DELETE)
    return statistics.median(map(int, output)) / 1e6


def turn(lab: Lab, number: int | None) -> float:
    """One situation's turn; ``None``: no hook."""
    if number is None:
        return milliseconds(lab)
    lab.qmgr(f"set hook {hook_name(number)} enabled = true")
    try:
        # PBS loads the hook at its first event; the job is deleted with the others.
        lab.must("qsub", "-h", "-q", "short", "-l", "walltime=600", "--", "/bin/true", user="alice")
        return milliseconds(lab)
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


def difference(of: Sequence[float], base: Sequence[float]) -> str:
    """The paired difference with its interval, in milliseconds."""
    median, low, high = median_interval([a - b for a, b in zip(of, base, strict=True)])
    return f"{median:+.2f} ({low:+.2f} to {high:+.2f})"


def main() -> None:
    """Measure every situation in turns, and print the paired differences."""
    lab = Lab.configured()
    if lab is None or (reason := lab.ready()):
        print(f"not measured: {reason if lab else f'{RUNNER} names no command that runs things on a PBS server'}")
        return
    measured: dict[str, list[float]] = {NO_HOOK: [], **{situation.name: [] for situation in SITUATIONS}}
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
    rows = [[NO_HOOK, f"{statistics.median(measured[NO_HOOK]):.2f}", "", ""]]
    rows += [
        [
            situation.name,
            f"{statistics.median(measured[situation.name]):.2f}",
            difference(measured[situation.name], measured[NO_HOOK]),
            difference(measured[situation.name], measured[situation.base]) if situation.base else "",
        ]
        for situation in SITUATIONS
    ]
    print(table(["situation", "ms a qsub", "above no hook", "above an empty hook at the same events"], rows))


if __name__ == "__main__":
    main()
