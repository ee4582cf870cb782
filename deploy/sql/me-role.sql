-- The role of softwalltime-me.service, which shows each user his own jobs (softwalltime me).  It reads some columns of five
-- tables and changes nothing: no project, no account, no script, no prediction that was recorded.
--
--   psql -d softwalltime -f me-role.sql           -- as superuser, after softwalltime db upgrade;
--                                                    can be repeated
--
-- The role can log in and has no password.  The account softwalltime_me of this host may connect as it where PostgreSQL
-- asks the kernel (peer); for a process on another host set a password.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'softwalltime_me') THEN
        CREATE ROLE softwalltime_me LOGIN CONNECTION LIMIT 4;
    END IF;
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO softwalltime_me', current_database());
    EXECUTE format('ALTER ROLE softwalltime_me IN DATABASE %I SET default_transaction_read_only = on', current_database());
    EXECUTE format('ALTER ROLE softwalltime_me IN DATABASE %I SET statement_timeout = ''60s''', current_database());
END
$$;

GRANT USAGE ON SCHEMA softwalltime TO softwalltime_me;
REVOKE ALL ON ALL TABLES IN SCHEMA softwalltime FROM softwalltime_me;
GRANT SELECT (
    server, job_id, user_name, queue, ncpus, walltime, ctime, expected, low90, low50, high50, high90, waits_for, forecast_at
) ON softwalltime.expected_starts TO softwalltime_me;
GRANT SELECT (server, job_id, shortest, median, longest, suggested, sooner, forecast_at)
ON softwalltime.expected_runtimes TO softwalltime_me;
GRANT SELECT ON softwalltime.probe_starts TO softwalltime_me;
GRANT SELECT (
    server, job_id, user_name, job_name, queue, ncpus, ngpus, mem, walltime, ctime, start_time, is_array
) ON softwalltime.current_jobs TO softwalltime_me;
GRANT SELECT (
    id, server, job_id, user_name, job_name, queue, ncpus, ngpus, mem, mem_used, cput, walltime, runtime, ctime, etime,
    start_time, end_time, state
) ON softwalltime.completed_jobs TO softwalltime_me;
