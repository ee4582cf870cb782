-- Comments of the tables and their columns.  An upgrade installs them, so they change without a migration.  A column of a view
-- with the name of a column that is described alike in all tables has that comment.

COMMENT ON TABLE softwalltime.completed_jobs IS 'Completed jobs, each run of a job once.';
COMMENT ON COLUMN softwalltime.completed_jobs.id IS 'order in which jobs were stored';
COMMENT ON COLUMN softwalltime.completed_jobs.ctime IS 'submission time, epoch seconds';
COMMENT ON COLUMN softwalltime.completed_jobs.qtime IS 'time at which it entered its queue, epoch seconds';
COMMENT ON COLUMN softwalltime.completed_jobs.etime IS 'time at which it became eligible to run, epoch seconds';
COMMENT ON COLUMN softwalltime.completed_jobs.start_time IS 'start time, epoch seconds; null: never started';
COMMENT ON COLUMN softwalltime.completed_jobs.end_time IS 'end time, epoch seconds';
COMMENT ON COLUMN softwalltime.completed_jobs.walltime IS 'requested or default walltime, seconds; null: no limit';
COMMENT ON COLUMN softwalltime.completed_jobs.soft_walltime IS 'last soft walltime, seconds; null: none';
COMMENT ON COLUMN softwalltime.completed_jobs.min_walltime IS
'minimum walltime of a shrink-to-fit job, seconds; null: not shrink-to-fit';
COMMENT ON COLUMN softwalltime.completed_jobs.max_walltime IS 'maximum walltime of a shrink-to-fit job, seconds';
COMMENT ON COLUMN softwalltime.completed_jobs.runtime IS 'runtime, seconds; 0: did not run, or ended at once';
COMMENT ON COLUMN softwalltime.completed_jobs.mem IS 'memory requested, bytes';
COMMENT ON COLUMN softwalltime.completed_jobs.cput IS 'processor time used, seconds';
COMMENT ON COLUMN softwalltime.completed_jobs.mem_used IS 'memory used, bytes';
COMMENT ON COLUMN softwalltime.completed_jobs.ncpus IS 'processors requested';
COMMENT ON COLUMN softwalltime.completed_jobs.nodect IS 'chunks or nodes requested';
COMMENT ON COLUMN softwalltime.completed_jobs.ngpus IS 'GPUs requested';
COMMENT ON COLUMN softwalltime.completed_jobs.exit_status IS 'Exit_status as PBS recorded it';
COMMENT ON COLUMN softwalltime.completed_jobs.run_count IS 'number of starts';
COMMENT ON COLUMN softwalltime.completed_jobs.state IS 'how the job ended, derived from its exit status';
COMMENT ON COLUMN softwalltime.completed_jobs.interactive IS 'interactive job; null: not recorded';
COMMENT ON COLUMN softwalltime.completed_jobs.server IS 'PBS server whose accounting log has the job';
COMMENT ON COLUMN softwalltime.completed_jobs.job_id IS 'job id with the array index, such as 3[1].srv';
COMMENT ON COLUMN softwalltime.completed_jobs.user_name IS 'user';
COMMENT ON COLUMN softwalltime.completed_jobs.group_name IS 'group';
COMMENT ON COLUMN softwalltime.completed_jobs.project IS 'PBS project';
COMMENT ON COLUMN softwalltime.completed_jobs.account IS 'account string given at submission';
COMMENT ON COLUMN softwalltime.completed_jobs.job_name IS 'job name given at submission';
COMMENT ON COLUMN softwalltime.completed_jobs.queue IS 'queue from which it ran';
COMMENT ON COLUMN softwalltime.completed_jobs.select_spec IS 'select specification: chunks requested';
COMMENT ON COLUMN softwalltime.completed_jobs.place IS 'placement requested for the chunks';

COMMENT ON TABLE softwalltime.current_jobs IS 'Waiting and running jobs, as of the last accounting record read.';
COMMENT ON COLUMN softwalltime.current_jobs.ctime IS 'submission time, epoch seconds';
COMMENT ON COLUMN softwalltime.current_jobs.qtime IS 'time at which it entered its queue, epoch seconds';
COMMENT ON COLUMN softwalltime.current_jobs.etime IS
'time at which it became eligible to run, epoch seconds; null: not eligible, such as held';
COMMENT ON COLUMN softwalltime.current_jobs.start_time IS 'start time, epoch seconds; null: waiting';
COMMENT ON COLUMN softwalltime.current_jobs.walltime IS 'walltime, seconds; null: no limit';
COMMENT ON COLUMN softwalltime.current_jobs.soft_walltime IS 'soft walltime, seconds; null: none';
COMMENT ON COLUMN softwalltime.current_jobs.min_walltime IS
'minimum walltime of a shrink-to-fit job, seconds; null: not shrink-to-fit';
COMMENT ON COLUMN softwalltime.current_jobs.max_walltime IS 'maximum walltime of a shrink-to-fit job, seconds';
COMMENT ON COLUMN softwalltime.current_jobs.mem IS 'memory requested, bytes';
COMMENT ON COLUMN softwalltime.current_jobs.ncpus IS 'processors requested';
COMMENT ON COLUMN softwalltime.current_jobs.nodect IS 'chunks or nodes requested';
COMMENT ON COLUMN softwalltime.current_jobs.ngpus IS 'GPUs requested';
COMMENT ON COLUMN softwalltime.current_jobs.interactive IS 'interactive job; null: not recorded';
COMMENT ON COLUMN softwalltime.current_jobs.is_array IS 'whole array; its subjobs run, the array itself waits';
COMMENT ON COLUMN softwalltime.current_jobs.server IS 'PBS server';
COMMENT ON COLUMN softwalltime.current_jobs.job_id IS 'job id with the array index, such as 3[1].srv';
COMMENT ON COLUMN softwalltime.current_jobs.user_name IS 'user';
COMMENT ON COLUMN softwalltime.current_jobs.group_name IS 'group';
COMMENT ON COLUMN softwalltime.current_jobs.project IS 'PBS project';
COMMENT ON COLUMN softwalltime.current_jobs.account IS 'account string given at submission';
COMMENT ON COLUMN softwalltime.current_jobs.queue IS 'queue';
COMMENT ON COLUMN softwalltime.current_jobs.job_name IS 'job name given at submission';
COMMENT ON COLUMN softwalltime.current_jobs.select_spec IS 'select specification: chunks requested';
COMMENT ON COLUMN softwalltime.current_jobs.place IS 'placement requested for the chunks';
COMMENT ON COLUMN softwalltime.current_jobs.recorded_at IS
'time at which it was queued, started or requeued, by the record that says so, epoch seconds; null: unknown';

COMMENT ON TABLE softwalltime.daily_decisions IS 'Number of decisions by reason.';
COMMENT ON COLUMN softwalltime.daily_decisions.day IS 'day in UTC';
COMMENT ON COLUMN softwalltime.daily_decisions.requests IS 'number';
COMMENT ON COLUMN softwalltime.daily_decisions.event IS 'PBS hook event';
COMMENT ON COLUMN softwalltime.daily_decisions.mode IS 'off, shadow or on';
COMMENT ON COLUMN softwalltime.daily_decisions.predictor IS 'predictor with its options; or walltime or keep';
COMMENT ON COLUMN softwalltime.daily_decisions.action IS 'set, shadow or none';
COMMENT ON COLUMN softwalltime.daily_decisions.reason IS 'reason code of the decisions';

COMMENT ON TABLE softwalltime.daily_hook IS 'Latency of the hook''s requests.';
COMMENT ON COLUMN softwalltime.daily_hook.day IS 'day in UTC';
COMMENT ON COLUMN softwalltime.daily_hook.requests IS 'recorded requests of the hook';
COMMENT ON COLUMN softwalltime.daily_hook.timeouts IS 'requests of the hook that timed out, lower bound';
COMMENT ON COLUMN softwalltime.daily_hook.most_timeouts IS 'maximum of consecutive timeouts';
COMMENT ON COLUMN softwalltime.daily_hook.answer_p50 IS
'median response time of the daemon, microseconds; null: not known';
COMMENT ON COLUMN softwalltime.daily_hook.answer_p95 IS '95th percentile, microseconds; null: not known';
COMMENT ON COLUMN softwalltime.daily_hook.answer_p99 IS '99th percentile, microseconds; null: not known';
COMMENT ON COLUMN softwalltime.daily_hook.answer_most IS 'maximum, microseconds; null: not known';
COMMENT ON COLUMN softwalltime.daily_hook.exchange_p50 IS
'median round trip of the hook, microseconds; null: not known';
COMMENT ON COLUMN softwalltime.daily_hook.exchange_p95 IS '95th percentile, microseconds; null: not known';
COMMENT ON COLUMN softwalltime.daily_hook.exchange_p99 IS '99th percentile, microseconds; null: not known';
COMMENT ON COLUMN softwalltime.daily_hook.exchange_most IS 'maximum, microseconds; null: not known';

COMMENT ON TABLE softwalltime.daily_lengths IS 'Number of predicted jobs by queue and length.';
COMMENT ON COLUMN softwalltime.daily_lengths.day IS 'day in UTC';
COMMENT ON COLUMN softwalltime.daily_lengths.walltime IS 'length class of the walltime, see the function length_class';
COMMENT ON COLUMN softwalltime.daily_lengths.planned IS 'length class of the soft walltime, else of the walltime';
COMMENT ON COLUMN softwalltime.daily_lengths.runtime IS 'length class of the runtime, at most the walltime';
COMMENT ON COLUMN softwalltime.daily_lengths.jobs IS 'number';
COMMENT ON COLUMN softwalltime.daily_lengths.queue IS 'queue from which the jobs ran';

COMMENT ON TABLE softwalltime.daily_medians IS 'Median accuracy, which cannot be computed from sums.';
COMMENT ON COLUMN softwalltime.daily_medians.accuracy IS 'median of min(p, t) / max(p, t)';
COMMENT ON COLUMN softwalltime.daily_medians.day IS 'day in UTC';
COMMENT ON COLUMN softwalltime.daily_medians.mode IS 'as in daily_scores';
COMMENT ON COLUMN softwalltime.daily_medians.predictor IS 'as in daily_scores';

COMMENT ON TABLE softwalltime.daily_ordering IS
'Ordering values and runtimes. o: ordering value; t: runtime, at most the walltime.';
COMMENT ON COLUMN softwalltime.daily_ordering.accuracy IS 'sum of min(o, t) / max(o, t)';
COMMENT ON COLUMN softwalltime.daily_ordering.ordering IS 'sum of o, seconds';
COMMENT ON COLUMN softwalltime.daily_ordering.runtime IS 'sum of t, seconds';
COMMENT ON COLUMN softwalltime.daily_ordering.walltime IS 'sum of the walltimes, seconds';
COMMENT ON COLUMN softwalltime.daily_ordering.share IS 'sum of t / walltime';
COMMENT ON COLUMN softwalltime.daily_ordering.day IS 'day in UTC';
COMMENT ON COLUMN softwalltime.daily_ordering.jobs IS 'scored jobs with an ordering value';
COMMENT ON COLUMN softwalltime.daily_ordering.underestimated IS 'jobs with o < t';
COMMENT ON COLUMN softwalltime.daily_ordering.mode IS 'shadow or on';

COMMENT ON TABLE softwalltime.daily_scores IS
'Predictions and runtimes. t: runtime, at most the walltime; p: soft walltime, else the walltime.';
COMMENT ON COLUMN softwalltime.daily_scores.accuracy IS 'sum of min(p, t) / max(p, t)';
COMMENT ON COLUMN softwalltime.daily_scores.absolute_error IS 'sum of |p - t|, seconds';
COMMENT ON COLUMN softwalltime.daily_scores.request_error IS 'sum of walltime - t, seconds';
COMMENT ON COLUMN softwalltime.daily_scores.runtime IS 'sum of t, seconds';
COMMENT ON COLUMN softwalltime.daily_scores.walltime IS 'sum of the walltimes, seconds';
COMMENT ON COLUMN softwalltime.daily_scores.share IS 'sum of t / walltime';
COMMENT ON COLUMN softwalltime.daily_scores.extensions IS
'sum of (t - 1) / p, rounded down: extensions by the scheduler';
COMMENT ON COLUMN softwalltime.daily_scores.longest_walltime IS 'maximum walltime, seconds';
COMMENT ON COLUMN softwalltime.daily_scores.most_extensions IS 'maximum number of extensions of one job';
COMMENT ON COLUMN softwalltime.daily_scores.jobs IS 'scored jobs that ended in the period: they ran and had a walltime';
COMMENT ON COLUMN softwalltime.daily_scores.adjusted IS 'jobs with a soft walltime below the walltime';
COMMENT ON COLUMN softwalltime.daily_scores.underestimated IS 'jobs with p < t';
COMMENT ON COLUMN softwalltime.daily_scores.badly_underestimated IS 'jobs with t - p > 1800 s';
COMMENT ON COLUMN softwalltime.daily_scores.over IS 'jobs with a soft walltime of at least t';
COMMENT ON COLUMN softwalltime.daily_scores.killed IS 'jobs killed at their walltime';
COMMENT ON COLUMN softwalltime.daily_scores.day IS 'day in UTC';
COMMENT ON COLUMN softwalltime.daily_scores.mode IS 'off, shadow or on; empty: no prediction known';
COMMENT ON COLUMN softwalltime.daily_scores.predictor IS 'predictor with its options; empty: no prediction known';
COMMENT ON COLUMN softwalltime.daily_scores.queue IS 'queue from which the jobs ran';
COMMENT ON COLUMN softwalltime.daily_scores.project IS 'PBS project';
COMMENT ON COLUMN softwalltime.daily_scores.user_name IS 'user';

COMMENT ON TABLE softwalltime.daily_waits IS 'Waits of scored jobs.';
COMMENT ON COLUMN softwalltime.daily_waits.wait IS 'sum of the waits from eligible to start, seconds';
COMMENT ON COLUMN softwalltime.daily_waits.slowdown IS 'sum of the bounded slowdowns';
COMMENT ON COLUMN softwalltime.daily_waits.slowdown_log IS 'sum of their natural logarithms';
COMMENT ON COLUMN softwalltime.daily_waits.day IS 'day in UTC';
COMMENT ON COLUMN softwalltime.daily_waits.processors IS
'class: at least this many processors, 1, 2, 9 or 65; 0: not known';
COMMENT ON COLUMN softwalltime.daily_waits.walltime IS
'class: walltime of at most this many seconds, 3600, 28800 or 86400; 0: longer';
COMMENT ON COLUMN softwalltime.daily_waits.jobs IS 'number';
COMMENT ON COLUMN softwalltime.daily_waits.after IS 'submitted after a soft walltime was first set';

COMMENT ON TABLE softwalltime.expected_runtimes IS
'Predicted runtime of each job that waits or runs, from its start on.';
COMMENT ON COLUMN softwalltime.expected_runtimes.forecast_at IS 'time of the forecast, epoch seconds';
COMMENT ON COLUMN softwalltime.expected_runtimes.shortest IS 'seconds that it will run at least with probability 0.95';
COMMENT ON COLUMN softwalltime.expected_runtimes.median IS 'seconds that it will run at least with probability 0.5';
COMMENT ON COLUMN softwalltime.expected_runtimes.longest IS 'seconds that it will run at least with probability 0.05';
COMMENT ON COLUMN softwalltime.expected_runtimes.suggested IS
'shorter walltime for which its start was forecast too, seconds; null: none';
COMMENT ON COLUMN softwalltime.expected_runtimes.sooner IS 'seconds by which it would start earlier with that walltime';
COMMENT ON COLUMN softwalltime.expected_runtimes.server IS 'PBS server';
COMMENT ON COLUMN softwalltime.expected_runtimes.job_id IS 'job id with the array index, such as 3[1].srv';

COMMENT ON TABLE softwalltime.expected_starts IS 'Newest forecast of the start of each waiting job.';
COMMENT ON COLUMN softwalltime.expected_starts.forecast_at IS 'time of the forecast, epoch seconds';
COMMENT ON COLUMN softwalltime.expected_starts.ctime IS 'submission time, epoch seconds';
COMMENT ON COLUMN softwalltime.expected_starts.expected IS 'expected start, epoch seconds; null: no forecast';
COMMENT ON COLUMN softwalltime.expected_starts.low90 IS 'begin of the 90% range, epoch seconds';
COMMENT ON COLUMN softwalltime.expected_starts.low50 IS 'begin of the 50% range, epoch seconds';
COMMENT ON COLUMN softwalltime.expected_starts.high50 IS 'end of the 50% range, epoch seconds';
COMMENT ON COLUMN softwalltime.expected_starts.high90 IS 'end of the 90% range, epoch seconds';
COMMENT ON COLUMN softwalltime.expected_starts.pbs_estimate IS 'estimated.start_time of PBS, epoch seconds; null: none';
COMMENT ON COLUMN softwalltime.expected_starts.walltime IS 'walltime, seconds; null: no limit';
COMMENT ON COLUMN softwalltime.expected_starts.ncpus IS 'processors requested';
COMMENT ON COLUMN softwalltime.expected_starts.server IS 'PBS server';
COMMENT ON COLUMN softwalltime.expected_starts.job_id IS 'job id with the array index, such as 3[1].srv';
COMMENT ON COLUMN softwalltime.expected_starts.user_name IS 'user';
COMMENT ON COLUMN softwalltime.expected_starts.group_name IS 'group';
COMMENT ON COLUMN softwalltime.expected_starts.project IS 'PBS project';
COMMENT ON COLUMN softwalltime.expected_starts.queue IS 'queue';
COMMENT ON COLUMN softwalltime.expected_starts.waits_for IS
'sentence: what it waits for, or the reason that there is no forecast';
COMMENT ON COLUMN softwalltime.expected_starts.raw IS
'forecast before any correction, seconds: delay, time waited, median, by walltimes, of like jobs, ends of both ranges; null: not kept';

COMMENT ON TABLE softwalltime.hourly_latency IS
'Number of requests of the hook that took the same time, of the last two days; a trigger counts them.';
COMMENT ON COLUMN softwalltime.hourly_latency.hour IS 'start of the hour, epoch seconds';
COMMENT ON COLUMN softwalltime.hourly_latency.requests IS 'number; of timeouts: how many were new';
COMMENT ON COLUMN softwalltime.hourly_latency.value IS
'microseconds, rounded down to three significant digits, -1: not known; or consecutive timeouts, rounded likewise';
COMMENT ON COLUMN softwalltime.hourly_latency.most IS 'maximum of the same, not rounded';
COMMENT ON COLUMN softwalltime.hourly_latency.measure IS
'answer: response time of the daemon; exchange: round trip of the hook; timeouts: timeouts before the request';

COMMENT ON TABLE softwalltime.interrupted_runs IS
'Runs that were stopped and requeued; completed_jobs has the run that completed.';
COMMENT ON COLUMN softwalltime.interrupted_runs.start_time IS 'start time of this run, epoch seconds';
COMMENT ON COLUMN softwalltime.interrupted_runs.end_time IS 'time at which the run was stopped, epoch seconds';
COMMENT ON COLUMN softwalltime.interrupted_runs.walltime IS 'walltime, seconds; null: no limit';
COMMENT ON COLUMN softwalltime.interrupted_runs.soft_walltime IS 'last soft walltime, seconds; null: none';
COMMENT ON COLUMN softwalltime.interrupted_runs.runtime IS 'runtime, seconds';
COMMENT ON COLUMN softwalltime.interrupted_runs.exit_status IS 'Exit_status as PBS recorded it';
COMMENT ON COLUMN softwalltime.interrupted_runs.run_count IS 'run count';
COMMENT ON COLUMN softwalltime.interrupted_runs.state IS 'how the job ended, derived from its exit status';
COMMENT ON COLUMN softwalltime.interrupted_runs.server IS 'PBS server whose accounting log has the job';
COMMENT ON COLUMN softwalltime.interrupted_runs.job_id IS 'job id with the array index, such as 3[1].srv';
COMMENT ON COLUMN softwalltime.interrupted_runs.user_name IS 'user';
COMMENT ON COLUMN softwalltime.interrupted_runs.project IS 'PBS project';
COMMENT ON COLUMN softwalltime.interrupted_runs.queue IS 'queue from which it ran';

COMMENT ON TABLE softwalltime.job_scripts IS 'What completed jobs executed, as the hook says it.';
COMMENT ON COLUMN softwalltime.job_scripts.ctime IS 'submission time, epoch seconds';
COMMENT ON COLUMN softwalltime.job_scripts.job_id IS 'job id; of a subjob that of its array, such as 3[].srv';
COMMENT ON COLUMN softwalltime.job_scripts.script IS 'digest of the path of the script, or of the executable';

COMMENT ON TABLE softwalltime.latest_starts IS
'By when waiting jobs should start: order of arrival and walltimes, and a slack.';
COMMENT ON COLUMN softwalltime.latest_starts.set_at IS 'time at which the daemon set it, epoch seconds';
COMMENT ON COLUMN softwalltime.latest_starts.latest_start IS 'latest start, epoch seconds';
COMMENT ON COLUMN softwalltime.latest_starts.server IS 'PBS server';
COMMENT ON COLUMN softwalltime.latest_starts.job_id IS 'job id';
COMMENT ON COLUMN softwalltime.latest_starts.terms IS 'digest of the job''s attributes; empty once they have changed';

COMMENT ON TABLE softwalltime.live_states IS 'State of the guard after each change.';
COMMENT ON COLUMN softwalltime.live_states.id IS 'order in which they were recorded';
COMMENT ON COLUMN softwalltime.live_states.changed_at IS 'time of the change, epoch seconds';
COMMENT ON COLUMN softwalltime.live_states.server IS 'PBS server';
COMMENT ON COLUMN softwalltime.live_states.late_job IS 'late job for which the guard is on; empty: it is off';

COMMENT ON TABLE softwalltime.log_positions IS
'Position up to which each accounting log has been read; changes in the same transaction as the jobs.';
COMMENT ON COLUMN softwalltime.log_positions.server IS 'PBS server that writes the log';
COMMENT ON COLUMN softwalltime.log_positions.path IS 'path of the file';
COMMENT ON COLUMN softwalltime.log_positions.byte_offset IS 'bytes read, always whole lines';
COMMENT ON COLUMN softwalltime.log_positions.line_number IS 'lines read';
COMMENT ON COLUMN softwalltime.log_positions.head_length IS
'number of the first bytes of the file that head_digest covers';
COMMENT ON COLUMN softwalltime.log_positions.head_digest IS 'SHA-256 of those bytes: identifies the file';
COMMENT ON COLUMN softwalltime.log_positions.tail_length IS 'number of the last bytes read that tail_digest covers';
COMMENT ON COLUMN softwalltime.log_positions.tail_digest IS 'SHA-256 of those bytes: detects a rewritten file';
COMMENT ON COLUMN softwalltime.log_positions.updated_at IS 'time of the last change';

COMMENT ON TABLE softwalltime.malformed_dropped IS
'Number of malformed lines that were deleted because newer ones arrived.';
COMMENT ON COLUMN softwalltime.malformed_dropped.server IS 'PBS server that wrote the log';
COMMENT ON COLUMN softwalltime.malformed_dropped.lines IS 'number of lines deleted';

COMMENT ON TABLE softwalltime.malformed_lines IS 'Malformed lines of accounting logs, the newest 10,000.';
COMMENT ON COLUMN softwalltime.malformed_lines.id IS 'order in which the lines were read';
COMMENT ON COLUMN softwalltime.malformed_lines.line_number IS 'line number in the file, from 1';
COMMENT ON COLUMN softwalltime.malformed_lines.byte_offset IS 'offset of the line in the file';
COMMENT ON COLUMN softwalltime.malformed_lines.seen_at IS 'time at which it was first read';
COMMENT ON COLUMN softwalltime.malformed_lines.server IS 'PBS server that wrote the log';
COMMENT ON COLUMN softwalltime.malformed_lines.path IS 'path of the file';
COMMENT ON COLUMN softwalltime.malformed_lines.reason IS 'what is wrong with it';
COMMENT ON COLUMN softwalltime.malformed_lines.field IS 'malformed field; empty: the whole line';
COMMENT ON COLUMN softwalltime.malformed_lines.line IS 'first 4096 bytes of the line, unchanged';

COMMENT ON TABLE softwalltime.monitoring IS 'Progress of the daily figures.';
COMMENT ON COLUMN softwalltime.monitoring.id IS 'always 1: there is one row';
COMMENT ON COLUMN softwalltime.monitoring.jobs_id IS 'completed jobs up to this id are included';
COMMENT ON COLUMN softwalltime.monitoring.predictions_id IS 'predictions up to this id are included';
COMMENT ON COLUMN softwalltime.monitoring.first_set IS 'time at which a soft walltime was first set, epoch seconds';
COMMENT ON COLUMN softwalltime.monitoring.refreshed_at IS 'time of the last refresh of the daily figures';

COMMENT ON TABLE softwalltime.monthly_scores IS
'Predictions and runtimes. t: runtime, at most the walltime; p: soft walltime, else the walltime.';
COMMENT ON COLUMN softwalltime.monthly_scores.month IS 'first day of the month in UTC';
COMMENT ON TABLE softwalltime.daily_queues IS 'Sums of daily_scores over projects and users.';
DO $$
DECLARE
    sums record;
BEGIN
    FOR sums IN
        SELECT summed.table_name, summed.column_name, col_description(score.attrelid, score.attnum) AS comment
        FROM pg_attribute AS score
        JOIN information_schema.columns AS summed ON summed.column_name = score.attname
        WHERE score.attrelid = 'softwalltime.daily_scores'::regclass AND summed.table_schema = 'softwalltime'
            AND summed.table_name IN ('daily_queues', 'monthly_scores')
    LOOP
        EXECUTE format('COMMENT ON COLUMN softwalltime.%I.%I IS %L', sums.table_name, sums.column_name, sums.comment);
    END LOOP;
END
$$;

COMMENT ON TABLE softwalltime.predictions IS 'Decisions of the daemon: one row per request of the hook.';
COMMENT ON COLUMN softwalltime.predictions.id IS 'order in which they were recorded';
COMMENT ON COLUMN softwalltime.predictions.predicted_at IS 'time of the request, epoch seconds';
COMMENT ON COLUMN softwalltime.predictions.walltime IS 'walltime of the job at that time, seconds; null: no limit';
COMMENT ON COLUMN softwalltime.predictions.soft_walltime IS 'soft walltime after the policy, seconds; null: none';
COMMENT ON COLUMN softwalltime.predictions.predicted IS 'predicted runtime before rounding and clamping, seconds';
COMMENT ON COLUMN softwalltime.predictions.took IS 'response time of the daemon, microseconds';
COMMENT ON COLUMN softwalltime.predictions.timeouts IS
'consecutive requests of the hook that timed out before this one';
COMMENT ON COLUMN softwalltime.predictions.exchange_before IS
'round trip of the hook''s previous request, microseconds';
COMMENT ON COLUMN softwalltime.predictions.event IS 'PBS hook event: queuejob, postqueuejob, modifyjob or runjob';
COMMENT ON COLUMN softwalltime.predictions.job_id IS 'job id; empty at queuejob, where the job has none yet';
COMMENT ON COLUMN softwalltime.predictions.user_name IS 'user';
COMMENT ON COLUMN softwalltime.predictions.project IS 'PBS project';
COMMENT ON COLUMN softwalltime.predictions.queue IS 'queue at that time; empty: the default queue';
COMMENT ON COLUMN softwalltime.predictions.mode IS 'mode of the policy for this job: off, shadow or on';
COMMENT ON COLUMN softwalltime.predictions.predictor IS 'predictor with its options; or walltime or keep';
COMMENT ON COLUMN softwalltime.predictions.action IS
'set: the hook was to set it; late: the hook had timed out; shadow: predicted only; none';
COMMENT ON COLUMN softwalltime.predictions.basis IS
'sentence: the basis of the prediction, or the reason that there is none';
COMMENT ON COLUMN softwalltime.predictions.reason IS 'reason code of the decision';
COMMENT ON COLUMN softwalltime.predictions.had IS
'soft walltime of the job at the request, seconds; 0: none; null: unknown';
COMMENT ON COLUMN softwalltime.predictions.ordering IS 'value for job_sort_formula, seconds; null: the policy has none';

COMMENT ON TABLE softwalltime.probe_starts IS
'When a job submitted now would start, by queue, size and walltime, for a user without other jobs.';
COMMENT ON COLUMN softwalltime.probe_starts.forecast_at IS 'time of the forecast, epoch seconds';
COMMENT ON COLUMN softwalltime.probe_starts.expected IS 'expected start, epoch seconds';
COMMENT ON COLUMN softwalltime.probe_starts.low90 IS 'begin of the 90% range, epoch seconds; null: not known';
COMMENT ON COLUMN softwalltime.probe_starts.high90 IS 'end of the 90% range, epoch seconds; null: not known';
COMMENT ON COLUMN softwalltime.probe_starts.walltime IS 'walltime, seconds';
COMMENT ON COLUMN softwalltime.probe_starts.ncpus IS 'processors requested';
COMMENT ON COLUMN softwalltime.probe_starts.server IS 'PBS server';
COMMENT ON COLUMN softwalltime.probe_starts.queue IS 'execution queue';
COMMENT ON COLUMN softwalltime.probe_starts.submit_to IS
'names for qsub -q with which such a job gets into the queue: its own, routing queues; an empty one: without -q';

COMMENT ON TABLE softwalltime.promises IS
'Starts that the scheduler promised to its top jobs, and what became of them.';
COMMENT ON COLUMN softwalltime.promises.promised_at IS 'time at which the daemon saw the first promise, epoch seconds';
COMMENT ON COLUMN softwalltime.promises.first_start IS 'start promised first (estimated.start_time), epoch seconds';
COMMENT ON COLUMN softwalltime.promises.last_start IS 'start promised last, epoch seconds';
COMMENT ON COLUMN softwalltime.promises.start_time IS 'start, epoch seconds; null: not known';
COMMENT ON COLUMN softwalltime.promises.ncpus IS 'processors requested';
COMMENT ON COLUMN softwalltime.promises.outcome IS 'open, kept, late or withdrawn';
COMMENT ON COLUMN softwalltime.promises.server IS 'PBS server';
COMMENT ON COLUMN softwalltime.promises.job_id IS 'job id; of an array that of the whole';
COMMENT ON COLUMN softwalltime.promises.queue IS 'queue';

COMMENT ON TABLE softwalltime.queue_changes IS
'Jobs that were added to current_jobs, changed there or deleted from it, the newest 100,000 changes.';
COMMENT ON COLUMN softwalltime.queue_changes.id IS 'order of the changes';
COMMENT ON COLUMN softwalltime.queue_changes.server IS 'PBS server';
COMMENT ON COLUMN softwalltime.queue_changes.job_id IS 'job id with the array index, such as 3[1].srv';

COMMENT ON TABLE softwalltime.stale_days IS
'Days whose figures must be computed again, because jobs or predictions were added.';
COMMENT ON COLUMN softwalltime.stale_days.day IS 'day in UTC of the end of a job or of a prediction';

COMMENT ON TABLE softwalltime.start_times IS
'Forecasts of starts that are kept to be judged: the first one of each job, one an hour, and more before its start.';
COMMENT ON COLUMN softwalltime.start_times.forecast_at IS 'time of the forecast, epoch seconds';
COMMENT ON COLUMN softwalltime.start_times.ctime IS 'submission time, epoch seconds';
COMMENT ON COLUMN softwalltime.start_times.started IS
'start of the job after the forecast, epoch seconds; null: not known yet';
COMMENT ON COLUMN softwalltime.start_times.expected IS 'expected start, epoch seconds';
COMMENT ON COLUMN softwalltime.start_times.low90 IS 'begin of the 90% range, epoch seconds';
COMMENT ON COLUMN softwalltime.start_times.low50 IS 'begin of the 50% range, epoch seconds';
COMMENT ON COLUMN softwalltime.start_times.high50 IS 'end of the 50% range, epoch seconds';
COMMENT ON COLUMN softwalltime.start_times.high90 IS 'end of the 90% range, epoch seconds';
COMMENT ON COLUMN softwalltime.start_times.pbs_estimate IS 'estimated.start_time of PBS, epoch seconds; null: none';
COMMENT ON COLUMN softwalltime.start_times.is_first IS 'first forecast of a job that had just been submitted';
COMMENT ON COLUMN softwalltime.start_times.server IS 'PBS server';
COMMENT ON COLUMN softwalltime.start_times.job_id IS 'job id with the array index, such as 3[1].srv';
COMMENT ON COLUMN softwalltime.start_times.queue IS 'queue at the time of the forecast';
COMMENT ON COLUMN softwalltime.start_times.raw IS
'forecast before any correction, seconds: delay, time waited, median, by walltimes, of like jobs, ends of both ranges; null: not kept';

COMMENT ON TABLE softwalltime.teaching_states IS
'Job states from which predictors learn: the site''s setting, stored for the predictors in SQL.';
COMMENT ON COLUMN softwalltime.teaching_states.state IS 'predictors learn from jobs with this state';

COMMENT ON TABLE softwalltime.write_lock IS
'Without rows: who writes locks this table, so that there is one writer at a time.';
