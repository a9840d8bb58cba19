{#- Train a private forest once for each version of the data, and otherwise return what is stored: one row about the model.

    {{ dpsql.train('clients', epsilon=0.5, data_version=var('data_version'), method='rdt', trees=10) }}

    The request id is made of this dbt model, the data's version and all arguments. dpsql's ledger charges a request once,
    whoever runs dbt, on whatever connection; another version or another argument is another run, and another charge.
    Further arguments are those of FROM dpsql_train(…). -#}
{%- macro train(table, epsilon, data_version, name=none) -%}
{%- set arguments = {'table': table, 'epsilon': epsilon, 'data_version': data_version, 'more': kwargs} -%}
{%- set model_name = name or (model.name ~ '_' ~ data_version) -%}
FROM dpsql_train(
    {{ dpsql.literal(table) }},
    epsilon := {{ dpsql.literal(epsilon) }},
    name := {{ dpsql.literal(model_name) }},
    {%- for argument, value in kwargs.items() %}
    "{{ argument }}" := {{ dpsql.literal(value) }},
    {%- endfor %}
    request_id := {{ dpsql.literal('dbt/' ~ model.unique_id ~ '/' ~ data_version ~ '/' ~ local_md5(tojson(arguments, sort_keys=true))) }}
)
{%- endmacro %}

{#- A value as SQL writes it: true and false as they are, all else as a quoted text, which dpsql reads. -#}
{%- macro literal(value) -%}
{%- if value is boolean -%}{{ value | lower }}{%- else -%}'{{ value | string | replace("'", "''") }}'{%- endif -%}
{%- endmacro %}
