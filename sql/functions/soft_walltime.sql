-- name: soft_walltime
-- From a predicted runtime to the soft walltime to set, in whole seconds; null: set none.  The rule of policy.py: rounded
-- up, clamped to [minimum, walltime]; none where that leaves the walltime itself, on a cold start, for a job without
-- walltime and for a shrink-to-fit job, which PBS does not allow one.
CREATE OR REPLACE FUNCTION softwalltime.soft_walltime(
    seconds double precision,
    walltime bigint,
    minimum bigint DEFAULT 60,
    shrink_to_fit boolean DEFAULT false
)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN rounded < walltime THEN rounded END
    FROM (
        -- PostgreSQL's NaN is greater than any number, so that it is no prediction here either.
        SELECT CASE
            WHEN seconds < walltime AND walltime > 0 AND shrink_to_fit IS NOT TRUE
            THEN ceil(greatest(seconds, minimum))::bigint
        END AS rounded
    ) AS clamped
$$;

COMMENT ON FUNCTION softwalltime.soft_walltime(double precision, bigint, bigint, boolean) IS
'The soft walltime to set for a predicted runtime, in whole seconds: rounded up, at least the minimum; null: set none.';
