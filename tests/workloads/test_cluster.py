"""Jobs start when EASY backfilling by the book would start them, and never on more processors than there are."""

from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from softwalltime.measure.workloads.synthetic import start_times


class Job(NamedTuple):
    submitted: int
    size: int
    runtime: int
    request: int


@st.composite
def workloads(draw) -> tuple[list[Job], int]:
    """Small machines and short times, so that queues form and many things happen at one instant."""
    processors = draw(st.integers(1, 6))
    job = st.builds(
        Job,
        submitted=st.integers(0, 20),
        size=st.integers(1, processors),
        runtime=st.integers(0, 8),
        request=st.integers(1, 10),
    )
    return sorted(draw(st.lists(job, max_size=25)), key=lambda job: job.submitted), processors


def starts_of(jobs: list[Job], processors: int) -> list[int]:
    return start_times(*(list(column) for column in zip(*jobs, strict=True)), processors) if jobs else []


def by_the_book(jobs: list[Job], processors: int) -> list[int]:
    """EASY as Lifka describes it, everything worked out anew at each step."""
    starts: dict[int, int] = {}
    running: set[int] = set()
    queue: list[int] = []
    coming = list(range(len(jobs)))

    def free() -> int:
        return processors - sum(jobs[j].size for j in running)

    def reservation(head: Job) -> tuple[int, int]:
        for time in sorted({starts[j] + jobs[j].request for j in running}):
            then = free() + sum(jobs[j].size for j in running if starts[j] + jobs[j].request <= time)
            if then >= head.size:
                return time, then - head.size
        raise AssertionError("the head is larger than the machine")

    while coming or queue:
        now = min([jobs[j].submitted for j in coming[:1]] + [starts[j] + jobs[j].runtime for j in running])
        running -= {j for j in running if starts[j] + jobs[j].runtime <= now}
        while coming and jobs[coming[0]].submitted <= now:
            queue.append(coming.pop(0))
        while queue and jobs[queue[0]].size <= free():
            starts[queue[0]] = now
            running.add(queue.pop(0))
        for j in queue[1:]:
            time, spare = reservation(jobs[queue[0]])
            if jobs[j].size <= free() and (now + jobs[j].request <= time or jobs[j].size <= spare):
                starts[j] = now
                running.add(j)
                queue.remove(j)
    return [starts[j] for j in range(len(jobs))]


@given(workloads())
@example(([Job(0, 2, 5, 5), Job(0, 3, 1, 1), Job(1, 1, 3, 4), Job(1, 1, 9, 9)], 3))
@settings(max_examples=400)
def test_starts_equal_a_reference_implementation_of_easy_backfilling(workload):
    jobs, processors = workload
    assert starts_of(jobs, processors) == by_the_book(jobs, processors)


@given(workloads())
@settings(max_examples=200)
def test_processors_in_use_never_exceed_the_machine(workload):
    jobs, processors = workload
    starts = starts_of(jobs, processors)
    for now in starts:
        in_use = sum(j.size for j, start in zip(jobs, starts, strict=True) if start <= now < start + j.runtime)
        assert in_use <= processors


@given(workloads())
@settings(max_examples=200)
def test_no_job_starts_before_it_is_submitted(workload):
    jobs, processors = workload
    assert all(start >= job.submitted for job, start in zip(jobs, starts_of(jobs, processors), strict=True))


def test_a_job_starts_in_the_second_in_which_another_ends():
    assert starts_of([Job(0, 4, 10, 10), Job(3, 4, 5, 5)], 4) == [0, 10]


def test_a_short_job_backfills_and_a_long_one_does_not():
    running, head = Job(0, 3, 10, 10), Job(1, 4, 5, 5)
    assert starts_of([running, head, Job(2, 1, 8, 8)], 4) == [0, 10, 2]
    assert starts_of([running, head, Job(2, 1, 9, 9)], 4) == [0, 10, 15]


def test_a_long_job_backfills_on_spare_processors():
    assert starts_of([Job(0, 3, 10, 10), Job(1, 3, 5, 5), Job(2, 1, 99, 99)], 4) == [0, 10, 2]


def test_backfilling_uses_requests_instead_of_runtimes():
    assert starts_of([Job(0, 3, 10, 10), Job(1, 4, 5, 5), Job(2, 1, 1, 60)], 4) == [0, 10, 15]


def test_the_top_job_starts_when_a_job_ends_early():
    assert starts_of([Job(0, 3, 4, 100), Job(1, 4, 5, 5)], 4) == [0, 4]
