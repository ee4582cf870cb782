-- Expected starts of jobs that are not submitted yet.

-- name: delete_probes
-- Delete those of a server.
DELETE FROM softwalltime.probe_starts WHERE server = :server;

-- name: add_probes
-- Insert one.
INSERT INTO softwalltime.probe_starts (
    server, queue, ncpus, walltime, submit_to, forecast_at, expected, low90, high90
)
VALUES (:server, :queue, :ncpus, :walltime, CAST(:submit_to AS text[]), :forecast_at, :expected, :low90, :high90);
