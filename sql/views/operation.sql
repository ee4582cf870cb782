-- name: freshness
-- Query this first when a figure looks wrong.
CREATE OR REPLACE VIEW softwalltime.freshness AS
SELECT
    monitoring.refreshed_at,
    date_trunc('second', now() - monitoring.refreshed_at) AS age,
    (SELECT count(*) FROM softwalltime.stale_days WHERE day <= (now() AT TIME ZONE 'UTC')::date) AS stale_days,
    to_timestamp(monitoring.first_set) AS first_set
FROM softwalltime.monitoring;

COMMENT ON VIEW softwalltime.freshness IS 'Age of the daily and monthly figures.';
COMMENT ON COLUMN softwalltime.freshness.refreshed_at IS
'time of the last refresh; null: never refreshed';
COMMENT ON COLUMN softwalltime.freshness.age IS 'time since then';
COMMENT ON COLUMN softwalltime.freshness.stale_days IS 'days that the current refresh has still to compute';
COMMENT ON COLUMN softwalltime.freshness.first_set IS
'time at which a soft walltime was first set; null: never';

-- name: ingest_lag
-- By server.  Looks for the newest job in the last week only.
CREATE OR REPLACE VIEW softwalltime.ingest_lag AS
SELECT
    logs.server,
    logs.logs,
    logs.last_read,
    date_trunc('second', now() - logs.last_read) AS since_last_read,
    to_timestamp(newest.end_time) AS newest_job,
    date_trunc('second', now() - to_timestamp(newest.end_time)) AS since_newest_job,
    bad.lines + coalesce(dropped.lines, 0) AS malformed_lines,
    bad.last_seen AS last_malformed
FROM (
    SELECT position.server, count(*) AS logs, max(position.updated_at) AS last_read
    FROM softwalltime.log_positions AS position
    GROUP BY position.server
) AS logs
LEFT JOIN LATERAL (
    SELECT job.end_time
    FROM softwalltime.completed_jobs AS job
    WHERE job.server = logs.server
        AND job.end_time > extract(epoch FROM now())::bigint - 604800
        AND job.end_time <= extract(epoch FROM now())::bigint
    ORDER BY job.end_time DESC
    LIMIT 1
) AS newest ON true
LEFT JOIN LATERAL (
    SELECT count(*) AS lines, max(line.seen_at) AS last_seen
    FROM softwalltime.malformed_lines AS line
    WHERE line.server = logs.server
) AS bad ON true
LEFT JOIN softwalltime.malformed_dropped AS dropped ON dropped.server = logs.server;

COMMENT ON VIEW softwalltime.ingest_lag IS 'Progress of reading the accounting logs, by PBS server.';
COMMENT ON COLUMN softwalltime.ingest_lag.server IS 'PBS server that writes the logs';
COMMENT ON COLUMN softwalltime.ingest_lag.logs IS 'number of files read';
COMMENT ON COLUMN softwalltime.ingest_lag.last_read IS 'time at which new records were last stored';
COMMENT ON COLUMN softwalltime.ingest_lag.since_last_read IS 'time since then';
COMMENT ON COLUMN softwalltime.ingest_lag.newest_job IS 'end of the last job; null: none in the last week';
COMMENT ON COLUMN softwalltime.ingest_lag.since_newest_job IS 'time since then';
COMMENT ON COLUMN softwalltime.ingest_lag.malformed_lines IS 'malformed lines in all';
COMMENT ON COLUMN softwalltime.ingest_lag.last_malformed IS 'time of the last malformed line that is stored';

-- name: hook_latency
-- The last 24 hours and the hour in which they began, always current: counts are made as predictions are stored.  The
-- percentiles are those of percentile_disc up to 1 ms; above, at most 1% too high.
CREATE OR REPLACE VIEW softwalltime.hook_latency AS
SELECT
    to_timestamp(hour) AS hour,
    sum(requests) FILTER (WHERE measure = 'answer')::bigint AS requests,
    min(most) FILTER (WHERE measure = 'answer' AND rank >= 0.5 * known) / 1000::double precision AS answer_p50,
    min(most) FILTER (WHERE measure = 'answer' AND rank >= 0.99 * known) / 1000::double precision AS answer_p99,
    max(most) FILTER (WHERE measure = 'answer' AND value >= 0) / 1000::double precision AS answer_most,
    min(most) FILTER (WHERE measure = 'exchange' AND rank >= 0.5 * known) / 1000::double precision AS exchange_p50,
    min(most) FILTER (WHERE measure = 'exchange' AND rank >= 0.99 * known) / 1000::double precision AS exchange_p99,
    max(most) FILTER (WHERE measure = 'exchange') / 1000::double precision AS exchange_most,
    sum(requests) FILTER (WHERE measure = 'timeouts')::bigint AS timeouts,
    max(most) FILTER (WHERE measure = 'timeouts') AS most_timeouts
FROM (
    SELECT
        counted.*,
        sum(requests::double precision) FILTER (WHERE value >= 0) OVER (PARTITION BY hour, measure ORDER BY value)
            AS rank,
        sum(requests::double precision) FILTER (WHERE value >= 0) OVER (PARTITION BY hour, measure) AS known
    FROM softwalltime.hourly_latency AS counted
    WHERE hour > extract(epoch FROM now())::bigint - 90000 AND hour <= extract(epoch FROM now())::bigint
) AS ranked
GROUP BY hour;

COMMENT ON VIEW softwalltime.hook_latency IS 'Latency of the hook in the last 24 hours, by hour.';
COMMENT ON COLUMN softwalltime.hook_latency.hour IS 'start of the hour, in UTC';

-- name: hook_latency_by_day
-- For all days whose figures are stored.
CREATE OR REPLACE VIEW softwalltime.hook_latency_by_day AS
SELECT
    day,
    requests,
    answer_p50 / 1000::double precision AS answer_p50,
    answer_p95 / 1000::double precision AS answer_p95,
    answer_p99 / 1000::double precision AS answer_p99,
    answer_most / 1000::double precision AS answer_most,
    exchange_p50 / 1000::double precision AS exchange_p50,
    exchange_p95 / 1000::double precision AS exchange_p95,
    exchange_p99 / 1000::double precision AS exchange_p99,
    exchange_most / 1000::double precision AS exchange_most,
    timeouts,
    most_timeouts
FROM softwalltime.daily_hook;

COMMENT ON VIEW softwalltime.hook_latency_by_day IS 'Latency of the hook, by day.';
COMMENT ON COLUMN softwalltime.hook_latency_by_day.day IS 'day of the requests, in UTC';
COMMENT ON COLUMN softwalltime.hook_latency_by_day.answer_p95 IS '95th percentile, milliseconds';
COMMENT ON COLUMN softwalltime.hook_latency_by_day.exchange_p95 IS '95th percentile, milliseconds';

-- name: queues_to_leave
-- PBS routes by walltime, not by soft walltime: a job predicted to be short waits in the queue for long jobs (Chlumský &
-- Klusáček 2022, section 3.3).  The limit of a queue is taken as the maximum walltime of its jobs in 56 days.  The data
-- do not say who may use a queue: users_of_both shows how many users use both.
CREATE OR REPLACE VIEW softwalltime.queues_to_leave AS
WITH limits AS (
    SELECT queue, max(longest_walltime) AS seconds
    FROM softwalltime.daily_scores
    WHERE day > (now() AT TIME ZONE 'UTC')::date - 56
    GROUP BY queue
    HAVING sum(jobs) >= 10
),
members AS (
    SELECT DISTINCT queue, user_name
    FROM softwalltime.daily_scores
    WHERE day > (now() AT TIME ZONE 'UTC')::date - 56
),
lengths AS (
    SELECT queue, walltime, planned, runtime, sum(jobs) AS jobs
    FROM softwalltime.daily_lengths
    WHERE day > (now() AT TIME ZONE 'UTC')::date - 28
    GROUP BY queue, walltime, planned, runtime
)
SELECT
    of.queue,
    shorter.queue AS shorter_queue,
    make_interval(secs => shorter.seconds) AS limit_there,
    fitting.jobs,
    fitting.belong,
    fitting.belong::double precision / nullif(fitting.jobs, 0) AS share,
    fitting.too_long,
    common.users,
    common.users_of_both
FROM limits AS of
JOIN limits AS shorter ON shorter.seconds < of.seconds
CROSS JOIN LATERAL (
    SELECT
        coalesce(sum(length.jobs), 0)::bigint AS jobs,
        coalesce(sum(length.jobs) FILTER (
            WHERE length.walltime > shorter.seconds AND length.planned <= shorter.seconds
        ), 0)::bigint AS belong,
        coalesce(sum(length.jobs) FILTER (
            WHERE length.walltime > shorter.seconds AND length.planned <= shorter.seconds
                AND length.runtime > shorter.seconds
        ), 0)::bigint AS too_long
    FROM lengths AS length
    WHERE length.queue = of.queue
) AS fitting
CROSS JOIN LATERAL (
    SELECT count(*) AS users, count(there.user_name) AS users_of_both
    FROM members AS member
    LEFT JOIN members AS there ON there.queue = shorter.queue AND there.user_name = member.user_name
    WHERE member.queue = of.queue
) AS common
WHERE fitting.belong > 0;

COMMENT ON VIEW softwalltime.queues_to_leave IS
'Queues with jobs whose soft walltime fits a queue of shorter jobs, in the last 28 days.';
COMMENT ON COLUMN softwalltime.queues_to_leave.queue IS 'queue of the jobs';
COMMENT ON COLUMN softwalltime.queues_to_leave.shorter_queue IS 'queue of shorter jobs, one row each';
COMMENT ON COLUMN softwalltime.queues_to_leave.limit_there IS
'maximum walltime of that queue''s jobs in the last 56 days, taken as its limit';
COMMENT ON COLUMN softwalltime.queues_to_leave.jobs IS 'jobs of the queue for which the daemon was asked';
COMMENT ON COLUMN softwalltime.queues_to_leave.belong IS
'jobs with a walltime above that limit and a soft walltime within it; exact for limits of length_class';
COMMENT ON COLUMN softwalltime.queues_to_leave.share IS 'share of the jobs';
COMMENT ON COLUMN softwalltime.queues_to_leave.too_long IS
'of these, jobs that ran longer than that limit and would have been killed there';
COMMENT ON COLUMN softwalltime.queues_to_leave.users IS 'users of the queue in the last 56 days';
COMMENT ON COLUMN softwalltime.queues_to_leave.users_of_both IS
'users who also ran jobs from the shorter queue, and so may use it';
