{#- Label each row of a table by the model that a dbt model has trained, in plain SQL: what is left in the database needs no
    dpsql, so it may be a view.

    {{ dpsql.predict(ref('income_model'), ref('newcomers')) }}

    The SQL is asked of dpsql when dbt runs; while dbt only parses, the new rows stand in its place. -#}
{%- macro predict(trained, new_rows, probabilities=false) -%}
{%- if execute -%}
{%- set place = new_rows.identifier if new_rows.schema == 'main' else new_rows.schema ~ '.' ~ new_rows.identifier -%}
{%- set query -%}
SELECT dpsql_score_sql(model, {{ dpsql.literal(place) }}, probabilities := {{ dpsql.literal(probabilities) }}) FROM {{ trained }}
{%- endset -%}
{{ run_query(query).columns[0].values()[0] }}
{%- else -%}
SELECT * FROM {{ new_rows }} -- after {{ trained }}
{%- endif -%}
{%- endmacro %}
