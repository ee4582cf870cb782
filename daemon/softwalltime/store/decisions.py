"""What was predicted, out of the store."""

from collections.abc import Iterator

from sqlalchemy import Connection, or_, select

from softwalltime.jobs import DecisionRecord, Submission
from softwalltime.reasons import Reason
from softwalltime.store.jobs import stream
from softwalltime.store.tables import predictions

_of = predictions.columns


def read_decisions(connection: Connection) -> Iterator[DecisionRecord]:
    """The soft walltimes that waiting jobs were given, or would have been in shadow mode, in the order of deciding.

    At queuejob a job has no id yet.  Of its submission the id, user, project, queue and walltime are known; its time is
    that of the decision.
    """
    wanted = (
        select(
            _of.predicted_at, _of.event, _of.job_id, _of.user_name, _of.walltime, _of.project, _of.queue, _of.mode,
            _of.predictor, _of.predicted, _of.soft_walltime, _of.action, _of.basis, _of.took,
            _of.reason,
        )
        .where(
            or_(_of.job_id != "", _of.event == "queuejob"),
            _of.event != "runjob",
            _of.soft_walltime.is_not(None),
            _of.action != "none",
        )
        .order_by(_of.id)
    )  # fmt: skip
    for at, event, job_id, user, walltime, project, queue, *rest in stream(connection, wanted):
        mode, predictor, predicted, soft_walltime, action, basis, took, reason = rest
        submission = Submission(job_id, user, at, walltime, project=project, queue=queue)
        yield DecisionRecord(
            at, event, submission, mode, predictor, predicted, soft_walltime, action, basis, took or 0,
            reason=Reason(reason or Reason.PREDICTED),
        )  # fmt: skip
