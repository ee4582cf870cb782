-- Marks the days whose figures are to be computed again.  See store/daily.py.

-- name: first_known
-- How far the figures reach; one refresher at a time goes on from here.
SELECT jobs_id, predictions_id FROM softwalltime.monitoring WHERE id = 1 FOR UPDATE;

-- name: last_job
-- The last of the next so many jobs that have become known.
SELECT max(id) FROM (
    SELECT id FROM softwalltime.completed_jobs WHERE id > :after ORDER BY id LIMIT :batch
) AS next;

-- name: last_prediction
-- The last of the next so many predictions that were recorded.
SELECT max(id) FROM (
    SELECT id FROM softwalltime.predictions WHERE id > :after ORDER BY id LIMIT :batch
) AS next;

-- name: mark_jobs
-- Days on which these jobs ended.  A day beyond the year 9999 is a clock gone wrong.
INSERT INTO softwalltime.stale_days
SELECT DISTINCT date '1970-01-01' + (end_time / 86400)::integer
FROM softwalltime.completed_jobs
WHERE id > :after AND id <= :upto AND end_time BETWEEN 0 AND 253402300799
ON CONFLICT DO NOTHING;

-- name: mark_predictions
-- Days of these predictions; and of their jobs, if those are known to have ended already.  Whose those without an id are:
-- see jobs_of_day.  "LIMIT", "+ 0" and the rest keep PostgreSQL from comparing all jobs with all predictions.
INSERT INTO softwalltime.stale_days
SELECT date '1970-01-01' + (new.predicted_at / 86400)::integer
FROM softwalltime.predictions AS new
WHERE new.id > :after AND new.id <= :upto AND new.predicted_at BETWEEN 0 AND 253402300799
UNION
SELECT date '1970-01-01' + (job.end_time / 86400)::integer
FROM softwalltime.predictions AS new
JOIN softwalltime.completed_jobs AS job ON job.job_id = new.job_id AND job.end_time BETWEEN 0 AND 253402300799
WHERE new.id > :after AND new.id <= :upto AND new.job_id <> ''
UNION
SELECT date '1970-01-01' + (job.end_time / 86400)::integer
FROM softwalltime.completed_jobs AS job
CROSS JOIN LATERAL (
    SELECT new.id
    FROM softwalltime.predictions AS new
    WHERE new.predicted_at BETWEEN job.ctime - 3 AND job.ctime + 3
        AND new.job_id || '' = '' AND new.event = 'queuejob'
        AND new.user_name = job.user_name AND new.walltime = job.walltime
        AND new.id + 0 > :after AND new.id + 0 <= :upto
    LIMIT 1
) AS made
WHERE job.end_time BETWEEN (
        SELECT min(oldest.predicted_at + 0) FROM softwalltime.predictions AS oldest
        WHERE oldest.id > :after AND oldest.id <= :upto AND oldest.job_id = '' AND oldest.event = 'queuejob'
    ) - 3 AND 253402300799
ON CONFLICT DO NOTHING;

-- name: marked
-- Remembers how far; the time of the first soft walltime stays known when that prediction is forgotten.
UPDATE softwalltime.monitoring
SET jobs_id = :jobs_id,
    predictions_id = :predictions_id,
    first_set = least(first_set, (
        SELECT min(predicted_at) FROM softwalltime.predictions
        WHERE id > :after AND id <= :predictions_id AND action = 'set'
    ))
WHERE id = 1;

-- name: next_stale_day
-- The newest first: it is looked at most.
DELETE FROM softwalltime.stale_days
WHERE day = (
    SELECT max(day) FROM softwalltime.stale_days WHERE day <= (to_timestamp(:now) AT TIME ZONE 'UTC')::date
)
RETURNING day;

-- name: refreshed
-- All that was known when the refresh began is in the figures.
UPDATE softwalltime.monitoring SET refreshed_at = to_timestamp(:now) WHERE id = 1;
