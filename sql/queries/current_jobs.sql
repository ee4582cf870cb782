-- Jobs that wait or run.  Each statement takes the rows of one call as one array per column.

-- name: delete_current
-- Delete jobs by id and server; with :before only those submitted before that time, because the server may have given
-- the same number to a later job.
DELETE FROM softwalltime.current_jobs AS known
USING unnest(CAST(:job_id AS text[]), CAST(:server AS text[])) AS gone(job_id, server)
WHERE known.job_id = gone.job_id AND known.server = gone.server
    AND (CAST(:before AS bigint) IS NULL OR known.ctime < :before);

-- name: delete_completed
-- Delete the jobs that completed, by the completed jobs with ids above :after.  A job submitted after the completed one
-- has the same number only.
DELETE FROM softwalltime.current_jobs AS known
USING softwalltime.completed_jobs AS ended
WHERE ended.id > :after
    AND known.job_id = ended.job_id AND known.server = ended.server AND known.ctime <= ended.ctime;

-- name: set_current
-- Insert jobs, or replace them by what was recorded later.  With :late, later records have been read before: only running
-- jobs are added, because the completion of a job would be known, but not its deletion while it waited.  Jobs that
-- completed are left out: a log may be read after the log in which its jobs ended.  The subquery with LIMIT looks each of them up by the natural key; for NOT EXISTS the planner may read
-- all completed jobs when some hundred rows are given.
INSERT INTO softwalltime.current_jobs AS known (
    ctime, qtime, etime, start_time, walltime, soft_walltime, min_walltime, max_walltime, mem, ncpus, nodect, ngpus,
    interactive, is_array, server, job_id, user_name, group_name, project, account, queue, job_name, select_spec, place,
    recorded_at
)
SELECT given.*
FROM unnest(
    CAST(:ctime AS bigint[]), CAST(:qtime AS bigint[]), CAST(:etime AS bigint[]), CAST(:start_time AS bigint[]),
    CAST(:walltime AS bigint[]), CAST(:soft_walltime AS bigint[]), CAST(:min_walltime AS bigint[]),
    CAST(:max_walltime AS bigint[]), CAST(:mem AS bigint[]), CAST(:ncpus AS integer[]), CAST(:nodect AS integer[]),
    CAST(:ngpus AS integer[]), CAST(:interactive AS boolean[]), CAST(:is_array AS boolean[]), CAST(:server AS text[]),
    CAST(:job_id AS text[]), CAST(:user_name AS text[]), CAST(:group_name AS text[]), CAST(:project AS text[]),
    CAST(:account AS text[]), CAST(:queue AS text[]), CAST(:job_name AS text[]), CAST(:select_spec AS text[]),
    CAST(:place AS text[]), CAST(:recorded_at AS bigint[])
) AS given(
    ctime, qtime, etime, start_time, walltime, soft_walltime, min_walltime, max_walltime, mem, ncpus, nodect, ngpus,
    interactive, is_array, server, job_id, user_name, group_name, project, account, queue, job_name, select_spec, place,
    recorded_at
)
WHERE (
    SELECT ended.id FROM softwalltime.completed_jobs AS ended
    WHERE ended.job_id = given.job_id AND ended.server = given.server AND ended.ctime >= given.ctime
    LIMIT 1
) IS NULL
    AND (
        NOT :late OR (given.start_time IS NOT NULL AND NOT given.is_array)
        OR EXISTS (
            SELECT FROM softwalltime.current_jobs AS there
            WHERE there.job_id = given.job_id AND there.server = given.server
        )
    )
ON CONFLICT (job_id, server) DO UPDATE
SET (
    ctime, qtime, etime, start_time, walltime, soft_walltime, min_walltime, max_walltime, mem, ncpus, nodect, ngpus,
    interactive, is_array, user_name, group_name, project, account, queue, job_name, select_spec, place, recorded_at
) = (
    excluded.ctime, excluded.qtime, excluded.etime, excluded.start_time, excluded.walltime, excluded.soft_walltime,
    excluded.min_walltime, excluded.max_walltime, excluded.mem, excluded.ncpus, excluded.nodect, excluded.ngpus,
    excluded.interactive, excluded.is_array, excluded.user_name, excluded.group_name, excluded.project,
    excluded.account, excluded.queue, excluded.job_name, excluded.select_spec, excluded.place, excluded.recorded_at
)
WHERE CASE
    WHEN :late THEN excluded.recorded_at > known.recorded_at
    ELSE coalesce(excluded.recorded_at >= known.recorded_at, true)
END;

-- name: queue_changes
-- Return the jobs that changed after the change :after, each once, and the number of its last change.
SELECT job_id, server, max(id) AS number
FROM softwalltime.queue_changes
WHERE id > :after
GROUP BY job_id, server;

-- name: first_queue_change
-- Return the numbers of the first and the last change that are kept; null: none.
SELECT min(id) AS first, max(id) AS last FROM softwalltime.queue_changes;

-- name: requeue_current
-- Let jobs wait again.
UPDATE softwalltime.current_jobs AS known
SET start_time = NULL
FROM unnest(CAST(:job_id AS text[]), CAST(:server AS text[])) AS requeued(job_id, server)
WHERE known.job_id = requeued.job_id AND known.server = requeued.server;

-- name: alter_current
-- Set walltimes and soft walltimes: null keeps the value, :unset removes it.
UPDATE softwalltime.current_jobs AS known
SET walltime = nullif(coalesce(altered.walltime, known.walltime), :unset),
    soft_walltime = nullif(coalesce(altered.soft_walltime, known.soft_walltime), :unset)
FROM unnest(
    CAST(:job_id AS text[]), CAST(:server AS text[]), CAST(:walltime AS bigint[]), CAST(:soft_walltime AS bigint[])
) AS altered(job_id, server, walltime, soft_walltime)
WHERE known.job_id = altered.job_id AND known.server = altered.server;
