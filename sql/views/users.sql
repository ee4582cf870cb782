-- name: users_helped
-- The last 28 days, because users' jobs change.  In mode shadow, hypothetical.
CREATE OR REPLACE VIEW softwalltime.users_helped AS
SELECT
    user_name,
    mode,
    sum(jobs)::bigint AS jobs,
    sum(request_error) / sum(jobs) AS mean_request_error,
    sum(absolute_error) / sum(jobs) AS mean_absolute_error,
    (sum(request_error) - sum(absolute_error)) / sum(jobs) AS gain,
    CASE
        WHEN sum(absolute_error) < sum(request_error) THEN 'helped'
        WHEN sum(absolute_error) > sum(request_error) THEN 'hurt'
        ELSE 'neither'
    END AS outcome,
    sum(underestimated)::double precision / sum(jobs) AS underestimated
FROM softwalltime.daily_scores
WHERE mode IN ('shadow', 'on') AND day > (now() AT TIME ZONE 'UTC')::date - 28
GROUP BY user_name, mode;

COMMENT ON VIEW softwalltime.users_helped IS
'Users whose jobs are planned better with predictions than with their walltimes, in the last 28 days.';
COMMENT ON COLUMN softwalltime.users_helped.mean_request_error IS 'mean of walltime - runtime, seconds';
COMMENT ON COLUMN softwalltime.users_helped.mean_absolute_error IS
'mean of |p - runtime|, seconds; p: soft walltime, else the walltime';
COMMENT ON COLUMN softwalltime.users_helped.outcome IS 'helped, hurt or neither, for example without predictions';
COMMENT ON COLUMN softwalltime.users_helped.underestimated IS 'share of the jobs that exceeded their soft walltime';

-- name: users_helped_anonymous
-- Like users_helped, with the number of users in place of names.
CREATE OR REPLACE VIEW softwalltime.users_helped_anonymous AS
SELECT
    mode,
    outcome,
    count(*) AS users,
    sum(jobs)::bigint AS jobs,
    sum(gain * jobs) / sum(jobs) AS gain,
    sum(underestimated * jobs) / sum(jobs) AS underestimated
FROM softwalltime.users_helped
GROUP BY mode, outcome;

COMMENT ON VIEW softwalltime.users_helped_anonymous IS
'Number of users planned better or worse with predictions than with their walltimes, in the last 28 days.';
COMMENT ON COLUMN softwalltime.users_helped_anonymous.outcome IS 'helped, hurt or neither';
COMMENT ON COLUMN softwalltime.users_helped_anonymous.users IS 'number';
COMMENT ON COLUMN softwalltime.users_helped_anonymous.jobs IS 'their scored jobs';
COMMENT ON COLUMN softwalltime.users_helped_anonymous.underestimated IS
'share of their jobs that exceeded their soft walltime';

-- name: scores_by_user_anonymous
-- How much accuracy differs between users, without names.
CREATE OR REPLACE VIEW softwalltime.scores_by_user_anonymous AS
SELECT
    month,
    mode,
    predictor,
    count(*) AS users,
    sum(jobs)::bigint AS jobs,
    percentile_cont(0.1) WITHIN GROUP (ORDER BY accuracy) AS accuracy_p10,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY accuracy) AS accuracy_p50,
    percentile_cont(0.9) WITHIN GROUP (ORDER BY accuracy) AS accuracy_p90,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY underestimated) AS underestimated_p50,
    percentile_cont(0.9) WITHIN GROUP (ORDER BY underestimated) AS underestimated_p90
FROM softwalltime.scores_by_user
GROUP BY month, mode, predictor;

COMMENT ON VIEW softwalltime.scores_by_user_anonymous IS
'Distribution of accuracy over users, by month and predictor: percentiles of the users'' figures.';
COMMENT ON COLUMN softwalltime.scores_by_user_anonymous.jobs IS 'their scored jobs';
COMMENT ON COLUMN softwalltime.scores_by_user_anonymous.accuracy_p10 IS
'10th percentile of the users'' accuracy';
COMMENT ON COLUMN softwalltime.scores_by_user_anonymous.accuracy_p50 IS 'median of the users'' accuracy';
COMMENT ON COLUMN softwalltime.scores_by_user_anonymous.accuracy_p90 IS '90th percentile of the users'' accuracy';
COMMENT ON COLUMN softwalltime.scores_by_user_anonymous.underestimated_p50 IS
'median of the users'' share of underestimated jobs';
COMMENT ON COLUMN softwalltime.scores_by_user_anonymous.underestimated_p90 IS
'90th percentile of the users'' share of underestimated jobs';

-- name: walltime_honesty
-- All scored jobs, predicted or not.
CREATE OR REPLACE VIEW softwalltime.walltime_honesty AS
SELECT
    month,
    user_name,
    sum(jobs)::bigint AS jobs,
    sum(share) / sum(jobs) AS honesty,
    sum(runtime) / sum(walltime) AS time_used,
    make_interval(secs => round(sum(walltime) / sum(jobs))) AS mean_walltime,
    make_interval(secs => round(sum(runtime) / sum(jobs))) AS mean_runtime,
    sum(killed)::double precision / sum(jobs) AS killed
FROM softwalltime.monthly_scores
GROUP BY 1, 2;

COMMENT ON VIEW softwalltime.walltime_honesty IS 'Runtime as a share of the requested walltime, by month and user.';
COMMENT ON COLUMN softwalltime.walltime_honesty.honesty IS
'mean of runtime / walltime, 0 to 1; runtime counts up to the walltime';
COMMENT ON COLUMN softwalltime.walltime_honesty.time_used IS 'total runtime / total walltime: long jobs weigh more';
COMMENT ON COLUMN softwalltime.walltime_honesty.mean_walltime IS 'mean walltime';
COMMENT ON COLUMN softwalltime.walltime_honesty.mean_runtime IS 'mean runtime';
COMMENT ON COLUMN softwalltime.walltime_honesty.killed IS 'share of the jobs that were killed at their walltime';

-- name: walltime_honesty_anonymous
-- Like walltime_honesty, without names.
CREATE OR REPLACE VIEW softwalltime.walltime_honesty_anonymous AS
SELECT
    month,
    count(*) AS users,
    sum(jobs)::bigint AS jobs,
    percentile_cont(0.1) WITHIN GROUP (ORDER BY honesty) AS honesty_p10,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY honesty) AS honesty_p50,
    percentile_cont(0.9) WITHIN GROUP (ORDER BY honesty) AS honesty_p90,
    sum(honesty * jobs) / sum(jobs) AS honesty,
    sum(killed * jobs) / sum(jobs) AS killed
FROM softwalltime.walltime_honesty
GROUP BY month;

COMMENT ON VIEW softwalltime.walltime_honesty_anonymous IS
'Runtime as a share of the requested walltime, by month: percentiles over users.';
COMMENT ON COLUMN softwalltime.walltime_honesty_anonymous.jobs IS 'their scored jobs';
COMMENT ON COLUMN softwalltime.walltime_honesty_anonymous.honesty_p10 IS
'10th percentile of the users'' honesty';
COMMENT ON COLUMN softwalltime.walltime_honesty_anonymous.honesty_p50 IS 'median of the users'' honesty';
COMMENT ON COLUMN softwalltime.walltime_honesty_anonymous.honesty_p90 IS '90th percentile of the users'' honesty';
COMMENT ON COLUMN softwalltime.walltime_honesty_anonymous.honesty IS 'mean of runtime / walltime over all jobs';
COMMENT ON COLUMN softwalltime.walltime_honesty_anonymous.killed IS 'share of the jobs killed at their walltime';

-- name: jobs_now_anonymous
-- Like jobs_now, without user names and without job ids, because qstat shows the user of a job id.
CREATE OR REPLACE VIEW softwalltime.jobs_now_anonymous AS
SELECT server, state, project, queue, ncpus, submitted, started, walltime, soft_walltime, expected_end, latest_end
FROM softwalltime.jobs_now;

COMMENT ON VIEW softwalltime.jobs_now_anonymous IS
'Waiting and running jobs, as of the last accounting record read.';

-- name: jobs_overdue_anonymous
-- Like jobs_overdue, without user names and without job ids, because qstat shows the user of a job id.
CREATE OR REPLACE VIEW softwalltime.jobs_overdue_anonymous AS
SELECT server, project, queue, ncpus, started, soft_walltime, walltime, overdue, killed_in
FROM softwalltime.jobs_overdue;

COMMENT ON VIEW softwalltime.jobs_overdue_anonymous IS 'Running jobs beyond their soft walltime.';
COMMENT ON COLUMN softwalltime.jobs_overdue_anonymous.queue IS 'queue from which it runs';
COMMENT ON COLUMN softwalltime.jobs_overdue_anonymous.started IS 'start time';
COMMENT ON COLUMN softwalltime.jobs_overdue_anonymous.soft_walltime IS 'soft walltime';
