-- name: scores_by_day
-- Includes the median, which exists only by day.
CREATE OR REPLACE VIEW softwalltime.scores_by_day AS
SELECT
    score.day,
    score.mode,
    score.predictor,
    sum(score.jobs)::bigint AS jobs,
    sum(score.accuracy) / sum(score.jobs) AS accuracy,
    min(median.accuracy) AS accuracy_median,
    sum(score.underestimated)::double precision / sum(score.jobs) AS underestimated,
    sum(score.badly_underestimated)::double precision / sum(score.jobs) AS badly_underestimated,
    sum(score.over)::double precision / sum(score.jobs) AS overestimated,
    1 - sum(score.adjusted)::double precision / sum(score.jobs) AS not_adjusted,
    sum(score.absolute_error) / sum(score.jobs) AS mean_absolute_error,
    sum(score.request_error) / sum(score.jobs) AS mean_request_error,
    sum(score.extensions) / sum(score.jobs) AS extensions,
    sum(score.share) / sum(score.jobs) AS request_accuracy
FROM softwalltime.daily_queues AS score
JOIN softwalltime.daily_medians AS median USING (day, mode, predictor)
WHERE score.mode IN ('shadow', 'on')
GROUP BY 1, 2, 3;

COMMENT ON VIEW softwalltime.scores_by_day IS 'Predictions compared with runtimes by day and predictor.';
COMMENT ON COLUMN softwalltime.scores_by_day.accuracy_median IS 'median of the same';

-- name: coverage
-- Jobs without a known prediction: submitted before the daemon was installed, or while it was down.
CREATE OR REPLACE VIEW softwalltime.coverage AS
SELECT
    day,
    sum(jobs)::bigint AS jobs,
    coalesce(sum(jobs) FILTER (WHERE mode <> ''), 0)::double precision / sum(jobs) AS asked,
    coalesce(sum(adjusted) FILTER (WHERE mode = 'shadow'), 0)::double precision / sum(jobs) AS would_have,
    coalesce(sum(adjusted) FILTER (WHERE mode = 'on'), 0)::double precision / sum(jobs) AS had
FROM softwalltime.daily_queues
GROUP BY 1;

COMMENT ON VIEW softwalltime.coverage IS 'Share of jobs for which the daemon was asked, by day.';
COMMENT ON COLUMN softwalltime.coverage.asked IS 'share with a recorded request of the hook';
COMMENT ON COLUMN softwalltime.coverage.would_have IS 'share with a soft walltime predicted in mode shadow, not set';
COMMENT ON COLUMN softwalltime.coverage.had IS 'share with a soft walltime in mode on';

-- name: extensions
-- The cost of underestimates for the scheduler; in mode shadow, hypothetical.
CREATE OR REPLACE VIEW softwalltime.extensions AS
SELECT
    day,
    mode,
    predictor,
    sum(adjusted)::bigint AS jobs,
    sum(underestimated)::bigint AS extended_jobs,
    sum(extensions)::bigint AS extensions,
    sum(extensions) / nullif(sum(underestimated), 0) AS extensions_each,
    max(most_extensions) AS most_extensions
FROM softwalltime.daily_queues
WHERE mode IN ('shadow', 'on')
GROUP BY 1, 2, 3;

COMMENT ON VIEW softwalltime.extensions IS
'Extensions by the scheduler of soft walltimes that jobs exceed, by day and predictor.';
COMMENT ON COLUMN softwalltime.extensions.mode IS 'shadow (hypothetical) or on';
COMMENT ON COLUMN softwalltime.extensions.jobs IS 'jobs with a soft walltime below the walltime';
COMMENT ON COLUMN softwalltime.extensions.extended_jobs IS 'number of them that exceeded it';
COMMENT ON COLUMN softwalltime.extensions.extensions IS
'by one soft walltime each: a job that runs after k soft walltimes is planned with k + 1';
COMMENT ON COLUMN softwalltime.extensions.extensions_each IS 'per extended job; null: none was extended';
COMMENT ON COLUMN softwalltime.extensions.most_extensions IS 'maximum for one job';

-- name: cold_starts
-- Requests for waiting jobs and arrays; other rules hold for running jobs.
CREATE OR REPLACE VIEW softwalltime.cold_starts AS
SELECT
    day,
    mode,
    predictor,
    reason,
    sum(requests)::bigint AS requests,
    sum(requests)::double precision / sum(sum(requests)) OVER (PARTITION BY day, mode, predictor) AS share
FROM softwalltime.daily_decisions
WHERE event NOT IN ('runjob', 'live_run')
GROUP BY day, mode, predictor, reason;

COMMENT ON VIEW softwalltime.cold_starts IS 'Requests for waiting jobs by reason code.';
COMMENT ON COLUMN softwalltime.cold_starts.day IS 'day of the request, in UTC';
COMMENT ON COLUMN softwalltime.cold_starts.mode IS 'off, shadow or on';
COMMENT ON COLUMN softwalltime.cold_starts.reason IS
'reason code; predicted: there was a prediction below the walltime';
COMMENT ON COLUMN softwalltime.cold_starts.requests IS 'number';
COMMENT ON COLUMN softwalltime.cold_starts.share IS 'share of the requests of that day, mode and predictor';

-- name: drift
-- The last seven days, and eight weeks of seven days before.
CREATE OR REPLACE VIEW softwalltime.drift AS
WITH weekly AS (
    SELECT
        mode,
        predictor,
        ((now() AT TIME ZONE 'UTC')::date - day) / 7 AS weeks_ago,
        sum(jobs) AS jobs,
        sum(accuracy) AS accuracy,
        sum(share) AS share,
        sum(underestimated) AS underestimated,
        sum(badly_underestimated) AS badly_underestimated
    FROM softwalltime.daily_queues
    WHERE mode IN ('shadow', 'on')
        AND day <= (now() AT TIME ZONE 'UTC')::date
        AND day > (now() AT TIME ZONE 'UTC')::date - 63
    GROUP BY 1, 2, 3
)
SELECT
    mode,
    predictor,
    coalesce(sum(jobs) FILTER (WHERE weeks_ago = 0), 0)::bigint AS jobs,
    sum(accuracy) FILTER (WHERE weeks_ago = 0) / sum(jobs) FILTER (WHERE weeks_ago = 0) AS accuracy,
    (sum(underestimated) FILTER (WHERE weeks_ago = 0) / sum(jobs) FILTER (WHERE weeks_ago = 0))::double precision
        AS underestimated,
    (sum(badly_underestimated) FILTER (WHERE weeks_ago = 0) / sum(jobs) FILTER (WHERE weeks_ago = 0))::double precision
        AS badly_underestimated,
    count(*) FILTER (WHERE weeks_ago > 0) AS weeks_before,
    coalesce(sum(jobs) FILTER (WHERE weeks_ago > 0), 0)::bigint AS jobs_before,
    sum(accuracy) FILTER (WHERE weeks_ago > 0) / sum(jobs) FILTER (WHERE weeks_ago > 0) AS accuracy_before,
    min(accuracy / jobs) FILTER (WHERE weeks_ago > 0) AS worst_accuracy_before,
    (sum(underestimated) FILTER (WHERE weeks_ago > 0) / sum(jobs) FILTER (WHERE weeks_ago > 0))::double precision
        AS underestimated_before,
    max(underestimated::double precision / jobs) FILTER (WHERE weeks_ago > 0) AS worst_underestimated_before,
    sum(share) FILTER (WHERE weeks_ago = 0) / sum(jobs) FILTER (WHERE weeks_ago = 0) AS request_accuracy
FROM weekly
GROUP BY mode, predictor;

COMMENT ON VIEW softwalltime.drift IS
'Accuracy of each predictor in the last seven days and in the eight weeks before.';
COMMENT ON COLUMN softwalltime.drift.jobs IS 'scored jobs that ended in the last seven days, including today (UTC)';
COMMENT ON COLUMN softwalltime.drift.accuracy IS 'their mean accuracy; null: no jobs';
COMMENT ON COLUMN softwalltime.drift.underestimated IS 'share of underestimated jobs';
COMMENT ON COLUMN softwalltime.drift.badly_underestimated IS 'share of jobs underestimated by more than 30 minutes';
COMMENT ON COLUMN softwalltime.drift.weeks_before IS 'number of the eight weeks before that have scored jobs';
COMMENT ON COLUMN softwalltime.drift.jobs_before IS 'scored jobs of those weeks';
COMMENT ON COLUMN softwalltime.drift.accuracy_before IS 'their mean accuracy';
COMMENT ON COLUMN softwalltime.drift.worst_accuracy_before IS 'lowest mean accuracy of one of those weeks';
COMMENT ON COLUMN softwalltime.drift.underestimated_before IS 'share of underestimated jobs';
COMMENT ON COLUMN softwalltime.drift.worst_underestimated_before IS 'highest share of one of those weeks';
COMMENT ON COLUMN softwalltime.drift.request_accuracy IS
'accuracy of the users'' walltimes in the last seven days';

-- name: waits
-- Compares three months before a soft walltime was first set with all since.  Load and users change too: a class of jobs
-- that is not predicted shows the size of that effect.
CREATE OR REPLACE VIEW softwalltime.waits AS
WITH phases AS (
    SELECT day.*
    FROM softwalltime.daily_waits AS day
    CROSS JOIN softwalltime.monitoring
    WHERE day.after OR monitoring.first_set IS NULL
        OR day.day > (to_timestamp(monitoring.first_set) AT TIME ZONE 'UTC')::date - 92
)
SELECT
    CASE processors
        WHEN 0 THEN 'not known' WHEN 1 THEN '1' WHEN 2 THEN '2 to 8' WHEN 9 THEN '9 to 64' ELSE '65 or more'
    END AS processors,
    CASE walltime
        WHEN 3600 THEN 'up to 1 h' WHEN 28800 THEN '1 to 8 h' WHEN 86400 THEN '8 to 24 h' ELSE 'more than 24 h'
    END AS walltime,
    coalesce(sum(jobs) FILTER (WHERE NOT after), 0)::bigint AS jobs_before,
    coalesce(sum(jobs) FILTER (WHERE after), 0)::bigint AS jobs_after,
    sum(wait) FILTER (WHERE NOT after) / sum(jobs) FILTER (WHERE NOT after) AS wait_before,
    sum(wait) FILTER (WHERE after) / sum(jobs) FILTER (WHERE after) AS wait_after,
    sum(slowdown) FILTER (WHERE NOT after) / sum(jobs) FILTER (WHERE NOT after) AS slowdown_before,
    sum(slowdown) FILTER (WHERE after) / sum(jobs) FILTER (WHERE after) AS slowdown_after,
    exp(sum(slowdown_log) FILTER (WHERE NOT after) / sum(jobs) FILTER (WHERE NOT after)) AS typical_slowdown_before,
    exp(sum(slowdown_log) FILTER (WHERE after) / sum(jobs) FILTER (WHERE after)) AS typical_slowdown_after
FROM phases
GROUP BY phases.processors, phases.walltime;

COMMENT ON VIEW softwalltime.waits IS
'Waits by size and walltime: jobs submitted in the three months before a soft walltime was first set, and since.';
COMMENT ON COLUMN softwalltime.waits.walltime IS 'class of the walltime';
COMMENT ON COLUMN softwalltime.waits.jobs_before IS 'scored jobs submitted before; all jobs if none was ever set';
COMMENT ON COLUMN softwalltime.waits.jobs_after IS 'scored jobs submitted since';
COMMENT ON COLUMN softwalltime.waits.wait_before IS 'mean wait from eligible to start before, seconds';
COMMENT ON COLUMN softwalltime.waits.wait_after IS 'the same, since';
COMMENT ON COLUMN softwalltime.waits.slowdown_before IS
'mean bounded slowdown before: (wait + runtime) / max(runtime, 10 s), at least 1';
COMMENT ON COLUMN softwalltime.waits.slowdown_after IS 'the same, since';
COMMENT ON COLUMN softwalltime.waits.typical_slowdown_before IS
'geometric mean of the bounded slowdown before, less sensitive to a few extreme jobs';
COMMENT ON COLUMN softwalltime.waits.typical_slowdown_after IS 'the same, since';
