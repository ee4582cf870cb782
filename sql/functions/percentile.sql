-- name: percentile
-- The percentile p of R = runtime / walltime over the jobs with the same keys that ended by as_of and at most
-- window_seconds before it, times this job's walltime.  R may exceed 1.  Fewer such jobs than at_least: null.  With a
-- threshold R is at least that.  keys: user, project, user+project or user+project+walltime.
CREATE OR REPLACE FUNCTION softwalltime.percentile(
    for_user text,
    for_project text,
    for_walltime bigint,
    as_of bigint,
    p double precision DEFAULT 85,
    keys text DEFAULT 'user+project+walltime',
    window_seconds bigint DEFAULT 2592000,
    at_least integer DEFAULT 10,
    threshold double precision DEFAULT NULL
)
RETURNS double precision
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
    teaching softwalltime.job_state[] := softwalltime.teaching();
    alike bigint;
    share double precision;
BEGIN
    CASE keys
        WHEN 'user', 'user+project', 'user+project+walltime' THEN
            SELECT count(*),
                percentile_cont(p / 100) WITHIN GROUP (ORDER BY job.runtime::double precision / job.walltime)
            INTO alike, share
            FROM softwalltime.completed_jobs AS job
            WHERE job.user_name = for_user AND job.runtime > 0 AND job.walltime > 0 AND job.state = ANY (teaching)
                AND (keys = 'user' OR job.project = for_project)
                AND (keys <> 'user+project+walltime' OR job.walltime = for_walltime)
                AND job.end_time BETWEEN as_of - window_seconds AND as_of;
        WHEN 'project' THEN
            SELECT count(*),
                percentile_cont(p / 100) WITHIN GROUP (ORDER BY job.runtime::double precision / job.walltime)
            INTO alike, share
            FROM softwalltime.completed_jobs AS job
            WHERE job.project = for_project AND job.runtime > 0 AND job.walltime > 0 AND job.state = ANY (teaching)
                AND job.end_time BETWEEN as_of - window_seconds AND as_of;
        ELSE
            RAISE invalid_parameter_value USING
                MESSAGE = format('percentile: unknown keys %L', keys),
                HINT = 'Known keys: user, project, user+project or user+project+walltime.';
    END CASE;
    IF for_walltime > 0 AND alike >= at_least THEN
        -- greatest() ignores a null threshold.
        RETURN greatest(share, threshold) * for_walltime;
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION softwalltime.percentile(
    text, text, bigint, bigint, double precision, text, bigint, integer, double precision
) IS
'Predicted runtime in seconds: percentile p of R over the jobs with the same keys in the last window_seconds x walltime;
null: fewer than at_least such jobs, or the job to predict has no walltime.
Tang, Desai, Buettner & Lan 2013.';
