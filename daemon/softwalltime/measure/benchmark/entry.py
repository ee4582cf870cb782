"""The process of one predictor in a benchmark.

It receives the events in the order of time, and the questions between them.  So its predictor cannot know the end of a
job early.
"""

import json
import os
import pickle
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, Popen
from time import thread_time
from typing import BinaryIO, NamedTuple, cast

from softwalltime.core.events import Event
from softwalltime.core.jobs import CompletedJob, Prediction, Submission

LEVELS = tuple(number / 20 for number in range(1, 20))
"""The quantiles that an answer has."""


class EntryError(Exception):
    """The predictor raised an error, or its process ended."""


class Happened(NamedTuple):
    """An event, and the job if it is to be learnt; time in epoch seconds."""

    time: int
    event: Event
    learnt: CompletedJob | None


class Question(NamedTuple):
    """What to answer, after ``happened``: for ``submission`` as of ``now``, ``None`` for the processor time.

    ``elapsed``: seconds that the job has run.
    """

    happened: list[Happened]
    submission: Submission | None = None
    now: int = 0
    elapsed: int = 0


class EntryProcess:
    """A predictor that runs in a process of its own."""

    def __init__(self, questions: BinaryIO, answers: BinaryIO) -> None:
        self._questions, self._answers = questions, answers

    def ask(self, question: Question) -> list[float]:
        """Return the predicted seconds, then :data:`LEVELS` of a distribution; nothing without a prediction.

        :raises EntryError: if the predictor failed.
        """
        try:
            pickle.dump(question, self._questions, pickle.HIGHEST_PROTOCOL)
            self._questions.flush()
            line = self._answers.readline()
            answer = json.loads(line)
        except (OSError, ValueError) as error:
            raise EntryError("its process ended without an answer") from error
        if not isinstance(answer, list):
            raise EntryError(str(answer))
        return answer


@contextmanager
def entered(spec: str) -> Iterator[EntryProcess]:
    """Run a predictor in a process of its own."""
    command = [sys.executable, "-P", "-m", "softwalltime.measure.benchmark.entry", spec]
    with Popen(command, stdin=PIPE, stdout=PIPE) as process:  # noqa: S603  # a module of this package
        try:
            yield EntryProcess(cast("BinaryIO", process.stdin), cast("BinaryIO", process.stdout))
        finally:
            process.kill()


def _serve(spec: str, questions: BinaryIO, answers: BinaryIO) -> None:
    from softwalltime.measure.replay.checked_predictor import checked
    from softwalltime.predict.drive import PredictorDriver
    from softwalltime.predict.predictors.registry import make

    driver = PredictorDriver({spec: checked(make(spec), spec)})
    seconds = 0.0
    while True:
        try:
            question: Question = pickle.load(questions)  # noqa: S301  # of the benchmark itself
        except EOFError:
            return
        begin = thread_time()
        for time, event, learnt in question.happened:
            driver.step(time, None, event if driver.observes else None, learnt)
        answer = [seconds]
        if question.submission is not None:
            driver.fit_due(question.now)
            predicted = driver.predict(spec, question.submission, question.now, question.elapsed)
            answer = []
            if isinstance(predicted, Prediction):
                answer = [predicted.seconds, *(predicted.quantiles(LEVELS) if predicted.is_distribution else ())]
        seconds += thread_time() - begin
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def main() -> None:
    """Read questions from standard input and write answers to standard output.

    What the predictor itself prints goes to standard error.
    """
    # Ctrl-C ends the benchmark, whose end closes the input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        try:
            _serve(sys.argv[1], sys.stdin.buffer, answers)
        # A predictor of another package may raise any exception.
        except Exception as error:
            answers.write(json.dumps(" ".join(f"{type(error).__name__}: {error}".split())).encode() + b"\n")


if __name__ == "__main__":
    main()
