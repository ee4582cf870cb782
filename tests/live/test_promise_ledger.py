"""Promises, and the guard that is on while the start first promised to a waiting job is past."""

from dataclasses import replace

from softwalltime.core.jobs import MAX_WALLTIME, Submission
from softwalltime.core.promises import Outcome, Promise
from softwalltime.service.live.promise_ledger import (
    CORRECTION_WINDOW_S,
    DELETED_AFTER_S,
    WITHDRAWN_AFTER_S,
    PromiseLedger,
)
from softwalltime.service.live.watch import ServerJob


def waits(job_id: str, promised: int | None = None, walltime: int = 60) -> ServerJob:
    return ServerJob(Submission(job_id, "alice", 0, walltime, queue="q", ncpus=7), "Q", None, None, promised)


def runs(job_id: str, started: int | None) -> ServerJob:
    return replace(waits(job_id), state="R", started=started)


def outcomes(changed: list[Promise]) -> list[tuple[str, Outcome, int]]:
    return [(each.job_id, each.outcome, (each.started or each.first) - each.first) for each in changed]


def test_a_start_is_late_if_it_is_more_than_a_minute_after_the_first_promise() -> None:
    ledger = PromiseLedger()
    ledger.look([waits("1", 1000), waits("2", 1000), waits("3", 1000), waits("4")], now=0)
    # A later promise does not replace the first one.
    (changed,) = ledger.look([waits("1", 9000), waits("2", 1000), waits("3", 1000), waits("4")], now=900)
    assert (changed.first, changed.last, changed.promised_at) == (1000, 9000, 0)
    found = outcomes(ledger.look([runs("1", 1061), runs("2", 1060), runs("3", 950), runs("4", 1000)], now=1100))
    assert found == [("1", Outcome.LATE, 61), ("2", Outcome.KEPT, 60), ("3", Outcome.KEPT, -50)]
    assert not ledger.look([runs("1", 1061)], now=1200)
    assert not ledger.waiting


def test_a_promise_that_is_past_when_it_is_first_seen_counts_for_nothing() -> None:
    """PBS leaves the estimate of a former top job that ran and was requeued."""
    ledger = PromiseLedger()
    assert not ledger.look([waits("1", 1000)], now=5000)
    assert [each.first for each in ledger.look([waits("1", 6000)], now=5100)] == [6000]


def test_a_start_after_the_end_of_a_job_without_a_walltime_is_no_promise() -> None:
    """PBS plans such a job for five years; when it has ended, the top job gets the first start that means something."""
    ledger = PromiseLedger()
    assert not ledger.look([waits("1", MAX_WALLTIME - 3600)], now=0)
    assert not ledger.waiting
    assert [each.first for each in ledger.look([waits("1", 9000)], now=5000)] == [9000]
    assert ledger.late_job(9000 + 3601, 3600) == "1"


def test_a_promise_that_is_not_renewed_is_withdrawn_and_the_guard_goes_off() -> None:
    ledger = PromiseLedger()
    ledger.look([waits("renewed", 1000), waits("never", 1000), waits("cleared", 1000)], now=0)
    later = 1000 + WITHDRAWN_AFTER_S
    # Each cycle renews the promise of a top job; of a job that can never run PBS leaves or clears it.
    queue = [waits("renewed", 9000), waits("never", 1000), waits("cleared")]
    assert [each.outcome for each in ledger.look(queue, now=later)] == [Outcome.OPEN]
    assert ledger.late_job(later, 3600) == "cleared"
    changed = ledger.look(queue, now=later + 1)
    assert sorted(outcomes(changed)) == [("cleared", Outcome.WITHDRAWN, 0), ("never", Outcome.WITHDRAWN, 0)]
    assert dict(ledger.waiting) == {"renewed": 1000}
    assert ledger.late_job(later + 1, 3600) == "renewed"
    assert [each.first for each in ledger.look([waits("renewed", 9000), waits("never", 20_000)], now=10_000)] == [
        20_000
    ]


def test_an_altered_job_loses_its_promise_and_the_estimate_from_before_is_none() -> None:
    """Otherwise a user could alter a promised job into one that cannot start for a day, and the guard would be on."""
    ledger = PromiseLedger()
    ledger.look([waits("1", 1000, 60)], now=0)
    assert [each.outcome for each in ledger.look([waits("1", 1000, 7200)], now=100)] == [Outcome.WITHDRAWN]
    assert not ledger.look([waits("1", 1000, 7200)], now=200), "PBS keeps the estimate of an altered job"
    assert [each.first for each in ledger.look([waits("1", 90_000, 7200)], now=300)] == [90_000]
    assert ledger.late_job(10_000, 3600) == ""


def test_a_held_or_requeued_job_loses_its_promise() -> None:
    ledger = PromiseLedger()
    ledger.look([waits("1", 1000)], now=0)
    assert not ledger.look([], now=100)
    assert ledger.gone == {"1"}
    assert not ledger.waiting, "a held job is not late"
    assert [outcome for _, outcome, _ in outcomes(ledger.look([waits("1", 5000)], now=2000))] == [
        Outcome.WITHDRAWN,
        Outcome.OPEN,
    ]
    assert dict(ledger.waiting) == {"1": 5000}


def test_a_job_that_started_and_ended_between_two_looks_counts_once_the_log_has_it() -> None:
    ledger = PromiseLedger()
    ledger.look([waits("1", 1000), waits("2", 1000)], now=500)
    assert ledger.found("1", 900) is None, "it still waits: another job had this id"
    ledger.look([], now=2000)
    assert ledger.found("1", 400) is None, "a start before the promise"
    found = ledger.found("1", 1900)
    assert found is not None
    assert (found.outcome, found.started) == (Outcome.LATE, 1900)
    assert ledger.found("1", 1900) is None
    # The other one was deleted.
    assert not ledger.look([], now=2000 + DELETED_AFTER_S)
    assert outcomes(ledger.look([], now=2001 + DELETED_AFTER_S)) == [("2", Outcome.WITHDRAWN, 0)]
    assert not ledger.gone


def test_what_an_earlier_process_saw_is_continued() -> None:
    before, after = PromiseLedger(), PromiseLedger()
    seen = before.look([waits("1", 1000), waits("2", 1500)], now=0)
    after.look([waits("2", 7000)], now=100)
    after.restore(seen)
    assert dict(after.waiting) == {"1": 1000, "2": 7000}
    assert outcomes(after.look([runs("1", 1200), waits("2", 7000)], now=1300)) == [("1", Outcome.LATE, 200)]


def test_the_guard_is_on_for_the_job_that_is_late_for_longest_until_it_starts() -> None:
    ledger = PromiseLedger()
    ledger.look([waits("1", 2000), waits("2", 1000)], now=0)
    assert ledger.late_job(1600, 600) == ""
    assert ledger.late_job(1601, 600) == "2"
    # Also where the job has lost its place at the head.
    ledger.look([waits("1", 2000), waits("2")], now=2700)
    assert ledger.late_job(2700, 600) == "2"
    ledger.look([waits("1", 2000), runs("2", 2700)], now=2701)
    assert ledger.late_job(2701, 600) == "1"
    ledger.look([], now=2702)
    assert ledger.late_job(2702, 600) == ""


def test_a_promise_expires_after_two_hours_and_a_lost_job_after_a_day() -> None:
    ledger = PromiseLedger()
    ledger.look([waits("stays", 1000), waits("goes", 1000)], now=0)
    assert len(ledger.waiting) == 2
    assert not ledger.look([waits("stays", 1000)], now=8200)
    assert outcomes(ledger.look([waits("stays", 1000)], now=8201)) == [("stays", Outcome.WITHDRAWN, 0)]
    assert (len(ledger.waiting), ledger.gone) == (0, {"goes"})
    assert not ledger.look([], now=8200 + 86400)
    assert outcomes(ledger.look([], now=8201 + 86400)) == [("goes", Outcome.WITHDRAWN, 0)]
    assert not ledger.gone


def test_a_start_at_the_second_of_the_promise_is_its_start() -> None:
    ledger = PromiseLedger()
    ledger.look([waits("1", 1000)], now=500)
    ledger.look([], now=600)
    assert ledger.found("1", 499) is None
    found = ledger.found("1", 500)
    assert found is not None
    assert found.outcome == Outcome.KEPT
    assert ledger.found("never seen", 500) is None


def test_a_promise_for_this_very_second_is_past() -> None:
    ledger = PromiseLedger()
    assert not ledger.look([waits("1", 500)], now=500)
    assert [promise.last for promise in ledger.look([waits("1", 501)], now=500)] == [501]


def test_a_start_that_pbs_does_not_show_is_now() -> None:
    ledger = PromiseLedger()
    ledger.look([waits("1", 1000)], now=500)
    (started,) = ledger.look([runs("1", None)], now=900)
    assert (started.started, started.queue, started.ncpus, started.promised_at) == (900, "q", 7, 500)


def test_the_next_cycles_may_correct_a_promise() -> None:
    """Jobs that start in the cycle of the first promise count in it with their waiting values."""
    ledger = PromiseLedger()
    ledger.look([waits("1", 1000)], now=0)
    (corrected,) = ledger.look([waits("1", 3000)], now=CORRECTION_WINDOW_S)
    assert (corrected.first, corrected.last, corrected.promised_at) == (3000, 3000, 0)
    (renewed,) = ledger.look([waits("1", 5000)], now=CORRECTION_WINDOW_S + 1)
    assert (renewed.first, renewed.last) == (3000, 5000)
