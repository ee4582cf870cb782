-- name: soft_walltime
-- Converts a predicted runtime to the soft walltime in whole seconds; null: set none.  The rule of policy/clamp.py: round
-- up and clamp to [minimum, walltime]; none if that is the walltime, on a cold start, for a job without a walltime, and
-- for a shrink-to-fit job, for which PBS allows none.
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
        -- NaN is greater than any number in PostgreSQL, and so is no prediction.
        SELECT CASE
            WHEN seconds < walltime AND walltime > 0 AND shrink_to_fit IS NOT TRUE
            THEN ceil(greatest(seconds, minimum))::bigint
        END AS rounded
    ) AS clamped
$$;

COMMENT ON FUNCTION softwalltime.soft_walltime(double precision, bigint, bigint, boolean) IS
'The soft walltime to set for a predicted runtime, in whole seconds: rounded up, at least the minimum; null: set none.';
