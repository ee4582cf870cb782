-- Roles with the least privileges, for sites where the daemon must not own the tables:
--
--   softwalltime_owner    owns the schema; only softwalltime db upgrade, downgrade and check need it
--   softwalltime          the daemon: ingests logs, predicts, records, deletes old rows; changes no table
--   softwalltime_ingest   softwalltime ingest --follow, at sites without the daemon: ingests logs
--   softwalltime_hook     hooks that query PostgreSQL themselves: reads what a prediction needs
--
-- Every other role loses the privileges to connect and to create temporary tables that PostgreSQL gives to all; GRANT CONNECT
-- ON DATABASE to roles that may connect for another purpose.
--
-- Run this file as a superuser in the database, before the first softwalltime db upgrade and after every upgrade; it can be
-- repeated.  The roles can log in and have no password: set one, or configure pg_hba.conf.
--
--   createdb --encoding UTF8 --template template0 softwalltime && psql -d softwalltime -f roles.sql
--   softwalltime db upgrade --dsn "dbname=softwalltime options='-c role=softwalltime_owner'"
--   psql -d softwalltime -f roles.sql
--
-- monitoring-role.sql grants access to the monitoring views.

DO $$
DECLARE
    role text;
BEGIN
    -- A session can take locks, fill the disk with temporary tables and use up the connections.
    EXECUTE format('REVOKE CONNECT, TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    FOREACH role IN ARRAY ARRAY['softwalltime_owner', 'softwalltime', 'softwalltime_ingest', 'softwalltime_hook'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I LOGIN', role);
        END IF;
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), role);
    END LOOP;
    EXECUTE format('GRANT CREATE ON DATABASE %I TO softwalltime_owner', current_database());
    -- Ingest copies jobs to a temporary table first, to skip known jobs.
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO softwalltime, softwalltime_ingest', current_database());
END
$$;

DO $$
DECLARE
    relation record;
    columns text;
    daemon text;
    ingest text;
    hook text;
BEGIN
    IF to_regnamespace('softwalltime') IS NULL THEN
        RAISE NOTICE 'there are no tables yet: run softwalltime db upgrade, and this again';
        RETURN;
    END IF;
    GRANT USAGE ON SCHEMA softwalltime TO softwalltime, softwalltime_ingest, softwalltime_hook;
    FOR relation IN
        SELECT oid, relname AS name FROM pg_class
        WHERE relnamespace = to_regnamespace('softwalltime') AND relkind IN ('r', 'p', 'v')
    LOOP
        -- What each may do with which; a hook asks what the SQL functions ask.
        SELECT rights.daemon, rights.ingest, rights.hook INTO daemon, ingest, hook
        FROM (VALUES
            ('alembic_version',   'SELECT',                         'SELECT',                         NULL),
            ('completed_jobs',    'SELECT, INSERT, DELETE',         'SELECT, INSERT',                 'SELECT'),
            ('current_jobs',      'SELECT, INSERT, UPDATE, DELETE', 'SELECT, INSERT, UPDATE, DELETE', NULL),
            ('hourly_latency',    'SELECT',                         NULL,                             NULL),
            ('interrupted_runs',  'SELECT, INSERT, DELETE',         'SELECT, INSERT',                 NULL),
            ('log_positions',     'SELECT, INSERT, UPDATE',         'SELECT, INSERT, UPDATE',         NULL),
            ('malformed_dropped', 'SELECT, INSERT, UPDATE',         'SELECT, INSERT, UPDATE',         NULL),
            ('malformed_lines',   'SELECT, INSERT, DELETE',         'SELECT, INSERT, DELETE',         NULL),
            ('job_scripts',       'SELECT, INSERT, UPDATE, DELETE', NULL,                             NULL),
            ('latest_starts',     'SELECT, INSERT, UPDATE, DELETE', NULL,                             NULL),
            ('live_states',       'SELECT, INSERT, DELETE',         NULL,                             NULL),
            ('predictions',       'SELECT, INSERT, DELETE',         NULL,                             NULL),
            ('promises',          'SELECT, INSERT, UPDATE, DELETE', NULL,                             NULL),
            ('queue_changes',     'SELECT',                         NULL,                             NULL),
            ('teaching_states',   'SELECT, INSERT, DELETE',         'SELECT, INSERT, DELETE',         'SELECT'),
            ('write_lock',        'UPDATE',                         'UPDATE',                         NULL)
        ) AS rights (name, daemon, ingest, hook)
        WHERE rights.name = relation.name;
        IF NOT FOUND THEN
            -- Figures by day, which the daemon keeps, and the views on them.
            daemon := 'SELECT, INSERT, UPDATE, DELETE';
            ingest := NULL;
            hook := NULL;
        END IF;
        -- Ids are PostgreSQL's alone to give (INSERT ... OVERRIDING SYSTEM VALUE is refused): they are the order in
        -- which rows became known, and a row that was deleted and inserted again shows by its new id.
        SELECT string_agg(format('%I', attname), ', ') INTO columns
        FROM pg_attribute
        WHERE attrelid = relation.oid AND attnum > 0 AND NOT attisdropped AND attidentity = '';
        IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = relation.oid AND attidentity <> '') THEN
            daemon := replace(daemon, 'INSERT', format('INSERT (%s)', columns));
            ingest := replace(ingest, 'INSERT', format('INSERT (%s)', columns));
        END IF;
        EXECUTE format(
            'REVOKE ALL ON %s FROM softwalltime, softwalltime_ingest, softwalltime_hook', relation.oid::regclass
        );
        EXECUTE format('GRANT %s ON %s TO softwalltime', daemon, relation.oid::regclass);
        IF ingest IS NOT NULL THEN
            EXECUTE format('GRANT %s ON %s TO softwalltime_ingest', ingest, relation.oid::regclass);
        END IF;
        IF hook IS NOT NULL THEN
            EXECUTE format('GRANT %s ON %s TO softwalltime_hook', hook, relation.oid::regclass);
        END IF;
    END LOOP;
    -- After much was loaded the daemon lets PostgreSQL take stock; before version 17 only the owner may, and PostgreSQL
    -- does it by itself some minutes later.
    IF current_setting('server_version_num')::int >= 170000 THEN
        GRANT MAINTAIN ON softwalltime.completed_jobs TO softwalltime, softwalltime_ingest;
    END IF;
END
$$;
