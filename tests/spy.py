"""A predictor that writes down what a driver asks and tells it, and when: every driver is run with it."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, NamedTuple

import pytest

from softwalltime.core.events import Ended, Event
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.measure.replay.workload import Workload
from softwalltime.predict.predictors import registry
from softwalltime.predict.predictors.base import History, Options, Predictor
from tests.samples import ROOT


class Entry(NamedTuple):
    """``did`` is ``learn``, ``predict`` or the kind of an observed event; ``time`` what the predictor was told."""

    did: str
    job_id: str
    time: int


class Spy(Predictor):
    """Predicts nothing that rests on a job: 100 s and the number of jobs that it has learnt."""

    name: ClassVar[str] = "spy"
    summary: ClassVar[str] = "writes down what it is asked and told"
    source: ClassVar[str] = "the tests"

    instances: ClassVar[list["Spy"]] = []
    """Those that drivers have made."""

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options or Options())
        self.entries: list[Entry] = []
        self.learnt: list[CompletedJob] = []
        self.instances.append(self)

    def learn(self, job: CompletedJob) -> None:
        self.learnt.append(job)
        self.entries.append(Entry("learn", job.submission.job_id, job.end))

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        self.entries.append(Entry("predict", submission.job_id, now))
        return Prediction(100.0 + len(self.learnt), "{} jobs learnt", (len(self.learnt),))


class ObservingSpy(Spy):
    """Writes down the events too."""

    name: ClassVar[str] = "observing-spy"

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options)
        self.observed: list[Event] = []

    def observe(self, event: Event) -> None:
        self.observed.append(event)
        submission = event.job.submission if isinstance(event, Ended) else event.submission
        self.entries.append(Entry(type(event).__name__, submission.job_id, event.time))


class FileSpy(ObservingSpy):
    """Writes to the file that the environment names: for drivers in a process of their own."""

    name: ClassVar[str] = "file-spy"

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options)
        self.entries = _File(Path(os.environ["SPY_FILE"]))


class FailingSpy(FileSpy):
    """Fails in the steps that the environment names, after it has written down what it was asked or told."""

    name: ClassVar[str] = "failing-spy"

    def _fail(self, step: str) -> None:
        if step in os.environ["SPY_FAILS"].split(","):
            raise ArithmeticError(f"no {step}")

    @property
    def history(self) -> History:
        self._fail("history")
        return super().history

    def learn(self, job: CompletedJob) -> None:
        super().learn(job)
        self._fail("learn")

    def observe(self, event: Event) -> None:
        super().observe(event)
        self._fail("observe")

    def fit(self, now: int) -> None:
        self._fail("fit")

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        self._fail("predict")
        return super().predict(submission, now, elapsed)


class _File(list[Entry]):
    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, entry: Entry) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")


def read_entries(path: Path) -> list[Entry]:
    """What a ``FileSpy`` has written."""
    return [Entry(*json.loads(line)) for line in path.read_text().splitlines()]


def file_spy_environment(folder: Path) -> dict[str, str]:
    """An environment in which the command knows ``file-spy``, as of a package that is installed; it writes to
    ``folder / "spied"``.
    """
    metadata = folder / "spies" / "spies-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: spies\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[softwalltime.predict.predictors]\nfile-spy = tests.spy:FileSpy\nfailing-spy = tests.spy:FailingSpy\n"
    )
    (folder / "spied").touch()
    return {"PYTHONPATH": f"{metadata.parent}:{ROOT}", "SPY_FILE": str(folder / "spied")}


@contextmanager
def registered(*predictors: type[Predictor]) -> Iterator[None]:
    """Let the registry know these predictors meanwhile, by their names."""
    known = (*registry.entries(), *(registry.Entry(each.name, "the tests", each) for each in predictors))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "entries", lambda: known)
        yield


def assert_nothing_was_known_early(entries: Iterable[Entry], workload: Workload) -> None:
    """Assert of a driver: at every question the jobs that teach and had ended by then are learnt, no others, each once.

    The workload's ids are unique.
    """
    taught = zip(workload.jobs, workload.ended, workload.teaches, strict=True)
    ended = {each.submission.job_id: int(end) for each, end, teaches in taught if teaches}
    learnt: set[str] = set()
    for did, job_id, time in entries:
        if did == "learn":
            assert job_id not in learnt, f"{job_id} was learnt twice"
            learnt.add(job_id)
        elif did == "predict":
            assert learnt == {known for known, end in ended.items() if end <= time}, f"asked about {job_id} at {time}"
