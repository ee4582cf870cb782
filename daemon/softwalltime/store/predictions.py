"""Write decisions about jobs to the store, and read them."""

from collections.abc import Sequence

from sqlalchemy import Connection, and_, func, or_, select

from softwalltime.core.jobs import DecisionRecord
from softwalltime.store.completed_jobs import add_scripts, copy_lines
from softwalltime.store.encoding import CopyTexts
from softwalltime.store.tables import predictions

_of = predictions.columns
_COLUMNS = (
    "predicted_at", "walltime", "soft_walltime", "predicted", "took", "event", "job_id", "user_name", "project",
    "queue", "mode", "predictor", "action", "basis", "timeouts", "exchange_before", "reason", "had",
    "ordering",
)  # fmt: skip


def add_decisions(connection: Connection, decisions: Sequence[DecisionRecord]) -> None:
    """Record decisions in the order given, and the scripts of their jobs; call it with some hundreds at a time.

    :raises StoreError: if PostgreSQL fails.
    """
    if not decisions:
        return
    texts = CopyTexts()
    copy_lines(connection, predictions, _COLUMNS, ["".join([_line(decision, texts) for decision in decisions])])
    add_scripts(connection, [decision.submission for decision in decisions])


def first_value(connection: Connection, since: int) -> int | None:
    """Return the time of the first decision since ``since`` that set a value in PBS, epoch seconds.

    ``None`` if there is none.
    """
    given = or_(and_(_of.action == "set", _of.soft_walltime.is_not(None)), _of.ordering.is_not(None))
    wanted = select(func.min(_of.predicted_at)).where(_of.predicted_at >= since, _of.mode == "on", given)
    found: int | None = connection.execute(wanted).scalar_one()
    return found


def _line(decision: DecisionRecord, texts: CopyTexts) -> str:
    """Return the decision in COPY's text format, in the order of ``_COLUMNS``."""
    job = decision.submission
    return (
        f"{decision.at}\t{job.walltime}\t{decision.soft_walltime}\t{decision.predicted}\t{decision.took}\t"
        f"{texts[decision.event]}\t{texts[job.job_id]}\t{texts[job.user]}\t{texts[job.project]}\t{texts[job.queue]}\t"
        f"{texts[decision.mode]}\t{texts[decision.predictor]}\t{texts[decision.action]}\t{texts[decision.basis]}\t"
        f"{decision.timeouts}\t{decision.exchange_before}\t{decision.reason}\t{decision.had}\t"
        f"{decision.ordering}\n"
    )
