-- name: last2_plus
-- last2 plus a margin (v2), by default 15 minutes.
CREATE OR REPLACE FUNCTION softwalltime.last2_plus(for_user text, as_of bigint, extra double precision DEFAULT 900)
RETURNS double precision
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT softwalltime.last2(for_user, as_of) + extra
$$;

COMMENT ON FUNCTION softwalltime.last2_plus(text, bigint, double precision) IS
'Predicted runtime in seconds: last2 + 900 s (v2); null: no completed job.
Chlumský & Klusáček 2022, section 3.';
