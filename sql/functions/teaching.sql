-- name: teaching
-- The job states from which predictors learn: the site's setting, as the daemon last stored it.
CREATE OR REPLACE FUNCTION softwalltime.teaching()
RETURNS softwalltime.job_state[]
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce(array_agg(chosen.state), '{}') FROM softwalltime.teaching_states AS chosen
$$;

COMMENT ON FUNCTION softwalltime.teaching() IS
'The job states from which predictors learn.';
