-- Two roles that can only read monitoring views: softwalltime_monitor all of them, softwalltime_monitor_anonymous those
-- without user names.  They cannot log in; grant them to login roles:
--
--   psql -d softwalltime -f monitoring-role.sql           -- as owner of the database or superuser; can be repeated
--   create role grafana login password '...' in role softwalltime_monitor_anonymous;
--
-- softwalltime db upgrade may recreate views, and grants them again.

DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['softwalltime_monitor', 'softwalltime_monitor_anonymous'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        END IF;
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), role);
    END LOOP;
END
$$;

SELECT softwalltime.grant_monitoring();
