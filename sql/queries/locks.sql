-- Who holds locks that other sessions wait for.

-- name: blocking_sessions
-- Describe up to three sessions that hold a lock on :table stronger than that of a reader; with null, any lock on a table
-- or view of the schema.  What PostgreSQL hides from this role (address, begin of the transaction) is omitted.
SELECT concat(
    'process ', session.pid, ' of role ', session.usename,
    ' (' || nullif(concat_ws(
        ', ', nullif(session.application_name, ''), host(session.client_addr),
        'in a transaction since ' || to_char(session.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS UTC')
    ), '') || ')'
) AS session
FROM pg_stat_activity AS session
WHERE session.pid IN (
    SELECT held.pid FROM pg_locks AS held
    JOIN pg_class AS relation ON relation.oid = held.relation
    WHERE held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND held.granted AND held.pid <> pg_backend_pid()
        AND relation.relnamespace = 'softwalltime'::regnamespace AND relation.relkind IN ('r', 'v')
        AND (
            CAST(:table AS text) IS NULL
            OR relation.relname = CAST(:table AS text) AND held.mode <> 'AccessShareLock'
        )
)
ORDER BY session.xact_start, session.pid
LIMIT 3;
