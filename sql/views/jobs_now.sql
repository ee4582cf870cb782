-- name: jobs_now
-- One row per waiting or running job; whole arrays are left out, because their subjobs run.  Times after the year 9999,
-- which many clients cannot read, are shown as its end.
CREATE OR REPLACE VIEW softwalltime.jobs_now AS
SELECT
    job.server,
    job.job_id,
    CASE WHEN job.start_time IS NULL THEN 'waits' ELSE 'runs' END AS state,
    job.user_name,
    job.project,
    job.queue,
    job.ncpus,
    to_timestamp(least(job.ctime, 253402214400)) AS submitted,
    to_timestamp(CASE WHEN job.start_time > 253402214400 THEN 253402214400 ELSE job.start_time END) AS started,
    make_interval(secs => job.walltime) AS walltime,
    make_interval(secs => job.soft_walltime) AS soft_walltime,
    to_timestamp(
        CASE
            WHEN job.start_time + job.soft_walltime > 253402214400 THEN 253402214400
            ELSE job.start_time + job.soft_walltime
        END
    ) AS expected_end,
    to_timestamp(
        CASE
            WHEN job.start_time + job.walltime > 253402214400 THEN 253402214400 ELSE job.start_time + job.walltime
        END
    ) AS latest_end
FROM softwalltime.current_jobs AS job
WHERE NOT job.is_array;

COMMENT ON VIEW softwalltime.jobs_now IS
'Waiting and running jobs, as of the last accounting record read.';

-- name: jobs_overdue
-- The scheduler extends their soft walltimes repeatedly, up to the walltime.
CREATE OR REPLACE VIEW softwalltime.jobs_overdue AS
SELECT
    job.server,
    job.job_id,
    job.user_name,
    job.project,
    job.queue,
    job.ncpus,
    job.started,
    job.soft_walltime,
    job.walltime,
    date_trunc('second', now() - job.expected_end) AS overdue,
    date_trunc('second', job.latest_end - now()) AS killed_in
FROM softwalltime.jobs_now AS job
WHERE job.state = 'runs' AND job.expected_end < now();

COMMENT ON VIEW softwalltime.jobs_overdue IS
'Running jobs beyond their soft walltime: underestimated jobs, for which the scheduler''s plan is wrong.';
COMMENT ON COLUMN softwalltime.jobs_overdue.queue IS 'queue from which it runs';
COMMENT ON COLUMN softwalltime.jobs_overdue.started IS 'start time';
COMMENT ON COLUMN softwalltime.jobs_overdue.soft_walltime IS 'soft walltime';
