-- Marks the days whose figures are to be computed again.  See store/daily.py.

-- name: first_known
-- Return the ids up to which jobs and predictions are included; the lock lets one refresh run at a time.  The planner
-- overestimates the statements that follow, and would compile each of them for 0.1 s and more.
SELECT jobs_id, predictions_id
FROM softwalltime.monitoring
WHERE id = 1 AND set_config('jit', 'off', true) = 'off'
FOR UPDATE;

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
-- Mark the days of these predictions, and the days on which their jobs ended, for jobs up to :known: later ones are marked as
-- new.  See jobs_of_day for arrays and for predictions without an id.  Ids of the subjobs of 5[].srv are between "5[" and "5\"
-- in byte order.  "LIMIT", "OFFSET 0" and "+ 0" keep the planner from comparing all jobs with all predictions.
INSERT INTO softwalltime.stale_days
SELECT date '1970-01-01' + (new.predicted_at / 86400)::integer
FROM softwalltime.predictions AS new
WHERE new.id > :after AND new.id <= :upto AND new.predicted_at BETWEEN 0 AND 253402300799
UNION
SELECT date '1970-01-01' + (job.end_time / 86400)::integer
FROM softwalltime.predictions AS new
JOIN softwalltime.completed_jobs AS job ON job.job_id = new.job_id
WHERE new.id > :after AND new.id <= :upto AND new.job_id <> ''
    AND job.id + 0 <= :known AND job.end_time BETWEEN 0 AND 253402300799
UNION
SELECT date '1970-01-01' + (job.end_time / 86400)::integer
FROM (
    SELECT DISTINCT made.job_id FROM softwalltime.predictions AS made
    WHERE made.id > :after AND made.id <= :upto AND made.job_id LIKE '%[]%'
) AS new
CROSS JOIN LATERAL (
    SELECT subjob.end_time
    FROM softwalltime.completed_jobs AS subjob
    WHERE subjob.job_id > split_part(new.job_id, ']', 1) AND subjob.job_id < split_part(new.job_id, '[', 1) || '\'
        AND regexp_replace(subjob.job_id, '\[\d+\]', '[]') = new.job_id
        AND subjob.id + 0 <= :known AND subjob.end_time BETWEEN 0 AND 253402300799
    OFFSET 0
) AS job
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
    AND job.id + 0 <= :known
ON CONFLICT DO NOTHING;

-- name: marked
-- Store the ids up to which jobs and predictions are included, and the time at which a soft walltime was first set, which
-- stays known when that prediction is deleted.  If that time becomes an earlier one, mark the days whose waits were taken as
-- those before it.
WITH first AS (
    SELECT min(predicted_at) AS set FROM softwalltime.predictions
    WHERE id > :after AND id <= :predictions_id AND action = 'set'
),
moved AS (
    INSERT INTO softwalltime.stale_days
    SELECT DISTINCT waits.day
    FROM first
    JOIN softwalltime.monitoring ON monitoring.first_set IS NULL OR first.set < monitoring.first_set
    JOIN softwalltime.daily_waits AS waits
        ON waits.day >= date '1970-01-01' + (greatest(0, least(first.set, 253402300799)) / 86400)::integer
    ON CONFLICT DO NOTHING
)
UPDATE softwalltime.monitoring
SET jobs_id = :jobs_id,
    predictions_id = :predictions_id,
    first_set = least(first_set, (SELECT set FROM first))
WHERE id = 1;

-- name: next_stale_day
-- Take the newest stale day, because recent days are read most.  Return whether more days of its month are stale, and whether
-- fewer scored jobs or predictions are stored than its figures count: retention has deleted the others.
DELETE FROM softwalltime.stale_days AS stale
WHERE day = (
    SELECT max(day) FROM softwalltime.stale_days WHERE day <= (to_timestamp(:now) AT TIME ZONE 'UTC')::date
)
RETURNING
    stale.day,
    EXISTS (
        SELECT FROM softwalltime.stale_days AS other
        WHERE date_trunc('month', other.day) = date_trunc('month', stale.day) AND other.day <> stale.day
            AND other.day <= (to_timestamp(:now) AT TIME ZONE 'UTC')::date
    ) AS more,
    (SELECT coalesce(sum(jobs), 0) FROM softwalltime.daily_queues AS figures WHERE figures.day = stale.day) > (
        SELECT count(*) FROM softwalltime.completed_jobs
        WHERE end_time >= (stale.day - date '1970-01-01') * 86400::bigint
            AND end_time < (stale.day + 1 - date '1970-01-01') * 86400::bigint AND runtime > 0 AND walltime > 0
    ) AS fewer_jobs,
    (SELECT coalesce(sum(requests), 0) FROM softwalltime.daily_decisions AS figures WHERE figures.day = stale.day) > (
        SELECT count(*) FROM softwalltime.predictions
        WHERE predicted_at >= (stale.day - date '1970-01-01') * 86400::bigint
            AND predicted_at < (stale.day + 1 - date '1970-01-01') * 86400::bigint
    ) AS fewer_predictions;

-- name: refreshed
-- Store when the refresh began: everything stored by then is in the figures.
UPDATE softwalltime.monitoring SET refreshed_at = to_timestamp(:now) WHERE id = 1;
