"""Training: examples from a log, and with PyTorch a loss that falls, and only weights that are better are written."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from softwalltime.cli import run
from softwalltime.measure.replay.workload import Workload, event_of
from softwalltime.measure.training import weights
from softwalltime.measure.training.examples import Examples, examples_of
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.predictors.calibrated import Calibrated, CalibratedOptions
from softwalltime.predict.predictors.learned.attention import estimate_runtime
from softwalltime.predict.predictors.learned.distribution import SIZE, bin_of
from softwalltime.predict.predictors.learned.network import SHIPPED, load, untrained
from softwalltime.predict.predictors.registry import make

NO_TORCH = "the extra train is not installed (PyTorch)"


def examples(count: int = 300, seed: int = 3, most: int = 10_000) -> Examples:
    found = examples_of(Workload(generate(count, seed=seed)), most, seed=1)
    assert found is not None
    return found


def test_an_example_is_what_the_predictor_knows_at_the_submission() -> None:
    workload = Workload(generate(300, seed=3))
    found = examples_of(workload, 10_000, seed=1)
    assert found is not None
    scored = [number for number in np.flatnonzero(workload.scored) if number >= 20]
    assert len(found) == len(scored)
    log = np.log(np.minimum(workload.runtime, workload.walltime)[scored] / workload.walltime[scored])
    assert found.log == pytest.approx(log, abs=1e-4)
    assert found.found.tolist() == [bin_of(float(each)) for each in np.minimum(log, 0)]
    assert (np.diff(found.first) >= 0).all()
    assert found.first[-1] == len(found.base) == len(found.pairs)
    assert np.allclose(found.priors[-1, :3].sum(axis=1).round(2) % 1, 0)


def test_examples_are_drawn_at_random_and_joined_in_order() -> None:
    one, other = examples(most=50), examples(seed=4, most=70)
    joined = Examples.joined([one, other])
    assert (len(one), len(other), len(joined)) == (50, 70, 120)
    assert joined.source.tolist() == [0] * 50 + [1] * 70
    begin, end = joined.first[50 + 7], joined.first[50 + 8]
    assert np.array_equal(joined.pairs[begin:end], other.pairs[other.first[7] : other.first[8]])
    assert np.array_equal(examples(most=50).job, one.job)


def test_the_halves_of_a_log_are_apart_in_time_and_lose_nothing() -> None:
    whole = examples()
    earlier, later = whole.split()
    assert earlier.submitted[-1] < (whole.submitted[0] + whole.submitted[-1]) / 2 <= later.submitted[0] + 1
    joined = Examples.joined([earlier, later])
    for name in ("first", "pairs", "base", "kinds", "job", "priors", "found", "submitted"):
        assert np.array_equal(getattr(joined, name), getattr(whole, name)), name


def test_a_log_without_scored_jobs_gives_no_examples() -> None:
    assert examples_of(Workload(generate(15, seed=3)), 100, seed=1) is None


def test_training_lowers_the_loss_of_the_log_and_of_another_one() -> None:
    pytest.importorskip("torch", reason=NO_TORCH)
    from softwalltime.measure.training.model import Attention, losses, train

    trained_on, held_out = examples(2000), examples(800, seed=9)
    model = train(trained_on, epochs=6, seed=1)
    for each in (trained_on, held_out):
        assert losses(model, each).mean() < losses(Attention(), each).mean() - 0.02


def test_the_exported_weights_give_the_distribution_of_pytorch() -> None:
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    from softwalltime.measure.training.model import batch_of, train

    found = examples(300)
    model = train(found, epochs=2, seed=1)
    weights, workload = model.weights({}), Workload(generate(300, seed=3))
    predictor = Calibrated(CalibratedOptions(), untrained())
    expected = []
    for stride in workload.stream(everything=True):
        for kind, number, job, now, _ in zip(*stride, strict=True):
            if kind == 1 and workload.scored[number] and number >= 20:
                known, _ = predictor.known(job.submission, job.submission.submitted)
                expected.append(estimate_runtime(known, weights).shares)
            predictor.observe(event_of(kind, now, job))
            if kind == 0 and workload.teaches[number]:
                predictor.learn(job)
    with torch.no_grad():
        shares = model(batch_of(found, np.arange(len(found)))).numpy()
    assert shares.shape == (len(found), SIZE)
    # The examples have 16 bits.
    assert np.abs(shares - np.stack(expected)).sum(axis=1).max() < 0.1


def test_equal_seeds_give_equal_weights() -> None:
    pytest.importorskip("torch", reason=NO_TORCH)
    from softwalltime.measure.training.model import train

    found = examples(300)
    one, same, other = (train(found, epochs=1, seed=seed).weights({}).layers for seed in (1, 1, 2))
    assert all(np.array_equal(*both) for both in zip(one, same, strict=True))
    assert not np.array_equal(one[0], other[0])


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("logs")
    for seed in ("1", "2"):
        assert run(["generate", str(folder / f"site{seed}"), "--jobs", "300", "--seed", seed]) == 0
    return [str(folder / "site1"), str(folder / "site2")]


def test_the_command_writes_weights_that_the_predictor_reads(
    logs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason=NO_TORCH)
    file = tmp_path / "weights.json"
    assert run(["train", logs[0], "--output", str(file), "--epochs", "1", "--weights", "random"]) == 0
    assert capsys.readouterr().out == f"wrote {file}\n"
    trained = load(str(file))
    assert list(trained.about["logs"]) == ["site1"]
    assert trained.about["options"] == {"jobs": 80_000, "epochs": 1, "seed": 1, "weights": "random"}
    assert make(f"calibrated:weights={file}")
    assert json.loads(file.read_text())["version"] == 1


@pytest.mark.parametrize(("seed", "better"), [("4", True), ("3", False)])
def test_weights_that_are_not_better_on_other_jobs_are_not_written(
    seed: str, better: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason=NO_TORCH)
    site, file = str(tmp_path / "site"), tmp_path / "weights.json"
    size = ("--jobs", "500", "--users", "8", "--processors", "2")
    assert run(["generate", site, *size, "--seed", seed]) == 0
    capsys.readouterr()
    assert run(["train", site, "-o", str(file)]) == 0
    printed, written = capsys.readouterr().out, load(str(file))
    low, high = (float(each) for each in re.findall(r"(\S+) to (\S+) \|", printed)[0])
    assert low < high
    assert (high < 0) == better
    assert (written.digest == load(SHIPPED).digest) != better
    assert ("no gain beyond chance on every log: wrote the weights that training started from" in printed) != better
    assert list(written.about["logs"]) == ["site"] if better else "site" not in written.about["logs"]


def test_a_log_of_a_few_weeks_is_not_compared(
    logs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason=NO_TORCH)
    assert run(["train", logs[0], "-o", str(tmp_path / "weights.json")]) == 2
    assert "site1: the jobs to train on are of 2 weeks: give logs of 8 weeks or more" in capsys.readouterr().err
    assert not (tmp_path / "weights.json").exists()


def test_without_pytorch_the_command_says_what_to_install(
    logs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "find_spec", lambda _: None)
    assert run(["train", *logs, "--output", str(tmp_path / "x")]) == 1
    assert "torch is missing: run pip install 'pbs-softwalltime[train]'" in capsys.readouterr().err


def test_wrong_use_of_the_command_gets_one_line(logs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", *logs, "--output", "/nowhere/x"]) == 2
    error = capsys.readouterr().err
    assert "/nowhere/x: cannot be written" in error
    assert error.count("\n") == 1


def test_as_many_batches_as_pytorch_cannot_schedule_are_trained() -> None:
    pytest.importorskip("torch", reason=NO_TORCH)
    from softwalltime.measure.training.model import train

    assert np.isfinite(train(examples(100), epochs=5, seed=1).weights({}).layers[0]).all()


def test_a_damaged_source_is_named_and_fails(
    logs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason=NO_TORCH)
    folder = tmp_path / "logs"
    shutil.copytree(logs[0], folder)
    (folder / "20991231.gz").write_bytes(b"\x1f\x8b no gzip")
    capsys.readouterr()
    assert run(["train", str(folder), "-o", str(tmp_path / "weights.json"), "--weights", "random"]) == 1
    assert "20991231.gz" in capsys.readouterr().err
