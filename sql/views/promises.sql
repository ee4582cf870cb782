-- name: promises_by_day
-- By the day of the start; a promise without a start is in no row.
CREATE OR REPLACE VIEW softwalltime.promises_by_day AS
SELECT
    (to_timestamp(start_time) AT TIME ZONE 'UTC')::date AS day,
    CASE
        WHEN ncpus >= 65 THEN '65 or more' WHEN ncpus >= 9 THEN '9 to 64' WHEN ncpus >= 2 THEN '2 to 8'
        WHEN ncpus = 1 THEN '1' ELSE 'not known'
    END AS processors,
    count(*) AS promises,
    count(*) FILTER (WHERE outcome = 'kept') AS kept,
    count(*) FILTER (WHERE outcome = 'late') AS broken,
    count(*) FILTER (WHERE outcome = 'late')::double precision / count(*) AS broken_share,
    avg(greatest(start_time - first_start, 0))::double precision AS mean_late,
    greatest(max(start_time - first_start), 0) AS longest_late
FROM softwalltime.promises
WHERE outcome IN ('kept', 'late') AND start_time BETWEEN 0 AND 253402300799
GROUP BY 1, 2;

COMMENT ON VIEW softwalltime.promises_by_day IS
'Starts that the scheduler had promised, kept and broken, by day and size; recorded with live values.';
COMMENT ON COLUMN softwalltime.promises_by_day.day IS 'day of the start, in UTC';
COMMENT ON COLUMN softwalltime.promises_by_day.promises IS 'started jobs that had a promised start';
COMMENT ON COLUMN softwalltime.promises_by_day.kept IS 'those that started at most 60 s after the first promise';
COMMENT ON COLUMN softwalltime.promises_by_day.broken IS 'those that started later';
COMMENT ON COLUMN softwalltime.promises_by_day.broken_share IS 'share of broken promises';
COMMENT ON COLUMN softwalltime.promises_by_day.mean_late IS
'mean time from the first promised start to the start, seconds; 0 for an earlier start';
COMMENT ON COLUMN softwalltime.promises_by_day.longest_late IS 'maximum of the same, seconds';

-- name: guard_times
-- A row for each change; the last one holds until now.
CREATE OR REPLACE VIEW softwalltime.guard_times AS
SELECT
    server,
    to_timestamp(changed_at) AS since,
    to_timestamp(lead(changed_at) OVER (PARTITION BY server ORDER BY id)) AS until,
    late_job <> '' AS guard
FROM softwalltime.live_states;

COMMENT ON VIEW softwalltime.guard_times IS 'State of the guard over time.';
COMMENT ON COLUMN softwalltime.guard_times.since IS 'begin';
COMMENT ON COLUMN softwalltime.guard_times.until IS 'end; null: now';
COMMENT ON COLUMN softwalltime.guard_times.guard IS
'whether waiting jobs are planned with their walltimes because the top job is late';

-- name: waits_by_day
-- All scored jobs, whether or not they had a soft walltime.
CREATE OR REPLACE VIEW softwalltime.waits_by_day AS
SELECT
    day,
    CASE processors
        WHEN 0 THEN 'not known' WHEN 1 THEN '1' WHEN 2 THEN '2 to 8' WHEN 9 THEN '9 to 64' ELSE '65 or more'
    END AS processors,
    sum(jobs)::bigint AS jobs,
    sum(wait) / sum(jobs) AS mean_wait,
    sum(slowdown) / sum(jobs) AS slowdown,
    exp(sum(slowdown_log) / sum(jobs)) AS typical_slowdown
FROM softwalltime.daily_waits
GROUP BY day, daily_waits.processors;

COMMENT ON VIEW softwalltime.waits_by_day IS 'Waits by day and size.';
COMMENT ON COLUMN softwalltime.waits_by_day.mean_wait IS 'mean wait from eligible to start, seconds';
COMMENT ON COLUMN softwalltime.waits_by_day.slowdown IS
'mean bounded slowdown: (wait + runtime) / max(runtime, 10 s), at least 1';
COMMENT ON COLUMN softwalltime.waits_by_day.typical_slowdown IS 'geometric mean of the bounded slowdown';

-- name: ordering_by_day
-- With jobs that waited under job_sort_formula, or would have in mode shadow.
CREATE OR REPLACE VIEW softwalltime.ordering_by_day AS
SELECT
    day,
    mode,
    sum(jobs)::bigint AS jobs,
    sum(accuracy) / sum(jobs) AS accuracy,
    sum(share) / sum(jobs) AS request_accuracy,
    sum(underestimated)::double precision / sum(jobs) AS underestimated,
    sum(ordering) / sum(jobs) AS mean_ordering,
    sum(runtime) / sum(jobs) AS mean_runtime,
    sum(walltime) / sum(jobs) AS mean_walltime
FROM softwalltime.daily_ordering
GROUP BY day, mode;

COMMENT ON VIEW softwalltime.ordering_by_day IS
'Ordering values (for job_sort_formula) compared with runtimes, by day.';
COMMENT ON COLUMN softwalltime.ordering_by_day.jobs IS 'scored jobs with an ordering value';
COMMENT ON COLUMN softwalltime.ordering_by_day.accuracy IS
'mean of min(o, t) / max(o, t), 0 to 1; o: ordering value; t: runtime, at most the walltime';
COMMENT ON COLUMN softwalltime.ordering_by_day.request_accuracy IS 'the same with the walltimes';
COMMENT ON COLUMN softwalltime.ordering_by_day.underestimated IS 'share with o < t';
COMMENT ON COLUMN softwalltime.ordering_by_day.mean_ordering IS 'mean of o, seconds';
COMMENT ON COLUMN softwalltime.ordering_by_day.mean_runtime IS 'mean of t, seconds';
COMMENT ON COLUMN softwalltime.ordering_by_day.mean_walltime IS 'mean walltime, seconds';
