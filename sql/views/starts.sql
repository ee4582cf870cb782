-- name: starts_now
-- One row per waiting job: the newest forecast of its start.
CREATE OR REPLACE VIEW softwalltime.starts_now AS
SELECT
    job.server,
    job.job_id,
    job.user_name,
    job.group_name,
    job.project,
    job.queue,
    job.ncpus,
    make_interval(secs => job.walltime) AS walltime,
    to_timestamp(job.ctime) AS submitted,
    to_timestamp(job.expected) AS expected,
    to_timestamp(job.low50) AS low50,
    to_timestamp(job.high50) AS high50,
    to_timestamp(job.low90) AS low90,
    to_timestamp(job.high90) AS high90,
    to_timestamp(job.pbs_estimate) AS pbs_estimate,
    job.waits_for,
    to_timestamp(job.forecast_at) AS forecast_at,
    -- The last four values are the ends of both ranges in ascending order.
    (job.high90 - job.low90) / nullif(job.raw[9] - job.raw[6], 0) AS range_factor
FROM softwalltime.expected_starts AS job;

COMMENT ON VIEW softwalltime.starts_now IS 'Newest forecast of the start of each waiting job.';
COMMENT ON COLUMN softwalltime.starts_now.walltime IS 'walltime; null: no limit';
COMMENT ON COLUMN softwalltime.starts_now.expected IS 'expected start; null: no forecast, see waits_for';
COMMENT ON COLUMN softwalltime.starts_now.waits_for IS 'what it waits for, or the reason that there is no forecast';

-- name: starts_now_anonymous
-- Without what names users and jobs.
CREATE OR REPLACE VIEW softwalltime.starts_now_anonymous AS
SELECT
    server, queue, project, ncpus, walltime, submitted, expected, low50, high50, low90, high90, pbs_estimate, forecast_at,
    range_factor
FROM softwalltime.starts_now;

COMMENT ON VIEW softwalltime.starts_now_anonymous IS 'starts_now without users, groups, job ids and reasons.';
COMMENT ON COLUMN softwalltime.starts_now_anonymous.walltime IS 'walltime; null: no limit';
COMMENT ON COLUMN softwalltime.starts_now_anonymous.expected IS 'expected start; null: no forecast';

-- name: starts_by_queue
-- How long jobs that wait now are expected to wait still.
CREATE OR REPLACE VIEW softwalltime.starts_by_queue AS
SELECT
    server,
    queue,
    count(*) AS waiting,
    count(expected) AS forecast,
    -- A start that was expected by now is a wait of 0; greatest() ignores nulls.
    make_interval(secs => round(avg(greatest(expected - forecast_at, 0)) FILTER (WHERE expected IS NOT NULL))::bigint)
        AS mean_wait,
    make_interval(secs => max(expected - forecast_at)) AS longest_wait,
    min(to_timestamp(expected)) AS next_start,
    max(to_timestamp(forecast_at)) AS forecast_at,
    sum(high90 - low90) FILTER (WHERE raw IS NOT NULL) / nullif(sum(raw[9] - raw[6]) FILTER (WHERE high90 IS NOT NULL), 0)
        AS range_factor
FROM softwalltime.expected_starts
GROUP BY server, queue;

COMMENT ON VIEW softwalltime.starts_by_queue IS 'Expected waits of the jobs that wait now, by queue.';
COMMENT ON COLUMN softwalltime.starts_by_queue.waiting IS 'waiting jobs';
COMMENT ON COLUMN softwalltime.starts_by_queue.forecast IS 'of these, jobs with an expected start';
COMMENT ON COLUMN softwalltime.starts_by_queue.mean_wait IS 'mean time until they start, from the forecast on';
COMMENT ON COLUMN softwalltime.starts_by_queue.longest_wait IS 'longest time until one of them starts';
COMMENT ON COLUMN softwalltime.starts_by_queue.next_start IS 'earliest expected start';
COMMENT ON COLUMN softwalltime.starts_by_queue.range_factor IS
'mean width of the 90% ranges divided by what it was before the correction by judged forecasts; null: not known';

-- name: start_scores
-- Sums, from which means over any days and queues follow.  Only forecasts of jobs that have started.
CREATE OR REPLACE VIEW softwalltime.start_scores AS
SELECT
    (to_timestamp(least(started, 253402214400)) AT TIME ZONE 'UTC')::date AS day,
    server,
    queue,
    is_first,
    count(*) AS forecasts,
    sum(started - forecast_at) AS wait,
    sum(abs(expected - started)) AS error,
    sum(expected - started) AS bias,
    count(*) FILTER (WHERE started BETWEEN low50 AND high50) AS within50,
    count(*) FILTER (WHERE started BETWEEN low90 AND high90) AS within90,
    count(pbs_estimate) AS pbs_forecasts,
    sum(started - forecast_at) FILTER (WHERE pbs_estimate IS NOT NULL) AS pbs_wait,
    sum(abs(pbs_estimate - started)) AS pbs_error,
    sum(abs(expected - started)) FILTER (WHERE pbs_estimate IS NOT NULL) AS error_of_these
FROM softwalltime.start_times
WHERE started IS NOT NULL
GROUP BY 1, 2, 3, 4;

COMMENT ON VIEW softwalltime.start_scores IS
'Forecasts of starts compared with what happened, as sums by day and queue; start_accuracy has the means.';
COMMENT ON COLUMN softwalltime.start_scores.day IS 'day of the start, in UTC';
COMMENT ON COLUMN softwalltime.start_scores.wait IS 'waits after the forecasts, seconds';
COMMENT ON COLUMN softwalltime.start_scores.error IS 'absolute errors of the expected starts, seconds';
COMMENT ON COLUMN softwalltime.start_scores.bias IS 'expected minus actual starts, seconds';
COMMENT ON COLUMN softwalltime.start_scores.within50 IS 'starts within the 50% range';
COMMENT ON COLUMN softwalltime.start_scores.within90 IS 'starts within the 90% range';
COMMENT ON COLUMN softwalltime.start_scores.pbs_wait IS 'waits of these, seconds';
COMMENT ON COLUMN softwalltime.start_scores.pbs_error IS 'absolute errors of PBS''s estimates, seconds';
COMMENT ON COLUMN softwalltime.start_scores.error_of_these IS 'absolute errors of our forecasts of the same jobs, seconds';

-- name: start_accuracy
-- Means of the last 28 days.
CREATE OR REPLACE VIEW softwalltime.start_accuracy AS
SELECT
    server,
    queue,
    is_first,
    sum(forecasts)::bigint AS forecasts,
    sum(wait)::double precision / sum(forecasts) AS mean_wait,
    sum(error)::double precision / nullif(sum(wait), 0) AS relative_error,
    sum(bias)::double precision / sum(forecasts) AS bias,
    sum(within50)::double precision / sum(forecasts) AS within50,
    sum(within90)::double precision / sum(forecasts) AS within90,
    sum(pbs_forecasts)::bigint AS pbs_forecasts,
    sum(pbs_error)::double precision / nullif(sum(pbs_wait), 0) AS pbs_relative_error,
    sum(error_of_these)::double precision / nullif(sum(pbs_wait), 0) AS relative_error_of_these
FROM softwalltime.start_scores
WHERE day > (now() AT TIME ZONE 'UTC')::date - 28
GROUP BY server, queue, is_first;

COMMENT ON VIEW softwalltime.start_accuracy IS
'How good forecasts of starts were in the last 28 days, by queue.';
COMMENT ON COLUMN softwalltime.start_accuracy.mean_wait IS 'mean wait after the forecast, seconds';
COMMENT ON COLUMN softwalltime.start_accuracy.relative_error IS
'mean absolute error of the expected start, divided by the mean wait';
COMMENT ON COLUMN softwalltime.start_accuracy.bias IS
'mean of expected minus actual start, seconds; below 0: expected too early';
COMMENT ON COLUMN softwalltime.start_accuracy.within50 IS 'share of the starts within the 50% range';
COMMENT ON COLUMN softwalltime.start_accuracy.within90 IS 'share of the starts within the 90% range';
COMMENT ON COLUMN softwalltime.start_accuracy.pbs_relative_error IS
'mean absolute error of PBS''s estimates, divided by the mean wait of these jobs';
COMMENT ON COLUMN softwalltime.start_accuracy.relative_error_of_these IS 'the same for our forecasts of these jobs';
