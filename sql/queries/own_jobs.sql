-- What each user may see of his own jobs: one row per user, his jobs as finished JSON.  The role softwalltime_me runs
-- these statements (deploy/sql/me-role.sql); it may read no column that is not named here.  Times are epoch seconds.  An
-- empty :server selects the jobs of all servers.

-- name: own_forecasts
-- Return when the newest forecasts of each server were made, and whether any job of the server is known.
SELECT server, max(forecast_at) AS forecast_at
FROM (
    SELECT server, forecast_at FROM softwalltime.expected_starts
    UNION ALL
    SELECT server, forecast_at FROM softwalltime.expected_runtimes
) AS made
WHERE CAST(:server AS text) IN ('', server)
GROUP BY server
ORDER BY server;

-- name: own_waiting
-- Return the waiting jobs of each user, the first expected starts first, at most :most of each, and how many he has.  The
-- log knows sooner than the next forecast which jobs have started or are gone.  It has whole arrays, forecasts have
-- their subjobs.
WITH followed AS MATERIALIZED (
    SELECT DISTINCT server FROM softwalltime.current_jobs
),

forecast AS MATERIALIZED (
    SELECT
        server, job_id, regexp_replace(job_id, '\[\d+\]', '[]') AS array_id, user_name, queue, ncpus, walltime, ctime,
        expected, low90, low50, high50, high90, waits_for, forecast_at
    FROM softwalltime.expected_starts
    WHERE CAST(:server AS text) IN ('', server)
),

newest AS MATERIALIZED (
    SELECT server, max(forecast_at) AS forecast_at FROM forecast GROUP BY server
),

-- Jobs with a forecast, and arrays of which a subjob has one: one condition without OR is a hash join.
known AS MATERIALIZED (
    SELECT server, job_id FROM forecast
    UNION
    SELECT server, array_id FROM forecast
),

running_array AS MATERIALIZED (
    SELECT DISTINCT server, regexp_replace(job_id, '\[\d+\]', '[]') AS array_id
    FROM softwalltime.current_jobs
    WHERE start_time IS NOT NULL AND job_id LIKE '%[%'
),

waiting AS (
    SELECT
        coalesce(own.user_name, whole.user_name, forecast.user_name) AS user_name, forecast.server, forecast.job_id,
        coalesce(own.job_name, whole.job_name, '') AS job_name, forecast.queue, forecast.ncpus,
        coalesce(own.mem, whole.mem) AS mem, coalesce(own.ngpus, whole.ngpus) AS ngpus, forecast.walltime,
        forecast.ctime, forecast.expected, forecast.low90, forecast.low50, forecast.high50, forecast.high90,
        -- Whose job it waits for is nobody's business.
        regexp_replace(
            forecast.waits_for, '\m(when|depends on) \d+(\[\d*\])?\.[^\s,;]+', '\1 another job'
        ) AS waits_for,
        forecast.forecast_at
    FROM forecast
    LEFT JOIN softwalltime.current_jobs AS own ON own.job_id = forecast.job_id AND own.server = forecast.server
    LEFT JOIN softwalltime.current_jobs AS whole
        ON whole.job_id = forecast.array_id AND whole.server = forecast.server AND whole.is_array
    WHERE own.start_time IS NULL
        AND (
            own.job_id IS NOT NULL OR whole.job_id IS NOT NULL
            OR NOT EXISTS (SELECT FROM followed WHERE followed.server = forecast.server)
        )
        AND NOT EXISTS (
            SELECT FROM softwalltime.completed_jobs AS ended
            WHERE ended.job_id = forecast.job_id AND ended.server = forecast.server
                AND ended.end_time >= forecast.forecast_at
        )
    UNION ALL
    SELECT
        job.user_name, job.server, job.job_id, job.job_name, job.queue, job.ncpus, job.mem, job.ngpus, job.walltime,
        job.ctime, NULL, NULL, NULL, NULL, NULL, '', NULL
    FROM softwalltime.current_jobs AS job
    WHERE job.start_time IS NULL AND CAST(:server AS text) IN ('', job.server)
        AND NOT EXISTS (SELECT FROM known WHERE known.server = job.server AND known.job_id = job.job_id)
        -- No subjob of this array waits any more: those of the forecast are all that wait.
        AND NOT (
            job.is_array
            AND EXISTS (SELECT FROM newest WHERE newest.server = job.server AND newest.forecast_at > job.ctime)
            AND EXISTS (
                SELECT FROM running_array WHERE running_array.server = job.server AND running_array.array_id = job.job_id
            )
        )
),

numbered AS (
    SELECT
        waiting.*, runtime.shortest, runtime.median, runtime.longest, runtime.suggested, runtime.sooner,
        row_number() OVER (PARTITION BY waiting.user_name ORDER BY waiting.expected, waiting.job_id) AS place
    FROM waiting
    LEFT JOIN softwalltime.expected_runtimes AS runtime
        ON runtime.job_id = waiting.job_id AND runtime.server = waiting.server
)

SELECT
    user_name,
    count(*) AS jobs,
    json_agg(
        json_build_object(
            'job', job_id, 'name', job_name, 'queue', queue, 'ncpus', ncpus, 'ngpus', ngpus, 'mem', mem,
            'walltime', walltime, 'submitted', ctime, 'expected', expected,
            'range50', CASE WHEN low50 IS NOT NULL THEN json_build_array(low50, high50) END,
            'range90', CASE WHEN low90 IS NOT NULL THEN json_build_array(low90, high90) END,
            'runtime', median,
            'runtime90', CASE WHEN median IS NOT NULL THEN json_build_array(shortest, longest) END,
            'waits_for', waits_for, 'forecast_at', forecast_at, 'suggested', suggested, 'sooner', sooner
        ) ORDER BY place
    ) FILTER (WHERE place <= :most)::text AS rows
FROM numbered
GROUP BY user_name;

-- name: own_running
-- Return the running jobs of each user, the first expected ends first, at most :most of each, and how many he has.
WITH running AS (
    SELECT
        job.user_name, job.job_id, job.job_name, job.queue, job.ncpus, job.ngpus, job.mem, job.walltime,
        job.start_time, runtime.shortest, runtime.median, runtime.longest,
        row_number() OVER (
            PARTITION BY job.user_name ORDER BY job.start_time + coalesce(runtime.median, job.walltime), job.job_id
        ) AS place
    FROM softwalltime.current_jobs AS job
    LEFT JOIN softwalltime.expected_runtimes AS runtime
        -- A prediction from before its start is one of the whole runtime, too.
        ON runtime.job_id = job.job_id AND runtime.server = job.server
    WHERE job.start_time IS NOT NULL AND NOT job.is_array AND CAST(:server AS text) IN ('', job.server)
)

SELECT
    user_name,
    count(*) AS jobs,
    json_agg(
        json_build_object(
            'job', job_id, 'name', job_name, 'queue', queue, 'ncpus', ncpus, 'ngpus', ngpus, 'mem', mem,
            'walltime', walltime, 'started', start_time, 'expected_end', start_time + median,
            'range90', CASE WHEN median IS NOT NULL THEN json_build_array(start_time + shortest, start_time + longest) END,
            'latest_end', start_time + walltime
        ) ORDER BY place
    ) FILTER (WHERE place <= :most)::text AS rows
FROM running
GROUP BY user_name;

-- name: own_probes
-- Return the expected starts of jobs that are not submitted yet: the same for everybody, without names of users.
SELECT
    coalesce(
        json_agg(
            json_build_object(
                'server', server, 'queue', queue, 'ncpus', ncpus, 'walltime', walltime, 'submit_to', to_json(submit_to),
                'expected', expected, 'range90', CASE WHEN low90 IS NOT NULL THEN json_build_array(low90, high90) END,
                'forecast_at', forecast_at
            ) ORDER BY server, queue, ncpus, walltime
        ), '[]'
    )::text AS rows
FROM softwalltime.probe_starts
WHERE CAST(:server AS text) IN ('', server);

-- name: own_ended
-- Return the last :most jobs of each user that ended since :since, the newest first, and how many ended.
WITH numbered AS (
    SELECT
        job.user_name, job.job_id, job.job_name, job.queue, job.ncpus, job.ngpus, job.mem, job.mem_used, job.cput,
        job.walltime, job.runtime, job.ctime, job.etime, job.start_time, job.end_time, job.state,
        row_number() OVER (PARTITION BY job.user_name ORDER BY job.end_time DESC, job.job_id) AS place
    FROM softwalltime.completed_jobs AS job
    -- A whole array is no job that ran.
    WHERE job.end_time >= :since AND job.job_id NOT LIKE '%[]%' AND CAST(:server AS text) IN ('', job.server)
)

SELECT
    user_name,
    count(*) AS jobs,
    json_agg(
        json_build_object(
            'job', job_id, 'name', job_name, 'queue', queue, 'state', state, 'ncpus', ncpus, 'ngpus', ngpus, 'mem', mem,
            'mem_used', mem_used, 'cput', cput, 'walltime', walltime, 'runtime', runtime, 'submitted', ctime,
            'wait', greatest(start_time - greatest(etime, ctime), 0), 'started', start_time, 'ended', end_time
        ) ORDER BY place
    ) FILTER (WHERE place <= :most)::text AS rows
FROM numbered
GROUP BY user_name;

-- name: own_requests
-- Return the runtimes of each user's jobs with one walltime that ended since :since, in order of submission, where there
-- are at least :least of them.  A job that was killed late counts as one that ran for its walltime.
SELECT user_name, walltime, array_agg(least(runtime, walltime) ORDER BY ctime, id) AS runtimes
FROM softwalltime.completed_jobs
WHERE end_time >= :since AND runtime > 0 AND walltime > 0 AND CAST(:server AS text) IN ('', server)
GROUP BY user_name, walltime
HAVING count(*) >= :least;
