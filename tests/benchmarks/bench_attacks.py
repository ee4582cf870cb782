"""What an attack on the predictor buys: places and waiting time, by preset; the table in deploy/SECURITY.md.

A user cannot alter a job and keep its place (tests/acceptance/test_attacks.py).  What remains is to teach the predictor
that jobs end at once: to submit fakes that end after two seconds, under keys that only they have, or under the keys of
the user's other jobs, and then the real job with the same keys.

On the recorded trace KTH-SP2, real long jobs of users with a history are the attackers' jobs, one of each user.  Each
attack is simulated in PBS's cycle with all of them at once, and compared with the same schedule without fakes.  A place
is a job that was submitted before the attacker's job and starts after it.

``python -m tests.benchmarks attacks``; SOFTWALLTIME_BENCH_JOBS changes the number of jobs.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean

from softwalltime.api import read_jobs, simulate
from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.predict.policy.presets import PresetName
from softwalltime.reports.candidates import preset_policy
from tests.benchmarks.markdown import table
from tests.traces import TRACES

HOUR = 3600
ATTACKERS = 12
FAKE_RUNTIME_S = 2
LEAD_S = 24 * HOUR
"""Seconds from the fakes' submission to that of the real job."""
PRESETS: tuple[PresetName, ...] = ("safe", "balanced", "order")
JOBS = 6000


@dataclass(frozen=True, slots=True)
class Attack:
    """So many fakes, and the keys that fakes and the real job have of their own."""

    fakes: int
    project: bool = False
    walltime: bool = False
    name: bool = False
    processors: int | None = 1
    """Of a fake; ``None``: as many as the real job's."""

    def __str__(self) -> str:
        """Return what the attacker does."""
        own = [word for word, chosen in
               (("project", self.project), ("walltime", self.walltime), ("name", self.name)) if chosen]  # fmt: skip
        size = "" if self.processors else ", as wide as the job"
        return f"{self.fakes} fakes, {'own ' + ' and '.join(own) if own else 'usual keys'}{size}"


ATTACKS = (
    *(Attack(fakes) for fakes in (10, 30, 100)),
    *(Attack(fakes, project=True) for fakes in (10, 30, 100)),
    *(Attack(fakes, walltime=True) for fakes in (10, 30, 100)),
    *(Attack(fakes, project=True, walltime=True) for fakes in (5, 9, 10, 15, 20, 30, 60, 100)),
    *(Attack(fakes, project=True, walltime=True, name=True) for fakes in (10, 100)),
    Attack(10, project=True, walltime=True, processors=None),
)


@dataclass(frozen=True, slots=True)
class Gain:
    """Means over the attackers' jobs: places gained, and wait in seconds without and with the attack."""

    places: float
    honest: float
    attacking: float


def targets(jobs: Sequence[CompletedJob]) -> list[CompletedJob]:
    """Return one long job of each user with thirty earlier jobs, spread over the second half of the log."""
    earlier: Counter[str] = Counter()
    chosen: dict[str, CompletedJob] = {}
    for job in sorted(jobs, key=lambda job: job.submission.submitted)[: len(jobs) * 9 // 10]:
        user = job.submission.user
        long = job.runtime >= 2 * HOUR and (job.submission.walltime or 0) >= job.runtime
        if long and earlier[user] >= 30:
            chosen[user] = job
        earlier[user] += 1
    return sorted(chosen.values(), key=lambda job: job.submission.submitted)[-ATTACKERS:]


def attacked(jobs: Iterable[CompletedJob], chosen: Sequence[CompletedJob], attack: Attack) -> list[CompletedJob]:
    """Return the jobs with the fakes of each attacker; fakes have job ids that begin with "fake"."""
    ids = {job.submission.job_id for job in chosen}
    jobs_of_attack = []
    for job in jobs:
        submission = job.submission
        if submission.job_id in ids:
            walltime = submission.walltime or 0
            submission = replace(
                submission,
                project="attack" if attack.project else submission.project,
                job_name="attack" if attack.name else submission.job_name,
                walltime=walltime + 61 if attack.walltime else walltime,
            )
            job = replace(job, submission=submission)
            begin = submission.submitted - LEAD_S
            for number in range(attack.fakes):
                start = begin + number
                fake = replace(
                    submission, job_id=f"fake{number}.{submission.job_id}", submitted=start,
                    ncpus=attack.processors or submission.ncpus,
                )  # fmt: skip
                end = start + FAKE_RUNTIME_S
                jobs_of_attack.append(replace(job, submission=fake, start=start, end=end, runtime=FAKE_RUNTIME_S))
        jobs_of_attack.append(job)
    return jobs_of_attack


def schedule(jobs: Sequence[CompletedJob], processors: int, policy: SchedulerPolicy) -> dict[str, tuple[int, int]]:
    """Return submission and start of each job by job id, epoch seconds."""
    done = simulate(jobs, processors, policy)
    return {
        job_id: (int(submitted), int(start))
        for job_id, submitted, start in zip(done.job_ids, done.submitted, done.starts, strict=True)
        if start >= 0
    }


def overtaken(starts: Mapping[str, tuple[int, int]], job_id: str) -> int:
    """Return how many honest jobs were submitted before this one and start after it."""
    submitted, start = starts[job_id]
    return sum(
        other[0] < submitted and other[1] > start for name, other in starts.items() if not name.startswith("fake")
    )


def gains(
    jobs: Sequence[CompletedJob], processors: int, policy: SchedulerPolicy, attacks: Iterable[Attack]
) -> dict[Attack, Gain]:
    """Return what each attack buys under a policy."""
    chosen = targets(jobs)
    ids = [job.submission.job_id for job in chosen]
    honest = schedule(jobs, processors, policy)
    before = [overtaken(honest, job_id) for job_id in ids]
    bought = {}
    for attack in attacks:
        starts = schedule(attacked(jobs, chosen, attack), processors, policy)
        places = mean(overtaken(starts, job_id) - was for job_id, was in zip(ids, before, strict=True))
        waits = [mean(which[job_id][1] - which[job_id][0] for job_id in ids) for which in (honest, starts)]
        bought[attack] = Gain(places, *waits)
    return bought


def cell(gain: Gain) -> str:
    """Return places and hours gained; a negative wait is a gain."""
    return f"{gain.places:+.1f}; {(gain.attacking - gain.honest) / HOUR:+.1f} h"


def main() -> None:
    """Print the table."""
    trace = TRACES / "KTH-SP2-1996-unfiltered.swf.gz"
    if not trace.exists():
        print(f"not measured: no {trace}")
        return
    count = int(os.environ.get("SOFTWALLTIME_BENCH_JOBS", str(JOBS)))
    jobs = sorted(read_jobs(trace), key=lambda job: job.submission.submitted)[:count]
    if not targets(jobs):
        print(f"not measured: among the first {count:,} jobs none is long, of a user with a history")
        return
    bought = {name: gains(jobs, 100, preset_policy(name), ATTACKS) for name in PRESETS}
    waits = ", ".join(f"{name} {next(iter(of.values())).honest / HOUR:.1f} h" for name, of in bought.items())
    print(f"KTH-SP2, first {count:,} jobs; {len(targets(jobs))} attackers, whose jobs wait without fakes: {waits}")
    rows = [[str(attack), *(cell(of[attack]) for of in bought.values())] for attack in ATTACKS]
    print(table(["attack", *(f"{name}: places; wait" for name in PRESETS)], rows))


if __name__ == "__main__":
    main()
