-- Plain SQL that anybody with rights on the model tables can call: no PL/Python, no private row.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

-- How many base-64 digits the cells of a declared feature have.
CREATE OR REPLACE FUNCTION dpsql.digits(declared JSONB) RETURNS INT
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
SELECT CASE
    WHEN declared ->> 'type' <> 'categorical' OR jsonb_array_length(declared -> 'values') < 64 THEN 1
    WHEN jsonb_array_length(declared -> 'values') < 4096 THEN 2
    ELSE 3 END
$function$;

-- The cell of a value, given as text, on a declared feature's grid. Total: no text makes it fail.
CREATE OR REPLACE FUNCTION dpsql.cell(declared JSONB, given TEXT) RETURNS INT
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
SELECT CAST(CASE
    WHEN declared ->> 'type' = 'numeric' THEN (
        SELECT CASE
            WHEN number IS NULL THEN 0
            ELSE least(floor((bounded - lower) * (cells / (upper - lower))), cells - 1) END
        FROM (
            SELECT
                number,
                CAST(declared ->> 'lower' AS DOUBLE PRECISION) AS lower,
                CAST(declared ->> 'upper' AS DOUBLE PRECISION) AS upper,
                CAST(coalesce(declared ->> 'cells', '64') AS DOUBLE PRECISION) AS cells,
                CAST(CASE WHEN near BETWEEN -1e-300 AND 1e-300 THEN 0 ELSE near END AS DOUBLE PRECISION) AS bounded
            FROM (
                SELECT number, greatest(
                    least(number, CAST(declared ->> 'upper' AS NUMERIC)), CAST(declared ->> 'lower' AS NUMERIC)) AS near
                FROM (SELECT CASE
                    WHEN text IN ('Infinity', '-Infinity', 'inf', '-inf') THEN CAST(text AS NUMERIC)
                    WHEN text IN ('true', 'false') THEN CAST(text = 'true' AS INT)
                    WHEN text ~ '^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,4})?$' THEN CAST(text AS NUMERIC)
                    ELSE CAST(declared ->> 'null' AS NUMERIC) END AS number
                    FROM (SELECT coalesce(given, declared ->> 'null') AS text) AS read) AS parsed
            ) AS clamped
        ) AS placed)
    ELSE (
        SELECT coalesce(
            (SELECT one.ordinality - 1 FROM jsonb_array_elements_text(listed) WITH ORDINALITY AS one(value, ordinality)
             WHERE one.value = coalesce(given, declared ->> 'null') COLLATE "C"),
            (SELECT one.ordinality - 1 FROM jsonb_array_elements_text(listed) WITH ORDINALITY AS one(value, ordinality)
             WHERE given IS NOT NULL AND one.value = (declared ->> 'unknown') COLLATE "C"),
            jsonb_array_length(listed))
        FROM (SELECT coalesce(declared -> 'values', '["false", "true"]') AS listed) AS offered)
    END AS INT)
$function$;

-- SELECT dpsql.predict('adult_1', to_jsonb(new_rows)) FROM new_rows: the label of each row; of a numeric target its number.
-- A row is a JSON object by column name. For whole tables the SELECT of `dpsql sql` is faster.
CREATE OR REPLACE FUNCTION dpsql.predict(model TEXT, new_row JSONB) RETURNS TEXT
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
WITH RECURSIVE
chosen AS (
    SELECT model_id, CAST(schema AS JSONB) AS declared FROM dpsql.model WHERE name = $1
),
features AS (
    SELECT
        feature.ordinality AS place,
        feature.value AS declared,
        (SELECT one.value FROM jsonb_each_text($2) AS one
         WHERE lower(one.key) = lower(feature.key)
         ORDER BY one.key <> feature.key LIMIT 1) AS given
    FROM chosen, LATERAL (
        SELECT pair.key, pair.value, pair.ordinality
        FROM json_each((SELECT CAST(model.schema AS JSON) -> 'features' FROM dpsql.model AS model WHERE model.name = $1))
            WITH ORDINALITY AS pair(key, value, ordinality)
    ) AS feature
),
cells AS (
    SELECT place, dpsql.cell(CAST(declared AS JSONB), given) AS cell, dpsql.digits(CAST(declared AS JSONB)) AS digits
    FROM features
),
axes AS (
    SELECT row_number() OVER (ORDER BY cells.place, digit) - 1 AS axis, (cells.cell >> CAST(6 * digit AS INT)) & 63 AS cell
    FROM cells, LATERAL generate_series(0, cells.digits - 1) AS digit
),
walk(level, node, done) AS (
    SELECT 0, node, false FROM dpsql.model_node JOIN chosen USING (model_id) WHERE level = 0
    UNION ALL
    SELECT
        walk.level + 1,
        split.child + CASE WHEN split.axis < 0 THEN 0 ELSE CAST(
            ((split.plane_0 >> axes.cell) & 1) + 2 * ((split.plane_1 >> axes.cell) & 1)
            + 4 * ((split.plane_2 >> axes.cell) & 1) + 8 * ((split.plane_3 >> axes.cell) & 1)
            + 16 * ((split.plane_4 >> axes.cell) & 1) + 32 * ((split.plane_5 >> axes.cell) & 1) AS INT) END,
        false
    FROM walk
    JOIN chosen ON true
    JOIN dpsql.model_node AS split
        ON split.model_id = chosen.model_id AND split.level = walk.level AND split.node = walk.node
    LEFT JOIN axes ON axes.axis = split.axis
),
ends AS (
    SELECT node FROM walk WHERE level = (SELECT max(level) FROM walk)
    UNION ALL
    SELECT leaf FROM (
        SELECT DISTINCT leaf FROM dpsql.model_leaf JOIN chosen USING (model_id)
    ) AS bare WHERE NOT EXISTS (SELECT 1 FROM walk)
),
scores AS (
    SELECT vote.class, sum(vote.weight) AS score
    FROM ends JOIN chosen ON true
    JOIN dpsql.model_leaf AS vote ON vote.model_id = chosen.model_id AND vote.leaf = ends.node
    GROUP BY vote.class
)
SELECT CASE
    WHEN chosen.declared -> 'target' IS NOT NULL AND chosen.declared ->> 'target' IS NOT NULL THEN (
        SELECT CAST(least(greatest(lower + (upper - lower) * (
            CAST(coalesce(sum(score) FILTER (WHERE class = 1), 0) AS DOUBLE PRECISION)
            / CAST(greatest(coalesce(sum(score), 0), 1) AS DOUBLE PRECISION)), lower), upper) AS TEXT)
        FROM scores, LATERAL (SELECT
            CAST(chosen.declared -> 'target' ->> 'lower' AS DOUBLE PRECISION) AS lower,
            CAST(chosen.declared -> 'target' ->> 'upper' AS DOUBLE PRECISION) AS upper) AS bounds
        GROUP BY lower, upper)
    ELSE chosen.declared -> 'classes' ->> CAST((
        SELECT named.class FROM (
            SELECT number.class, coalesce(scores.score, 0) AS score
            FROM generate_series(0, jsonb_array_length(chosen.declared -> 'classes') - 1) AS number(class)
            LEFT JOIN scores USING (class)
        ) AS named ORDER BY named.score DESC, named.class LIMIT 1) AS INT)
    END
FROM chosen
$function$;
