"""The decision about one job, for every event, mode and answer of a predictor."""

import math
from collections.abc import Callable

import pytest

from softwalltime.core.events import Kind
from softwalltime.core.jobs import NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.predict.policy.decide import Decision, decide
from softwalltime.predict.policy.site import KEEP, WALLTIME, JobPolicy, Mode
from tests.samples import job

COLD = NoPrediction(Reason.NO_COMPLETED_JOBS, ("alice",))


def terms(
    mode: Mode = "on", waiting: str = "w", running: str = "r", ordering: str | None = None, exclusive: bool = False
) -> JobPolicy:
    return JobPolicy(mode, waiting, running, 60, ordering, exclusive)


def answering(**answers: Prediction | NoPrediction | float) -> Callable[[str, Submission], Prediction | NoPrediction]:
    """Predictors by specification, each with its answer; one that must not be asked is missing."""

    def predict(spec: str, _: Submission) -> Prediction | NoPrediction:
        answer = answers[spec]
        return Prediction(float(answer), "so many seconds") if isinstance(answer, int | float) else answer

    return predict


def decided(
    kind: Kind = Kind.SUBMITTED, has: int | None = None, of: JobPolicy | None = None, walltime: int | None = 3600,
    min_walltime: int | None = None, place: str = "", **answers: Prediction | NoPrediction | float,
) -> Decision:  # fmt: skip
    submission = job(walltime=walltime, min_walltime=min_walltime, place=place).submission
    return decide(of or terms(), kind, submission, has, answering(**answers))


@pytest.mark.parametrize(
    ("kind", "spec", "seconds"),
    [(Kind.SUBMITTED, "w", 600), (Kind.ALTERED, "w", 600), (Kind.STARTED, "r", 900)],
)
def test_the_event_decides_which_predictor_is_asked(kind: Kind, spec: str, seconds: int) -> None:
    decision = decided(kind, w=600, r=900)
    assert (decision.spec, decision.action, decision.soft_walltime) == (spec, "set", seconds)
    assert (decision.reason, decision.predicted, decision.basis) == (Reason.PREDICTED, seconds, "so many seconds")


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        (COLD, 1),
        (NoPrediction(Reason.TOO_FEW_JOBS, (3, "user", 30.0, 10)), 7),
        (NoPrediction(Reason.BASELINE), None),
        (Prediction(600.0, ""), None),
    ],
)
def test_a_decision_says_how_many_jobs_its_prediction_needs(
    answer: Prediction | NoPrediction, missing: int | None
) -> None:
    assert decided(w=answer).missing_jobs == missing
    assert decided(of=terms(waiting=WALLTIME)).missing_jobs is None


@pytest.mark.parametrize(
    ("kind", "seconds", "reason"),
    [
        (Kind.SUBMITTED, None, Reason.GUARD),
        (Kind.ALTERED, None, Reason.GUARD),
        # A job that starts delays nobody by the value that it waited with.
        (Kind.STARTED, 900, Reason.PREDICTED),
    ],
)
def test_the_guard_is_for_waiting_jobs_only(kind: Kind, seconds: int | None, reason: Reason) -> None:
    decision = decided(kind, of=terms()._replace(guarded=True), r=900)
    assert (decision.soft_walltime, decision.reason) == (seconds, reason)


@pytest.mark.parametrize(
    ("of", "walltime", "min_walltime", "reason"),
    [
        (terms("off"), 3600, None, Reason.POLICY_OFF),
        (terms(running=KEEP), 3600, None, Reason.POLICY_KEEP),
        (terms(), None, None, Reason.NO_WALLTIME),
        (terms(), 0, None, Reason.NO_WALLTIME),
        (terms(), 3600, 60, Reason.SHRINK_TO_FIT),
    ],
)
def test_no_predictor_is_asked_where_the_policy_or_the_job_rules_it_out(
    of: JobPolicy, walltime: int | None, min_walltime: int | None, reason: Reason
) -> None:
    decision = decided(Kind.STARTED, 600, of, walltime, min_walltime)
    assert (decision.action, decision.soft_walltime, decision.reason) == ("none", None, reason)
    assert len(decision.basis) > 10


@pytest.mark.parametrize("answer", [3600.0, 3599.5, 1e9, math.nan, math.inf])
def test_a_prediction_not_below_the_walltime_sets_nothing_and_gives_the_reason(answer: float) -> None:
    decision = decided(w=answer)
    assert (decision.action, decision.soft_walltime, decision.reason) == ("none", None, Reason.NOT_BELOW_WALLTIME)
    assert decision.basis == "so many seconds; that is not below the walltime"


@pytest.mark.parametrize("answer", [COLD, 3600.0])
@pytest.mark.parametrize(("has", "action", "seconds"), [(None, "none", None), (600, "set", 3600), (3600, "none", None)])
def test_what_a_job_has_is_taken_back_when_there_is_nothing_to_predict(
    answer: NoPrediction | float, has: int | None, action: str, seconds: int | None
) -> None:
    decision = decided(Kind.ALTERED, has, w=answer)
    assert (decision.action, decision.soft_walltime) == (action, seconds)


def test_while_the_history_loads_the_job_keeps_what_it_has() -> None:
    decision = decided(Kind.ALTERED, 600, w=NoPrediction(Reason.HISTORY_LOADING))
    assert (decision.action, decision.soft_walltime, decision.reason) == ("none", None, Reason.HISTORY_LOADING)


def test_walltime_for_running_jobs_raises_what_the_job_has_to_the_walltime() -> None:
    decision = decided(Kind.STARTED, 600, terms(running=WALLTIME))
    assert (decision.action, decision.soft_walltime, decision.reason) == ("set", 3600, Reason.POLICY_WALLTIME)
    assert decided(Kind.STARTED, None, terms(running=WALLTIME)).action == "none"


def test_a_job_that_has_the_value_already_is_left_alone() -> None:
    decision = decided(has=600, w=600)
    assert (decision.action, decision.soft_walltime, decision.reason) == ("none", 600, Reason.PREDICTED)


def test_shadow_mode_decides_the_same_and_only_records_it() -> None:
    assert decided(of=terms("shadow"), w=600) == decided(w=600)._replace(mode="shadow", action="shadow")


@pytest.mark.parametrize(
    ("answer", "ordering", "whole"),
    [(70.5, 70.5, 71), (0.0, 2.0, 2), (9999.0, 3600.0, 3600), (COLD, 3600.0, 3600), (math.nan, 3600.0, 3600)],
)
@pytest.mark.parametrize("kind", [Kind.SUBMITTED, Kind.ALTERED])
def test_the_ordering_value_is_between_two_seconds_and_the_walltime_and_whole_for_pbs(
    kind: Kind, answer: NoPrediction | float, ordering: float, whole: int
) -> None:
    decision = decided(kind, of=terms(ordering="o"), w=600, o=answer)
    assert (decision.ordering, decision.ordering_seconds) == (ordering, whole)


def test_the_ordering_value_may_be_the_walltime() -> None:
    assert decided(of=terms(ordering=WALLTIME), w=600).ordering_seconds == 3600


@pytest.mark.parametrize("walltime", [1, 2])
def test_the_ordering_value_is_that_of_a_promised_job_only_where_the_walltime_is(walltime: int) -> None:
    job = Submission("1", "alice", 0, walltime)
    decision = decide(terms(ordering="o"), Kind.SUBMITTED, job, None, lambda *_: Prediction(0.0, ""))
    assert decision.ordering_seconds == walltime


def test_while_the_history_loads_a_new_job_is_ordered_by_its_walltime_and_an_altered_one_as_before() -> None:
    loading = NoPrediction(Reason.HISTORY_LOADING)
    assert decided(of=terms(ordering="o"), w=loading, o=loading).ordering_seconds == 3600
    assert decided(Kind.ALTERED, of=terms(ordering="o"), w=loading, o=loading).ordering_seconds is None


def test_without_an_ordering_predictor_and_at_start_there_is_no_ordering_value() -> None:
    assert decided(w=600).ordering is None
    assert decided(w=600).ordering_seconds is None
    assert decided(Kind.STARTED, of=terms(ordering="o"), r=600).ordering is None


@pytest.mark.parametrize("place", ["excl", "scatter:excl", "exclhost", "free:exclhost:group=rack"])
def test_a_waiting_job_with_exclusive_placement_is_planned_with_its_walltime(place: str) -> None:
    of = terms(ordering="o", exclusive=True)
    decision = decided(of=of, place=place, o=70.0)
    assert (decision.action, decision.soft_walltime, decision.reason) == ("none", None, Reason.EXCLUSIVE)
    assert (decision.ordering_seconds, len(decision.basis) > 10) == (70, True), "its order breaks no reservation"
    had = decided(Kind.ALTERED, 600, of, place=place, o=70.0)
    assert (had.action, had.soft_walltime, had.reason) == ("set", 3600, Reason.EXCLUSIVE)


@pytest.mark.parametrize("place", ["", "free", "pack", "pack:excl", "scatter:shared", "group=exclusive"])
def test_other_placements_and_starts_and_sites_that_say_so_are_not_held_to_the_walltime(place: str) -> None:
    assert decided(of=terms(exclusive=True), place=place, w=600).soft_walltime == 600
    assert decided(of=JobPolicy("on", "w", "r", 60), place="excl", w=600).soft_walltime == 600
    assert decided(Kind.STARTED, of=terms(exclusive=True), place="excl", r=600).soft_walltime == 600
