-- Marks the days whose figures are to be computed again.  See store/daily.py.

-- name: first_known
-- Return the ids up to which jobs and predictions are included; the lock lets one refresh run at a time.
SELECT jobs_id, predictions_id FROM softwalltime.monitoring WHERE id = 1 FOR UPDATE;

-- name: last_job
-- Return the id of the last of the next :batch jobs.
SELECT max(id) FROM (
    SELECT id FROM softwalltime.completed_jobs WHERE id > :after ORDER BY id LIMIT :batch
) AS next;

-- name: last_prediction
-- Return the id of the last of the next :batch predictions.
SELECT max(id) FROM (
    SELECT id FROM softwalltime.predictions WHERE id > :after ORDER BY id LIMIT :batch
) AS next;

-- name: mark_jobs
-- Mark the days on which these jobs ended.  Days after the year 9999 are ignored: a clock was wrong.
INSERT INTO softwalltime.stale_days
SELECT DISTINCT date '1970-01-01' + (end_time / 86400)::integer
FROM softwalltime.completed_jobs
WHERE id > :after AND id <= :upto AND end_time BETWEEN 0 AND 253402300799
ON CONFLICT DO NOTHING;

-- name: mark_predictions
-- Mark the days of these predictions, and the days on which their jobs ended.  See jobs_of_day for predictions without
-- an id.  "LIMIT" and "+ 0" keep the planner from comparing all jobs with all predictions.
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
-- Store the ids up to which jobs and predictions are included, and the time at which a soft walltime was first set, which
-- stays known when that prediction is deleted.
UPDATE softwalltime.monitoring
SET jobs_id = :jobs_id,
    predictions_id = :predictions_id,
    first_set = least(first_set, (
        SELECT min(predicted_at) FROM softwalltime.predictions
        WHERE id > :after AND id <= :predictions_id AND action = 'set'
    ))
WHERE id = 1;

-- name: next_stale_day
-- Take the newest stale day, because recent days are read most.
DELETE FROM softwalltime.stale_days
WHERE day = (
    SELECT max(day) FROM softwalltime.stale_days WHERE day <= (to_timestamp(:now) AT TIME ZONE 'UTC')::date
)
RETURNING day;

-- name: refreshed
-- Store when the refresh began: everything stored by then is in the figures.
UPDATE softwalltime.monitoring SET refreshed_at = to_timestamp(:now) WHERE id = 1;
