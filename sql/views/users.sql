-- name: users_helped
-- In mode shadow: would have been.  The last 28 days, because users change their ways.
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
'Whose jobs are planned better with predictions than with the user''s own walltimes, over the last 28 days.';
COMMENT ON COLUMN softwalltime.users_helped.user_name IS 'who ran the jobs';
COMMENT ON COLUMN softwalltime.users_helped.mode IS 'shadow or on';
COMMENT ON COLUMN softwalltime.users_helped.jobs IS 'scored jobs: they ran and had a walltime';
COMMENT ON COLUMN softwalltime.users_helped.mean_request_error IS 'mean of walltime - runtime, seconds';
COMMENT ON COLUMN softwalltime.users_helped.mean_absolute_error IS
'mean of |p - runtime|, seconds; p: soft walltime, else the walltime';
COMMENT ON COLUMN softwalltime.users_helped.gain IS 'by how much p is closer on average, seconds; below 0: farther off';
COMMENT ON COLUMN softwalltime.users_helped.outcome IS 'helped, hurt, or neither, as where nothing was predicted';
COMMENT ON COLUMN softwalltime.users_helped.underestimated IS 'share of the jobs that outlived their soft walltime';

-- name: users_helped_anonymous
-- The same, the users counted.
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
'How many users are planned better or worse with predictions than with their own walltimes, over the last 28 days.';
COMMENT ON COLUMN softwalltime.users_helped_anonymous.mode IS 'shadow or on';
COMMENT ON COLUMN softwalltime.users_helped_anonymous.outcome IS 'helped, hurt or neither';
COMMENT ON COLUMN softwalltime.users_helped_anonymous.users IS 'how many';
COMMENT ON COLUMN softwalltime.users_helped_anonymous.jobs IS 'their scored jobs';
COMMENT ON COLUMN softwalltime.users_helped_anonymous.gain IS
'by how much the plan is closer to their jobs'' runtimes on average, seconds; below 0: farther off';
COMMENT ON COLUMN softwalltime.users_helped_anonymous.underestimated IS
'share of their jobs that outlived their soft walltime';

-- name: scores_by_user_anonymous
-- How unevenly users fare, without saying who.
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
'How predictions fare for different users, by month and predictor: percentiles over the users'' own figures.';
COMMENT ON COLUMN softwalltime.scores_by_user_anonymous.month IS 'first day of the month of the jobs'' end, in UTC';
COMMENT ON COLUMN softwalltime.scores_by_user_anonymous.mode IS 'shadow or on';
COMMENT ON COLUMN softwalltime.scores_by_user_anonymous.predictor IS 'which was asked, with its options';
COMMENT ON COLUMN softwalltime.scores_by_user_anonymous.users IS 'how many users';
COMMENT ON COLUMN softwalltime.scores_by_user_anonymous.jobs IS 'their scored jobs';
COMMENT ON COLUMN softwalltime.scores_by_user_anonymous.accuracy_p10 IS
'accuracy that a tenth of the users stay below';
COMMENT ON COLUMN softwalltime.scores_by_user_anonymous.accuracy_p50 IS 'accuracy of the user in the middle';
COMMENT ON COLUMN softwalltime.scores_by_user_anonymous.accuracy_p90 IS 'accuracy that a tenth of the users exceed';
COMMENT ON COLUMN softwalltime.scores_by_user_anonymous.underestimated_p50 IS
'share of underestimated jobs of the user in the middle';
COMMENT ON COLUMN softwalltime.scores_by_user_anonymous.underestimated_p90 IS
'share of underestimated jobs that a tenth of the users exceed';

-- name: walltime_honesty
-- Of all scored jobs, predicted or not.
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

COMMENT ON VIEW softwalltime.walltime_honesty IS 'How much of the walltimes that they ask for users need, by month.';
COMMENT ON COLUMN softwalltime.walltime_honesty.month IS 'first day of the month of the jobs'' end, in UTC';
COMMENT ON COLUMN softwalltime.walltime_honesty.user_name IS 'who ran the jobs';
COMMENT ON COLUMN softwalltime.walltime_honesty.jobs IS 'scored jobs: they ran and had a walltime';
COMMENT ON COLUMN softwalltime.walltime_honesty.honesty IS
'mean of runtime / walltime, 0 to 1: each job counts the same; what runs beyond the walltime is not counted';
COMMENT ON COLUMN softwalltime.walltime_honesty.time_used IS 'runtime of all jobs / walltime of all: long ones count more';
COMMENT ON COLUMN softwalltime.walltime_honesty.mean_walltime IS 'what was asked for, on average';
COMMENT ON COLUMN softwalltime.walltime_honesty.mean_runtime IS 'what was needed, on average';
COMMENT ON COLUMN softwalltime.walltime_honesty.killed IS 'share of the jobs that were killed at their walltime';

-- name: walltime_honesty_anonymous
-- How honest users are, without saying who.
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
'How much of the walltimes that they ask for users need, by month: percentiles over the users.';
COMMENT ON COLUMN softwalltime.walltime_honesty_anonymous.month IS 'first day of the month of the jobs'' end, in UTC';
COMMENT ON COLUMN softwalltime.walltime_honesty_anonymous.users IS 'how many users';
COMMENT ON COLUMN softwalltime.walltime_honesty_anonymous.jobs IS 'their scored jobs';
COMMENT ON COLUMN softwalltime.walltime_honesty_anonymous.honesty_p10 IS
'runtime / walltime that a tenth of the users stay below';
COMMENT ON COLUMN softwalltime.walltime_honesty_anonymous.honesty_p50 IS 'that of the user in the middle';
COMMENT ON COLUMN softwalltime.walltime_honesty_anonymous.honesty_p90 IS 'that which a tenth of the users exceed';
COMMENT ON COLUMN softwalltime.walltime_honesty_anonymous.honesty IS 'mean of runtime / walltime over all jobs';
COMMENT ON COLUMN softwalltime.walltime_honesty_anonymous.killed IS 'share of the jobs killed at their walltime';

-- name: jobs_now_anonymous
-- As jobs_now, with neither the user's name nor the id by which qstat tells it.
CREATE OR REPLACE VIEW softwalltime.jobs_now_anonymous AS
SELECT server, state, project, queue, ncpus, submitted, started, walltime, soft_walltime, expected_end, latest_end
FROM softwalltime.jobs_now;

COMMENT ON VIEW softwalltime.jobs_now_anonymous IS
'Jobs that wait or run at this moment, as far as the accounting log has been read.';
COMMENT ON COLUMN softwalltime.jobs_now_anonymous.server IS 'the PBS server that has it';
COMMENT ON COLUMN softwalltime.jobs_now_anonymous.state IS 'waits or runs';
COMMENT ON COLUMN softwalltime.jobs_now_anonymous.project IS 'PBS''s project';
COMMENT ON COLUMN softwalltime.jobs_now_anonymous.queue IS 'the queue that it is in';
COMMENT ON COLUMN softwalltime.jobs_now_anonymous.ncpus IS 'processors asked for';
COMMENT ON COLUMN softwalltime.jobs_now_anonymous.submitted IS 'when it was submitted';
COMMENT ON COLUMN softwalltime.jobs_now_anonymous.started IS 'when it started; null: it waits';
COMMENT ON COLUMN softwalltime.jobs_now_anonymous.walltime IS 'after which it is killed; null: no limit';
COMMENT ON COLUMN softwalltime.jobs_now_anonymous.soft_walltime IS
'how long it is planned to run; null: as long as its walltime';
COMMENT ON COLUMN softwalltime.jobs_now_anonymous.expected_end IS
'start and soft walltime; null: it waits or has none';
COMMENT ON COLUMN softwalltime.jobs_now_anonymous.latest_end IS 'start and walltime; null: it waits or has no limit';

-- name: jobs_overdue_anonymous
-- As jobs_overdue, with neither the user's name nor the id by which qstat tells it.
CREATE OR REPLACE VIEW softwalltime.jobs_overdue_anonymous AS
SELECT server, project, queue, ncpus, started, soft_walltime, walltime, overdue, killed_in
FROM softwalltime.jobs_overdue;

COMMENT ON VIEW softwalltime.jobs_overdue_anonymous IS 'Jobs that have run longer than their soft walltime.';
COMMENT ON COLUMN softwalltime.jobs_overdue_anonymous.server IS 'the PBS server that has it';
COMMENT ON COLUMN softwalltime.jobs_overdue_anonymous.project IS 'PBS''s project';
COMMENT ON COLUMN softwalltime.jobs_overdue_anonymous.queue IS 'the queue that it runs from';
COMMENT ON COLUMN softwalltime.jobs_overdue_anonymous.ncpus IS 'processors asked for';
COMMENT ON COLUMN softwalltime.jobs_overdue_anonymous.started IS 'when it started';
COMMENT ON COLUMN softwalltime.jobs_overdue_anonymous.soft_walltime IS 'how long it was planned to run';
COMMENT ON COLUMN softwalltime.jobs_overdue_anonymous.walltime IS 'after which it is killed; null: no limit';
COMMENT ON COLUMN softwalltime.jobs_overdue_anonymous.overdue IS 'for how long it has outlived its soft walltime';
COMMENT ON COLUMN softwalltime.jobs_overdue_anonymous.killed_in IS
'how long it has until its walltime; null: no limit';
