-- name: last2
-- The mean runtime of the user's last two jobs that ended by as_of (v1), or of the only one.  Runtimes are not capped,
-- and jobs without a walltime count.  Jobs that ended in the same second are ordered by job id (9 before 10) and server,
-- as in the Python predictor.
CREATE OR REPLACE FUNCTION softwalltime.last2(for_user text, as_of bigint)
RETURNS double precision
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
    teaching softwalltime.job_state[] := softwalltime.teaching();
    found bigint;
    oldest bigint;
    mean double precision;
BEGIN
    SELECT count(*), min(recent.end_time), sum(recent.runtime)::double precision / count(*)
    INTO found, oldest, mean
    FROM (
        SELECT job.runtime, job.end_time
        FROM softwalltime.completed_jobs AS job
        WHERE job.user_name = for_user AND job.runtime > 0 AND job.state = ANY (teaching)
            AND job.end_time <= as_of
        ORDER BY job.end_time DESC
        FETCH FIRST 2 ROWS WITH TIES
    ) AS recent;
    IF found > 2 THEN
        -- Ties: read the job ids, which the index does not include, of these jobs only.
        SELECT sum(recent.runtime)::double precision / count(*)
        INTO mean
        FROM (
            SELECT job.runtime
            FROM softwalltime.completed_jobs AS job
            WHERE job.user_name = for_user AND job.runtime > 0 AND job.state = ANY (teaching)
                AND job.end_time BETWEEN oldest AND as_of
            ORDER BY job.end_time DESC, length(split_part(split_part(job.job_id, '.', 1), '[', 1)) DESC,
                split_part(split_part(job.job_id, '.', 1), '[', 1) DESC, length(job.job_id) DESC, job.job_id DESC,
                job.server DESC
            LIMIT 2
        ) AS recent;
    END IF;
    RETURN mean;
END
$$;

COMMENT ON FUNCTION softwalltime.last2(text, bigint) IS
'Predicted runtime in seconds: mean of the user''s last 2 runtimes as of an epoch second (v1); null: no completed job.
Tsafrir, Etsion & Feitelson 2007; Chlumský & Klusáček 2022, Algorithm 1.';
