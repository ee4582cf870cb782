"""The learned attention: numpy and compiled alike, features known at submission, the file of weights."""

import json
import os
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from softwalltime.errors import OptionError
from softwalltime.events import Ended, Kind, Submitted
from softwalltime.jobs import CompletedJob, Prediction
from softwalltime.predictors.calibrated import PRESENT, Calibrated, CalibratedOptions
from softwalltime.predictors.learned import attention
from softwalltime.predictors.learned.distribution import REACHES, SIZE, best_bin
from softwalltime.predictors.learned.features import JOB_FEATURES, LARGEST, PAIR_FEATURES, WIDTHS
from softwalltime.predictors.learned.gather import gather
from softwalltime.predictors.learned.known import Estimate, Known
from softwalltime.predictors.learned.mixture import smears
from softwalltime.predictors.learned.network import MAX_BYTES, Weights, dump, load, parse, untrained
from softwalltime.predictors.learned.user_jobs import MAX_USER_JOBS, SUBMITTED
from softwalltime.predictors.registry import make
from softwalltime.replay.fast_replay import drive
from softwalltime.replay.workload import Workload
from softwalltime.workloads.synthetic import generate
from tests.samples import job

DAY = 86400
"""Seconds."""


def random_weights(seed: int = 1) -> Weights:
    chance = np.random.default_rng(seed)
    shapes = [(33, 8), (54, 8), (8,), (8, 5), (5,), (5, 8), (8,), (54, 6), (6,), (6, 6), (6,)]
    return Weights(tuple(chance.normal(0, 0.5, shape).astype(np.float32) for shape in shapes), {"seed": seed})


def jobs_of_all_kinds(count: int, seed: int = 4) -> list[CompletedJob]:
    """Synthetic jobs: some killed at their walltime, with a few names, groups and queues, some in bursts."""
    chance = Random(seed)
    found = []
    for each in generate(count, seed=seed):
        asked = replace(
            each.submission,
            user=f"user{chance.randrange(4)}",
            job_name=chance.choice(["", "a", "b"]),
            group=chance.choice(["g", "h"]),
            queue="q",
        )
        killed = chance.random() < 0.15
        runtime = (asked.walltime or 60) if killed else each.runtime
        end = each.end - each.runtime + runtime
        found.append(replace(each, submission=asked, runtime=runtime, end=end, exit_status=-29 if killed else 0))
    return found


def known_of(jobs: list[CompletedJob]) -> list[Known]:
    """What is known about each job of a workload at its submission."""
    model = Calibrated(CalibratedOptions(compiled="no"), untrained())
    workload, found = Workload(jobs), []
    for stride in workload.stream(everything=True):
        for kind, number, each in zip(*stride, strict=True):
            if kind == Kind.SUBMITTED and each.submission.walltime:
                known, _ = model.known(each.submission, each.submission.submitted)
                # Copies: the predictor's own arrays change.
                found.append(Known(*(np.copy(part) if isinstance(part, np.ndarray) else part for part in known)))
            model.observe(workload.event(kind, number, each))
            if kind == Kind.ENDED and workload.teaches[number]:
                model.learn(each)
    return found


@pytest.fixture(scope="module")
def knowns() -> list[Known]:
    return known_of(jobs_of_all_kinds(500))


@pytest.mark.parametrize("way", ["python", "numba"])
def test_features_and_estimates_of_numpy_and_compiled_are_equal(way: str, knowns: list[Known]) -> None:
    if way == "numba":
        pytest.importorskip("numba", reason="the extra fast is not installed")
    functions = attention.compiled if way == "numba" else attention.KERNELS.__getitem__
    weights = random_weights()
    # Plain Python takes 10 ms for one.
    some = knowns if way == "numba" else knowns[::20]
    for known in some:
        expected, found = gather(known), attention.gather_compiled(known, functions("gather"))
        for name, one, other in zip(expected._fields, expected, found, strict=True):
            assert np.allclose(one, other, atol=2e-5), name
        numpy = attention.estimate_runtime(known, weights)
        compiled = attention.estimate_compiled(known, weights, functions)
        assert np.allclose(numpy.shares, compiled.shares, atol=1e-5)
        assert np.allclose(numpy.weights, compiled.weights, rtol=1e-3)
        assert numpy.jobs.tolist() == compiled.jobs.tolist()
        assert numpy.shares.sum() == pytest.approx(1)
        for price in (0.1, 1.0, 5.0):
            assert functions("best_bin")(compiled.shares, price) == best_bin(compiled.shares, price)
    assert max(len(gather(known).places) for known in some) > 30
    assert max(known.running.shape[1] for known in some) > 2


@pytest.mark.parametrize("way", ["python", "numba"])
def test_features_of_a_user_with_as_many_jobs_as_are_kept_are_equal(way: str, knowns: list[Known]) -> None:
    if way == "numba":
        pytest.importorskip("numba", reason="the extra fast is not installed")
    function = attention.compiled("gather") if way == "numba" else attention.KERNELS["gather"]
    known = max(knowns, key=lambda each: each.ended.shape[1])
    # After all that have ended, all within the last hour.
    submitted = np.sort(
        np.concatenate([known.ended[SUBMITTED], np.linspace(known.now - 1800, known.now - 1, MAX_USER_JOBS)])
    )
    known = known._replace(submitted=submitted[-MAX_USER_JOBS:], keys=np.zeros(MAX_USER_JOBS))
    expected, found = gather(known), attention.gather_compiled(known, function)
    for name, one, other in zip(expected._fields, expected, found, strict=True):
        assert np.allclose(one, other, atol=2e-5), name


def test_every_feature_varies_and_is_limited(knowns: list[Known]) -> None:
    gathered = [gather(known) for known in knowns]
    pairs, job_features = np.concatenate([each.pairs for each in gathered]), np.stack([each.job for each in gathered])
    for values, names in ((pairs, PAIR_FEATURES), (job_features, JOB_FEATURES)):
        assert values.shape[1] == len(names)
        assert np.abs(values).max() <= LARGEST
        # One queue only.
        constant = {name for name, same in zip(names, np.ptp(values, axis=0) == 0, strict=True) if same}
        assert constant <= {"same queue"}


def test_features_hold_only_what_was_known_at_the_submission() -> None:
    """The same jobs with other ends, runtimes and successors after a job's submission: the same features."""
    jobs = sorted(jobs_of_all_kinds(300, seed=8), key=lambda each: each.submission.submitted)
    middle = jobs[200].submission.submitted
    chance = Random(2)
    changed = []
    for each in jobs:
        if each.end > middle and each.submission.submitted <= middle:
            later = middle + chance.randrange(1, DAY)
            runtime = later - (each.start or 0) if (each.start or 0) <= middle else chance.randrange(1, 3600)
            start = each.start if (each.start or 0) <= middle else later - runtime
            changed.append(replace(each, end=later, runtime=runtime, start=start, exit_status=chance.choice([0, -29])))
        elif each.submission.submitted <= middle:
            changed.append(each)
    before, after = known_of(jobs)[:201], known_of(changed)[:201]
    assert sum(each.end > middle for each in changed) > 3
    assert [known.now for known in before] == [known.now for known in after]
    for one, other in zip(map(gather, before), map(gather, after), strict=True):
        assert all(np.array_equal(*parts) for parts in zip(one, other, strict=True))


def test_smearing_keeps_the_mass_within_the_grid() -> None:
    matrices = smears()
    assert matrices.shape == (len(WIDTHS), SIZE, SIZE)
    assert np.allclose(matrices.sum(axis=2), 1)
    middle = REACHES // 2
    spread = [np.sqrt((matrix[middle] * (np.arange(SIZE) - middle) ** 2).sum()) / 16 for matrix in matrices]
    # The standard deviation of a Laplace distribution is its width times the root of 2.
    assert spread[:2] == pytest.approx([width * 2**0.5 for width in WIDTHS[:2]], rel=0.02)


def test_a_file_of_weights_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "weights.json"
    file.write_text(dump(random_weights()))
    weights = load(str(file))
    assert all(np.array_equal(*both) for both in zip(weights.layers, random_weights().layers, strict=True))
    assert weights.about == {"seed": 1}
    assert isinstance(make(f"calibrated:weights={file}"), Calibrated)


def _without_features(contents: dict[str, object]) -> dict[str, object]:
    return contents | {"job_features": ["walltime"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: [], "not a file of weights, or damaged"),
        (lambda contents: contents | {"format": "x"}, "the format is another one"),
        (lambda contents: contents | {"version": 7}, "version 7 of the weights; this softwalltime reads version 1"),
        (_without_features, "with its own features. Write the file again by softwalltime train"),
        (lambda contents: contents | {"layers": {}}, "damaged"),
        (lambda contents: _with_layer(contents, "second", [5, 8]), "damaged"),
        (lambda contents: _with_layer(contents, "bias_1", [8], "AAAA"), "damaged"),
        (lambda contents: _with_layer(contents, "bias_2", [5], "AADAf" * 4), "damaged"),
    ],
)
def test_a_damaged_file_of_weights_gets_a_clear_error(change: object, message: str) -> None:
    assert callable(change)
    text = json.dumps(change(json.loads(dump(random_weights()))))
    with pytest.raises(OptionError, match=message):
        parse(text, "weights=x.json")


def _with_layer(
    contents: dict[str, dict[str, dict[str, object]]], name: str, shape: list[int], values: str | None = None
) -> dict[str, object]:
    layer = contents["layers"][name]
    layers = contents["layers"] | {name: {"shape": shape, "values": layer["values"] if values is None else values}}
    return contents | {"layers": layers}


def test_weights_that_are_not_there_get_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"cannot be read: .* Name a file that softwalltime train wrote"):
        make(f"calibrated:weights={tmp_path / 'none.json'}")


def test_new_weights_under_the_same_name_are_read(tmp_path: Path) -> None:
    file = tmp_path / "weights.json"
    for seed in (1, 2):
        file.write_text(dump(random_weights(seed)))
        assert np.array_equal(load(str(file)).layers[0], random_weights(seed).layers[0])


def test_a_restarted_predictor_answers_alike_and_names_the_jobs(tmp_path: Path) -> None:
    file = tmp_path / "weights.json"
    file.write_text(dump(random_weights()))
    workload = Workload(jobs_of_all_kinds(400, seed=9))
    lived, restarted = (make(f"calibrated:weights={file},compiled=no") for _ in range(2))
    drive(workload, lived, 1)
    jobs = [workload.jobs[int(number)] for number in workload.ends() if workload.teaches[number]]
    # Two jobs of one hour in the other order.
    jobs[-1], jobs[-2] = jobs[-2], jobs[-1]
    for each in jobs:
        restarted.learn(each)
    now = max(each.end for each in jobs) + 1
    for each in jobs[::20]:
        submission = replace(each.submission, submitted=now, job_id="new.srv")
        one, other = lived.predict(submission, now), restarted.predict(submission, now)
        assert isinstance(one, Prediction)
        assert one == other
        assert "past jobs of the user (" in one.basis or "no past jobs" in one.basis


def test_jobs_that_wait_and_run_count_as_submissions(tmp_path: Path) -> None:
    model = Calibrated(CalibratedOptions(compiled="no"), untrained())
    past, waits = job(job_id="1.srv", submitted=0), job(job_id="2.srv", submitted=500, walltime=900)
    model.learn(past)
    workload = Workload([waits])
    model.observe(workload.event(Kind.SUBMITTED, 0, waits))
    asked = job(job_id="3.srv", submitted=1000, walltime=900).submission
    known, ids = model.known(asked, 1000)
    assert ids == ["1.srv"]
    assert known.submitted.tolist() == [0, 500]
    assert known.waiting == 1
    assert known.keys[-1] == known.key
    assert known.ended[SUBMITTED].tolist() == [0]
    model.observe(Ended(1000, waits))
    assert model.known(asked, 1000)[0].submitted.tolist() == [0]


def test_of_many_waiting_jobs_the_last_ones_count_in_whatever_order_they_became_known() -> None:
    model = Calibrated(CalibratedOptions(compiled="no"), untrained())
    waiting = [job(job_id=f"{number}.srv", submitted=number, walltime=900) for number in range(PRESENT + 50)]
    for each in Random(2).sample(waiting, len(waiting)):
        model.observe(Submitted(each.submission.submitted, each.submission))
    known, _ = model.known(job(job_id="x.srv", submitted=5000, walltime=900).submission, 5000)
    assert known.submitted.tolist() == list(range(50, PRESENT + 50))


def test_an_estimate_is_a_distribution_without_any_past_job() -> None:
    model = Calibrated(CalibratedOptions(compiled="no"), random_weights())
    model.learn(job("bob"))
    known, _ = model.known(job("alice", walltime=7200).submission, 5000)
    estimate: Estimate = attention.estimate_runtime(known, random_weights())
    assert len(estimate.jobs) == 0
    assert estimate.shares.sum() == pytest.approx(1)


@pytest.mark.parametrize("name", ["/dev/zero", "pipe", "."])
def test_weights_that_are_no_regular_file_are_refused_at_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(OptionError, match=r"cannot be read: .*(not a regular file|directory)"):
        load(name)


def test_a_file_that_is_too_large_for_weights_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "large.json"
    with file.open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    with pytest.raises(OptionError, match="is larger than 16,777,216 bytes"):
        load(str(file))
