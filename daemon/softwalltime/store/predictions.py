"""What was predicted, into the store."""

from collections.abc import Sequence

from psycopg import sql
from sqlalchemy import Connection

from softwalltime.jobs import DecisionRecord
from softwalltime.store.encoding import NULL, CopyTexts
from softwalltime.store.engine import driver_connection
from softwalltime.store.tables import predictions

_COLUMNS = (
    "predicted_at", "walltime", "soft_walltime", "predicted", "took", "event", "job_id", "user_name", "project",
    "queue", "mode", "predictor", "action", "basis", "timeouts", "exchange_before", "reason",
)  # fmt: skip
_COPY = sql.SQL("COPY {} ({}) FROM STDIN (NULL {})").format(
    sql.Identifier(str(predictions.schema), predictions.name),
    sql.SQL(", ").join(map(sql.Identifier, _COLUMNS)),
    sql.Literal(NULL),
)


def add_decisions(connection: Connection, decisions: Sequence[DecisionRecord]) -> None:
    """Record decisions in the order given; best some hundreds at a time.

    :raises StoreError: if PostgreSQL fails.
    """
    if not decisions:
        return
    texts = CopyTexts(NULL)
    lines = "".join([_line(decision, texts) for decision in decisions])
    with driver_connection(connection) as driver, driver.cursor() as cursor, cursor.copy(_COPY) as copy:
        copy.write(lines)


def _line(decision: DecisionRecord, texts: CopyTexts) -> str:
    """The decision in COPY's text format, in the order of ``_COLUMNS``."""
    job = decision.submission
    return (
        f"{decision.at}\t{job.walltime}\t{decision.soft_walltime}\t{decision.predicted}\t{decision.took}\t"
        f"{texts[decision.event]}\t{texts[job.job_id]}\t{texts[job.user]}\t{texts[job.project]}\t{texts[job.queue]}\t"
        f"{texts[decision.mode]}\t{texts[decision.predictor]}\t{texts[decision.action]}\t{texts[decision.basis]}\t"
        f"{decision.timeouts}\t{decision.exchange_before}\t{decision.reason}\n"
    )
