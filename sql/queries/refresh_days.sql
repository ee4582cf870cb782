-- Daily and monthly figures, on which most views are built.  See store/daily.py.

-- name: jobs_of_day
-- Compute all figures of the jobs that ended on one day.  The prediction of a job is the last one made while it waited,
-- and of a subjob (5[3].srv) also that of its array (5[].srv).  PBS reuses ids, so a prediction must also fit the
-- submission time, with a minute for differing clocks.  t, p and the metrics are those of replay/metrics.py.  A
-- prediction at queuejob has no id: it belongs to the job with its user, walltime and submission time within 3 s,
-- because the hook runs before PBS sets that time; of several such jobs each has the nearest prediction, its own project
-- first.  In mode on, the soft walltime is the one that the job had at its first start, as the hook reported it: the
-- scheduler used that one, whatever the daemon had answered.  "+ 0", "<> ''" and "|| ''" make the planner use the index
-- by id for ids and the index by time for the rest.
WITH ended AS (
    SELECT
        job.queue, job.project, job.user_name, job.walltime, job.state, job.ncpus, job.ctime,
        job.start_time - coalesce(job.etime, job.ctime) AS waited,
        least(job.runtime, job.walltime) AS t,
        coalesce(prediction.mode, nameless.mode, '') AS mode,
        coalesce(prediction.predictor, nameless.predictor, '') AS predictor,
        coalesce(prediction.ordering, nameless.ordering) AS ordering,
        CASE
            WHEN begun.had IS NOT NULL THEN CASE WHEN begun.had > 0 AND begun.had < job.walltime THEN begun.had END
            WHEN prediction.action = 'late' OR nameless.action = 'late' THEN NULL
            WHEN prediction.soft_walltime >= 1
                AND prediction.soft_walltime < least(prediction.walltime, job.walltime)
            THEN prediction.soft_walltime
            WHEN nameless.soft_walltime >= 1 AND nameless.soft_walltime < job.walltime
            THEN nameless.soft_walltime
        END AS soft_walltime
    FROM softwalltime.completed_jobs AS job
    LEFT JOIN LATERAL (
        SELECT made.mode, made.predictor, made.walltime, made.soft_walltime, made.action, made.ordering
        FROM softwalltime.predictions AS made
        WHERE made.job_id = ANY (ARRAY[job.job_id, regexp_replace(job.job_id, '\[\d+\]', '[]')])
            AND made.job_id <> '' AND made.event NOT IN ('runjob', 'live_run')
            AND (made.event <> 'live' OR made.action = 'set' OR made.mode <> 'on')
            AND made.predicted_at + 0 BETWEEN job.ctime - 60 AND job.start_time
        ORDER BY made.predicted_at + 0 DESC, made.id DESC
        LIMIT 1
    ) AS prediction ON true
    LEFT JOIN LATERAL (
        SELECT made.mode, made.predictor, made.soft_walltime, made.action, made.ordering
        FROM softwalltime.predictions AS made
        WHERE prediction.mode IS NULL
            AND made.predicted_at BETWEEN job.ctime - 3 AND job.ctime + 3
            AND made.job_id || '' = '' AND made.event = 'queuejob'
            AND made.user_name = job.user_name AND made.walltime = job.walltime
        ORDER BY made.project = job.project DESC, abs(made.predicted_at - job.ctime), made.id
        LIMIT 1
    ) AS nameless ON true
    LEFT JOIN LATERAL (
        SELECT made.had
        FROM softwalltime.predictions AS made
        WHERE coalesce(prediction.mode, nameless.mode) = 'on'
            AND made.job_id = job.job_id AND made.job_id <> '' AND made.event = 'runjob' AND made.mode = 'on'
            AND made.had IS NOT NULL AND made.predicted_at + 0 BETWEEN job.ctime - 60 AND job.end_time + 60
        ORDER BY made.predicted_at + 0, made.id
        LIMIT 1
    ) AS begun ON true
    WHERE job.end_time >= :from AND job.end_time < :to AND job.runtime > 0 AND job.walltime > 0
    -- Sums of floating point numbers depend on the order.
    ORDER BY job.end_time, job.id
),
outcome AS MATERIALIZED (
    SELECT
        ended.*,
        coalesce(ended.soft_walltime, ended.walltime) AS p,
        least(coalesce(ended.soft_walltime, ended.walltime), ended.t)::double precision
            / greatest(coalesce(ended.soft_walltime, ended.walltime), ended.t) AS accuracy
    FROM ended
),
scored AS (
    INSERT INTO softwalltime.daily_scores (
        day, mode, predictor, queue, project, user_name, jobs, adjusted, underestimated, badly_underestimated, over,
        killed, accuracy, absolute_error, request_error, runtime, walltime, share, extensions,
        longest_walltime, most_extensions
    )
    SELECT
        :day, mode, predictor, queue, project, user_name,
        count(*),
        count(soft_walltime),
        count(*) FILTER (WHERE p < t),
        count(*) FILTER (WHERE t - p > 1800),
        count(*) FILTER (WHERE soft_walltime >= t),
        count(*) FILTER (WHERE state = 'walltime exceeded'),
        sum(accuracy),
        sum(abs(p - t)::double precision),
        sum((walltime - t)::double precision),
        sum(t::double precision),
        sum(walltime::double precision),
        sum(t::double precision / walltime),
        sum(((t - 1) / p)::double precision),
        max(walltime),
        max((t - 1) / p)
    FROM outcome
    GROUP BY mode, predictor, queue, project, user_name
    RETURNING *
),
queues AS (
    INSERT INTO softwalltime.daily_queues (
        day, mode, predictor, queue, jobs, adjusted, underestimated, badly_underestimated, over, killed, accuracy,
        absolute_error, request_error, runtime, walltime, share, extensions, longest_walltime, most_extensions
    )
    SELECT
        day, mode, predictor, queue, sum(jobs), sum(adjusted), sum(underestimated), sum(badly_underestimated),
        sum(over), sum(killed), sum(accuracy), sum(absolute_error), sum(request_error), sum(runtime), sum(walltime),
        sum(share), sum(extensions), max(longest_walltime), max(most_extensions)
    FROM scored
    GROUP BY day, mode, predictor, queue
),
medians AS (
    INSERT INTO softwalltime.daily_medians (day, mode, predictor, accuracy)
    SELECT :day, mode, predictor, percentile_cont(0.5) WITHIN GROUP (ORDER BY accuracy)
    FROM outcome
    GROUP BY mode, predictor
),
lengths AS (
    INSERT INTO softwalltime.daily_lengths (day, queue, walltime, planned, runtime, jobs)
    SELECT
        :day, queue, softwalltime.length_class(walltime), softwalltime.length_class(p), softwalltime.length_class(t),
        count(*)
    FROM outcome
    WHERE mode IN ('shadow', 'on')
    GROUP BY 2, 3, 4, 5
),
ordered AS (
    INSERT INTO softwalltime.daily_ordering (
        day, mode, jobs, underestimated, accuracy, ordering, runtime, walltime, share
    )
    SELECT
        :day, mode,
        count(*),
        count(*) FILTER (WHERE ordering < t),
        sum(least(ordering, t)::double precision / greatest(ordering, t)),
        sum(ordering::double precision),
        sum(t::double precision),
        sum(walltime::double precision),
        sum(t::double precision / walltime)
    FROM outcome
    WHERE ordering >= 1 AND mode IN ('shadow', 'on')
    GROUP BY mode
)
INSERT INTO softwalltime.daily_waits (day, after, processors, walltime, jobs, wait, slowdown, slowdown_log)
SELECT
    :day,
    coalesce(outcome.ctime >= monitoring.first_set, false),
    CASE WHEN ncpus >= 65 THEN 65 WHEN ncpus >= 9 THEN 9 WHEN ncpus >= 2 THEN 2 WHEN ncpus = 1 THEN 1 ELSE 0 END,
    CASE WHEN walltime <= 3600 THEN 3600 WHEN walltime <= 28800 THEN 28800 WHEN walltime <= 86400 THEN 86400 ELSE 0 END,
    count(*),
    sum(wait),
    sum(slowdown),
    sum(ln(slowdown))
FROM outcome
CROSS JOIN softwalltime.monitoring
CROSS JOIN LATERAL (SELECT greatest(outcome.waited, 0)::double precision AS wait) AS waited
-- Bounded at 10 s: otherwise jobs that end at once dominate the mean (Feitelson et al. 1997).
CROSS JOIN LATERAL (SELECT greatest(1, (wait + outcome.t) / greatest(outcome.t, 10)) AS slowdown) AS slowed
WHERE outcome.waited IS NOT NULL
GROUP BY 2, 3, 4;

-- name: decisions_of_day
-- Count the decisions of one day by predictor, action and reason.
INSERT INTO softwalltime.daily_decisions (day, event, mode, predictor, action, reason, requests)
SELECT :day, event, mode, predictor, action, reason, count(*)
FROM softwalltime.predictions
WHERE predicted_at >= :from AND predicted_at < :to
GROUP BY 2, 3, 4, 5, 6;

-- name: hook_of_day
-- Compute the hook's latency on one day.  Each request carries the number of consecutive timeouts before it: an increase
-- over the previous request is new; without an increase all of them are new.
INSERT INTO softwalltime.daily_hook (
    day, requests, timeouts, most_timeouts, answer_p50, answer_p95, answer_p99, answer_most, exchange_p50,
    exchange_p95, exchange_p99, exchange_most
)
SELECT
    :day, requests, timeouts, most_timeouts, answer[1], answer[2], answer[3], answer_most, exchange[1], exchange[2],
    exchange[3], exchange_most
FROM (
    SELECT
        count(*) AS requests,
        least(sum(timeouts - CASE WHEN timeouts > before THEN before ELSE 0 END), 2147483647) AS timeouts,
        max(timeouts) AS most_timeouts,
        percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY took) AS answer,
        max(took) AS answer_most,
        percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY exchange_before) AS exchange,
        max(exchange_before) AS exchange_most
    FROM (
        SELECT took, exchange_before, timeouts, lag(timeouts, 1, 0) OVER (ORDER BY id) AS before
        FROM softwalltime.predictions
        WHERE predicted_at >= :from AND predicted_at < :to
    ) AS asked
) AS figures
WHERE requests > 0;

-- name: delete_job_figures
-- Delete the figures of the jobs that ended on the days from :first to before :next; return the number of rows.
WITH scores AS (DELETE FROM softwalltime.daily_scores WHERE day >= :first AND day < :next RETURNING day),
queues AS (DELETE FROM softwalltime.daily_queues WHERE day >= :first AND day < :next RETURNING day),
medians AS (DELETE FROM softwalltime.daily_medians WHERE day >= :first AND day < :next RETURNING day),
lengths AS (DELETE FROM softwalltime.daily_lengths WHERE day >= :first AND day < :next RETURNING day),
waits AS (DELETE FROM softwalltime.daily_waits WHERE day >= :first AND day < :next RETURNING day),
ordered AS (DELETE FROM softwalltime.daily_ordering WHERE day >= :first AND day < :next RETURNING day)
SELECT count(*) FROM (
    TABLE scores UNION ALL TABLE queues UNION ALL TABLE medians UNION ALL TABLE lengths UNION ALL TABLE waits
    UNION ALL TABLE ordered
) AS deleted;

-- name: delete_prediction_figures
-- Delete the figures of the predictions made on the days from :first to before :next; return the number of rows.
WITH decisions AS (DELETE FROM softwalltime.daily_decisions WHERE day >= :first AND day < :next RETURNING day),
hook AS (DELETE FROM softwalltime.daily_hook WHERE day >= :first AND day < :next RETURNING day)
SELECT count(*) FROM (TABLE decisions UNION ALL TABLE hook) AS deleted;

-- name: delete_month
-- Delete the figures of one month before they are computed again.
DELETE FROM softwalltime.monthly_scores WHERE month = :month;

-- name: scores_of_month
-- Add up the days of one month, always in the same order, on which sums of floating point numbers depend.
INSERT INTO softwalltime.monthly_scores (
    month, mode, predictor, queue, project, user_name, jobs, adjusted, underestimated, badly_underestimated, over,
    killed, accuracy, absolute_error, request_error, runtime, walltime, share, extensions, longest_walltime,
    most_extensions
)
SELECT
    :month, mode, predictor, queue, project, user_name, sum(jobs), sum(adjusted), sum(underestimated),
    sum(badly_underestimated), sum(over), sum(killed), sum(accuracy), sum(absolute_error), sum(request_error),
    sum(runtime), sum(walltime), sum(share), sum(extensions), max(longest_walltime), max(most_extensions)
FROM (
    SELECT * FROM softwalltime.daily_scores
    WHERE day >= :month AND day < :next_month
    ORDER BY mode, predictor, queue, project, user_name, day
) AS ordered
GROUP BY mode, predictor, queue, project, user_name;

-- name: recent_quality
-- Return each predictor's figures over the last seven days.
SELECT mode, predictor, jobs, accuracy, underestimated, badly_underestimated, request_accuracy
FROM softwalltime.drift
WHERE jobs > 0
ORDER BY mode, predictor;

-- name: recent_waits
-- Return the waits by size of the last seven days and of the eight weeks before.  The widest size is the largest one with
-- 20 jobs or more in both.
WITH sizes AS (
    SELECT
        day.processors,
        coalesce(sum(jobs) FILTER (WHERE day.day > today.day - 7), 0)::bigint AS jobs,
        coalesce(sum(wait) FILTER (WHERE day.day > today.day - 7), 0) AS wait,
        coalesce(sum(jobs) FILTER (WHERE day.day <= today.day - 7), 0)::bigint AS jobs_before,
        coalesce(sum(wait) FILTER (WHERE day.day <= today.day - 7), 0) AS wait_before
    FROM softwalltime.daily_waits AS day
    CROSS JOIN (SELECT (now() AT TIME ZONE 'UTC')::date AS day) AS today
    WHERE day.day <= today.day AND day.day > today.day - 63
    GROUP BY day.processors
)
SELECT
    CASE processors
        WHEN 0 THEN 'not known' WHEN 1 THEN '1' WHEN 2 THEN '2 to 8' WHEN 9 THEN '9 to 64' ELSE '65 or more'
    END AS processors,
    processors = max(processors) FILTER (WHERE jobs >= 20 AND jobs_before >= 20) OVER () IS TRUE AS widest,
    jobs, wait / greatest(jobs, 1), jobs_before, wait_before / greatest(jobs_before, 1)
FROM sizes
ORDER BY sizes.processors;
