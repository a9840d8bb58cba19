-- The label of each newcomer. A view of plain SQL: it can be read without dpsql.
{{ config(materialized='view') }}
{{ dpsql.predict(ref('income_model'), source('census', 'census_holdout')) }}
