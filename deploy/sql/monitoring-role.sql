-- Two roles that may read the monitoring views and nothing else: softwalltime_monitor all of them, and
-- softwalltime_monitor_anonymous those without user names.  Nobody can log in as them; give them to those who can:
--
--   psql -d softwalltime -f monitoring-role.sql           -- as the database's owner or a superuser; may be repeated
--   create role grafana login password '...' in role softwalltime_monitor_anonymous;
--
-- softwalltime db upgrade, which may make views anew, lets them read those again.

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
