-- name: usage_share
-- The greatest R = runtime / walltime of the user's last jobs with a walltime that ended by as_of, for usage and
-- usage_long; R may exceed 1.  Null: no such job.  Jobs that ended in the same second are ordered by job id (9 before 10)
-- and server, as in the Python predictor.
CREATE OR REPLACE FUNCTION softwalltime.usage_share(for_user text, as_of bigint, jobs integer DEFAULT 15)
RETURNS double precision
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
    teaching softwalltime.job_state[] := softwalltime.teaching();
    found bigint;
    oldest bigint;
    greatest_share double precision;
BEGIN
    SELECT count(*), min(recent.end_time), max(recent.share)
    INTO found, oldest, greatest_share
    FROM (
        SELECT job.runtime::double precision / job.walltime AS share, job.end_time
        FROM softwalltime.completed_jobs AS job
        WHERE job.user_name = for_user AND job.runtime > 0 AND job.walltime > 0 AND job.state = ANY (teaching)
            AND job.end_time <= as_of
        ORDER BY job.end_time DESC
        FETCH FIRST (jobs) ROWS WITH TIES
    ) AS recent;
    IF found > jobs THEN
        -- Ties: read the job ids, which the index does not include, of these jobs only.
        SELECT max(recent.share)
        INTO greatest_share
        FROM (
            SELECT job.runtime::double precision / job.walltime AS share
            FROM softwalltime.completed_jobs AS job
            WHERE job.user_name = for_user AND job.runtime > 0 AND job.walltime > 0 AND job.state = ANY (teaching)
                AND job.end_time BETWEEN oldest AND as_of
            ORDER BY job.end_time DESC, length(split_part(split_part(job.job_id, '.', 1), '[', 1)) DESC,
                split_part(split_part(job.job_id, '.', 1), '[', 1) DESC, length(job.job_id) DESC, job.job_id DESC,
                job.server DESC
            LIMIT jobs
        ) AS recent;
    END IF;
    RETURN greatest_share;
END
$$;

COMMENT ON FUNCTION softwalltime.usage_share(text, bigint, integer) IS
'Greatest runtime / walltime of the user''s last 15 jobs with a walltime as of an epoch second; null: no such job.';

-- name: usage
-- The greatest R of the user's last 15 jobs with a walltime, times this job's walltime, plus 15 minutes (v3).
CREATE OR REPLACE FUNCTION softwalltime.usage(for_user text, for_walltime bigint, as_of bigint)
RETURNS double precision
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN for_walltime > 0 THEN softwalltime.usage_share(for_user, as_of) * for_walltime + 900 END
$$;

COMMENT ON FUNCTION softwalltime.usage(text, bigint, bigint) IS
'Predicted runtime in seconds: max R of the user''s last 15 jobs x walltime + 900 s (v3); null: no completed job with a
walltime, or the job to predict has none.
Chlumský & Klusáček 2022, Algorithm 2.';

-- name: usage_long
-- usage as its authors' site ran it later (v4): R capped at 1, the product doubled if walltime > 24 h, plus 15 minutes.
CREATE OR REPLACE FUNCTION softwalltime.usage_long(for_user text, for_walltime bigint, as_of bigint)
RETURNS double precision
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    -- least() ignores null, so that without such a job it would return 1.
    SELECT CASE
        WHEN for_walltime > 0 AND share IS NOT NULL
        THEN least(1, share) * for_walltime * CASE WHEN for_walltime > 86400 THEN 2 ELSE 1 END + 900
    END
    FROM softwalltime.usage_share(for_user, as_of) AS share
$$;

COMMENT ON FUNCTION softwalltime.usage_long(text, bigint, bigint) IS
'Predicted runtime in seconds: usage with R capped at 1, the product doubled when walltime > 24 h, + 900 s (v4); null: no
completed job with a walltime, or the job to predict has none.
CESNET softwalltime-predictor, after Chlumský & Klusáček 2022, Algorithm 2.';
