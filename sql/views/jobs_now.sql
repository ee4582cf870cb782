-- name: jobs_now
-- One line a job that waits or runs; whole arrays are left out, because their subjobs are what runs.  A log may claim
-- any time: what is past the year 9999, which many clients cannot read, is shown as its end.
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
'Jobs that wait or run at this moment, as far as the accounting log has been read.';
COMMENT ON COLUMN softwalltime.jobs_now.server IS 'the PBS server that has it';
COMMENT ON COLUMN softwalltime.jobs_now.job_id IS 'with the array index, as 3[1].srv';
COMMENT ON COLUMN softwalltime.jobs_now.state IS 'waits or runs';
COMMENT ON COLUMN softwalltime.jobs_now.user_name IS 'whose job it is';
COMMENT ON COLUMN softwalltime.jobs_now.project IS 'PBS''s project';
COMMENT ON COLUMN softwalltime.jobs_now.queue IS 'the queue that it is in';
COMMENT ON COLUMN softwalltime.jobs_now.ncpus IS 'processors asked for';
COMMENT ON COLUMN softwalltime.jobs_now.submitted IS 'when it was submitted';
COMMENT ON COLUMN softwalltime.jobs_now.started IS 'when it started; null: it waits';
COMMENT ON COLUMN softwalltime.jobs_now.walltime IS 'after which it is killed; null: no limit';
COMMENT ON COLUMN softwalltime.jobs_now.soft_walltime IS 'how long it is planned to run; null: as long as its walltime';
COMMENT ON COLUMN softwalltime.jobs_now.expected_end IS 'start and soft walltime; null: it waits or has none';
COMMENT ON COLUMN softwalltime.jobs_now.latest_end IS 'start and walltime; null: it waits or has no limit';

-- name: jobs_overdue
-- The scheduler extends their soft walltimes, again and again, up to the walltime.
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
'Jobs that have run longer than their soft walltime: underestimated ones, on which the scheduler''s plan no longer holds.';
COMMENT ON COLUMN softwalltime.jobs_overdue.server IS 'the PBS server that has it';
COMMENT ON COLUMN softwalltime.jobs_overdue.job_id IS 'with the array index, as 3[1].srv';
COMMENT ON COLUMN softwalltime.jobs_overdue.user_name IS 'whose job it is';
COMMENT ON COLUMN softwalltime.jobs_overdue.project IS 'PBS''s project';
COMMENT ON COLUMN softwalltime.jobs_overdue.queue IS 'the queue that it runs from';
COMMENT ON COLUMN softwalltime.jobs_overdue.ncpus IS 'processors asked for';
COMMENT ON COLUMN softwalltime.jobs_overdue.started IS 'when it started';
COMMENT ON COLUMN softwalltime.jobs_overdue.soft_walltime IS 'how long it was planned to run';
COMMENT ON COLUMN softwalltime.jobs_overdue.walltime IS 'after which it is killed; null: no limit';
COMMENT ON COLUMN softwalltime.jobs_overdue.overdue IS 'for how long it has outlived its soft walltime';
COMMENT ON COLUMN softwalltime.jobs_overdue.killed_in IS 'how long it has until its walltime; null: no limit';
