-- Forecasts of starts.  Statements with many rows take one array per column.

-- name: delete_expected
-- Delete the forecasts of a server's jobs that are not among these.
DELETE FROM softwalltime.expected_starts
WHERE server = :server AND job_id <> ALL (CAST(:job_id AS text[]));

-- name: set_expected
-- Insert or replace the newest forecasts of a server's jobs.
INSERT INTO softwalltime.expected_starts AS known (
    job_id, ctime, expected, low90, low50, high50, high90, pbs_estimate, walltime, ncpus, user_name, group_name,
    project, queue, waits_for, raw, server, forecast_at
)
SELECT
    given.job_id, given.ctime, given.expected, given.low90, given.low50, given.high50, given.high90, given.pbs_estimate,
    given.walltime, given.ncpus, given.user_name, given.group_name, given.project, given.queue, given.waits_for,
    CAST(given.raw AS double precision[]), :server, :now
FROM unnest(
    CAST(:job_id AS text[]), CAST(:ctime AS bigint[]), CAST(:expected AS bigint[]), CAST(:low90 AS bigint[]),
    CAST(:low50 AS bigint[]), CAST(:high50 AS bigint[]), CAST(:high90 AS bigint[]), CAST(:pbs_estimate AS bigint[]),
    CAST(:walltime AS bigint[]), CAST(:ncpus AS integer[]), CAST(:user_name AS text[]), CAST(:group_name AS text[]),
    CAST(:project AS text[]), CAST(:queue AS text[]), CAST(:waits_for AS text[]),
    CAST(:raw AS text[])
) AS given (
    job_id, ctime, expected, low90, low50, high50, high90, pbs_estimate, walltime, ncpus, user_name, group_name,
    project, queue, waits_for, raw
)
ON CONFLICT (job_id, server) DO UPDATE
SET (
    ctime, expected, low90, low50, high50, high90, pbs_estimate, walltime, ncpus, user_name, group_name, project, queue,
    waits_for, raw, forecast_at
) = (
    excluded.ctime, excluded.expected, excluded.low90, excluded.low50, excluded.high50, excluded.high90,
    excluded.pbs_estimate, excluded.walltime, excluded.ncpus, excluded.user_name, excluded.group_name,
    excluded.project, excluded.queue, excluded.waits_for, excluded.raw, excluded.forecast_at
);

-- name: keep_starts
-- Keep the first forecast of each job, then at least one every :gap seconds, and more before its start: after half of the
-- expected wait, but not more often than in an eighth of the time since the first one.  The first one of a job counts as
-- made at its submission if that is at most :fresh seconds ago.  Return which jobs' forecasts were kept.
INSERT INTO softwalltime.start_times (
    forecast_at, ctime, expected, low90, low50, high50, high90, pbs_estimate, is_first, server, job_id, queue, raw
)
SELECT
    new.forecast_at, new.ctime, new.expected, new.low90, new.low50, new.high50, new.high90, new.pbs_estimate,
    kept.last IS NULL AND new.forecast_at - new.ctime <= :fresh, new.server, new.job_id, new.queue,
    new.raw
FROM softwalltime.expected_starts AS new
CROSS JOIN LATERAL (
    SELECT min(known.forecast_at) AS first, max(known.forecast_at) AS last FROM softwalltime.start_times AS known
    WHERE known.job_id = new.job_id AND known.server = new.server AND known.ctime = new.ctime
) AS kept
WHERE new.server = :server AND new.forecast_at = :now AND new.expected IS NOT NULL
    AND (
        kept.last IS NULL
        OR :now - kept.last >= least(:gap, greatest((new.expected - :now) / 2, (:now - kept.first) / 8))
    )
ON CONFLICT DO NOTHING
RETURNING job_id;

-- name: judge_starts
-- Fill in when jobs of a server started: the first start after the forecast, also of a run that was interrupted.  Return
-- what was judged.  The forecasts of another server are left to its own daemon, which learns from what it judges.
WITH run AS MATERIALIZED (
    -- Each job is looked up once, however many of its forecasts are open.
    SELECT waited.job_id, each.start_time
    FROM (SELECT DISTINCT job_id FROM softwalltime.start_times WHERE server = :server AND started IS NULL) AS waited
    CROSS JOIN LATERAL (
        SELECT job.start_time FROM softwalltime.completed_jobs AS job
        WHERE job.job_id = waited.job_id AND job.server = :server
        UNION ALL
        SELECT run.start_time FROM softwalltime.interrupted_runs AS run
        WHERE run.job_id = waited.job_id AND run.server = :server
        UNION ALL
        SELECT job.start_time FROM softwalltime.current_jobs AS job
        WHERE job.job_id = waited.job_id AND job.server = :server
    ) AS each
)

UPDATE softwalltime.start_times AS known
SET started = found.start_time
FROM (
    SELECT open.job_id, open.forecast_at, min(run.start_time) AS start_time
    FROM softwalltime.start_times AS open
    INNER JOIN run ON open.job_id = run.job_id AND open.forecast_at <= run.start_time
    WHERE open.server = :server AND open.started IS NULL
    GROUP BY open.job_id, open.forecast_at
) AS found
WHERE known.server = :server AND known.job_id = found.job_id AND known.forecast_at = found.forecast_at
RETURNING known.server, known.job_id, known.forecast_at, known.started, known.raw;

-- name: withdraw_starts
-- Delete the open forecasts of a server's jobs that the scheduler may not start before a later time than they assumed: the
-- jobs are held, or were delayed.  Return whose forecasts they were.
DELETE FROM softwalltime.start_times AS open
USING unnest(CAST(:job_id AS text[]), CAST(:not_before AS bigint[])) AS blocked (job_id, not_before)
WHERE open.server = :server AND open.started IS NULL AND open.job_id = blocked.job_id
    -- The first value is after how many seconds the wait that was forecast begins.
    AND coalesce(open.forecast_at + open.raw[1], open.expected) < blocked.not_before
RETURNING open.job_id;

-- name: judged_starts
-- Return the last :most judged forecasts of a server of which it is known what they were before any correction.
SELECT server, job_id, forecast_at, started, raw FROM softwalltime.start_times
WHERE server = :server AND started IS NOT NULL AND raw IS NOT NULL
ORDER BY forecast_at DESC
LIMIT :most;

-- name: open_starts
-- Return forecasts of a server's jobs that are not judged yet, of which it is known what they were before any correction: at
-- most :most of each job, chosen evenly from the first on, and how many the job has.
SELECT job_id, forecast_at, raw, forecasts
FROM (
    SELECT
        job_id, forecast_at, raw, count(*) OVER job AS forecasts,
        row_number() OVER (job ORDER BY forecast_at) - 1 AS place
    FROM softwalltime.start_times
    WHERE server = :server AND started IS NULL AND raw IS NOT NULL
    WINDOW job AS (PARTITION BY job_id)
) AS open
WHERE place % ((forecasts - 1) / :most + 1) = 0
ORDER BY forecast_at, job_id;

-- name: forget_starts
-- Delete forecasts of a server's jobs that wait no more, have not started and have had no forecast for :settled seconds:
-- they were deleted.  The start of a job that has left the queue may not be stored yet, where logs come in batches days
-- later: so time is counted until the newest end of a job that is stored.
--
-- That end is looked for only if such a job is left: to find that a server has none takes reading all jobs of the time.
WITH left_queue AS MATERIALIZED (
    SELECT open.job_id, open.ctime, open.forecast_at FROM softwalltime.start_times AS open
    WHERE open.server = :server AND open.started IS NULL AND open.forecast_at < :now - CAST(:settled AS bigint)
        AND NOT EXISTS (
            SELECT FROM softwalltime.expected_starts AS waiting
            WHERE waiting.job_id = open.job_id AND waiting.server = open.server AND waiting.ctime = open.ctime
        )
),

log AS (
    SELECT max(job.end_time) - CAST(:settled AS bigint) AS before FROM softwalltime.completed_jobs AS job
    WHERE job.server = :server AND job.end_time BETWEEN :since AND :now AND EXISTS (SELECT FROM left_queue)
)

DELETE FROM softwalltime.start_times AS open
USING left_queue, log
WHERE open.server = :server AND open.job_id = left_queue.job_id AND open.forecast_at = left_queue.forecast_at
    AND open.started IS NULL AND open.forecast_at < log.before AND NOT EXISTS (
        SELECT FROM softwalltime.start_times AS later
        WHERE later.job_id = open.job_id AND later.server = open.server AND later.ctime = open.ctime
            AND later.forecast_at >= log.before
    );

-- name: read_expected
-- Return the newest forecasts, the earliest expected starts first; an empty text selects all.
SELECT
    job_id, ctime, expected, low90, low50, high50, high90, pbs_estimate, walltime, ncpus, user_name, group_name,
    project, queue, waits_for, raw, server, forecast_at
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
