"""Expected starts as a resource of waiting jobs, so that ``qstat -f`` shows them to their owners."""

import logging
import time
from collections.abc import Mapping, Sequence

from softwalltime.accounting.attributes import converted
from softwalltime.forecast.expected import ExpectedStart
from softwalltime.live.agent import START_RESOURCE
from softwalltime.live.connection import PbsConnection
from softwalltime.live.ifl import NO_JOB, REFUSED, IflError

UNKNOWN = "unknown"
_MINUTE = "%Y-%m-%dT%H:%M"
UNKNOWN_RESOURCE = 15035
"""PBSE_UNKRESC of pbs_error.h."""

log = logging.getLogger(__name__)


def shown_text(expected: int, low: int, high: int) -> str:
    """Return an expected start and its range (epoch seconds) as the resource shows them, in local time."""
    first, *ends = (time.strftime(_MINUTE, time.localtime(moment)) for moment in (expected, low, high))
    return f"{first}({ends[0]}..{ends[1]})"


def shown_times(text: str) -> tuple[int, ...]:
    """Return the three times of such a text, epoch seconds; none if it has none."""
    parts = text.replace("(", " ").replace("..", " ").replace(")", " ").split()
    times = [converted(part, lambda each: int(time.mktime(time.strptime(each, _MINUTE)))) for part in parts]
    return tuple(moment for moment in times if moment is not None) if len(times) == 3 else ()


class ShownStarts:
    """Keeps the resource of one server's waiting jobs current.

    :param least: least change of an expected start or an end of its range that is shown, seconds; also a fifth of the
        time until then.
    :param budget: most alters at a time.
    """

    def __init__(self, connection: PbsConnection, least: int, budget: int) -> None:
        self._connection = connection
        self._least = least
        self._budget = budget
        self._refused: dict[str, str] = {}

    def show(self, starts: Sequence[ExpectedStart], has: Mapping[str, str]) -> tuple[int, int]:
        """Show the starts that changed, the next ones first; return how many jobs were altered and refused.

        Subjobs are left out: PBS alters no single one.

        :param has: what the resource of each job shows already.
        :raises IflError: if nothing can be altered for now.
        """
        there = {start.job.submission.job_id for start in starts}
        self._refused = {job_id: text for job_id, text in self._refused.items() if job_id in there}
        shown = refused = 0
        for start in starts:
            job_id = start.job.submission.job_id
            text = self._text(start, has.get(job_id, ""))
            if not text or "[" in job_id or self._refused.get(job_id) == text:
                continue
            if shown + refused >= self._budget:
                break
            try:
                self._connection.alter(job_id, text, START_RESOURCE)
            except IflError as error:
                if error.code in NO_JOB:
                    continue
                if error.code == UNKNOWN_RESOURCE:
                    create = f"qmgr -c 'create resource {START_RESOURCE} type=string, flag=r'"
                    raise IflError(f"{error}: run {create}", error.code) from error
                # Everything else is about PBS or our account, and not about this job.
                if error.code not in REFUSED:
                    raise
                refused += 1
                self._refused[job_id] = text
                log.warning("starts: PBS refuses to show a start: %s", error)
            else:
                shown += 1
        return shown, refused

    def _text(self, start: ExpectedStart, has: str) -> str:
        """Return the text to show; empty if the start has moved by less than the minimum change."""
        if start.expected is None:
            return UNKNOWN if has not in ("", UNKNOWN) else ""
        now = (start.expected, *(start.range90 or (start.expected, start.expected)))
        before = shown_times(has)
        least = max(self._least, abs(start.expected - int(time.time())) // 5)
        if before and all(abs(moment - other) < least for moment, other in zip(now, before, strict=True)):
            return ""
        return shown_text(*now)
