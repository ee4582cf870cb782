-- Deletes what is older than the site keeps it.  Rows are deleted by their place (ctid), which does not change because
-- they are never updated; to find each again by its key the planner may read the whole table.

-- name: newest_end
-- Return the end of the newest job that ended by :latest; of the jobs that ended later by their records the number and
-- the last end.
SELECT
    (SELECT max(end_time) FROM softwalltime.completed_jobs WHERE end_time <= :latest) AS newest,
    (SELECT count(*) FROM softwalltime.completed_jobs WHERE end_time > :latest) AS later,
    (SELECT max(end_time) FROM softwalltime.completed_jobs WHERE end_time > :latest) AS last;

-- name: count_old_jobs
-- Count the jobs that ended before :before.
SELECT count(*) FROM softwalltime.completed_jobs WHERE end_time < :before;

-- name: count_old_predictions
-- Count the predictions made before :before.
SELECT count(*) FROM softwalltime.predictions WHERE predicted_at < :before;

-- name: count_earlier_jobs
-- Count the jobs that ended by :latest, up to :enough.  ORDER BY makes the planner use the index.
SELECT count(*) FROM (
    SELECT FROM softwalltime.completed_jobs WHERE end_time <= :latest ORDER BY end_time LIMIT :enough
) AS earlier;

-- name: count_kept_jobs
-- Count the jobs that ended at :before or later, up to :enough.
SELECT count(*) FROM (
    SELECT FROM softwalltime.completed_jobs WHERE end_time >= :before ORDER BY end_time LIMIT :enough
) AS kept;

-- name: count_kept_predictions
-- Count the predictions made at :before or later, up to :enough.
SELECT count(*) FROM (
    SELECT FROM softwalltime.predictions WHERE predicted_at >= :before ORDER BY predicted_at LIMIT :enough
) AS kept;

-- name: delete_old_jobs
-- Delete up to :batch jobs that ended before :before, the oldest first.
DELETE FROM softwalltime.completed_jobs
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM softwalltime.completed_jobs WHERE end_time < :before ORDER BY end_time, id LIMIT :batch
));

-- name: delete_old_predictions
-- Delete up to :batch predictions made before :before, the oldest first.
DELETE FROM softwalltime.predictions
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM softwalltime.predictions WHERE predicted_at < :before ORDER BY predicted_at LIMIT :batch
));

-- name: delete_old_runs
-- Delete up to :batch interrupted runs that ended before :before.
DELETE FROM softwalltime.interrupted_runs
WHERE ctid = ANY (ARRAY(SELECT ctid FROM softwalltime.interrupted_runs WHERE end_time < :before LIMIT :batch));

-- name: delete_old_promises
-- Delete up to :batch promises made before :before, the oldest first.
DELETE FROM softwalltime.promises
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM softwalltime.promises WHERE promised_at < :before ORDER BY promised_at LIMIT :batch
));

-- name: delete_old_live_states
-- Delete up to :batch states of the guard recorded before :before, but for the last one of each server, which
-- the daemon continues with.
DELETE FROM softwalltime.live_states
WHERE ctid = ANY (ARRAY(
    SELECT state.ctid FROM softwalltime.live_states AS state
    WHERE state.changed_at < :before AND state.id < (
        SELECT max(newer.id) FROM softwalltime.live_states AS newer WHERE newer.server = state.server
    )
    LIMIT :batch
));

-- name: delete_old_current
-- Delete jobs submitted before :before that wait, or run without a walltime: how long they may do so is not bounded.
DELETE FROM softwalltime.current_jobs
WHERE ctime < :before AND (start_time IS NULL OR walltime IS NULL OR is_array);

-- name: delete_lost
-- Delete jobs that seem to run :grace seconds after their walltime: the record of their end was missed.
DELETE FROM softwalltime.current_jobs
WHERE start_time + walltime + :grace < :now AND NOT is_array;
