-- Who may do what: run once by a superuser (dpsql init). :owner and :analyst are the roles' names, quoted.
-- :here says which database this is, as a text: a copy carries the original's with it.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

-- What everybody may read of dpsql: budgets in whole numbers of epsilon (or rho), and no more than that.
CREATE OR REPLACE VIEW dpsql.budgets AS
SELECT
    table_name,
    kind,
    CAST(cap AS DECIMAL(19, 0)) * CAST(0.000000001 AS DECIMAL(10, 9)) AS cap,
    CAST(spent AS DECIMAL(19, 0)) * CAST(0.000000001 AS DECIMAL(10, 9)) AS spent,
    CAST(greatest(cap - spent, 0) AS DECIMAL(19, 0)) * CAST(0.000000001 AS DECIMAL(10, 9)) AS "left"
FROM dpsql.budget;

COMMENT ON SCHEMA dpsql IS :here;
REVOKE ALL ON SCHEMA dpsql FROM PUBLIC, :analyst;
REVOKE ALL ON ALL TABLES IN SCHEMA dpsql FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dpsql FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA dpsql FROM :analyst;
GRANT USAGE ON SCHEMA dpsql TO :analyst;
GRANT SELECT ON dpsql.model, dpsql.model_node, dpsql.model_leaf, dpsql.size, dpsql.evaluation, dpsql.domains TO :analyst;
GRANT SELECT ON dpsql.dropped_model, dpsql.model_tag TO :analyst;
GRANT SELECT ON dpsql.ledger, dpsql.budgets TO :analyst;
-- The books themselves are public too, so that everybody can check the chain; nobody but the owner writes them.
GRANT SELECT ON dpsql.format, dpsql.chain, dpsql.entry, dpsql.budget, dpsql.scope_budget, dpsql.analyst_budget TO :analyst;
GRANT EXECUTE ON FUNCTION dpsql.predict(TEXT, JSONB), dpsql.cell(JSONB, TEXT), dpsql.digits(JSONB) TO :analyst;
