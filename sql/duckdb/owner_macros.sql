-- The owner's acts, on a connection prepared with dpsql.attach(con). CALL dpsql_register(...) and FROM dpsql_register(...) are the
-- same. Temporary, as those of macros.sql are.
-- What begins with a colon is filled in by dpsql/api/owner_sql.py: as parameters the arguments of an act, each with '(left out)'
-- as its default; as values a MAP from the name of each to what was given, as JSON.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

-- CALL dpsql_register('clients', label := 'y', cap := 3, buy := 0.1): one row about the dataset. schema := is a file, the text
-- of one, or a STRUCT. The same again, while it stands, returns the row and writes nothing.
CREATE OR REPLACE TEMP MACRO dpsql_register(:register_parameters) AS TABLE
SELECT unnest(dpsql_register_call(:register_values), recursive := true);

-- FROM dpsql_draft('clients', label := 'y'): a proposal for each column, from the catalog and what is named as public.
CREATE OR REPLACE TEMP MACRO dpsql_draft(:draft_parameters) AS TABLE
SELECT unnest(dpsql_draft_call(:draft_values), recursive := true);

-- FROM dpsql_draft_text('clients', label := 'y'): the same as the text of a schema file, with ??? where something is missing.
CREATE OR REPLACE TEMP MACRO dpsql_draft_text(:draft_text_parameters) AS TABLE
SELECT unnest(dpsql_draft_text_call(:draft_text_values), recursive := true);

-- CALL dpsql_set_cap('clients', 5, analyst := 'ann'): set a cap, one row about the budget.
CREATE OR REPLACE TEMP MACRO dpsql_set_cap(:set_cap_parameters) AS TABLE
SELECT unnest(dpsql_set_cap_call(:set_cap_values), recursive := true);

-- FROM dpsql_verify(): one row for each thing in the ledger that does not hold, or one that says that it is sound.
CREATE OR REPLACE TEMP MACRO dpsql_verify() AS TABLE
SELECT unnest(dpsql_verify_call(MAP([]::VARCHAR[], []::VARCHAR[])), recursive := true);

-- FROM dpsql_update('sales_1', '2026-11'): add a batch to a model of counts, charged on that batch alone.
CREATE OR REPLACE TEMP MACRO dpsql_update(:update_parameters) AS TABLE
SELECT unnest(dpsql_update_call(:update_values), recursive := true);

-- FROM dpsql_export_structure('visits', depth := 4): the public trees that several parties count in, as JSON text. Free.
CREATE OR REPLACE TEMP MACRO dpsql_export_structure(:export_structure_parameters) AS TABLE
SELECT unnest(dpsql_export_structure_call(:export_structure_values), recursive := true);

-- FROM dpsql_contribute('visits', structure, epsilon := 0.5): this party's noisy counts; "text" is what the others are sent.
CREATE OR REPLACE TEMP MACRO dpsql_contribute(:contribute_parameters) AS TABLE
SELECT unnest(dpsql_contribute_call(:contribute_values), recursive := true);

-- FROM dpsql_merge(['a', 'b.json']): add up the counts of parties that hold different people, and store the model.
CREATE OR REPLACE TEMP MACRO dpsql_merge(:merge_parameters) AS TABLE
SELECT unnest(dpsql_merge_call(:merge_values), recursive := true);

-- FROM dpsql_unite(['bank', 'clinic.json']): unite models over different columns of the same people, and store the model.
CREATE OR REPLACE TEMP MACRO dpsql_unite(:unite_parameters) AS TABLE
SELECT unnest(dpsql_unite_call(:unite_values), recursive := true);

-- FROM dpsql_structure('cars', trees := 128): what trees will look like, for dpsql_predict_private. Free.
CREATE OR REPLACE TEMP MACRO dpsql_structure(:structure_parameters) AS TABLE
SELECT unnest(dpsql_structure_call(:structure_values), recursive := true);

-- FROM dpsql_predict_private(structure, 'new_cars', epsilon := 1): label new rows, charged; dpsql_score reads the labels.
CREATE OR REPLACE TEMP MACRO dpsql_predict_private(:predict_private_parameters) AS TABLE
SELECT unnest(dpsql_predict_private_call(:predict_private_values), recursive := true);

-- CALL dpsql_drop_model('m'): drop a stored model; what it cost stays charged. With force := true though views read it.
CREATE OR REPLACE TEMP MACRO dpsql_drop_model(:drop_model_parameters) AS TABLE
SELECT unnest(dpsql_drop_model_call(:drop_model_values), recursive := true);

-- CALL dpsql_rename_model('m', 'new'): give a stored model another name.
CREATE OR REPLACE TEMP MACRO dpsql_rename_model(:rename_model_parameters) AS TABLE
SELECT unnest(dpsql_rename_model_call(:rename_model_values), recursive := true);

-- CALL dpsql_tag_model('m', ['stage=live', 'good']): write tags on a stored model, or take them off with remove := true.
CREATE OR REPLACE TEMP MACRO dpsql_tag_model(:tag_model_parameters) AS TABLE
SELECT unnest(dpsql_tag_model_call(:tag_model_values), recursive := true);
