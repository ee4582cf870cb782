-- name: teaching
-- How jobs must have ended to teach a predictor: the site's setting, as the daemon last wrote it down.
CREATE OR REPLACE FUNCTION softwalltime.teaching()
RETURNS softwalltime.job_state[]
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce(array_agg(chosen.state), '{}') FROM softwalltime.teaching_states AS chosen
$$;

COMMENT ON FUNCTION softwalltime.teaching() IS
'The states of jobs that teach the predictors: how they ended.';
