"""The presets on a real PBS server, and what the simulator promises of them before they are switched on.

For each thing that a site may run (PBS as delivered, strict ordering, WFP) and each seed, the same sleeping jobs run
under it, then under each of POLICIES.  Predicted is what ``policy compare --site`` simulates: the jobs as the
accounting log of the first run has them, the scheduler as in the server's snapshot.  A second stands for two minutes:
300 jobs of 4 to 105 s with walltimes of 60 to 150 s on one vnode with 80 virtual processors; 30 s stand for the hour in
formula and guard, and the daemon's own times are as much shorter (tests/acceptance/fast_daemon.py).  Live values are
on, and the predictor learns from the server's accounting log, in the simulations from the same jobs.  A run takes seven
minutes.

It needs a server for tests, which SOFTWALLTIME_TEST_PBS names (see tests/acceptance/lab.py), with nobody else on it.
SOFTWALLTIME_BENCH_JOBS changes the number of jobs, SOFTWALLTIME_BENCH_BASELINES, _SEEDS and _POLICIES what is run,
separated by semicolons, so that several servers can share the runs.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from softwalltime.predict.policy.presets import HOUR, PresetName
from softwalltime.reports.candidates import WITHOUT_LIVE, preset_policy
from tests.acceptance.fast_daemon import UNIT
from tests.acceptance.lab import RUNNER, Lab
from tests.acceptance.presets import (
    BASELINES,
    LOOK,
    baseline,
    preset,
    preset_settings,
    recorded_waits,
    simulated_waits,
)
from tests.acceptance.sleeping import habitual, recorded, run
from tests.benchmarks.markdown import table
from tests.benchmarks.workload import empty_store, scratch_folder

PROCESSORS = 80
LOAD = 1.3
TIMEOUT = 1500.0
ORDER_ALONE = f"balanced{WITHOUT_LIVE}"
POLICIES: dict[str, tuple[PresetName, int | None]] = {
    "safe": ("safe", HOUR), "balanced": ("balanced", HOUR), ORDER_ALONE: ("balanced", None),
}  # fmt: skip
"""What is switched on: a preset and its guard in seconds of the simulation; none: live values are off."""
LEGEND = """\
predicted: simulated on the jobs of the run without the policy, the median and 90% of simulations that differ in where
within its second of the log a job is submitted and ends; late: promised starts that came more than five seconds late,
of all that the daemon saw"""


def main() -> None:
    """Run everything, and print each change as measured and as predicted."""
    lab = Lab.configured()
    if lab is None or (reason := lab.ready()):
        print(f"not measured: {reason if lab else f'{RUNNER} names no command that runs things on a PBS server'}")
        return
    names, seeds = _given("BASELINES", BASELINES), [int(seed) for seed in _given("SEEDS", ("7", "8"))]
    policies = {name: POLICIES[name] for name in _given("POLICIES", POLICIES)}
    count = int(os.environ.get("SOFTWALLTIME_BENCH_JOBS", "300"))
    rows = []
    lab.uninstall()
    with lab.virtual_processors(PROCESSORS):
        for name in names:
            for seed in seeds:
                for row in _rows(lab, name, seed, count, policies):
                    print(" | ".join(row), flush=True)
                    rows.append(row)
    header = ["the site runs", "seed", "switched on", "wait", "change", "predicted", "slowdown", "change", "predicted",
              "late"]  # fmt: skip
    print(f"\n{count} jobs on {PROCESSORS} virtual processors\n\n{table(header, rows)}\n\n{LEGEND}")


def _given(name: str, usual: Iterable[str]) -> list[str]:
    return os.environ.get(f"SOFTWALLTIME_BENCH_{name}", ";".join(usual)).split(";")


def _rows(
    lab: Lab, name: str, seed: int, count: int, policies: Mapping[str, tuple[PresetName, int | None]]
) -> Iterator[list[str]]:
    """Run a workload under a baseline and the policies; yield a row for each."""
    sleepers = habitual(count, PROCESSORS, LOAD, seed)
    with scratch_folder() as folder, baseline(lab, name, folder) as site:
        completed, _ = recorded(lab, run(lab, sleepers, TIMEOUT))
        before, expected = recorded_waits(completed), simulated_waits(completed, PROCESSORS, site.policy)
        yield [
            name, str(seed), "",
            f"{before.wait:.1f} s", "", _range([one.wait for one in expected], "{:.1f} s"),
            f"{before.slowdown:.2f}", "", _range([one.slowdown for one in expected], "{:.2f}"), "",
        ]  # fmt: skip
        for switched_on, (preset_name, guard) in policies.items():
            policy = preset_policy(preset_name, site, guard)
            if policy.keep_promises is not None:
                policy = replace(policy, keep_promises=LOOK * UNIT)
            simulated = simulated_waits(completed, PROCESSORS, policy)
            changes = [after.against(other) for after, other in zip(simulated, expected, strict=True)]
            with (
                scratch_folder() as own,
                empty_store(own) as (dsn, _),
                preset(lab, preset_name, own, dsn, preset_settings(preset_name, live=guard is not None)) as daemon,
            ):
                after = recorded_waits(recorded(lab, run(lab, sleepers, TIMEOUT))[0])
                live = daemon.status()["live"]
            change = after.against(before)
            yield [
                name, str(seed), switched_on,
                f"{after.wait:.1f} s", f"{change.wait:+.0%}", _range([one.wait for one in changes], "{:+.0%}"),
                f"{after.slowdown:.2f}", f"{change.slowdown:+.0%}",
                _range([one.slowdown for one in changes], "{:+.0%}"),
                _late(**live["promises"]) if live else "",
            ]  # fmt: skip


def _late(late: int, kept: int, **_others: int) -> str:
    return f"{late} of {late + kept}"


def _range(values: Sequence[float], form: str) -> str:
    """Return the median with the range of 90%."""
    low, middle, high = (form.format(value) for value in np.quantile(values, [0.05, 0.5, 0.95]))
    return f"{middle} [{low}, {high}]"


if __name__ == "__main__":
    main()
