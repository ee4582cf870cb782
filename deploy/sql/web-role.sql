-- The role of softwalltime-web.service for its staff page: promises, waiting jobs and decisions of all users, to read only.
-- Sites that show the staff nothing need no such role.
--
--   psql -d softwalltime -f web-role.sql          -- as superuser, after softwalltime db upgrade;
--                                                    can be repeated
--
-- The role can log in and has no password.  The account softwalltime_web of this host may connect as it where PostgreSQL
-- asks the kernel (peer); for a process on another host set a password.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'softwalltime_web') THEN
        CREATE ROLE softwalltime_web LOGIN CONNECTION LIMIT 4;
    END IF;
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO softwalltime_web', current_database());
    EXECUTE format('ALTER ROLE softwalltime_web IN DATABASE %I SET default_transaction_read_only = on', current_database());
    EXECUTE format('ALTER ROLE softwalltime_web IN DATABASE %I SET statement_timeout = ''10s''', current_database());
END
$$;

GRANT USAGE ON SCHEMA softwalltime TO softwalltime_web;
REVOKE ALL ON ALL TABLES IN SCHEMA softwalltime FROM softwalltime_web;
GRANT SELECT (server, job_id, user_name, queue, ncpus, walltime, ctime, start_time)
ON softwalltime.current_jobs TO softwalltime_web;
GRANT SELECT (server, job_id, expected) ON softwalltime.expected_starts TO softwalltime_web;
GRANT SELECT (server, job_id, latest_start) ON softwalltime.latest_starts TO softwalltime_web;
GRANT SELECT (
    id, predicted_at, event, job_id, user_name, queue, walltime, soft_walltime, action, basis
) ON softwalltime.predictions TO softwalltime_web;
GRANT SELECT ON softwalltime.promises_by_day, softwalltime.ingest_lag TO softwalltime_web;
