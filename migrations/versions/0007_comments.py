"""The comments of tables and columns in plain technical English."""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

SCHEMA = "softwalltime"

# By table, and by column, "" for the table itself: the comment of the version before, and the comment from now on.
COMMENTS = {
    "completed_jobs": {
        "": (
            "Jobs that ended, each run of a job once. Learning order is (end_time, id).",
            "Completed jobs, each run of a job once.",
        ),
        "id": ("the order in which jobs became known", "order in which jobs were stored"),
        "ctime": ("when it was submitted, epoch seconds", "submission time, epoch seconds"),
        "qtime": ("when it came into its queue, epoch seconds", "time at which it entered its queue, epoch seconds"),
        "etime": (
            "when it became eligible to run, epoch seconds",
            "time at which it became eligible to run, epoch seconds",
        ),
        "start_time": (
            "when it started, epoch seconds; null: it never did",
            "start time, epoch seconds; null: never started",
        ),
        "end_time": ("when it ended, epoch seconds", "end time, epoch seconds"),
        "walltime": (
            "what the user asked for or a default gave, seconds; null: no limit",
            "requested or default walltime, seconds; null: no limit",
        ),
        "soft_walltime": (
            "the last soft walltime that it had, seconds; null: none",
            "last soft walltime, seconds; null: none",
        ),
        "min_walltime": (
            "least walltime of a shrink-to-fit job, seconds; null: it was none",
            "minimum walltime of a shrink-to-fit job, seconds; null: not shrink-to-fit",
        ),
        "max_walltime": (
            "greatest walltime of a shrink-to-fit job, seconds",
            "maximum walltime of a shrink-to-fit job, seconds",
        ),
        "runtime": (
            "how long it ran, seconds; 0: it did not, or died at once",
            "runtime, seconds; 0: did not run, or ended at once",
        ),
        "mem": ("memory asked for, bytes", "memory requested, bytes"),
        "ncpus": ("processors asked for", "processors requested"),
        "nodect": ("chunks or nodes asked for", "chunks or nodes requested"),
        "ngpus": ("GPUs asked for", "GPUs requested"),
        "exit_status": ("as PBS recorded it", "Exit_status as PBS recorded it"),
        "run_count": ("how often it was started", "number of starts"),
        "state": ("how it ended, by its exit status", "how the job ended, derived from its exit status"),
        "interactive": ("whether it was an interactive job; null: not recorded", "interactive job; null: not recorded"),
        "server": ("the PBS server whose log told of it", "PBS server whose accounting log has the job"),
        "job_id": ("with the array index, as 3[1].srv", "job id with the array index, such as 3[1].srv"),
        "user_name": ("who ran it", "user"),
        "group_name": ("the group that it ran under", "group"),
        "project": ("PBS's project", "PBS project"),
        "account": ("the account string given at submission", "account string given at submission"),
        "job_name": ("the name given at submission", "job name given at submission"),
        "queue": ("the queue that it ran from", "queue from which it ran"),
        "select_spec": ("the chunks asked for", "select specification: chunks requested"),
        "place": ("how the chunks were to be placed", "placement requested for the chunks"),
    },
    "teaching_states": {
        "": (
            "Which jobs teach: the site's setting, written down by the daemon for the predictors in SQL.",
            "Job states from which predictors learn: the site's setting, stored for the predictors in SQL.",
        ),
        "state": ("jobs that ended so teach the predictors", "predictors learn from jobs with this state"),
    },
    "interrupted_runs": {
        "": (
            "Runs that were stopped for the job to be run again; completed_jobs has the run that completed.",
            "Runs that were stopped and requeued; completed_jobs has the run that completed.",
        ),
        "start_time": ("when this run started, epoch seconds", "start time of this run, epoch seconds"),
        "end_time": ("when it was stopped, epoch seconds", "time at which the run was stopped, epoch seconds"),
        "walltime": ("its limit, seconds; null: none", "walltime, seconds; null: no limit"),
        "soft_walltime": (
            "the last soft walltime that it had, seconds; null: none",
            "last soft walltime, seconds; null: none",
        ),
        "runtime": ("how long it ran, seconds", "runtime, seconds"),
        "exit_status": ("as PBS recorded it", "Exit_status as PBS recorded it"),
        "run_count": ("the how manieth run it was", "run count"),
        "state": ("how it ended, by its exit status", "how the job ended, derived from its exit status"),
        "server": ("the PBS server whose log told of it", "PBS server whose accounting log has the job"),
        "job_id": ("with the array index, as 3[1].srv", "job id with the array index, such as 3[1].srv"),
        "user_name": ("whose job it was", "user"),
        "project": ("PBS's project", "PBS project"),
        "queue": ("the queue that it ran from", "queue from which it ran"),
    },
    "current_jobs": {
        "": (
            "Jobs that wait or run at this moment, as far as the accounting log has been read.",
            "Waiting and running jobs, as of the last accounting record read.",
        ),
        "ctime": ("when it was submitted, epoch seconds", "submission time, epoch seconds"),
        "qtime": ("when it came into its queue, epoch seconds", "time at which it entered its queue, epoch seconds"),
        "etime": (
            "when it became eligible to run, epoch seconds; null: it is not, being held for instance",
            "time at which it became eligible to run, epoch seconds; null: not eligible, for example held",
        ),
        "start_time": ("when it started, epoch seconds; null: it waits", "start time, epoch seconds; null: waiting"),
        "walltime": ("its limit, seconds; null: none", "walltime, seconds; null: no limit"),
        "soft_walltime": ("its soft walltime, seconds; null: none", "soft walltime, seconds; null: none"),
        "min_walltime": (
            "least walltime of a shrink-to-fit job, seconds; null: it is none",
            "minimum walltime of a shrink-to-fit job, seconds; null: not shrink-to-fit",
        ),
        "max_walltime": (
            "greatest walltime of a shrink-to-fit job, seconds",
            "maximum walltime of a shrink-to-fit job, seconds",
        ),
        "ncpus": ("processors asked for", "processors requested"),
        "nodect": ("chunks or nodes asked for", "chunks or nodes requested"),
        "interactive": ("whether it is an interactive job; null: not recorded", "interactive job; null: not recorded"),
        "is_array": (
            "whether it is a whole array; its subjobs run, and it waits",
            "whole array; its subjobs run, the array itself waits",
        ),
        "server": ("the PBS server that has it", "PBS server"),
        "job_id": ("with the array index, as 3[1].srv", "job id with the array index, such as 3[1].srv"),
        "user_name": ("whose job it is", "user"),
        "group_name": ("the group that it runs under", "group"),
        "project": ("PBS's project", "PBS project"),
        "account": ("the account string given at submission", "account string given at submission"),
        "queue": ("the queue that it is in", "queue"),
        "job_name": ("the name given at submission", "job name given at submission"),
        "select_spec": ("the chunks requested", "select specification: chunks requested"),
        "place": ("the placement requested for the chunks", "placement requested for the chunks"),
    },
    "log_positions": {
        "": (
            "How far each accounting log has been read; moves in the same transaction as the jobs that were read.",
            "Position up to which each accounting log has been read; changes in the same transaction as the jobs.",
        ),
        "server": ("the PBS server that writes the log", "PBS server that writes the log"),
        "path": ("of the file", "path of the file"),
        "byte_offset": ("bytes read, all of them whole lines", "bytes read, always whole lines"),
        "head_length": (
            "how many of the file's first bytes head_digest covers",
            "number of the first bytes of the file that head_digest covers",
        ),
        "head_digest": (
            "SHA-256 of those bytes: is it still the same file?",
            "SHA-256 of those bytes: identifies the file",
        ),
        "tail_length": (
            "how many of the last bytes read tail_digest covers",
            "number of the last bytes read that tail_digest covers",
        ),
        "tail_digest": (
            "SHA-256 of those bytes: is it still as it was read?",
            "SHA-256 of those bytes: detects a rewritten file",
        ),
        "updated_at": ("when the position last moved", "time of the last change"),
    },
    "malformed_lines": {
        "": (
            "Lines of accounting logs that could not be read, the newest 10,000.",
            "Malformed lines of accounting logs, the newest 10,000.",
        ),
        "id": ("the order in which they were met", "order in which the lines were read"),
        "line_number": ("in the file, from 1", "line number in the file, from 1"),
        "byte_offset": ("of the line's first byte in the file", "offset of the line in the file"),
        "seen_at": ("when it was first met", "time at which it was first read"),
        "server": ("the PBS server that wrote the log", "PBS server that wrote the log"),
        "path": ("of the file", "path of the file"),
        "reason": ("why it could not be read", "what is wrong with it"),
        "field": (
            "the field that could not be read; empty: the line as a whole",
            "malformed field; empty: the whole line",
        ),
        "line": ("the line as it was, its first 4096 bytes", "first 4096 bytes of the line, unchanged"),
    },
    "malformed_dropped": {
        "": (
            "How many malformed lines were dropped because newer ones came.",
            "Number of malformed lines that were deleted because newer ones arrived.",
        ),
        "server": ("the PBS server that wrote the log", "PBS server that wrote the log"),
        "lines": ("how many of its lines were dropped", "number of lines deleted"),
    },
    "predictions": {
        "": (
            "What the daemon predicted, and what was done with it.",
            "Decisions of the daemon: one row per request of the hook.",
        ),
        "id": ("the order in which they were recorded", "order in which they were recorded"),
        "predicted_at": ("when the hook asked, epoch seconds", "time of the request, epoch seconds"),
        "walltime": (
            "of the job at that time, seconds; null: no limit",
            "walltime of the job at that time, seconds; null: no limit",
        ),
        "soft_walltime": (
            "what the policy made of the prediction, seconds; null: none",
            "soft walltime after the policy, seconds; null: none",
        ),
        "predicted": (
            "the predicted runtime before rounding and clamping, seconds",
            "predicted runtime before rounding and clamping, seconds",
        ),
        "took": ("how long the answer took, microseconds", "response time of the daemon, microseconds"),
        "timeouts": (
            "questions of the hook that timed out just before",
            "consecutive requests of the hook that timed out before this one",
        ),
        "exchange_before": (
            "how long the hook waited for the answer before this one, microseconds",
            "round trip of the hook's previous request, microseconds",
        ),
        "event": (
            "PBS's event: queuejob, postqueuejob, modifyjob or runjob",
            "PBS hook event: queuejob, postqueuejob, modifyjob or runjob",
        ),
        "job_id": (
            "of the job; empty at queuejob, where it has none yet",
            "job id; empty at queuejob, where the job has none yet",
        ),
        "user_name": ("who submitted it", "user"),
        "project": ("PBS's project", "PBS project"),
        "queue": ("the queue at that time; empty: the default queue", "queue at that time; empty: the default queue"),
        "mode": ("of the policy for this job: off, shadow or on", "mode of the policy for this job: off, shadow or on"),
        "predictor": (
            "which was asked, with its options; or walltime or keep",
            "predictor with its options; or walltime or keep",
        ),
        "action": (
            "set: PBS was told to set it; shadow: it would have been; none",
            "set: the hook was told to set the soft walltime; shadow: predicted only; none",
        ),
        "basis": (
            "what the prediction rests on, or why there is none",
            "sentence: the basis of the prediction, or the reason that there is none",
        ),
        "reason": (
            "why the decision is what it is; null: recorded by a version that did not say",
            "reason code of the decision; null: recorded by an older version",
        ),
    },
    "monitoring": {
        "": ("How far the daily figures reach.", "Progress of the daily figures."),
        "id": ("1: there is one row", "always 1: there is one row"),
        "jobs_id": ("completed jobs up to this id are reckoned with", "completed jobs up to this id are included"),
        "predictions_id": ("predictions up to this id are reckoned with", "predictions up to this id are included"),
        "first_set": (
            "when PBS was first told to set a soft walltime, epoch seconds",
            "time at which a soft walltime was first set, epoch seconds",
        ),
        "refreshed_at": (
            "when the daily figures last were up to date",
            "time of the last refresh of the daily figures",
        ),
    },
    "stale_days": {
        "": (
            "Days whose figures are to be made anew, because jobs or predictions have come to them.",
            "Days whose figures must be computed again, because jobs or predictions were added.",
        ),
    },
    "daily_scores": {
        "extensions": (
            "sum of (t - 1) / p in whole numbers: how often the scheduler had to extend",
            "sum of (t - 1) / p, rounded down: extensions by the scheduler",
        ),
        "longest_walltime": ("greatest walltime, seconds", "maximum walltime, seconds"),
        "most_extensions": ("greatest number of extensions of one job", "maximum number of extensions of one job"),
        "jobs": (
            "scored jobs that ended then: they ran and had a walltime",
            "scored jobs that ended in the period: they ran and had a walltime",
        ),
        "adjusted": ("with a soft walltime below the walltime", "jobs with a soft walltime below the walltime"),
        "underestimated": ("p < t", "jobs with p < t"),
        "badly_underestimated": ("p < t by more than 1800 s", "jobs with t - p > 1800 s"),
        "over": ("with a soft walltime that held", "jobs with a soft walltime of at least t"),
        "killed": ("killed at their walltime", "jobs killed at their walltime"),
        "mode": ("off, shadow or on; empty: no prediction is known", "off, shadow or on; empty: no prediction known"),
        "predictor": (
            "which was asked, with its options; empty: no prediction is known",
            "predictor with its options; empty: no prediction known",
        ),
        "queue": ("the queue that the jobs ran from", "queue from which the jobs ran"),
        "project": ("PBS's project", "PBS project"),
        "user_name": ("who ran them", "user"),
    },
    "monthly_scores": {
        "extensions": (
            "sum of (t - 1) / p in whole numbers: how often the scheduler had to extend",
            "sum of (t - 1) / p, rounded down: extensions by the scheduler",
        ),
        "longest_walltime": ("greatest walltime, seconds", "maximum walltime, seconds"),
        "most_extensions": ("greatest number of extensions of one job", "maximum number of extensions of one job"),
        "jobs": (
            "scored jobs that ended then: they ran and had a walltime",
            "scored jobs that ended in the period: they ran and had a walltime",
        ),
        "adjusted": ("with a soft walltime below the walltime", "jobs with a soft walltime below the walltime"),
        "underestimated": ("p < t", "jobs with p < t"),
        "badly_underestimated": ("p < t by more than 1800 s", "jobs with t - p > 1800 s"),
        "over": ("with a soft walltime that held", "jobs with a soft walltime of at least t"),
        "killed": ("killed at their walltime", "jobs killed at their walltime"),
        "mode": ("off, shadow or on; empty: no prediction is known", "off, shadow or on; empty: no prediction known"),
        "predictor": (
            "which was asked, with its options; empty: no prediction is known",
            "predictor with its options; empty: no prediction known",
        ),
        "queue": ("the queue that the jobs ran from", "queue from which the jobs ran"),
        "project": ("PBS's project", "PBS project"),
        "user_name": ("who ran them", "user"),
    },
    "daily_medians": {
        "": ("Median accuracy, which cannot be had from sums.", "Median accuracy, which cannot be computed from sums."),
    },
    "daily_lengths": {
        "": (
            "How many predicted jobs of which lengths ended, by queue.",
            "Number of predicted jobs by queue and length.",
        ),
        "walltime": (
            "in this class of length, see the function length_class",
            "length class of the walltime, see the function length_class",
        ),
        "planned": (
            "the soft walltime, else the walltime, in this class",
            "length class of the soft walltime, else of the walltime",
        ),
        "runtime": ("at most the walltime, in this class", "length class of the runtime, at most the walltime"),
        "jobs": ("how many", "number"),
        "queue": ("the queue that the jobs ran from", "queue from which the jobs ran"),
    },
    "daily_waits": {
        "": ("How long scored jobs waited.", "Waits of scored jobs."),
        "wait": ("sum of the seconds from eligible to started", "sum of the waits from eligible to start, seconds"),
        "processors": (
            "class: at least so many processors, 1, 2, 9 or 65; 0: not known",
            "class: at least this many processors, 1, 2, 9 or 65; 0: not known",
        ),
        "walltime": (
            "class: walltime at most so many seconds, 3600, 28800 or 86400; 0: longer",
            "class: walltime of at most this many seconds, 3600, 28800 or 86400; 0: longer",
        ),
        "jobs": ("how many", "number"),
        "after": (
            "whether submitted after the first soft walltime was set",
            "submitted after a soft walltime was first set",
        ),
    },
    "daily_decisions": {
        "": ("What the daemon decided, and why it predicted nothing.", "Number of decisions by reason."),
        "requests": ("how many", "number"),
        "event": ("PBS's event", "PBS hook event"),
        "predictor": (
            "which was asked, with its options; or walltime or keep",
            "predictor with its options; or walltime or keep",
        ),
        "reason": ("why each decision is what it is", "reason code of the decisions"),
    },
    "daily_hook": {
        "": ("How long the hook waited.", "Latency of the hook's requests."),
        "requests": ("requests of the hook that were recorded", "recorded requests of the hook"),
        "timeouts": (
            "questions of the hook that timed out, at least",
            "requests of the hook that timed out, lower bound",
        ),
        "most_timeouts": ("most of them in a row", "maximum of consecutive timeouts"),
        "answer_p50": (
            "median time for an answer of the daemon, microseconds; null: nothing known",
            "median response time of the daemon, microseconds; null: not known",
        ),
        "answer_p95": (
            "95th percentile of it, microseconds; null: nothing known",
            "95th percentile, microseconds; null: not known",
        ),
        "answer_p99": (
            "99th percentile of it, microseconds; null: nothing known",
            "99th percentile, microseconds; null: not known",
        ),
        "answer_most": ("longest, microseconds; null: nothing known", "maximum, microseconds; null: not known"),
        "exchange_p50": (
            "median time that the hook waited for an answer, microseconds; null: nothing known",
            "median round trip of the hook, microseconds; null: not known",
        ),
        "exchange_p95": (
            "95th percentile of it, microseconds; null: nothing known",
            "95th percentile, microseconds; null: not known",
        ),
        "exchange_p99": (
            "99th percentile of it, microseconds; null: nothing known",
            "99th percentile, microseconds; null: not known",
        ),
        "exchange_most": ("longest, microseconds; null: nothing known", "maximum, microseconds; null: not known"),
    },
}


def upgrade() -> None:
    _comment(1)


def downgrade() -> None:
    _comment(0)


def _comment(which: int) -> None:
    for table, comments in COMMENTS.items():
        for column, versions in comments.items():
            if column:
                op.alter_column(table, column, comment=versions[which], schema=SCHEMA)
            else:
                op.create_table_comment(table, versions[which], schema=SCHEMA)
