-- One row about the model; trained once for each data version.
-- depends_on: {{ source('census', 'census') }}
{{ config(materialized='table') }}
{{ dpsql.train('census', epsilon=0.5, data_version=var('data_version'), method='rdt', trees=10) }}
