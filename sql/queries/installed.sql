-- Functions and views that the database has, to compare with sql/functions and sql/views.

-- name: installed_functions
-- Return the functions with these names: signature and definition.
SELECT
    function.proname || '(' || pg_get_function_identity_arguments(function.oid) || ')' AS signature,
    (
        function.prosrc, function.prolang, function.prorettype, function.provolatile, function.proparallel,
        pg_get_function_arguments(function.oid), obj_description(function.oid, 'pg_proc')
    )::text AS definition
FROM pg_proc AS function
WHERE function.pronamespace = to_regnamespace(:schema) AND function.proname = ANY (:names);

-- name: outdated_functions
-- Return the functions with these names and other signatures than these.
SELECT function.oid::regprocedure::text
FROM pg_proc AS function
WHERE function.pronamespace = to_regnamespace(:schema) AND function.proname = ANY (:names)
    AND function.oid <> ALL (SELECT kept::regprocedure::oid FROM unnest(CAST(:signatures AS text[])) AS kept);

-- name: installed_views
-- Return the views of the schema: name and definition.
SELECT
    relation.relname AS name,
    pg_get_viewdef(relation.oid) || coalesce(obj_description(relation.oid, 'pg_class'), '') || (
        SELECT string_agg(
            format('%s %s %s', attname, format_type(atttypid, atttypmod), col_description(attrelid, attnum)),
            ', ' ORDER BY attnum
        )
        FROM pg_attribute
        WHERE attrelid = relation.oid AND attnum > 0
    ) AS definition
FROM pg_class AS relation
WHERE relation.relnamespace = to_regnamespace(:schema) AND relation.relkind = 'v';

-- name: installed_comments
-- Return the comments of the tables of a schema and of their columns; column is null for the table's own.
SELECT relation.relname AS table, number.attname AS column, described.description AS comment
FROM pg_class AS relation
JOIN pg_description AS described ON described.objoid = relation.oid AND described.classoid = 'pg_class'::regclass
LEFT JOIN pg_attribute AS number ON number.attrelid = relation.oid AND number.attnum = described.objsubid
    AND described.objsubid > 0
WHERE relation.relnamespace = to_regnamespace(:schema) AND relation.relkind = 'r';

-- name: view_columns
-- Return the columns of the views of a schema and their comments; null: none.
SELECT relation.relname AS view, number.attname AS column, col_description(relation.oid, number.attnum) AS comment
FROM pg_class AS relation
JOIN pg_attribute AS number ON number.attrelid = relation.oid AND number.attnum > 0
WHERE relation.relnamespace = to_regnamespace(:schema) AND relation.relkind = 'v';
