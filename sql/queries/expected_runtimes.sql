-- Predicted runtimes of jobs that wait and run.  Statements with many rows take one array per column.

-- name: delete_runtimes
-- Delete the predicted runtimes of a server's jobs that are not among these.
DELETE FROM softwalltime.expected_runtimes
WHERE server = :server AND job_id <> ALL (CAST(:job_id AS text[]));

-- name: set_runtimes
-- Insert or replace the predicted runtimes of a server's jobs.
INSERT INTO softwalltime.expected_runtimes (
    job_id, shortest, median, longest, suggested, sooner, server, forecast_at
)
SELECT given.job_id, given.shortest, given.median, given.longest, given.suggested, given.sooner, :server, :now
FROM unnest(
    CAST(:job_id AS text[]), CAST(:shortest AS bigint[]), CAST(:median AS bigint[]), CAST(:longest AS bigint[]),
    CAST(:suggested AS bigint[]), CAST(:sooner AS bigint[])
) AS given (job_id, shortest, median, longest, suggested, sooner)
ON CONFLICT (job_id, server) DO UPDATE
SET (shortest, median, longest, suggested, sooner, forecast_at) = (
    excluded.shortest, excluded.median, excluded.longest, excluded.suggested, excluded.sooner, excluded.forecast_at
);
