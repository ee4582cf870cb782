-- Forecasts of starts.  Statements with many rows take one array per column.

-- name: delete_expected
-- Delete the forecasts of a server's jobs that are not among these.
DELETE FROM softwalltime.expected_starts
WHERE server = :server AND job_id <> ALL (CAST(:job_id AS text[]));

-- name: set_expected
-- Insert or replace the newest forecasts of a server's jobs.
INSERT INTO softwalltime.expected_starts AS known (
    job_id, ctime, expected, low90, low50, high50, high90, pbs_estimate, walltime, ncpus, user_name, group_name,
    project, queue, waits_for, server, forecast_at
)
SELECT given.*, :server, :now
FROM unnest(
    CAST(:job_id AS text[]), CAST(:ctime AS bigint[]), CAST(:expected AS bigint[]), CAST(:low90 AS bigint[]),
    CAST(:low50 AS bigint[]), CAST(:high50 AS bigint[]), CAST(:high90 AS bigint[]), CAST(:pbs_estimate AS bigint[]),
    CAST(:walltime AS bigint[]), CAST(:ncpus AS integer[]), CAST(:user_name AS text[]), CAST(:group_name AS text[]),
    CAST(:project AS text[]), CAST(:queue AS text[]), CAST(:waits_for AS text[])
) AS given
ON CONFLICT (job_id, server) DO UPDATE
SET (
    ctime, expected, low90, low50, high50, high90, pbs_estimate, walltime, ncpus, user_name, group_name, project, queue,
    waits_for, forecast_at
) = (
    excluded.ctime, excluded.expected, excluded.low90, excluded.low50, excluded.high50, excluded.high90,
    excluded.pbs_estimate, excluded.walltime, excluded.ncpus, excluded.user_name, excluded.group_name,
    excluded.project, excluded.queue, excluded.waits_for, excluded.forecast_at
);

-- name: keep_starts
-- Keep the forecasts of :now of jobs of which none was kept in the last :gap seconds.  The first one of a job counts as
-- made at its submission if that is at most :fresh seconds ago.
INSERT INTO softwalltime.start_times (
    forecast_at, ctime, expected, low90, low50, high50, high90, pbs_estimate, is_first, server, job_id, queue
)
SELECT
    new.forecast_at, new.ctime, new.expected, new.low90, new.low50, new.high50, new.high90, new.pbs_estimate,
    kept.last IS NULL AND new.forecast_at - new.ctime <= :fresh, new.server, new.job_id, new.queue
FROM softwalltime.expected_starts AS new
CROSS JOIN LATERAL (
    SELECT max(known.forecast_at) AS last FROM softwalltime.start_times AS known
    WHERE known.job_id = new.job_id AND known.server = new.server AND known.ctime = new.ctime
) AS kept
WHERE new.server = :server AND new.forecast_at = :now AND new.expected IS NOT NULL
    AND (kept.last IS NULL OR kept.last <= :now - :gap)
ON CONFLICT DO NOTHING;

-- name: judge_starts
-- Fill in when jobs started: the first start after the forecast, also of a run that was interrupted.
UPDATE softwalltime.start_times AS known
SET started = found.start_time
FROM (
    SELECT open.job_id, open.server, open.forecast_at, min(run.start_time) AS start_time
    FROM softwalltime.start_times AS open
    CROSS JOIN LATERAL (
        SELECT job.start_time FROM softwalltime.completed_jobs AS job
        WHERE job.job_id = open.job_id AND job.server = open.server
        UNION ALL
        SELECT run.start_time FROM softwalltime.interrupted_runs AS run
        WHERE run.job_id = open.job_id AND run.server = open.server
        UNION ALL
        SELECT job.start_time FROM softwalltime.current_jobs AS job
        WHERE job.job_id = open.job_id AND job.server = open.server
    ) AS run
    WHERE open.started IS NULL AND run.start_time >= open.forecast_at
    GROUP BY open.job_id, open.server, open.forecast_at
) AS found
WHERE known.job_id = found.job_id AND known.server = found.server AND known.forecast_at = found.forecast_at;

-- name: forget_starts
-- Delete forecasts of jobs that wait no more, have not started and have had no forecast since :before: they were deleted.
-- The start of a job that has just left the queue may not be stored yet.
DELETE FROM softwalltime.start_times AS open
WHERE open.started IS NULL AND open.forecast_at < :before AND NOT EXISTS (
    SELECT FROM softwalltime.expected_starts AS waiting
    WHERE waiting.job_id = open.job_id AND waiting.server = open.server AND waiting.ctime = open.ctime
) AND NOT EXISTS (
    SELECT FROM softwalltime.start_times AS later
    WHERE later.job_id = open.job_id AND later.server = open.server AND later.ctime = open.ctime
        AND later.forecast_at >= :before
);

-- name: read_expected
-- Return the newest forecasts, the earliest expected starts first; an empty text selects all.
SELECT
    job_id, ctime, expected, low90, low50, high50, high90, pbs_estimate, walltime, ncpus, user_name, group_name,
    project, queue, waits_for, server, forecast_at
FROM softwalltime.expected_starts
WHERE (:user = '' OR user_name = :user) AND (:group = '' OR group_name = :group)
    AND (:project = '' OR project = :project) AND (:queue = '' OR queue = :queue)
ORDER BY expected NULLS LAST, job_id;

-- name: start_quality
-- Return how good the forecasts of the last seven days were, by queue.
SELECT queue, sum(forecasts), sum(wait) / nullif(sum(forecasts), 0), sum(error) / nullif(sum(wait), 0),
    sum(bias) / nullif(sum(forecasts), 0), sum(within50)::double precision / nullif(sum(forecasts), 0),
    sum(within90)::double precision / nullif(sum(forecasts), 0)
FROM softwalltime.start_scores
WHERE server = :server AND day > (now() AT TIME ZONE 'UTC')::date - 7
GROUP BY queue
ORDER BY queue;

-- name: next_starts
-- Return the :shown jobs that are expected to start next, as text.
SELECT
    job_id, user_name, queue, ncpus::text, to_char(to_timestamp(expected), 'Dy HH24:MI'),
    to_char(to_timestamp(low90), 'Dy HH24:MI') || ' to ' || to_char(to_timestamp(high90), 'Dy HH24:MI'), waits_for
FROM softwalltime.expected_starts
WHERE expected IS NOT NULL AND forecast_at > extract(epoch FROM now())::bigint - 86400
ORDER BY expected, job_id
LIMIT :shown;

-- name: delete_old_starts
-- Delete up to :batch forecasts made before :before.
DELETE FROM softwalltime.start_times
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM softwalltime.start_times WHERE forecast_at < :before ORDER BY forecast_at LIMIT :batch
));

-- name: thin_starts
-- Delete up to :batch forecasts made before :before that were not the first of their job.
DELETE FROM softwalltime.start_times
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM softwalltime.start_times
    WHERE forecast_at < :before AND NOT is_first
    ORDER BY forecast_at
    LIMIT :batch
));
