"""The learned attention: features known at submission, the estimate, the file of weights."""

import json
import os
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from softwalltime.core.errors import OptionError
from softwalltime.core.events import Ended, Kind, Submitted
from softwalltime.core.jobs import CompletedJob, Prediction
from softwalltime.measure.replay.fast_replay import drive
from softwalltime.measure.replay.workload import Workload, event_of
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.predictors.calibrated import MAX_PRESENT_JOBS, Calibrated, CalibratedOptions
from softwalltime.predict.predictors.learned import attention
from softwalltime.predict.predictors.learned.attention import estimate_runtime, gather_features, smears
from softwalltime.predict.predictors.learned.distribution import REACHES, SIZE
from softwalltime.predict.predictors.learned.features import (
    JOB_FEATURES,
    PAIR_FEATURES,
    WIDTHS,
    Estimate,
    Known,
)
from softwalltime.predict.predictors.learned.gather import MAX_FEATURE, gather
from softwalltime.predict.predictors.learned.network import MAX_BYTES, Weights, dump, load, parse, untrained
from softwalltime.predict.predictors.learned.user_jobs import MAX_USER_JOBS, SUBMITTED
from softwalltime.predict.predictors.registry import make
from tests.predictors.distributions import evaluate, mixture
from tests.samples import job

DAY = 86400
"""Seconds."""
PAIR_MEANS = (
    2.3346, -0.1389, 0.1764, 1.5376, 0.1859, 1.0000, 0.5036, 0.3331, 0.0483, 0.7908, 0.0974, 0.7026, 0.9988,
    0.8839, 0.0828, 0.2123, 0.2070, -0.3654, -0.4003, 0.3889, 0.1251, 0.2354, 0.0484, 0.0724, 0.2290, 0.1408,
    0.8390, 0.6890, 0.0318, 0.2210, 0.0771, 0.2063, -1.3971,
)  # fmt: skip
JOB_MEANS = (
    -0.1542, 0.4270, 0.7431, 0.1174, 0.2751, 0.4940, 0.2460, 0.1756, 0.3117, 0.9859, -0.3863, -0.4546, -0.4325,
    0.1754, 0.1935, 0.2399, 0.2399, 0.2601, 0.2238, -0.2136, -0.2362, 0.5040, 0.0847, 0.1310, 0.1129, 0.3569,
    0.1184, -0.1099, -0.5261, 0.0257, 0.2555, 0.2047, -0.4991, 0.9285, -0.2333, 0.1338, -0.3290, 0.1945, 0.0481,
    -0.4230, 0.3738, -0.3614, 0.1691, 0.4825, -0.4094, 0.1809, 0.2751, -0.3415, 0.1705, 0.1122, 0.3140, 0.6835,
    0.1573, 0.0376,
)  # fmt: skip
OTHER_MEANS = {
    "base": (-5.588389215777427, 42.124875353216325),
    "logs": (-1.4615978290601, 270.8853934605627),
    "shifts": (-0.13945070081667896, -169.12348703940557),
    "kinds": (0.4203223831871047, 174.43003007845928),
    "priors": (0.003811443932411674, 6.855345250425218),
}
"""Of each array its mean, and its product with a cosine, which depends on the order."""


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
    model = Calibrated(CalibratedOptions(), untrained())
    workload, found = Workload(jobs), []
    for stride in workload.stream(everything=True):
        for kind, number, each, now, _ in zip(*stride, strict=True):
            if kind == Kind.SUBMITTED and each.submission.walltime:
                known, _ = model.known(each.submission, each.submission.submitted)
                # Copies: the predictor's own arrays change.
                found.append(Known(*(np.copy(part) if isinstance(part, np.ndarray) else part for part in known)))
            model.observe(event_of(kind, now, each))
            if kind == Kind.ENDED and workload.teaches[number]:
                model.learn(each)
    return found


@pytest.fixture(scope="module")
def knowns() -> list[Known]:
    return known_of(jobs_of_all_kinds(500))


def test_features_are_the_recorded_ones(knowns: list[Known]) -> None:
    """Means, as a second implementation of the features with numpy gave them."""
    gathered = [gather_features(known) for known in knowns]
    assert np.concatenate([each.pairs for each in gathered]).mean(0, float) == pytest.approx(PAIR_MEANS, abs=1e-4)
    assert np.stack([each.job for each in gathered]).mean(0, float) == pytest.approx(JOB_MEANS, abs=1e-4)
    for name, (mean, mixed) in OTHER_MEANS.items():
        values = np.concatenate([np.ravel(getattr(each, name)) for each in gathered])
        assert values.mean() == pytest.approx(mean, rel=1e-6), name
        assert values @ np.cos(np.arange(len(values))) == pytest.approx(mixed, rel=1e-6), name
    assert sum(int(each.places.sum()) for each in gathered) == 676_871
    assert max(len(each.places) for each in gathered) > 30
    assert max(known.running.shape[1] for known in knowns) > 2


def test_an_estimate_is_the_mixture_of_past_runtimes_by_the_networks_weights(knowns: list[Known]) -> None:
    weights = random_weights()
    for known in knowns[::5]:
        features, estimate = gather_features(known), estimate_runtime(known, weights)
        shares, counted = mixture(features, *evaluate(features, weights), known.everybody)
        assert np.allclose(estimate.shares, shares, atol=1e-5)
        assert np.allclose(estimate.weights, counted[: len(estimate.jobs)], rtol=1e-3)
        assert estimate.jobs.tolist() == features.places.tolist()
        assert estimate.shares.sum() == pytest.approx(1)


def test_features_of_a_user_with_as_many_jobs_as_are_kept_are_those_of_plain_python(knowns: list[Known]) -> None:
    known = max(knowns, key=lambda each: each.ended.shape[1])
    # After all that have ended, all within the last hour.
    submitted = np.sort(
        np.concatenate([known.ended[SUBMITTED], np.linspace(known.now - 1800, known.now - 1, MAX_USER_JOBS)])
    )
    known = known._replace(submitted=submitted[-MAX_USER_JOBS:], keys=np.zeros(MAX_USER_JOBS))
    found = gather_features(known)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "gather", gather.function)
        expected = gather_features(known)
    for name, one, other in zip(expected._fields, expected, found, strict=True):
        assert np.allclose(one, other, atol=2e-5), name


def test_every_feature_varies_and_is_limited(knowns: list[Known]) -> None:
    gathered = [gather_features(known) for known in knowns]
    pairs, job_features = np.concatenate([each.pairs for each in gathered]), np.stack([each.job for each in gathered])
    for values, names in ((pairs, PAIR_FEATURES), (job_features, JOB_FEATURES)):
        assert values.shape[1] == len(names)
        assert np.abs(values).max() <= MAX_FEATURE
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
    for one, other in zip(map(gather_features, before), map(gather_features, after), strict=True):
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
    lived, restarted = (make(f"calibrated:weights={file}") for _ in range(2))
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
    model = Calibrated(CalibratedOptions(), untrained())
    past, waits = job(job_id="1.srv", submitted=0), job(job_id="2.srv", submitted=500, walltime=900)
    model.learn(past)
    model.observe(event_of(Kind.SUBMITTED, waits.submission.submitted, waits))
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
    model = Calibrated(CalibratedOptions(), untrained())
    waiting = [job(job_id=f"{number}.srv", submitted=number, walltime=900) for number in range(MAX_PRESENT_JOBS + 50)]
    for each in Random(2).sample(waiting, len(waiting)):
        model.observe(Submitted(each.submission.submitted, each.submission))
    known, _ = model.known(job(job_id="x.srv", submitted=5000, walltime=900).submission, 5000)
    assert known.submitted.tolist() == list(range(50, MAX_PRESENT_JOBS + 50))


def test_an_estimate_is_a_distribution_without_any_past_job() -> None:
    model = Calibrated(CalibratedOptions(), random_weights())
    model.learn(job("bob"))
    known, _ = model.known(job("alice", walltime=7200).submission, 5000)
    estimate: Estimate = estimate_runtime(known, random_weights())
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
