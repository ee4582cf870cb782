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
COMMENT ON COLUMN softwalltime.scores.queue IS 'queue from which the jobs ran';

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
COMMENT ON COLUMN softwalltime.scores_anonymous.queue IS 'queue from which the jobs ran';

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
COMMENT ON COLUMN softwalltime.scores_by_predictor.since IS 'month in which the first of these jobs ended';
COMMENT ON COLUMN softwalltime.scores_by_predictor.until IS 'month in which the last one ended';

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
FROM softwalltime.daily_queues
WHERE mode IN ('shadow', 'on')
GROUP BY 1, 2, 3, 4;

COMMENT ON VIEW softwalltime.scores_by_queue IS
'Predictions compared with runtimes by day, predictor and queue.';
COMMENT ON COLUMN softwalltime.scores_by_queue.queue IS 'queue from which the jobs ran';

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
