-- What the hook and Q records say of submissions besides the accounting log's E records.

-- name: add_attributes
-- Store attributes of submissions, one array per column; an empty text leaves what is stored.
INSERT INTO softwalltime.submission_attributes AS known (ctime, job_id, script, submit_host, depend)
SELECT given.*
FROM unnest(
    CAST(:ctime AS bigint[]), CAST(:job_id AS text[]), CAST(:script AS text[]), CAST(:submit_host AS text[]),
    CAST(:depend AS text[])
) AS given(ctime, job_id, script, submit_host, depend)
ON CONFLICT (ctime, job_id) DO UPDATE
SET script = coalesce(nullif(excluded.script, ''), known.script),
    submit_host = coalesce(nullif(excluded.submit_host, ''), known.submit_host),
    depend = coalesce(nullif(excluded.depend, ''), known.depend)
WHERE (excluded.script, excluded.submit_host, excluded.depend) <> (known.script, known.submit_host, known.depend);

-- name: delete_old_attributes
-- Delete up to :batch attributes of jobs submitted before :before that do not wait any more.
DELETE FROM softwalltime.submission_attributes
WHERE ctid = ANY (ARRAY(
    SELECT mine.ctid FROM softwalltime.submission_attributes AS mine
    WHERE mine.ctime < :before
        AND NOT EXISTS (SELECT FROM softwalltime.current_jobs AS job WHERE job.job_id = mine.job_id)
    LIMIT :batch
));
