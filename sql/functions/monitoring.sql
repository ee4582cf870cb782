-- name: length_class
-- Queue limits are round walltimes: counts by these classes are exact for such limits.
CREATE OR REPLACE FUNCTION softwalltime.length_class(seconds bigint)
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT coalesce(
        (ARRAY[
            300, 600, 900, 1800, 2700, 3600, 5400, 7200, 10800, 14400, 18000, 21600, 28800, 36000, 43200, 57600, 64800,
            72000, 86400, 129600, 172800, 259200, 345600, 432000, 604800, 864000, 1209600, 1814400, 2592000
        ])[
            1 + width_bucket(seconds - 1, ARRAY[
                300, 600, 900, 1800, 2700, 3600, 5400, 7200, 10800, 14400, 18000, 21600, 28800, 36000, 43200, 57600,
                64800, 72000, 86400, 129600, 172800, 259200, 345600, 432000, 604800, 864000, 1209600, 1814400, 2592000
            ]::bigint[])
        ],
        2147483647
    )
$$;

COMMENT ON FUNCTION softwalltime.length_class(bigint) IS
'The smallest usual queue limit, from 5 minutes to 30 days, of at least this many seconds; 2147483647: none.';

-- name: grant_monitoring
-- Called by deploy/sql/monitoring-role.sql, and by each upgrade, because an upgrade may recreate views.
CREATE OR REPLACE FUNCTION softwalltime.grant_monitoring()
RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    granted record;
BEGIN
    FOR granted IN
        SELECT role.rolname AS role, relation.relname AS name
        FROM pg_class AS relation
        JOIN pg_roles AS role ON role.rolname = 'softwalltime_monitor'
            OR role.rolname = 'softwalltime_monitor_anonymous' AND NOT EXISTS (
                SELECT FROM pg_attribute
                WHERE attrelid = relation.oid AND attname = 'user_name' AND NOT attisdropped
            )
        WHERE relation.relnamespace = 'softwalltime'::regnamespace AND relation.relkind = 'v'
    LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA softwalltime TO %I', granted.role);
        EXECUTE format('GRANT SELECT ON softwalltime.%I TO %I', granted.name, granted.role);
    END LOOP;
END
$$;

COMMENT ON FUNCTION softwalltime.grant_monitoring() IS
'Grants SELECT on the views to the roles softwalltime_monitor (all views) and softwalltime_monitor_anonymous (views
without user names), if they exist.';
