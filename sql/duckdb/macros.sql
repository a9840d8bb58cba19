-- What a connection prepared with dpsql.attach(con) can call. Temporary: they vanish with the connection.
-- The functions dpsql_*_call are Python functions that attach registers beside these macros.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.
-- What begins with a colon below is filled in by dpsql/api/duckdb_sql.py: as parameters every argument of a training run and
-- every parameter of any method, each with its default; as values a MAP from the name of each to what was given, as text.

-- FROM dpsql_train('adult', epsilon := 1.0): train under a charged budget, one row about the new model. The same call on the same
-- connection returns that model and charges nothing, unless it says again := true. So it is with all that is charged below.
CREATE OR REPLACE TEMP MACRO dpsql_train(:train_parameters, options := NULL) AS TABLE
SELECT unnest(dpsql_train_call(:train_values, CAST(options AS MAP(VARCHAR, VARCHAR))), recursive := true);

-- FROM dpsql_advise('adult', epsilon := 1): what a run would do and bring, now and what if; free unless a size is bought
-- (buy := 0.01).
CREATE OR REPLACE TEMP MACRO dpsql_advise(
    table_name, epsilon := 1, "rows" := NULL, buy := NULL, majority := NULL, request_id := NULL, again := false
) AS TABLE
SELECT unnest(dpsql_advise_call(
    CAST(table_name AS VARCHAR), CAST(epsilon AS VARCHAR), CAST("rows" AS VARCHAR), CAST(buy AS VARCHAR),
    CAST(majority AS VARCHAR), CAST(request_id AS VARCHAR), CAST(again AS VARCHAR)
), recursive := true);

-- FROM dpsql_plan('adult', epsilon := 1.0): the steps that training would take and what each costs. Touches nothing.
CREATE OR REPLACE TEMP MACRO dpsql_plan(:plan_parameters, options := NULL) AS TABLE
SELECT unnest(dpsql_plan_call(:plan_values, CAST(options AS MAP(VARCHAR, VARCHAR))), recursive := true);

-- SELECT dpsql_predict('adult_1', new_rows) FROM new_rows: the label of each row. For whole tables, dpsql_score is faster.
-- The text of the statement shows whether the rows are those of a registered private table: they are refused.
CREATE OR REPLACE TEMP MACRO dpsql_predict(model, new_row) AS
    dpsql_predict_call(CAST(model AS VARCHAR), CAST(new_row AS MAP(VARCHAR, VARCHAR)), current_query());

-- SELECT dpsql_predict_proba('adult_1', new_rows)['>50K'] FROM new_rows: the probability of each class, as a MAP.
CREATE OR REPLACE TEMP MACRO dpsql_predict_proba(model, new_row) AS
    dpsql_proba_call(CAST(model AS VARCHAR), CAST(new_row AS MAP(VARCHAR, VARCHAR)), current_query());

-- FROM dpsql_score('adult_1', 'new_rows'): all columns of a table and the label, as one plain SQL query.
-- With probabilities := true the probability of each class too, as p_<class>.
CREATE OR REPLACE TEMP MACRO dpsql_score(model, table_name, probabilities := false) AS TABLE
FROM query(dpsql_score_call(
    CAST(model AS VARCHAR), CAST(table_name AS VARCHAR), CAST(CAST(probabilities AS BOOLEAN) AS VARCHAR)
));

-- SELECT dpsql_score_sql('adult_1', 'new_rows'): that query itself, as text. It needs the model's tables and no dpsql.
CREATE OR REPLACE TEMP MACRO dpsql_score_sql(model, table_name, probabilities := false) AS
    dpsql_score_call(
        CAST(model AS VARCHAR), CAST(table_name AS VARCHAR), CAST(CAST(probabilities AS BOOLEAN) AS VARCHAR)
    );

-- FROM dpsql_evaluate('adult_1', 'adult_test'): one row per figure. On a private registered table epsilon is charged, and
-- low and high hold the figure 95 times in 100.
CREATE OR REPLACE TEMP MACRO dpsql_evaluate(
    model, table_name, epsilon := NULL, request_id := NULL, again := false
) AS TABLE
SELECT unnest(dpsql_evaluate_call(
    CAST(model AS VARCHAR), CAST(table_name AS VARCHAR), CAST(epsilon AS VARCHAR), CAST(request_id AS VARCHAR),
    CAST(again AS VARCHAR)
), recursive := true);

-- FROM dpsql_compare(['adult_1', 'adult_2'], 'adult_test'): one row per model and figure, all on the same rows. On a private
-- registered table epsilon is charged for all models together, shared evenly.
CREATE OR REPLACE TEMP MACRO dpsql_compare(
    models, table_name, epsilon := NULL, request_id := NULL, again := false
) AS TABLE
SELECT unnest(dpsql_compare_call(
    CAST(models AS VARCHAR[]), CAST(table_name AS VARCHAR), CAST(epsilon AS VARCHAR), CAST(request_id AS VARCHAR),
    CAST(again AS VARCHAR)
), recursive := true);

-- FROM dpsql_explain('adult_1'): how much predictions depend on each feature (all sum to 1), from released values. Free.
CREATE OR REPLACE TEMP MACRO dpsql_explain(model) AS TABLE
SELECT unnest(dpsql_explain_call(CAST(model AS VARCHAR)), recursive := true);

-- FROM dpsql_budget('adult'): what the cap is, what is spent, what is left; of kind 'approximate' in rho.
CREATE OR REPLACE TEMP MACRO dpsql_budget(for_table) AS TABLE
SELECT
    table_name,
    kind,
    CAST(cap AS DECIMAL(19, 0)) * CAST(0.000000001 AS DECIMAL(10, 9)) AS cap,
    CAST(spent AS DECIMAL(19, 0)) * CAST(0.000000001 AS DECIMAL(10, 9)) AS spent,
    CAST(greatest(cap - spent, 0) AS DECIMAL(19, 0)) * CAST(0.000000001 AS DECIMAL(10, 9)) AS "left"
FROM dpsql.budget
WHERE lower(table_name) = lower(CAST(for_table AS VARCHAR));

-- FROM dpsql_ledger(): one row per charge, and one per act of the owner. A cap is the dataset's, or that of the analyst named
-- beside it ('*': of all analysts without one).
CREATE OR REPLACE TEMP MACRO dpsql_ledger() AS TABLE
SELECT ledger.*, 'reserve' AS event, NULL AS cap, '' AS analyst FROM dpsql.ledger AS ledger
UNION ALL BY NAME
SELECT entry_id, recorded_at, who, dataset, table_name, kind, event, analyst, hash,
    CAST(cap AS DECIMAL(19, 0)) * CAST(0.000000001 AS DECIMAL(10, 9)) AS cap
FROM dpsql.entry WHERE event IN ('register', 'cap', 'limit', 'accept', 'anchor', 'upgrade')
ORDER BY entry_id;

-- FROM dpsql_models(): one row per model.
CREATE OR REPLACE TEMP MACRO dpsql_models() AS TABLE
SELECT name, method, table_name, trees, depth, leaves, epsilon, created_at, digest
FROM dpsql.model
ORDER BY model_id;
