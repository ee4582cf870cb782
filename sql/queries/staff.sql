-- What the staff page of softwalltime web shows.  The role softwalltime_web runs these statements
-- (deploy/sql/web-role.sql); it may read no column that is not named here.  Times are epoch seconds.

-- name: staff_waiting
-- Return the waiting jobs, those that have used most of the time until their latest start first, then the oldest.
SELECT job.job_id, job.user_name, job.queue, job.ncpus, job.walltime, job.ctime, start.expected, bound.latest_start
FROM softwalltime.current_jobs AS job
LEFT JOIN softwalltime.expected_starts AS start ON start.job_id = job.job_id AND start.server = job.server
LEFT JOIN softwalltime.latest_starts AS bound ON bound.job_id = job.job_id AND bound.server = job.server
WHERE job.start_time IS NULL
ORDER BY
    CASE
        WHEN bound.latest_start IS NOT NULL
            THEN (CAST(:now AS bigint) - job.ctime)::double precision / greatest(bound.latest_start - job.ctime, 1)
    END DESC NULLS LAST,
    job.ctime, job.job_id
LIMIT :most;

-- name: staff_logs
-- Return how far the accounting logs of each server are stored.
SELECT
    server, extract(epoch FROM last_read)::bigint AS last_read, extract(epoch FROM newest_job)::bigint AS newest_job,
    malformed_lines
FROM softwalltime.ingest_lag
ORDER BY server;

-- name: staff_promises
-- Return the promised starts of the last seven days by number of processors.
SELECT
    processors, sum(promises)::bigint AS promises, sum(kept)::bigint AS kept, sum(broken)::bigint AS broken,
    max(longest_late) AS longest_late
FROM softwalltime.promises_by_day
WHERE day > (now() AT TIME ZONE 'UTC')::date - 7
GROUP BY processors
ORDER BY min(CASE processors WHEN '1' THEN 1 WHEN '2 to 8' THEN 2 WHEN '9 to 64' THEN 3 ELSE 4 END), processors;

-- name: staff_decisions
-- Return the latest decisions, the newest first.
SELECT predicted_at, event, job_id, user_name, queue, walltime, soft_walltime, action, basis
FROM softwalltime.predictions
ORDER BY predicted_at DESC, id DESC
LIMIT :most;
