-- name: predict
-- Calls a published predictor by its name or alias, with its default options.
CREATE OR REPLACE FUNCTION softwalltime.predict(
    predictor text,
    for_user text,
    for_project text,
    for_walltime bigint,
    as_of bigint
)
RETURNS double precision
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    CASE predictor
        WHEN 'last2', 'v1' THEN
            RETURN softwalltime.last2(for_user, as_of);
        WHEN 'last2+900', 'v2' THEN
            RETURN softwalltime.last2_plus(for_user, as_of);
        WHEN 'usage', 'v3' THEN
            RETURN softwalltime.usage(for_user, for_walltime, as_of);
        WHEN 'usage-long', 'v4' THEN
            RETURN softwalltime.usage_long(for_user, for_walltime, as_of);
        WHEN 'percentile' THEN
            RETURN softwalltime.percentile(for_user, for_project, for_walltime, as_of);
        ELSE
            RAISE invalid_parameter_value USING
                MESSAGE = format('no predictor in SQL is called %L', predictor),
                HINT = 'Known predictors: last2 (v1), last2+900 (v2), usage (v3), usage-long (v4), percentile.';
    END CASE;
END
$$;

COMMENT ON FUNCTION softwalltime.predict(text, text, text, bigint, bigint) IS
'Predicted runtime in seconds by the predictor of that name: last2 (v1), last2+900 (v2), usage (v3), usage-long (v4) or
percentile, with default options; null: a cold start.';
