-- What jobs execute, as the hook says it.

-- name: add_scripts
-- Store scripts of submissions, one array per column.
INSERT INTO softwalltime.job_scripts AS known (ctime, job_id, script)
SELECT * FROM unnest(CAST(:ctime AS bigint[]), CAST(:job_id AS text[]), CAST(:script AS text[]))
ON CONFLICT (ctime, job_id) DO UPDATE SET script = excluded.script
WHERE excluded.script <> known.script;

-- name: delete_old_scripts
-- Delete up to :batch scripts of jobs submitted before :before that do not wait any more.
DELETE FROM softwalltime.job_scripts
WHERE ctid = ANY (ARRAY(
    SELECT mine.ctid FROM softwalltime.job_scripts AS mine
    WHERE mine.ctime < :before
        AND NOT EXISTS (SELECT FROM softwalltime.current_jobs AS job WHERE job.job_id = mine.job_id)
    LIMIT :batch
));
