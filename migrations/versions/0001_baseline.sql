-- The schema of the first release.  Comments are in sql/comments.sql.
--
-- Times and durations have 8 bytes: a log may contain any number of seconds.  The widest columns come first, so that alignment
-- wastes no bytes.  Texts are compared byte by byte: the same order on every host, and several times faster to index than a
-- locale's order.
CREATE TYPE softwalltime.job_state AS ENUM (
    'finished', 'failed', 'walltime exceeded', 'limit exceeded', 'deleted', 'rerun', 'node failure', 'not started',
    'unknown'
);
CREATE TYPE softwalltime.decision_reason AS ENUM (
    'predicted', 'not_below_walltime', 'no_walltime', 'shrink_to_fit', 'no_completed_jobs',
    'no_completed_jobs_with_walltime', 'too_few_jobs', 'history_loading', 'policy_off', 'policy_keep',
    'policy_walltime', 'baseline', 'other', 'exclusive', 'guard'
);
CREATE TYPE softwalltime.promise_outcome AS ENUM ('open', 'kept', 'late', 'withdrawn');
CREATE TABLE softwalltime.completed_jobs (
    id bigint GENERATED ALWAYS AS IDENTITY, ctime bigint NOT NULL, qtime bigint, etime bigint, start_time bigint,
    end_time bigint NOT NULL, walltime bigint, soft_walltime bigint, min_walltime bigint, max_walltime bigint,
    runtime bigint NOT NULL, mem bigint, cput bigint, mem_used bigint, ncpus integer, nodect integer, ngpus integer,
    exit_status integer, run_count integer, state softwalltime.job_state NOT NULL, interactive boolean,
    server text COLLATE "C" NOT NULL, job_id text COLLATE "C" NOT NULL,
    user_name text COLLATE "C" DEFAULT '' NOT NULL, group_name text COLLATE "C" DEFAULT '' NOT NULL,
    project text COLLATE "C" DEFAULT '' NOT NULL, account text COLLATE "C" DEFAULT '' NOT NULL,
    job_name text COLLATE "C" DEFAULT '' NOT NULL, queue text COLLATE "C" DEFAULT '' NOT NULL,
    select_spec text COLLATE "C" DEFAULT '' NOT NULL, place text COLLATE "C" DEFAULT '' NOT NULL,
    PRIMARY KEY (end_time, id)
);
-- Measured with 5,000,000 jobs of 600 users (a third of them one user's, 46,000 a month) on PostgreSQL 18, 2 cores; bytes are
-- per job, of 675 with the table's own 305.  COPY into an empty store with the primary key (32 bytes, for windows of time), the
-- natural key and the indexes by user and by project: 155,000 jobs/s, with none 400,000, into 5,000,000 jobs 130,000.
--
-- A goal of 350 bytes was not reached.  Of 484 bytes after a reindex (1,000,000 jobs of 1,000 users) names as numbers would
-- save 59, indexes without included columns 65, and a BRIN index in place of the primary key 32, which knows no last jobs.
--
-- New jobs after the last id that a daemon has learned; cheap for ingest because it is only appended to.
CREATE UNIQUE INDEX completed_jobs_by_id ON softwalltime.completed_jobs (id);
-- Percentiles by project, 67 bytes: 30 ms over the 130,000 jobs a month of a project of all users, mostly for sorting; 60 ms
-- without the included columns, for 18 bytes less.
CREATE INDEX completed_jobs_by_project ON softwalltime.completed_jobs (project, end_time)
    INCLUDE (runtime, walltime, state) WHERE runtime > 0 AND walltime > 0;
-- The user's last jobs, and percentiles with any keys that hold the user, 167 bytes.  Ascending although it is read backwards:
-- new jobs are then inserted at each user's right edge, which keeps pages full.  The included columns allow index-only scans:
-- the heaviest user's percentile takes 4.6 ms (0.3 ms for a typical user), 16 ms without the project (50 bytes less), 27 ms with
-- none included.  An index (user_name, project, walltime, end_time) would answer the triple key in 0.9 ms, for 126 bytes more, a
-- fifth of the ingestion's speed, and that key alone.
CREATE INDEX completed_jobs_by_user ON softwalltime.completed_jobs (user_name, end_time, id)
    INCLUDE (runtime, walltime, state, project) WHERE runtime > 0;
-- 86 bytes.  A job that never started has no start, and two nulls would be two different jobs; NULLS NOT DISTINCT needs
-- PostgreSQL 15, and the expression has no measurable cost.  The id comes first, because it is nearly unique.
CREATE UNIQUE INDEX completed_jobs_natural_key ON softwalltime.completed_jobs
    (job_id, server, coalesce(start_time, '-1'::bigint));
CREATE TABLE softwalltime.current_jobs (
    ctime bigint NOT NULL, qtime bigint, etime bigint, start_time bigint, walltime bigint, soft_walltime bigint,
    min_walltime bigint, max_walltime bigint, mem bigint, ncpus integer, nodect integer, ngpus integer,
    interactive boolean, is_array boolean NOT NULL, server text COLLATE "C" NOT NULL,
    job_id text COLLATE "C" NOT NULL, user_name text COLLATE "C" DEFAULT '' NOT NULL,
    group_name text COLLATE "C" DEFAULT '' NOT NULL, project text COLLATE "C" DEFAULT '' NOT NULL,
    account text COLLATE "C" DEFAULT '' NOT NULL, queue text COLLATE "C" DEFAULT '' NOT NULL,
    job_name text COLLATE "C" DEFAULT '' NOT NULL, select_spec text COLLATE "C" DEFAULT '' NOT NULL,
    place text COLLATE "C" DEFAULT '' NOT NULL, recorded_at bigint, PRIMARY KEY (job_id, server)
);
CREATE TABLE softwalltime.daily_decisions (
    day date NOT NULL, requests integer NOT NULL, event text COLLATE "C" NOT NULL, mode text COLLATE "C" NOT NULL,
    predictor text COLLATE "C" NOT NULL, action text COLLATE "C" NOT NULL,
    reason softwalltime.decision_reason NOT NULL, PRIMARY KEY (day, event, mode, predictor, action, reason)
);
CREATE TABLE softwalltime.daily_hook (
    day date NOT NULL, requests integer NOT NULL, timeouts integer NOT NULL, most_timeouts integer NOT NULL,
    answer_p50 integer, answer_p95 integer, answer_p99 integer, answer_most integer, exchange_p50 integer,
    exchange_p95 integer, exchange_p99 integer, exchange_most integer, PRIMARY KEY (day)
);
CREATE TABLE softwalltime.daily_lengths (
    day date NOT NULL, walltime integer NOT NULL, planned integer NOT NULL, runtime integer NOT NULL,
    jobs integer NOT NULL, queue text COLLATE "C" NOT NULL, PRIMARY KEY (day, queue, walltime, planned, runtime)
);
CREATE TABLE softwalltime.daily_medians (
    accuracy double precision NOT NULL, day date NOT NULL, mode text COLLATE "C" NOT NULL,
    predictor text COLLATE "C" NOT NULL, PRIMARY KEY (day, mode, predictor)
);
CREATE TABLE softwalltime.daily_ordering (
    accuracy double precision NOT NULL, ordering double precision NOT NULL, runtime double precision NOT NULL,
    walltime double precision NOT NULL, share double precision NOT NULL, day date NOT NULL, jobs integer NOT NULL,
    underestimated integer NOT NULL, mode text COLLATE "C" NOT NULL, PRIMARY KEY (day, mode)
);
CREATE TABLE softwalltime.daily_scores (
    accuracy double precision NOT NULL, absolute_error double precision NOT NULL,
    request_error double precision NOT NULL, runtime double precision NOT NULL, walltime double precision NOT NULL,
    share double precision NOT NULL, extensions double precision NOT NULL, longest_walltime bigint NOT NULL,
    most_extensions bigint NOT NULL, jobs integer NOT NULL, adjusted integer NOT NULL,
    underestimated integer NOT NULL, badly_underestimated integer NOT NULL, "over" integer NOT NULL,
    killed integer NOT NULL, day date NOT NULL, mode text COLLATE "C" NOT NULL, predictor text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL, project text COLLATE "C" NOT NULL, user_name text COLLATE "C" NOT NULL,
    PRIMARY KEY (day, mode, predictor, queue, project, user_name)
);
CREATE TABLE softwalltime.daily_waits (
    wait double precision NOT NULL, slowdown double precision NOT NULL, slowdown_log double precision NOT NULL,
    day date NOT NULL, processors integer NOT NULL, walltime integer NOT NULL, jobs integer NOT NULL,
    after boolean NOT NULL, PRIMARY KEY (day, after, processors, walltime)
);
CREATE TABLE softwalltime.expected_runtimes (
    forecast_at bigint NOT NULL, shortest bigint NOT NULL, median bigint NOT NULL, longest bigint NOT NULL,
    suggested bigint, sooner bigint, server text COLLATE "C" NOT NULL, job_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (job_id, server)
);
CREATE TABLE softwalltime.expected_starts (
    forecast_at bigint NOT NULL, ctime bigint NOT NULL, expected bigint, low90 bigint, low50 bigint, high50 bigint,
    high90 bigint, pbs_estimate bigint, walltime bigint, ncpus integer, server text COLLATE "C" NOT NULL,
    job_id text COLLATE "C" NOT NULL, user_name text COLLATE "C" DEFAULT '' NOT NULL,
    group_name text COLLATE "C" DEFAULT '' NOT NULL, project text COLLATE "C" DEFAULT '' NOT NULL,
    queue text COLLATE "C" DEFAULT '' NOT NULL, waits_for text COLLATE "C" DEFAULT '' NOT NULL,
    raw double precision[], PRIMARY KEY (job_id, server)
);
CREATE TABLE softwalltime.interrupted_runs (
    start_time bigint NOT NULL, end_time bigint NOT NULL, walltime bigint, soft_walltime bigint,
    runtime bigint NOT NULL, exit_status integer, run_count integer, state softwalltime.job_state NOT NULL,
    server text COLLATE "C" NOT NULL, job_id text COLLATE "C" NOT NULL,
    user_name text COLLATE "C" DEFAULT '' NOT NULL, project text COLLATE "C" DEFAULT '' NOT NULL,
    queue text COLLATE "C" DEFAULT '' NOT NULL, PRIMARY KEY (job_id, server, start_time)
);
CREATE TABLE softwalltime.job_scripts (
    ctime bigint NOT NULL, job_id text COLLATE "C" NOT NULL, script text COLLATE "C" NOT NULL,
    PRIMARY KEY (ctime, job_id)
);
CREATE TABLE softwalltime.latest_starts (
    set_at bigint NOT NULL, latest_start bigint NOT NULL, server text COLLATE "C" NOT NULL,
    job_id text COLLATE "C" NOT NULL, terms text COLLATE "C" DEFAULT '' NOT NULL, PRIMARY KEY (job_id, server)
);
CREATE TABLE softwalltime.live_states (
    id bigint GENERATED ALWAYS AS IDENTITY, changed_at bigint NOT NULL,
    server text COLLATE "C" NOT NULL, late_job text COLLATE "C" DEFAULT '' NOT NULL, PRIMARY KEY (id)
);
CREATE TABLE softwalltime.log_positions (
    server text COLLATE "C" NOT NULL, path text COLLATE "C" NOT NULL, byte_offset bigint NOT NULL,
    line_number bigint NOT NULL, head_length integer NOT NULL, head_digest bytea NOT NULL,
    tail_length integer NOT NULL, tail_digest bytea NOT NULL, updated_at timestamptz DEFAULT now() NOT NULL,
    PRIMARY KEY (server, path)
);
CREATE TABLE softwalltime.malformed_dropped (
    server text COLLATE "C" NOT NULL, lines bigint NOT NULL, PRIMARY KEY (server)
);
CREATE TABLE softwalltime.malformed_lines (
    id bigint GENERATED ALWAYS AS IDENTITY, line_number bigint NOT NULL, byte_offset bigint NOT NULL,
    seen_at timestamptz DEFAULT now() NOT NULL, server text COLLATE "C" NOT NULL, path text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL, field text COLLATE "C" DEFAULT '' NOT NULL, line bytea NOT NULL,
    PRIMARY KEY (id)
);
-- The line is part of the key, because another file may replace the file at the same path.
CREATE UNIQUE INDEX malformed_lines_natural_key ON softwalltime.malformed_lines (server, path, byte_offset, md5(line));
CREATE TABLE softwalltime.monitoring (
    id smallint NOT NULL, jobs_id bigint NOT NULL, predictions_id bigint NOT NULL, first_set bigint,
    refreshed_at timestamptz, PRIMARY KEY (id)
);
CREATE TABLE softwalltime.monthly_scores (
    accuracy double precision NOT NULL, absolute_error double precision NOT NULL,
    request_error double precision NOT NULL, runtime double precision NOT NULL, walltime double precision NOT NULL,
    share double precision NOT NULL, extensions double precision NOT NULL, longest_walltime bigint NOT NULL,
    most_extensions bigint NOT NULL, jobs integer NOT NULL, adjusted integer NOT NULL,
    underestimated integer NOT NULL, badly_underestimated integer NOT NULL, "over" integer NOT NULL,
    killed integer NOT NULL, month date NOT NULL, mode text COLLATE "C" NOT NULL, predictor text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL, project text COLLATE "C" NOT NULL, user_name text COLLATE "C" NOT NULL,
    PRIMARY KEY (month, mode, predictor, queue, project, user_name)
);
CREATE TABLE softwalltime.predictions (
    id bigint GENERATED ALWAYS AS IDENTITY, predicted_at bigint NOT NULL, walltime bigint, soft_walltime bigint,
    predicted double precision, took integer, timeouts integer DEFAULT '0' NOT NULL, exchange_before integer,
    event text COLLATE "C" DEFAULT '' NOT NULL, job_id text COLLATE "C" DEFAULT '' NOT NULL,
    user_name text COLLATE "C" DEFAULT '' NOT NULL, project text COLLATE "C" DEFAULT '' NOT NULL,
    queue text COLLATE "C" DEFAULT '' NOT NULL, mode text COLLATE "C" DEFAULT '' NOT NULL,
    predictor text COLLATE "C" DEFAULT '' NOT NULL, action text COLLATE "C" DEFAULT '' NOT NULL,
    basis text COLLATE "C" DEFAULT '' NOT NULL, reason softwalltime.decision_reason NOT NULL,
    had bigint, ordering bigint, PRIMARY KEY (id)
);
CREATE INDEX predictions_by_job ON softwalltime.predictions (job_id);
CREATE INDEX predictions_by_time ON softwalltime.predictions (predicted_at);
CREATE TABLE softwalltime.probe_starts (
    forecast_at bigint NOT NULL, expected bigint NOT NULL, low90 bigint, high90 bigint, walltime bigint NOT NULL,
    ncpus integer NOT NULL, server text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL, submit_to text [] COLLATE "C" NOT NULL,
    PRIMARY KEY (server, queue, ncpus, walltime)
);
CREATE TABLE softwalltime.promises (
    promised_at bigint NOT NULL, first_start bigint NOT NULL, last_start bigint NOT NULL, start_time bigint,
    ncpus integer, outcome softwalltime.promise_outcome NOT NULL, server text COLLATE "C" NOT NULL,
    job_id text COLLATE "C" NOT NULL, queue text COLLATE "C" DEFAULT '' NOT NULL,
    PRIMARY KEY (job_id, server, promised_at)
);
CREATE INDEX promises_by_time ON softwalltime.promises (promised_at);
CREATE INDEX promises_open ON softwalltime.promises (job_id) WHERE outcome = 'open';
CREATE TABLE softwalltime.queue_changes (
    id bigint GENERATED ALWAYS AS IDENTITY, server text COLLATE "C" NOT NULL, job_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE softwalltime.stale_days (
    day date NOT NULL, PRIMARY KEY (day)
);
CREATE TABLE softwalltime.start_times (
    forecast_at bigint NOT NULL, ctime bigint NOT NULL, started bigint, expected bigint NOT NULL,
    low90 bigint NOT NULL, low50 bigint NOT NULL, high50 bigint NOT NULL, high90 bigint NOT NULL, pbs_estimate bigint,
    is_first boolean NOT NULL, server text COLLATE "C" NOT NULL, job_id text COLLATE "C" NOT NULL,
    queue text COLLATE "C" DEFAULT '' NOT NULL, raw double precision[], PRIMARY KEY (job_id, server, forecast_at)
);
CREATE INDEX start_times_by_time ON softwalltime.start_times (forecast_at);
CREATE INDEX start_times_open ON softwalltime.start_times (job_id) WHERE started IS NULL;
CREATE TABLE softwalltime.teaching_states (
    state softwalltime.job_state NOT NULL, PRIMARY KEY (state)
);
INSERT INTO softwalltime.teaching_states VALUES
    ('finished'), ('failed'), ('walltime exceeded'), ('limit exceeded'), ('deleted'), ('node failure'), ('unknown');
INSERT INTO softwalltime.monitoring (id, jobs_id, predictions_id) VALUES (1, 0, 0);
CREATE TABLE softwalltime.write_lock ();
-- It runs as the owner of the tables: writers need no privilege on the log of changes.
CREATE FUNCTION softwalltime.note_queue_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    changed softwalltime.current_jobs := coalesce(NEW, OLD);
    number bigint;
BEGIN
    IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN
        RETURN NULL;
    END IF;
    INSERT INTO softwalltime.queue_changes (server, job_id) VALUES (changed.server, changed.job_id)
    RETURNING id INTO number;
    DELETE FROM softwalltime.queue_changes WHERE id <= number - 100000;
    RETURN NULL;
END
$$;
CREATE TRIGGER note_queue_change AFTER INSERT OR UPDATE OR DELETE ON softwalltime.current_jobs
FOR EACH ROW EXECUTE FUNCTION softwalltime.note_queue_change();
