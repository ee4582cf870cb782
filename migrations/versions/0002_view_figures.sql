-- Figures that views would otherwise compute from many rows.  Comments are in sql/comments.sql.
CREATE TABLE softwalltime.daily_queues (
    accuracy double precision NOT NULL, absolute_error double precision NOT NULL,
    request_error double precision NOT NULL, runtime double precision NOT NULL, walltime double precision NOT NULL,
    share double precision NOT NULL, extensions double precision NOT NULL, longest_walltime bigint NOT NULL,
    most_extensions bigint NOT NULL, jobs integer NOT NULL, adjusted integer NOT NULL,
    underestimated integer NOT NULL, badly_underestimated integer NOT NULL, "over" integer NOT NULL,
    killed integer NOT NULL, day date NOT NULL, mode text COLLATE "C" NOT NULL, predictor text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL, PRIMARY KEY (day, mode, predictor, queue)
);
INSERT INTO softwalltime.daily_queues
SELECT
    sum(accuracy), sum(absolute_error), sum(request_error), sum(runtime), sum(walltime), sum(share), sum(extensions),
    max(longest_walltime), max(most_extensions), sum(jobs), sum(adjusted), sum(underestimated),
    sum(badly_underestimated), sum("over"), sum(killed), day, mode, predictor, queue
FROM softwalltime.daily_scores
GROUP BY day, mode, predictor, queue;
-- Roles that keep daily_scores must be able to keep these too.
DO $$
DECLARE
    held record;
BEGIN
    FOR held IN
        SELECT grantee::regrole AS role, privilege_type
        FROM pg_class
        CROSS JOIN aclexplode(relacl)
        WHERE pg_class.oid = 'softwalltime.daily_scores'::regclass AND grantee <> 0
    LOOP
        EXECUTE format('GRANT %s ON softwalltime.daily_queues TO %s', held.privilege_type, held.role);
    END LOOP;
END
$$;
-- A row counts the requests of an hour that took the same time to three significant digits: some hundreds to two thousand rows an
-- hour, whatever the number of requests.  The rows are updated in place (HOT), which needs free space on their page.
CREATE TABLE softwalltime.hourly_latency (
    hour bigint NOT NULL, requests bigint NOT NULL, value integer NOT NULL, most integer NOT NULL,
    measure text COLLATE "C" NOT NULL, PRIMARY KEY (hour, measure, value)
) WITH (fillfactor = 50);
-- It runs as the owner of the tables: who stores predictions needs no privilege on the counts.
CREATE FUNCTION softwalltime.count_latency() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    COUNT
    DELETE FROM softwalltime.hourly_latency WHERE hour < extract(epoch FROM now())::bigint - 172800;
    RETURN NULL;
END
$$;
CREATE TRIGGER count_latency AFTER INSERT ON softwalltime.predictions REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION softwalltime.count_latency();
-- Count:
-- Each request carries the number of consecutive timeouts before it, see hook_of_day.  What is older than two days, or was stored
-- by a wrong clock, is not counted.  Sorted, so that two daemons with one store do not deadlock.
INSERT INTO softwalltime.hourly_latency AS known (hour, measure, value, requests, most)
SELECT asked.predicted_at / 3600 * 3600, measure, figure.value - figure.value % step, sum(number), max(figure.value)
FROM (
    SELECT predicted_at, took, exchange_before, timeouts, lag(timeouts, 1, (
        SELECT earlier.timeouts FROM softwalltime.predictions AS earlier
        WHERE earlier.id < (SELECT min(id) FROM added) ORDER BY earlier.id DESC LIMIT 1
    )) OVER (ORDER BY id) AS before
    FROM added
) AS asked
CROSS JOIN LATERAL (VALUES
    ('answer', coalesce(took, -1), 1),
    ('exchange', exchange_before, 1),
    ('timeouts', timeouts, timeouts - CASE WHEN timeouts > before THEN before ELSE 0 END)
) AS figure (measure, value, number)
CROSS JOIN LATERAL (SELECT (10 ^ greatest(0, length(figure.value::text) - 3))::integer AS step) AS digits
WHERE figure.value IS NOT NULL
    AND asked.predicted_at > extract(epoch FROM now())::bigint - 172800
    AND asked.predicted_at < extract(epoch FROM now())::bigint + 172800
GROUP BY 1, 2, 3
ORDER BY 1, 2, 3
ON CONFLICT (hour, measure, value) DO UPDATE
SET requests = known.requests + excluded.requests, most = greatest(known.most, excluded.most);
