-- name: scores
-- The most detailed figures; add them up as sum(accuracy * jobs) / sum(jobs).
CREATE OR REPLACE VIEW softwalltime.scores AS
SELECT
    day,
    mode,
    predictor,
    queue,
    project,
    user_name,
    jobs,
    accuracy / jobs AS accuracy,
    underestimated::double precision / jobs AS underestimated,
    badly_underestimated::double precision / jobs AS badly_underestimated,
    over::double precision / jobs AS overestimated,
    1 - adjusted::double precision / jobs AS not_adjusted,
    absolute_error / jobs AS mean_absolute_error,
    request_error / jobs AS mean_request_error,
    extensions / jobs AS extensions,
    share / jobs AS request_accuracy
FROM softwalltime.daily_scores
WHERE mode IN ('shadow', 'on');

COMMENT ON VIEW softwalltime.scores IS
'Predictions compared with runtimes by day, predictor, queue, project and user.';
COMMENT ON COLUMN softwalltime.scores.day IS 'day of the jobs'' end, in UTC';
COMMENT ON COLUMN softwalltime.scores.mode IS 'shadow or on';
COMMENT ON COLUMN softwalltime.scores.predictor IS 'predictor with its options';
COMMENT ON COLUMN softwalltime.scores.queue IS 'queue from which the jobs ran';
COMMENT ON COLUMN softwalltime.scores.project IS 'PBS project';
COMMENT ON COLUMN softwalltime.scores.user_name IS 'user';
COMMENT ON COLUMN softwalltime.scores.jobs IS 'scored jobs: they ran and had a walltime';
COMMENT ON COLUMN softwalltime.scores.accuracy IS
'mean of min(p, t) / max(p, t), 0 to 1; t: runtime, at most the walltime; p: soft walltime, else the walltime';
COMMENT ON COLUMN softwalltime.scores.underestimated IS
'share with p < t: the scheduler extends their soft walltime (UE and BE)';
COMMENT ON COLUMN softwalltime.scores.badly_underestimated IS 'share underestimated by more than 30 minutes (BE)';
COMMENT ON COLUMN softwalltime.scores.overestimated IS 'share with a soft walltime of at least t (OE)';
COMMENT ON COLUMN softwalltime.scores.not_adjusted IS 'share without a soft walltime below the walltime (NA)';
COMMENT ON COLUMN softwalltime.scores.mean_absolute_error IS 'mean of |p - t|, seconds';
COMMENT ON COLUMN softwalltime.scores.mean_request_error IS
'mean of walltime - t, seconds: error of the users'' walltimes';
COMMENT ON COLUMN softwalltime.scores.extensions IS 'extensions of the soft walltime by the scheduler, per job';
COMMENT ON COLUMN softwalltime.scores.request_accuracy IS 'accuracy of the users'' walltimes';

-- name: scores_anonymous
-- Like scores, by month, without users.
CREATE OR REPLACE VIEW softwalltime.scores_anonymous AS
SELECT
    month,
    mode,
    predictor,
    queue,
    project,
    count(*) AS users,
    sum(jobs)::bigint AS jobs,
    sum(accuracy) / sum(jobs) AS accuracy,
    sum(underestimated)::double precision / sum(jobs) AS underestimated,
    sum(badly_underestimated)::double precision / sum(jobs) AS badly_underestimated,
    sum(over)::double precision / sum(jobs) AS overestimated,
    1 - sum(adjusted)::double precision / sum(jobs) AS not_adjusted,
    sum(absolute_error) / sum(jobs) AS mean_absolute_error,
    sum(request_error) / sum(jobs) AS mean_request_error,
    sum(extensions) / sum(jobs) AS extensions,
    sum(share) / sum(jobs) AS request_accuracy
FROM softwalltime.monthly_scores
WHERE mode IN ('shadow', 'on')
GROUP BY 1, 2, 3, 4, 5;

COMMENT ON VIEW softwalltime.scores_anonymous IS
'Predictions compared with runtimes by month, predictor, queue and project.';
COMMENT ON COLUMN softwalltime.scores_anonymous.month IS 'first day of the month of the jobs'' end, in UTC';
COMMENT ON COLUMN softwalltime.scores_anonymous.mode IS 'shadow or on';
COMMENT ON COLUMN softwalltime.scores_anonymous.predictor IS 'predictor with its options';
COMMENT ON COLUMN softwalltime.scores_anonymous.queue IS 'queue from which the jobs ran';
COMMENT ON COLUMN softwalltime.scores_anonymous.project IS 'PBS project';
COMMENT ON COLUMN softwalltime.scores_anonymous.users IS 'number of users';
COMMENT ON COLUMN softwalltime.scores_anonymous.jobs IS 'scored jobs: they ran and had a walltime';
COMMENT ON COLUMN softwalltime.scores_anonymous.accuracy IS
'mean of min(p, t) / max(p, t), 0 to 1; t: runtime, at most the walltime; p: soft walltime, else the walltime';
COMMENT ON COLUMN softwalltime.scores_anonymous.underestimated IS
'share with p < t: the scheduler extends their soft walltime (UE and BE)';
COMMENT ON COLUMN softwalltime.scores_anonymous.badly_underestimated IS
'share underestimated by more than 30 minutes (BE)';
COMMENT ON COLUMN softwalltime.scores_anonymous.overestimated IS 'share with a soft walltime of at least t (OE)';
COMMENT ON COLUMN softwalltime.scores_anonymous.not_adjusted IS 'share without a soft walltime below the walltime (NA)';
COMMENT ON COLUMN softwalltime.scores_anonymous.mean_absolute_error IS 'mean of |p - t|, seconds';
COMMENT ON COLUMN softwalltime.scores_anonymous.mean_request_error IS
'mean of walltime - t, seconds: error of the users'' walltimes';
COMMENT ON COLUMN softwalltime.scores_anonymous.extensions IS
'extensions of the soft walltime by the scheduler, per job';
COMMENT ON COLUMN softwalltime.scores_anonymous.request_accuracy IS 'accuracy of the users'' walltimes';

-- name: scores_by_predictor
-- All stored months, one row per predictor.
CREATE OR REPLACE VIEW softwalltime.scores_by_predictor AS
SELECT
    mode,
    predictor,
    min(month) AS since,
    max(month) AS until,
    sum(jobs)::bigint AS jobs,
    sum(accuracy) / sum(jobs) AS accuracy,
    sum(underestimated)::double precision / sum(jobs) AS underestimated,
    sum(badly_underestimated)::double precision / sum(jobs) AS badly_underestimated,
    sum(over)::double precision / sum(jobs) AS overestimated,
    1 - sum(adjusted)::double precision / sum(jobs) AS not_adjusted,
    sum(absolute_error) / sum(jobs) AS mean_absolute_error,
    sum(request_error) / sum(jobs) AS mean_request_error,
    sum(extensions) / sum(jobs) AS extensions,
    sum(share) / sum(jobs) AS request_accuracy
FROM softwalltime.monthly_scores
WHERE mode IN ('shadow', 'on')
GROUP BY 1, 2;

COMMENT ON VIEW softwalltime.scores_by_predictor IS
'Predictions compared with runtimes by predictor.';
COMMENT ON COLUMN softwalltime.scores_by_predictor.mode IS 'shadow or on';
COMMENT ON COLUMN softwalltime.scores_by_predictor.predictor IS 'predictor with its options';
COMMENT ON COLUMN softwalltime.scores_by_predictor.since IS 'month in which the first of these jobs ended';
COMMENT ON COLUMN softwalltime.scores_by_predictor.until IS 'month in which the last one ended';
COMMENT ON COLUMN softwalltime.scores_by_predictor.jobs IS 'scored jobs: they ran and had a walltime';
COMMENT ON COLUMN softwalltime.scores_by_predictor.accuracy IS
'mean of min(p, t) / max(p, t), 0 to 1; t: runtime, at most the walltime; p: soft walltime, else the walltime';
COMMENT ON COLUMN softwalltime.scores_by_predictor.underestimated IS
'share with p < t: the scheduler extends their soft walltime (UE and BE)';
COMMENT ON COLUMN softwalltime.scores_by_predictor.badly_underestimated IS
'share underestimated by more than 30 minutes (BE)';
COMMENT ON COLUMN softwalltime.scores_by_predictor.overestimated IS 'share with a soft walltime of at least t (OE)';
COMMENT ON COLUMN softwalltime.scores_by_predictor.not_adjusted IS
'share without a soft walltime below the walltime (NA)';
COMMENT ON COLUMN softwalltime.scores_by_predictor.mean_absolute_error IS 'mean of |p - t|, seconds';
COMMENT ON COLUMN softwalltime.scores_by_predictor.mean_request_error IS
'mean of walltime - t, seconds: error of the users'' walltimes';
COMMENT ON COLUMN softwalltime.scores_by_predictor.extensions IS
'extensions of the soft walltime by the scheduler, per job';
COMMENT ON COLUMN softwalltime.scores_by_predictor.request_accuracy IS 'accuracy of the users'' walltimes';

-- name: scores_by_queue
-- One queue over time, or all queues over some days.
CREATE OR REPLACE VIEW softwalltime.scores_by_queue AS
SELECT
    day,
    mode,
    predictor,
    queue,
    sum(jobs)::bigint AS jobs,
    sum(accuracy) / sum(jobs) AS accuracy,
    sum(underestimated)::double precision / sum(jobs) AS underestimated,
    sum(badly_underestimated)::double precision / sum(jobs) AS badly_underestimated,
    sum(over)::double precision / sum(jobs) AS overestimated,
    1 - sum(adjusted)::double precision / sum(jobs) AS not_adjusted,
    sum(absolute_error) / sum(jobs) AS mean_absolute_error,
    sum(request_error) / sum(jobs) AS mean_request_error,
    sum(extensions) / sum(jobs) AS extensions,
    sum(share) / sum(jobs) AS request_accuracy
FROM softwalltime.daily_scores
WHERE mode IN ('shadow', 'on')
GROUP BY 1, 2, 3, 4;

COMMENT ON VIEW softwalltime.scores_by_queue IS
'Predictions compared with runtimes by day, predictor and queue.';
COMMENT ON COLUMN softwalltime.scores_by_queue.day IS 'day of the jobs'' end, in UTC';
COMMENT ON COLUMN softwalltime.scores_by_queue.mode IS 'shadow or on';
COMMENT ON COLUMN softwalltime.scores_by_queue.predictor IS 'predictor with its options';
COMMENT ON COLUMN softwalltime.scores_by_queue.queue IS 'queue from which the jobs ran';
COMMENT ON COLUMN softwalltime.scores_by_queue.jobs IS 'scored jobs: they ran and had a walltime';
COMMENT ON COLUMN softwalltime.scores_by_queue.accuracy IS
'mean of min(p, t) / max(p, t), 0 to 1; t: runtime, at most the walltime; p: soft walltime, else the walltime';
COMMENT ON COLUMN softwalltime.scores_by_queue.underestimated IS
'share with p < t: the scheduler extends their soft walltime (UE and BE)';
COMMENT ON COLUMN softwalltime.scores_by_queue.badly_underestimated IS
'share underestimated by more than 30 minutes (BE)';
COMMENT ON COLUMN softwalltime.scores_by_queue.overestimated IS 'share with a soft walltime of at least t (OE)';
COMMENT ON COLUMN softwalltime.scores_by_queue.not_adjusted IS 'share without a soft walltime below the walltime (NA)';
COMMENT ON COLUMN softwalltime.scores_by_queue.mean_absolute_error IS 'mean of |p - t|, seconds';
COMMENT ON COLUMN softwalltime.scores_by_queue.mean_request_error IS
'mean of walltime - t, seconds: error of the users'' walltimes';
COMMENT ON COLUMN softwalltime.scores_by_queue.extensions IS
'extensions of the soft walltime by the scheduler, per job';
COMMENT ON COLUMN softwalltime.scores_by_queue.request_accuracy IS 'accuracy of the users'' walltimes';

-- name: scores_by_project
-- By month, because most projects have few jobs a day.
CREATE OR REPLACE VIEW softwalltime.scores_by_project AS
SELECT
    month,
    mode,
    predictor,
    project,
    sum(jobs)::bigint AS jobs,
    sum(accuracy) / sum(jobs) AS accuracy,
    sum(underestimated)::double precision / sum(jobs) AS underestimated,
    sum(badly_underestimated)::double precision / sum(jobs) AS badly_underestimated,
    sum(over)::double precision / sum(jobs) AS overestimated,
    1 - sum(adjusted)::double precision / sum(jobs) AS not_adjusted,
    sum(absolute_error) / sum(jobs) AS mean_absolute_error,
    sum(request_error) / sum(jobs) AS mean_request_error,
    sum(extensions) / sum(jobs) AS extensions,
    sum(share) / sum(jobs) AS request_accuracy
FROM softwalltime.monthly_scores
WHERE mode IN ('shadow', 'on')
GROUP BY 1, 2, 3, 4;

COMMENT ON VIEW softwalltime.scores_by_project IS
'Predictions compared with runtimes by month, predictor and project.';
COMMENT ON COLUMN softwalltime.scores_by_project.month IS 'first day of the month of the jobs'' end, in UTC';
COMMENT ON COLUMN softwalltime.scores_by_project.mode IS 'shadow or on';
COMMENT ON COLUMN softwalltime.scores_by_project.predictor IS 'predictor with its options';
COMMENT ON COLUMN softwalltime.scores_by_project.project IS 'PBS project';
COMMENT ON COLUMN softwalltime.scores_by_project.jobs IS 'scored jobs: they ran and had a walltime';
COMMENT ON COLUMN softwalltime.scores_by_project.accuracy IS
'mean of min(p, t) / max(p, t), 0 to 1; t: runtime, at most the walltime; p: soft walltime, else the walltime';
COMMENT ON COLUMN softwalltime.scores_by_project.underestimated IS
'share with p < t: the scheduler extends their soft walltime (UE and BE)';
COMMENT ON COLUMN softwalltime.scores_by_project.badly_underestimated IS
'share underestimated by more than 30 minutes (BE)';
COMMENT ON COLUMN softwalltime.scores_by_project.overestimated IS 'share with a soft walltime of at least t (OE)';
COMMENT ON COLUMN softwalltime.scores_by_project.not_adjusted IS
'share without a soft walltime below the walltime (NA)';
COMMENT ON COLUMN softwalltime.scores_by_project.mean_absolute_error IS 'mean of |p - t|, seconds';
COMMENT ON COLUMN softwalltime.scores_by_project.mean_request_error IS
'mean of walltime - t, seconds: error of the users'' walltimes';
COMMENT ON COLUMN softwalltime.scores_by_project.extensions IS
'extensions of the soft walltime by the scheduler, per job';
COMMENT ON COLUMN softwalltime.scores_by_project.request_accuracy IS 'accuracy of the users'' walltimes';

-- name: scores_by_user
-- By month, because users have few jobs a day.
CREATE OR REPLACE VIEW softwalltime.scores_by_user AS
SELECT
    month,
    mode,
    predictor,
    user_name,
    sum(jobs)::bigint AS jobs,
    sum(accuracy) / sum(jobs) AS accuracy,
    sum(underestimated)::double precision / sum(jobs) AS underestimated,
    sum(badly_underestimated)::double precision / sum(jobs) AS badly_underestimated,
    sum(over)::double precision / sum(jobs) AS overestimated,
    1 - sum(adjusted)::double precision / sum(jobs) AS not_adjusted,
    sum(absolute_error) / sum(jobs) AS mean_absolute_error,
    sum(request_error) / sum(jobs) AS mean_request_error,
    sum(extensions) / sum(jobs) AS extensions,
    sum(share) / sum(jobs) AS request_accuracy
FROM softwalltime.monthly_scores
WHERE mode IN ('shadow', 'on')
GROUP BY 1, 2, 3, 4;

COMMENT ON VIEW softwalltime.scores_by_user IS
'Predictions compared with runtimes by month, predictor and user.';
COMMENT ON COLUMN softwalltime.scores_by_user.month IS 'first day of the month of the jobs'' end, in UTC';
COMMENT ON COLUMN softwalltime.scores_by_user.mode IS 'shadow or on';
COMMENT ON COLUMN softwalltime.scores_by_user.predictor IS 'predictor with its options';
COMMENT ON COLUMN softwalltime.scores_by_user.user_name IS 'user';
COMMENT ON COLUMN softwalltime.scores_by_user.jobs IS 'scored jobs: they ran and had a walltime';
COMMENT ON COLUMN softwalltime.scores_by_user.accuracy IS
'mean of min(p, t) / max(p, t), 0 to 1; t: runtime, at most the walltime; p: soft walltime, else the walltime';
COMMENT ON COLUMN softwalltime.scores_by_user.underestimated IS
'share with p < t: the scheduler extends their soft walltime (UE and BE)';
COMMENT ON COLUMN softwalltime.scores_by_user.badly_underestimated IS
'share underestimated by more than 30 minutes (BE)';
COMMENT ON COLUMN softwalltime.scores_by_user.overestimated IS 'share with a soft walltime of at least t (OE)';
COMMENT ON COLUMN softwalltime.scores_by_user.not_adjusted IS 'share without a soft walltime below the walltime (NA)';
COMMENT ON COLUMN softwalltime.scores_by_user.mean_absolute_error IS 'mean of |p - t|, seconds';
COMMENT ON COLUMN softwalltime.scores_by_user.mean_request_error IS
'mean of walltime - t, seconds: error of the users'' walltimes';
COMMENT ON COLUMN softwalltime.scores_by_user.extensions IS
'extensions of the soft walltime by the scheduler, per job';
COMMENT ON COLUMN softwalltime.scores_by_user.request_accuracy IS 'accuracy of the users'' walltimes';

-- name: scores_of_shadows
-- Compares predictors on the same jobs: those for which the shadow predictors were asked.
CREATE OR REPLACE VIEW softwalltime.scores_of_shadows AS
SELECT
    day,
    role,
    predictor,
    jobs,
    accuracy / jobs AS accuracy,
    underestimated::double precision / jobs AS underestimated,
    badly_underestimated::double precision / jobs AS badly_underestimated,
    1 - adjusted::double precision / jobs AS not_adjusted,
    absolute_error / jobs AS mean_absolute_error
FROM softwalltime.daily_shadows;

COMMENT ON VIEW softwalltime.scores_of_shadows IS
'Shadow predictors, the policy''s predictor and the walltimes on the same jobs, by day.';
COMMENT ON COLUMN softwalltime.scores_of_shadows.day IS 'day of the jobs'' end, in UTC';
COMMENT ON COLUMN softwalltime.scores_of_shadows.role IS
'shadow; live: what the jobs had or, in mode shadow, would have had; walltime: no predictor';
COMMENT ON COLUMN softwalltime.scores_of_shadows.predictor IS 'predictor with its options';
COMMENT ON COLUMN softwalltime.scores_of_shadows.jobs IS
'scored jobs for which the shadow predictors were asked: they ran and had a walltime';
COMMENT ON COLUMN softwalltime.scores_of_shadows.accuracy IS
'mean of min(p, t) / max(p, t), 0 to 1; t: runtime, at most the walltime; p: soft walltime, else the walltime';
COMMENT ON COLUMN softwalltime.scores_of_shadows.underestimated IS 'share with p < t';
COMMENT ON COLUMN softwalltime.scores_of_shadows.badly_underestimated IS
'share underestimated by more than 30 minutes';
COMMENT ON COLUMN softwalltime.scores_of_shadows.not_adjusted IS 'share without a soft walltime below the walltime';
COMMENT ON COLUMN softwalltime.scores_of_shadows.mean_absolute_error IS 'mean of |p - t|, seconds';
