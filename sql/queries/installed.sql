-- Tables, functions and views that the database has, to compare with those that it should have.

-- name: installed_functions
-- Return the functions with these names: signature and definition.
SELECT
    function.proname || '(' || pg_get_function_identity_arguments(function.oid) || ')' AS signature,
    (
        function.prosrc, function.prolang, format_type(function.prorettype, NULL), function.provolatile, function.proparallel,
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

-- name: installed_tables
-- Return what the tables of a schema are made of: kind, name and definition of each part, and the part to which it belongs.
WITH relation AS (
    SELECT oid, relname::text FROM pg_class
    WHERE relnamespace = to_regnamespace(:schema) AND relkind = 'r' AND relname <> 'alembic_version'
),
part AS (
    SELECT relation.relname, relation.relname || '.' || attribute.attname AS name, attribute.*
    FROM relation
    JOIN pg_attribute AS attribute
        ON attribute.attrelid = relation.oid AND attribute.attnum > 0 AND NOT attribute.attisdropped
)
SELECT 'table' AS kind, relname AS name, '' AS parent, '' AS definition FROM relation
UNION ALL
SELECT 'comment', relname, relname, obj_description(oid, 'pg_class') FROM relation
UNION ALL
SELECT 'column', name, relname, '' FROM part
UNION ALL
SELECT 'comment', name, name, col_description(attrelid, attnum) FROM part
UNION ALL
SELECT 'type', name, name, format_type(atttypid, atttypmod) || attcollation FROM part
UNION ALL
SELECT 'nullable', name, name, attnotnull::text FROM part
UNION ALL
SELECT 'default', name, name, attidentity::text || coalesce(pg_get_expr(adbin, adrelid), '')
FROM part
LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
UNION ALL
SELECT 'index', pg_class.relname, relation.relname, pg_get_indexdef(indexrelid)
FROM relation
JOIN pg_index ON indrelid = relation.oid
JOIN pg_class ON pg_class.oid = indexrelid
UNION ALL
SELECT 'trigger', tgname, relname, pg_get_triggerdef(pg_trigger.oid)
FROM relation
JOIN pg_trigger ON tgrelid = relation.oid AND NOT tgisinternal
UNION ALL
SELECT 'enumeration', typname, '', string_agg(enumlabel, ', ' ORDER BY enumsortorder)
FROM pg_type
JOIN pg_enum ON enumtypid = pg_type.oid
WHERE typnamespace = to_regnamespace(:schema)
GROUP BY typname;

-- name: large_indexes
-- Return the indexes of jobs and predictions: name, quoted with its schema, bytes, and whether it is valid; those that are
-- not come first.
SELECT relname, indexrelid::regclass::text, pg_relation_size(indexrelid), indisvalid
FROM pg_index
JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid IN ('softwalltime.completed_jobs'::regclass, 'softwalltime.predictions'::regclass)
ORDER BY indisvalid, indexrelid;

-- name: view_columns
-- Return the columns of the views of a schema and their comments; null: none.
SELECT relation.relname AS view, number.attname AS column, col_description(relation.oid, number.attnum) AS comment
FROM pg_class AS relation
JOIN pg_attribute AS number ON number.attrelid = relation.oid AND number.attnum > 0
WHERE relation.relnamespace = to_regnamespace(:schema) AND relation.relkind = 'v';
