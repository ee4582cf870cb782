"""Attacks on the order of the queue by an ordinary user, on a real server: none buys a place.

Every job here is predicted to take half its walltime, so an honest job of a day is planned and ordered with half a day.
An attacker wants a job of a day that is planned or ordered with less.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import DEFAULTS, ServedDaemon, running
from tests.acceptance.lab import Lab, seconds
from tests.acceptance.test_clean_texts import CLIENT

DAY = 86400
HONEST = DAY // 2
RESOURCE = "predicted"
Attack = Callable[[Lab], str]
"""Submits and alters as alice; returns the job."""


def altering(*requests: tuple[str, ...], queue: str = "nodefault", options: tuple[str, ...] = ()) -> Attack:
    """Submit a job of two seconds, then alter it by each of these requests."""

    def attack(lab: Lab) -> str:
        job = lab.qsub("-h", "-q", queue, "-l", "walltime=2", *options)
        for request in requests:
            done = lab.qalter(job, *request)
            assert done.ok, done.error
        return job

    return attack


def moving(*options: str) -> Attack:
    """Submit a job without a walltime, then move it to a queue whose default is a day."""

    def attack(lab: Lab) -> str:
        job = lab.qsub("-h", "-q", "short", *options)
        done = lab.run("qmove", "long", job, user="alice")
        assert done.ok, done.error
        return job

    return attack


RAISE = ("-l", f"walltime={DAY}")
ATTACKS: dict[str, Attack] = {
    "raise": altering(RAISE),
    "raise an array": altering(RAISE, options=("-J", "1-3")),
    "become shrink-to-fit": altering(("-l", f"walltime={DAY},min_walltime=5")),
    "become shrink-to-fit up to a day": altering(("-l", f"min_walltime=2,max_walltime={DAY}")),
    "shrink-to-fit, then raise": altering(("-l", "min_walltime=1"), RAISE),
    "take the walltime away": altering(("-l", "walltime=")),
    "a walltime beyond every limit": altering(("-l", "walltime=1000000000001")),
    "no walltime at all, then a day": altering(("-l", "walltime=0", "-l", "place=excl"), RAISE),
    "an account that is not UTF-8": altering((*RAISE, "-A", "\udcff")),
    "exclusive placement": altering(("-l", f"walltime={DAY},place=excl")),
    "another project": altering((*RAISE, "-P", "other")),
    "raise, then rename": altering(RAISE, ("-N", "y")),
    "an account that is not UTF-8, then a day": altering(("-A", "\udcff"), RAISE),
    "a long account": altering((*RAISE, "-A", "a" * 40_000)),
    "a day in small steps": altering(*(("-l", f"walltime={2**step}") for step in range(2, 17)), RAISE),
    "move to a queue with a longer default": moving(),
    "move an array to a queue with a longer default": moving("-J", "1-3"),
}


@pytest.fixture(params=[True, False], ids=["with the daemon", "without the daemon"])
def daemon(
    request: pytest.FixtureRequest, lab: Lab, tmp_path: Path, database: str, unscheduled: None
) -> Iterator[bool]:
    """The hook with a daemon that runs, or with one that has ended after the submission of other jobs."""
    lab.create_resource(RESOURCE)
    daemon = ServedDaemon(tmp_path, database, 'factor:0.5"\nordering = "factor:0.5')
    with running(daemon):
        lab.install({**DEFAULTS, "socket": str(daemon.socket), "deadline_ms": 500}, tmp_path)
        submitted = lab.qsub("-h", "-q", "nodefault", "-l", "walltime=1000")
        assert lab.soft(submitted) == 500
        assert lab.job(submitted)["Resource_List"][RESOURCE] == 500
        if not request.param:
            daemon.stop()
        yield request.param
    lab.uninstall()


def planned_and_ordered(lab: Lab, job: str) -> tuple[int, int]:
    """Return the seconds with which the scheduler plans the job, and those by which ``job_sort_formula`` orders it."""
    resources = lab.job(job)["Resource_List"]
    walltime = seconds(resources.get("walltime")) or 10**9
    longest = max(walltime, seconds(resources.get("max_walltime")) or 0)
    return seconds(resources.get("soft_walltime")) or longest, resources.get(RESOURCE) or longest


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_buys_no_place(name: str, lab: Lab, daemon: bool) -> None:
    planned, ordered = planned_and_ordered(lab, ATTACKS[name](lab))
    assert ordered >= HONEST
    if not name.startswith("move"):
        # PBS lets no hook change a moved job; live values do at their next look, and the event postqueuejob does.
        assert planned >= HONEST


def test_no_user_sets_the_values_himself(lab: Lab, daemon: bool) -> None:
    job = lab.qsub("-h", "-q", "nodefault", "-l", f"walltime={DAY}")
    for resource in (RESOURCE, "soft_walltime"):
        for request in (f"{resource}=1", f"{resource}=60", f"{resource}=60,walltime={DAY}"):
            # PBS takes a resource that the hook overwrites in the same request.
            lab.qalter(job, "-l", request)
            assert min(planned_and_ordered(lab, job)) >= HONEST
        given = lab.run("qsub", "-h", "-l", f"walltime={DAY},{resource}=60", "--", "/bin/true", user="alice")
        if given.ok:
            lab.jobs.append(given.output)
            assert min(planned_and_ordered(lab, given.output)) >= HONEST


def test_cleaning_gives_no_user_a_managers_right(lab: Lab, daemon: bool) -> None:
    """PBS takes what a hook sets, also on a resource that users may only read."""
    lab.create_resource("for_managers", "string")
    for value in ("x", r"x\x01", r"x\n"):
        done = lab.run("python3", str(CLIENT), f"Resource_List.for_managers={value}", user="alice")
        if done.ok:
            lab.jobs.append(done.output)
            assert "for_managers" not in lab.job(done.output)["Resource_List"]


def test_a_move_is_predicted_anew_at_postqueuejob(lab: Lab, daemon: bool, tmp_path: Path, postqueuejob: None) -> None:
    if not daemon:
        pytest.skip("the configuration names the socket of a daemon that has ended")
    lab.install({**DEFAULTS, "socket": str(tmp_path / "hook.sock"), "events": {"postqueuejob": True}}, tmp_path)
    job = lab.qsub("-h", "-q", "short")
    assert planned_and_ordered(lab, job) == (300, 300)
    lab.must("qmove", "long", job, user="alice")
    assert planned_and_ordered(lab, job) == (HONEST, HONEST)
