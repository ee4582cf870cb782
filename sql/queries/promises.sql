-- Promised and latest starts of jobs, and the state of the guard.  See store/promises.py.

-- name: withdraw_earlier_promises
-- Close what is open of a job under an earlier promise.
UPDATE softwalltime.promises SET outcome = 'withdrawn'
WHERE job_id = :job_id AND server = :server AND outcome = 'open' AND promised_at < :promised_at;

-- name: store_promise
-- Insert or update one promise; a closed one stays as it is.
INSERT INTO softwalltime.promises AS known (
    job_id, server, promised_at, first_start, last_start, start_time, ncpus, queue, outcome
)
VALUES (:job_id, :server, :promised_at, :first, :last, :started, :ncpus, :queue, :outcome)
ON CONFLICT (job_id, server, promised_at) DO UPDATE
SET
    first_start = excluded.first_start, last_start = excluded.last_start, start_time = excluded.start_time,
    outcome = excluded.outcome
WHERE known.outcome = 'open';

-- name: broken_since
-- Count the promised jobs that started since a time, and those of them that were late.
SELECT count(*), count(*) FILTER (WHERE outcome = 'late')
FROM softwalltime.promises
WHERE outcome IN ('kept', 'late') AND start_time >= :since;

-- name: open_promises
-- Return the open promises of a server; of all servers if its name is empty.
SELECT job_id, promised_at, first_start AS first, last_start AS last, queue, ncpus
FROM softwalltime.promises
WHERE outcome = 'open' AND (server = :server OR :server = '')
ORDER BY promised_at, job_id;

-- name: starts_of_promised
-- Return the starts of completed jobs, by pairs of job id and server.
SELECT job.job_id, job.start_time
FROM unnest(cast(:job_ids AS text []), cast(:servers AS text [])) AS asked (job_id, server)
JOIN softwalltime.completed_jobs AS job ON job.job_id = asked.job_id AND job.server = asked.server
WHERE job.start_time IS NOT NULL
ORDER BY job.start_time, job.job_id;

-- name: store_latest_start
-- Insert or replace the latest start of a waiting job.
INSERT INTO softwalltime.latest_starts (set_at, latest_start, server, job_id, terms)
VALUES (:set_at, :latest, :server, :job_id, :terms)
ON CONFLICT (job_id, server) DO UPDATE
SET set_at = excluded.set_at, latest_start = excluded.latest_start, terms = excluded.terms;

-- name: delete_latest_start
-- Delete the latest start of a job that waits no more.
DELETE FROM softwalltime.latest_starts WHERE job_id = :job_id AND server = :server;

-- name: latest_starts
-- Return the latest starts of a server's waiting jobs; of all servers if its name is empty.
SELECT job_id, set_at, latest_start, terms
FROM softwalltime.latest_starts
WHERE server = :server OR :server = ''
ORDER BY set_at, job_id;

-- name: store_live_state
-- Append a state of the guard.
INSERT INTO softwalltime.live_states (server, changed_at, late_job)
VALUES (:server, :at, :late_job);

-- name: last_live_states
-- Return the late job of the newest state of each server.
SELECT DISTINCT ON (server) server, late_job
FROM softwalltime.live_states
ORDER BY server, id DESC;
