"""A tiny warehouse for tests: private tables of people, visits and prescriptions, and two public tables."""

from __future__ import annotations

from dpsql.engines.base import Engine
from dpsql.kernel.datasets.many_tables import ProvedView, prove_view, query_info
from dpsql.schema import Categorical, Numeric, Schema, Unit
from tests.tables import run

#: The tables, in SQL that DuckDB and PostgreSQL both read.
TABLES = (
    "CREATE TABLE {home}.persons (person_id INTEGER PRIMARY KEY, age INTEGER, sex VARCHAR, ill VARCHAR,"
    " weight DOUBLE PRECISION)",
    "CREATE TABLE {home}.visits (person_id INTEGER, day DATE, cost DOUBLE PRECISION, code VARCHAR, ward INTEGER,"
    " price DECIMAL(10, 2))",
    "CREATE TABLE {home}.drugs (person_id BIGINT, day DATE, dose INTEGER, code VARCHAR)",
    "CREATE TABLE {home}.codes (code VARCHAR PRIMARY KEY, chapter VARCHAR, points INTEGER, rate DOUBLE PRECISION,"
    " ward INTEGER UNIQUE)",
    "CREATE TABLE {home}.calendar (day DATE, ward INTEGER, holiday BOOLEAN, PRIMARY KEY (day, ward))",
)
#: How the home schema is called.
HOME = {"duckdb": "main", "postgres": "public"}
SCHEMA = Schema(
    "ill",
    ("no", "yes"),
    (Numeric("age", 0, 100), Categorical("sex", ("f", "m")), Numeric("visits", 0, 64)),
    Unit("person_id", 4),
    public_tables=("codes", "calendar"),
)
#: A plain view: one row for each person, with a count of visits.
FEATURES = """
SELECT p.person_id, p.age, p.sex, p.ill, COALESCE(v.n, 0) AS visits
FROM persons p LEFT JOIN (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id) v
  ON p.person_id = v.person_id
"""


def create_warehouse(engine: Engine) -> None:
    """Create the empty tables."""
    run(engine, *(text.format(home=HOME[engine.dialect]) for text in TABLES))


def prove(engine: Engine, text: str, schema: Schema = SCHEMA) -> ProvedView:
    """Return the proof of a query over the warehouse."""
    return prove_view(engine, query_info("features", text), schema)
