{#- Fail where less than `at_least` is left of a registered table's budget, or where the table is not registered. -#}
{% test budget_left(model, at_least=0) %}
{%- set table = dpsql.literal(model.identifier) %}
SELECT table_name, 'only ' || "left" || ' is left' AS problem
FROM dpsql_budget({{ table }})
WHERE kind = 'pure' AND cap IS NOT NULL AND "left" < {{ at_least }}
UNION ALL
SELECT {{ table }}, 'is not registered'
WHERE NOT EXISTS (FROM dpsql_budget({{ table }}))
{% endtest %}
