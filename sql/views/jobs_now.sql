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
COMMENT ON COLUMN softwalltime.jobs_now.server IS 'PBS server';
COMMENT ON COLUMN softwalltime.jobs_now.job_id IS 'job id with the array index, such as 3[1].srv';
COMMENT ON COLUMN softwalltime.jobs_now.state IS 'waits or runs';
COMMENT ON COLUMN softwalltime.jobs_now.user_name IS 'user';
COMMENT ON COLUMN softwalltime.jobs_now.project IS 'PBS project';
COMMENT ON COLUMN softwalltime.jobs_now.queue IS 'queue';
COMMENT ON COLUMN softwalltime.jobs_now.ncpus IS 'processors requested';
COMMENT ON COLUMN softwalltime.jobs_now.submitted IS 'submission time';
COMMENT ON COLUMN softwalltime.jobs_now.started IS 'start time; null: waiting';
COMMENT ON COLUMN softwalltime.jobs_now.walltime IS 'runtime after which it is killed; null: no limit';
COMMENT ON COLUMN softwalltime.jobs_now.soft_walltime IS
'soft walltime; null: none, the scheduler plans with the walltime';
COMMENT ON COLUMN softwalltime.jobs_now.expected_end IS 'start plus soft walltime; null: waiting, or no soft walltime';
COMMENT ON COLUMN softwalltime.jobs_now.latest_end IS 'start plus walltime; null: waiting, or no limit';

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
COMMENT ON COLUMN softwalltime.jobs_overdue.server IS 'PBS server';
COMMENT ON COLUMN softwalltime.jobs_overdue.job_id IS 'job id with the array index, such as 3[1].srv';
COMMENT ON COLUMN softwalltime.jobs_overdue.user_name IS 'user';
COMMENT ON COLUMN softwalltime.jobs_overdue.project IS 'PBS project';
COMMENT ON COLUMN softwalltime.jobs_overdue.queue IS 'queue from which it runs';
COMMENT ON COLUMN softwalltime.jobs_overdue.ncpus IS 'processors requested';
COMMENT ON COLUMN softwalltime.jobs_overdue.started IS 'start time';
COMMENT ON COLUMN softwalltime.jobs_overdue.soft_walltime IS 'soft walltime';
COMMENT ON COLUMN softwalltime.jobs_overdue.walltime IS 'runtime after which it is killed; null: no limit';
COMMENT ON COLUMN softwalltime.jobs_overdue.overdue IS 'time since its soft walltime passed';
COMMENT ON COLUMN softwalltime.jobs_overdue.killed_in IS 'time until its walltime; null: no limit';
