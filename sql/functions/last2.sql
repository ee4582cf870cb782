-- name: last2
-- The mean of the last two runtimes of the user's jobs that had ended by as_of (v1); of one, if there is but one.
-- Only jobs that teach; runtimes count as they were, also beyond the walltime and of jobs that had none.  Jobs that ended
-- in the same second count in order of job id (9 before 10) and server, as in Python.
CREATE OR REPLACE FUNCTION softwalltime.last2(for_user text, as_of bigint)
RETURNS double precision
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
    teaching softwalltime.job_state[] := softwalltime.teaching();
    found bigint;
    mean double precision;
BEGIN
    SELECT count(*), sum(recent.runtime)::double precision / count(*)
    INTO found, mean
    FROM (
        SELECT job.runtime
        FROM softwalltime.completed_jobs AS job
        WHERE job.user_name = for_user AND job.runtime > 0 AND job.state = ANY (teaching)
            AND job.end_time <= as_of
        ORDER BY job.end_time DESC
        FETCH FIRST 2 ROWS WITH TIES
    ) AS recent;
    IF found > 2 THEN
        -- Seldom, and not by the index alone, which does not hold the job id.
        SELECT sum(recent.runtime)::double precision / count(*)
        INTO mean
        FROM (
            SELECT job.runtime
            FROM softwalltime.completed_jobs AS job
            WHERE job.user_name = for_user AND job.runtime > 0 AND job.state = ANY (teaching)
                AND job.end_time <= as_of
            ORDER BY job.end_time DESC, length(substring(job.job_id FROM '^[0-9]*')) DESC,
                substring(job.job_id FROM '^[0-9]*') DESC, length(job.job_id) DESC, job.job_id DESC, job.server DESC
            LIMIT 2
        ) AS recent;
    END IF;
    RETURN mean;
END
$$;

COMMENT ON FUNCTION softwalltime.last2(text, bigint) IS
'Predicted runtime in seconds: mean of the user''s last 2 runtimes as of an epoch second (v1); null: no completed job.
Tsafrir, Etsion & Feitelson 2007; Chlumský & Klusáček 2022, Algorithm 1.';
