-- name: last2
-- The mean of the last two runtimes of the user's jobs that had ended by as_of (v1); of one, if there is but one.
-- Only jobs that teach; runtimes count as they were, also beyond the walltime and of jobs that had none.
CREATE OR REPLACE FUNCTION softwalltime.last2(for_user text, as_of bigint)
RETURNS double precision
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
    teaching softwalltime.job_state[] := softwalltime.teaching();
BEGIN
    RETURN (
        SELECT sum(recent.runtime)::double precision / count(*)
        FROM (
            SELECT job.runtime
            FROM softwalltime.completed_jobs AS job
            WHERE job.user_name = for_user AND job.runtime > 0 AND job.state = ANY (teaching)
                AND job.end_time <= as_of
            ORDER BY job.end_time DESC, job.id DESC
            LIMIT 2
        ) AS recent
    );
END
$$;

COMMENT ON FUNCTION softwalltime.last2(text, bigint) IS
'Predicted runtime in seconds: mean of the user''s last 2 runtimes as of an epoch second (v1); null: no completed job.
Tsafrir, Etsion & Feitelson 2007; Chlumský & Klusáček 2022, Algorithm 1.';
