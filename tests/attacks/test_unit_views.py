"""Views over several tables that would let one person's rows show in another's, each refused with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from sqlglot import exp

from dpsql.api.database import Database, connect
from dpsql.compile.views.unit_relations import as_rows
from dpsql.errors import DpsqlError, SchemaError, TableChanged, UsageError
from dpsql.schema import Unit
from tests.servers import fresh_database
from tests.tables import run
from tests.warehouse import FEATURES, HOME, SCHEMA, create_warehouse, prove

OPEN: dict[str, Callable[[], Database]] = {
    "duckdb": lambda: connect(":memory:", who="ann"),
    "postgres": lambda: connect(fresh_database(), who="ann"),
}
P = "SELECT p.person_id, p.age FROM persons p "
V = "SELECT v.person_id, COUNT(*) AS n FROM visits v "
G = " GROUP BY v.person_id"
#: Hostile texts, each with words of the reason.
HOSTILE = [
    # joins that reach across units
    (P + "JOIN visits v ON p.age = v.ward", "without equating its unit"),
    (P + "JOIN visits v ON p.person_id = v.ward", "without equating its unit"),
    (P + "JOIN visits v ON p.person_id > v.person_id", "without equating its unit"),
    (P + "JOIN visits v ON p.person_id = v.person_id OR v.ward = 1", "without equating its unit"),
    (P + "JOIN visits v ON NOT (p.person_id = v.person_id)", "without equating its unit"),
    (P + "JOIN visits v ON p.person_id IS NOT DISTINCT FROM v.person_id", "without equating its unit"),
    (P + "JOIN visits v ON COALESCE(p.person_id, 0) = v.person_id", "without equating its unit"),
    (P + "JOIN visits v ON v.person_id = v.person_id", "without equating its unit"),
    (P + "JOIN visits v ON TRUE", "without equating its unit"),
    (P + "JOIN persons q ON p.age = q.age", "without equating its unit"),
    (P + "JOIN persons q ON p.person_id = p.person_id", "without equating its unit"),
    (P + "JOIN persons p ON p.person_id = p.person_id", "two sources"),
    (P + "JOIN visits v USING (person_id)", "USING"),
    (P + "JOIN visits v USING (person_id, ward)", "USING"),
    (P + "NATURAL JOIN visits v", "NATURAL"),
    (P + "CROSS JOIN visits v", "CROSS JOIN"),
    (P + ", visits v", "without ON"),
    (P + "RIGHT JOIN visits v ON p.person_id = v.person_id", "RIGHT JOIN"),
    (P + "FULL JOIN visits v ON p.person_id = v.person_id", "FULL JOIN"),
    (P + "LEFT JOIN LATERAL (SELECT 1 AS one) v ON TRUE", "neither a table"),
    # public tables
    ("SELECT c.code, COUNT(v.person_id) AS n FROM codes c LEFT JOIN visits v ON v.code = c.code GROUP BY c.code",
     "begins with the public table"),
    ("SELECT p.person_id, c.points FROM codes c JOIN persons p ON TRUE", "begins with the public table"),
    (P + "JOIN (SELECT code FROM codes) c ON TRUE", "begins with the public table"),
    (P + "LEFT JOIN codes c ON p.age = c.points", "does not say are unique"),
    (P + "LEFT JOIN codes c ON p.sex = c.chapter", "does not say are unique"),
    (P + "LEFT JOIN codes c ON p.weight = c.rate", "does not say are unique"),
    (P + "LEFT JOIN codes c ON p.weight = c.ward", "does not say are unique"),
    (P + "LEFT JOIN codes c ON c.code = 'x'", "does not say are unique"),
    (P + "LEFT JOIN codes c ON LOWER(p.sex) = c.code", "does not say are unique"),
    (P + "JOIN codes c ON TRUE", "does not say are unique"),
    ("SELECT v.person_id, a.holiday FROM visits v JOIN calendar a ON v.day = a.day", "does not say are unique"),
    ("SELECT v.person_id, a.holiday FROM visits v JOIN calendar a ON v.day = a.day AND v.ward > a.ward",
     "does not say are unique"),
    # units that are not what they seem
    ("SELECT p.age AS person_id, p.person_id AS other FROM persons p", "does not give out the unit's column as"),
    ("SELECT COALESCE(p.person_id, 0) AS person_id FROM persons p", "does not give out the unit's column"),
    ("SELECT CAST(p.person_id AS VARCHAR) AS person_id FROM persons p", "does not give out the unit's column"),
    ("SELECT p.age FROM persons p", "does not give out the unit's column"),
    ("SELECT v.person_id, p.age FROM persons p LEFT JOIN visits v ON p.person_id = v.person_id",
     "does not give out the unit's column"),
    ("SELECT s.person_id, COUNT(*) AS n FROM (SELECT ward AS person_id, person_id AS who FROM visits) s"
     " GROUP BY s.person_id", "without the unit's column"),
    ("SELECT p.person_id, s.n FROM persons p JOIN (SELECT v.ward AS person_id, v.person_id AS who, 1 AS n"
     " FROM visits v) s ON p.person_id = s.person_id", "without equating its unit"),
    # groups
    ("SELECT COUNT(*) AS person_id FROM persons p", "without GROUP BY"),
    ("SELECT p.person_id, COUNT(*) AS n FROM persons p", "without GROUP BY"),
    ("SELECT v.ward, COUNT(*) AS n FROM visits v GROUP BY v.ward", "without the unit's column"),
    ("SELECT v.person_id, COUNT(*) AS n FROM visits v GROUP BY v.ward", "without the unit's column"),
    ("SELECT v.person_id, COUNT(*) AS n FROM visits v GROUP BY v.person_id + 0", "not a column"),
    ("SELECT v.person_id, COUNT(*) AS n FROM visits v GROUP BY 1", "not a column"),
    ("SELECT v.person_id, COUNT(*) AS n FROM visits v GROUP BY ROLLUP (v.person_id)", "GROUP BY with Rollup"),
    ("SELECT v.person_id, COUNT(*) AS n FROM visits v GROUP BY CUBE (v.person_id)", "GROUP BY with Cube"),
    ("SELECT v.person_id, COUNT(*) AS n FROM visits v GROUP BY GROUPING SETS ((v.person_id), ())", "GROUPING"),
    ("SELECT v.person_id, v.cost, COUNT(*) AS n FROM visits v GROUP BY v.person_id, v.cost", "several spellings"),
    ("SELECT v.person_id, v.code, COUNT(*) AS n FROM visits v GROUP BY v.person_id", "neither in GROUP BY"),
    (V + G + " HAVING COUNT(*) > 3", "HAVING"),
    # windows, order, limits, sets
    ("SELECT v.person_id, COUNT(*) OVER () AS n FROM visits v", "window"),
    ("SELECT v.person_id, ROW_NUMBER() OVER (ORDER BY v.cost) AS n FROM visits v", "window"),
    ("SELECT v.person_id, RANK() OVER (PARTITION BY v.person_id ORDER BY v.cost) AS n FROM visits v", "window"),
    (P + "ORDER BY p.age", "ORDER"),
    (P + "LIMIT 10", "LIMIT"),
    (P + "OFFSET 10", "OFFSET"),
    ("SELECT DISTINCT p.person_id, p.age FROM persons p", "DISTINCT"),
    ("SELECT DISTINCT ON (p.person_id) p.person_id, p.age FROM persons p", "DISTINCT"),
    (P + "UNION ALL SELECT v.person_id, v.ward FROM visits v", "UNION"),
    (P + "EXCEPT SELECT v.person_id, v.ward FROM visits v", "EXCEPT"),
    # subqueries in expressions
    ("SELECT p.person_id, (SELECT COUNT(*) FROM visits) AS n FROM persons p", "subquery"),
    ("SELECT p.person_id, (SELECT MAX(v.cost) FROM visits v WHERE v.person_id = p.person_id) AS n FROM persons p",
     "subquery"),
    (P + "WHERE p.age IN (SELECT ward FROM visits)", "subquery"),
    (P + "WHERE EXISTS (SELECT 1 FROM visits)", "subquery"),
    (P + "WHERE p.age > (SELECT AVG(age) FROM persons)", "subquery"),
    (P + "WHERE p.age > ALL (SELECT ward FROM visits)", "ubquery"),
    ("SELECT v.person_id, COUNT(*) FILTER (WHERE EXISTS (SELECT 1 FROM drugs)) AS n FROM visits v" + G, "subquery"),
    (P + "JOIN visits v ON p.person_id = v.person_id AND v.ward IN (SELECT age FROM persons)", "subquery"),
    # WITH
    ("WITH persons AS (SELECT person_id, ward AS age FROM visits) SELECT person_id, age FROM persons",
     "which a table or another part has"),
    ("WITH PERSONS AS (SELECT person_id, ward AS age FROM visits) SELECT person_id, age FROM persons",
     "which a table or another part has"),
    ("WITH a AS (SELECT person_id FROM visits), A AS (SELECT person_id FROM drugs) SELECT person_id FROM a",
     "which a table or another part has"),
    ("WITH RECURSIVE a AS (SELECT person_id FROM visits) SELECT person_id FROM a", "RECURSIVE"),
    # functions and arithmetic that can fail, or that nobody proved
    ("SELECT p.person_id, RANDOM() AS r FROM persons p", "rand"),
    ("SELECT p.person_id, NOW() AS r FROM persons p", "current_timestamp|now"),
    ("SELECT p.person_id, mine(p.age) AS r FROM persons p", "mine"),
    ("SELECT p.person_id, 1 / p.age AS r FROM persons p", "arithmetic"),
    ("SELECT p.person_id, p.age * p.age AS r FROM persons p", "arithmetic"),
    ("SELECT p.person_id, SQRT(p.weight) AS r FROM persons p", "sqrt"),
    ("SELECT p.person_id, CAST(p.sex AS INTEGER) AS r FROM persons p", "CAST"),
    ("SELECT p.person_id, UNNEST(ARRAY[1, 2]) AS r FROM persons p", "several rows|unnest|explode"),
    # aggregates that can fail, or that depend on the order of rows
    ("SELECT v.person_id, SUM(v.cost) AS r FROM visits v" + G, "without bounds"),
    ("SELECT v.person_id, AVG(v.price) AS r FROM visits v" + G, "without bounds"),
    ("SELECT v.person_id, SUM(LEAST(v.cost, 10)) AS r FROM visits v" + G, "least"),
    ("SELECT v.person_id, SUM(LEAST(GREATEST(v.cost, v.price), 10)) AS r FROM visits v" + G, "greatest|least"),
    ("SELECT v.person_id, SUM(LEAST(GREATEST(v.cost, 10), 0)) AS r FROM visits v" + G, "LOWER < UPPER"),
    ("SELECT v.person_id, SUM(LEAST(GREATEST(v.cost, 0), 1e300)) AS r FROM visits v" + G, "LOWER < UPPER"),
    ("SELECT v.person_id, SUM(CASE WHEN v.ward = 1 THEN v.cost ELSE 0 END) AS r FROM visits v" + G, "without bounds"),
    ("SELECT v.person_id, SUM(DISTINCT v.ward) AS r FROM visits v" + G, "DISTINCT"),
    ("SELECT v.person_id, COUNT(DISTINCT (v.ward, v.code)) AS r FROM visits v" + G, "Tuple|tuple|several"),
    ("SELECT v.person_id, STRING_AGG(v.code, ',') AS r FROM visits v" + G, "aggregate"),
    ("SELECT v.person_id, ARRAY_AGG(v.code) AS r FROM visits v" + G, "aggregate"),
    ("SELECT v.person_id, STDDEV(v.cost) AS r FROM visits v" + G, "aggregate"),
    ("SELECT v.person_id, MAX(v.code) AS r FROM visits v" + G, "MAX of a value of type text"),
    ("SELECT v.person_id, MAX(COUNT(*)) AS r FROM visits v" + G, "inside an aggregate"),
    # names and places
    ("SELECT p.person_id, p.rowid AS r FROM persons p", "not a column"),
    ("SELECT p.person_id, p.ctid AS r FROM persons p", "not a column"),
    ("SELECT p.person_id, q.age FROM persons p", "none of its sources"),
    ("SELECT * FROM persons p", "star"),
    ("SELECT p.person_id, day FROM visits p JOIN drugs d ON p.person_id = d.person_id", "several sources"),
    ("SELECT person_id FROM nowhere", "no stored table"),
    ("SELECT person_id FROM other.main.persons", "another database"),
    ("SELECT person_id FROM information_schema.tables", "no stored table"),
    ("SELECT person_id FROM dpsql.entry", "no stored table"),
    ("SELECT 1 AS person_id", "without FROM"),
    (P + "; DROP TABLE persons", "2 statements"),
    ("DELETE FROM persons", "not one plain SELECT"),
    ("", "0 statements"),
    ("SELECT person_id FROM persons TABLESAMPLE SYSTEM (10)", "TABLE SAMPLE|SAMPLE|uses"),
]  # fmt: skip


@pytest.fixture(scope="module", params=sorted(OPEN))
def warehouse(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open a database with the empty warehouse."""
    with OPEN[request.param]() as opened:
        create_warehouse(opened.engine)
        yield opened


@pytest.fixture(params=sorted(OPEN))
def own(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open a database with an empty warehouse for one test alone."""
    with OPEN[request.param]() as opened:
        create_warehouse(opened.engine)
        yield opened


@pytest.mark.parametrize(("text", "reason"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_views_are_refused_with_the_reason(warehouse: Database, text: str, reason: str) -> None:
    """A view whose rows could depend on several people, or could fail, is refused, and the error says what it uses."""
    with pytest.raises(SchemaError, match=f"(?i){reason}"):
        prove(warehouse.engine, text)


def test_a_view_beside_the_hostile_ones_is_proved(warehouse: Database) -> None:
    """The warehouse itself is not what is refused."""
    assert prove(warehouse.engine, FEATURES).single


def test_a_query_that_doubles_itself_is_refused(warehouse: Database) -> None:
    """Parts of WITH that each read the one before twice end at the limit of sources, and not in a huge statement."""
    parts = ["a0 AS (SELECT person_id FROM visits)"]
    parts += [
        f"a{n} AS (SELECT x.person_id FROM a{n - 1} x JOIN a{n - 1} y ON x.person_id = y.person_id)"
        for n in range(1, 30)
    ]
    with pytest.raises(SchemaError, match="more than 60 sources"):
        prove(warehouse.engine, f"WITH {', '.join(parts)} SELECT person_id FROM a29")


def test_a_public_table_may_not_be_a_view(own: Database) -> None:
    """A view on a private table cannot pass for public."""
    home = HOME[own.engine.dialect]
    run(own.engine, f"CREATE VIEW {home}.tricky AS SELECT person_id AS code, age FROM {home}.persons")
    with pytest.raises(SchemaError, match="is a view"):
        prove(own.engine, FEATURES, replace(SCHEMA, public_tables=("tricky",)))


def test_a_private_table_may_not_be_declared_public(own: Database) -> None:
    """A table that is registered cannot pass for public, whether the view or the table comes first."""
    home = HOME[own.engine.dialect]
    run(own.engine, f"ALTER TABLE {home}.drugs ADD COLUMN number INTEGER UNIQUE" if home == "public" else
        f"CREATE OR REPLACE TABLE {home}.drugs (person_id BIGINT, dose INTEGER, number INTEGER UNIQUE)")  # fmt: skip
    text = (
        "SELECT p.person_id, p.age, p.sex, p.ill, d.dose AS visits FROM persons p LEFT JOIN drugs d ON p.age = d.number"
    )
    drugs = {"label": None, "privacy_unit": {"column": "person_id", "max_rows": 2},
             "features": {"dose": {"type": "numeric", "lower": 0, "upper": 9}}}  # fmt: skip
    own.register("features", replace(SCHEMA, public_tables=("drugs",)), cap=1, view=text)
    with pytest.raises(UsageError, match="declared a public table"):
        own.register("drugs", drugs, cap=1)


def test_a_registered_table_may_not_be_public_in_a_later_view(own: Database) -> None:
    """A table that is registered first cannot pass for public in a view that comes later."""
    codes = {"label": None, "features": {"points": {"type": "numeric", "lower": 0, "upper": 9}}}
    own.register("codes", codes, cap=1)
    text = FEATURES.replace("persons p", "persons p LEFT JOIN codes c ON p.sex = c.code")
    with pytest.raises(UsageError, match="cannot be a public table"):
        own.register("features", SCHEMA, cap=1, view=text)


def test_a_macro_that_bears_an_aggregates_name_is_refused() -> None:
    """A macro in the place of a function that the translation calls stops every run before it is charged."""
    with connect(":memory:", who="ann") as db:
        create_warehouse(db.engine)
        db.register("features", SCHEMA, cap=1, view=FEATURES)
        run(db.engine, "CREATE MACRO main.count(x) AS 7")
        with pytest.raises(DpsqlError, match="redefines the built-in function count"):
            db.train("features", epsilon=0.5, method="rdt")
        assert db.budget("features").spent == 0


def test_keys_that_do_not_hold_are_no_keys() -> None:
    """On PostgreSQL a unique index that is partial, over an expression, deferred or of a parent table is no key."""
    with connect(fresh_database(), who="ann") as db:
        create_warehouse(db.engine)
        text = "SELECT p.person_id, p.age, c.points FROM persons p JOIN {table} c ON p.age = c.ward"
        makes = {
            "partial": "CREATE UNIQUE INDEX ON public.partial (ward) WHERE points > 1",
            "expression": "CREATE UNIQUE INDEX ON public.expression ((ward + 0))",
            "deferred": "ALTER TABLE public.deferred ADD UNIQUE (ward) DEFERRABLE INITIALLY DEFERRED",
            "parent": "ALTER TABLE public.parent ADD UNIQUE (ward)",
            "wider": "ALTER TABLE public.wider ADD UNIQUE (ward, points)",
            "included": "CREATE UNIQUE INDEX ON public.included (points) INCLUDE (ward)",
        }
        for name, statement in makes.items():
            run(db.engine, f"CREATE TABLE public.{name} (ward INTEGER, points INTEGER)", statement)
            if name == "parent":
                run(db.engine, "CREATE TABLE public.child () INHERITS (public.parent)")
            with pytest.raises(SchemaError, match="does not say are unique"):
                prove(db.engine, text.format(table=name), replace(SCHEMA, public_tables=(name,)))
        run(db.engine, "CREATE TABLE public.good (ward INTEGER UNIQUE, points INTEGER)")
        prove(db.engine, text.format(table="good"), replace(SCHEMA, public_tables=("good",)))


@pytest.mark.parametrize("kind", ["DOUBLE PRECISION", "DECIMAL(10, 2)", "TIMESTAMP", "BOOLEAN"])
def test_units_with_several_spellings_are_refused(own: Database, kind: str) -> None:
    """A unit's column of a type in which equal values can differ, or few values exist, is refused."""
    home = HOME[own.engine.dialect]
    run(own.engine, f"CREATE TABLE {home}.odd (person_id {kind}, x INTEGER)")
    with pytest.raises(SchemaError, match="has units of type"):
        prove(own.engine, "SELECT person_id, x FROM odd")


def test_units_of_two_types_are_refused(own: Database) -> None:
    """A person is not compared with a text that spells the same number."""
    home = HOME[own.engine.dialect]
    run(own.engine, f"CREATE TABLE {home}.odd (person_id VARCHAR, x INTEGER)")
    with pytest.raises(SchemaError, match="units of type text"):
        prove(own.engine, "SELECT p.person_id, o.x FROM persons p JOIN odd o ON p.person_id = o.person_id")


def test_a_collation_on_a_key_is_refused() -> None:
    """A column under whose collation different texts are equal is no unit, and cannot be read."""
    with connect(":memory:", who="ann") as db:
        create_warehouse(db.engine)
        run(db.engine, "CREATE TABLE main.odd (person_id VARCHAR COLLATE nocase, x INTEGER)")
        with pytest.raises(SchemaError, match="collation nocase"):
            prove(db.engine, "SELECT person_id, x FROM odd")
        run(db.engine, "CREATE TABLE main.soft (code VARCHAR COLLATE nocase PRIMARY KEY, x INTEGER)")
        text = "SELECT p.person_id, s.x FROM persons p JOIN soft s ON p.sex = s.code"
        with pytest.raises(SchemaError, match="not a column of its sources, or one that cannot be read"):
            prove(db.engine, text, replace(SCHEMA, public_tables=("soft",)))


def test_rows_are_no_unit(own: Database) -> None:
    """A view over several tables needs a unit's column."""
    with pytest.raises(SchemaError, match="names no unit"):
        prove(own.engine, FEATURES, replace(SCHEMA, unit=Unit()))


def test_a_table_that_was_made_anew_stops_runs(own: Database) -> None:
    """Where another table took the name of one that a view reads, nothing is charged."""
    home = HOME[own.engine.dialect]
    own.register("features", SCHEMA, cap=1, view=FEATURES)
    run(own.engine, f"DROP TABLE {home}.visits", f"CREATE TABLE {home}.visits (person_id INTEGER)")
    with pytest.raises(TableChanged, match="not the table that was registered"):
        own.train("features", epsilon=0.5, method="rdt")
    assert own.budget("features").spent == 0


def test_a_key_that_was_dropped_stops_runs(own: Database) -> None:
    """Where the catalog no longer says that a public table's key is unique, the proof fails and nothing is charged."""
    home = HOME[own.engine.dialect]
    text = FEATURES.replace("persons p", "persons p LEFT JOIN codes c ON p.sex = c.code")
    own.register("features", SCHEMA, cap=1, view=text)
    run(own.engine, f"DROP TABLE {home}.codes", f"CREATE TABLE {home}.codes (code VARCHAR, points INTEGER)")
    with pytest.raises(TableChanged, match="does not say are unique"):
        own.train("features", epsilon=0.5, method="rdt")
    assert own.budget("features").spent == 0


#: Values that fail on the one row where n is 1, f is NULL and q is 1e-400.
FAILING = ["COALESCE(o.f, CASE WHEN o.n = 1 THEN 1e300 ELSE 0.5 END)", "CASE WHEN o.x < o.q THEN 1 ELSE 0 END"]


@pytest.mark.parametrize("value", FAILING)
def test_no_number_that_a_type_cannot_hold_makes_a_query_fail(value: str) -> None:
    """PostgreSQL casts what is mixed with a REAL to REAL, and a NUMERIC to a double: some numbers fit into neither."""
    with connect(fresh_database(), who="ann") as db:
        create_warehouse(db.engine)
        columns = "n INTEGER, f REAL, x DOUBLE PRECISION, q NUMERIC(5, 400)"
        run(db.engine, f"CREATE TABLE public.odd (person_id INTEGER, {columns})")
        for text in (f"SELECT o.person_id, {value} AS r FROM odd o",
                     f"SELECT o.person_id, COUNT({value}) AS r FROM odd o GROUP BY o.person_id"):  # fmt: skip
            with pytest.raises(SchemaError, match="single precision|long number"):
                prove(db.engine, text)
        prove(db.engine, "SELECT o.person_id, COALESCE(o.f, CASE WHEN o.n = 1 THEN 3e38 ELSE 0 END) AS r FROM odd o")


@pytest.mark.parametrize("name", ["key 0", "aggregate 0", "unit", "c0", "rows_0", "groups of rows"])
def test_no_name_in_a_query_is_taken_for_one_of_the_translation(own: Database, name: str) -> None:
    """A unit or a column that is called as the translation calls a part of its own still means what the text says."""
    run(own.engine, f"INSERT INTO {HOME[own.engine.dialect]}.visits (person_id, ward) VALUES (7, 1), (7, 2)")
    text = (
        f'SELECT t."{name}" AS person_id, t.ward, COUNT(*) AS n FROM (SELECT a.person_id AS "{name}", a.ward '
        f'FROM visits a JOIN visits b ON a.person_id = b.person_id) AS t GROUP BY t."{name}", t.ward'
    )
    rows = as_rows(prove(own.engine, text).proof.relation)
    with own.engine.transaction() as transaction:
        shown = transaction.rows(exp.select("unit", "c0", "c1").from_(rows))
    assert sorted(tuple(row.values()) for row in shown) == [(7, 1, 2), (7, 2, 2)]


@pytest.mark.parametrize("kind", ["JSON", "POINT", "XML", "JSON[]", "INTERVAL", "public.pair"])
def test_values_without_an_equality_of_the_database_are_not_counted_as_distinct(kind: str) -> None:
    """PostgreSQL cannot compare some types, so that every run would fail after its charge; others call users' code."""
    with connect(fresh_database(), who="ann") as db:
        create_warehouse(db.engine)
        run(db.engine, "CREATE TYPE public.pair AS (a JSON)", f"CREATE TABLE public.odd (person_id INTEGER, j {kind})")
        text = "SELECT o.person_id, COUNT({}) AS n FROM odd o GROUP BY o.person_id"
        with pytest.raises(SchemaError, match="equality"):
            prove(db.engine, text.format("DISTINCT o.j"))
        prove(db.engine, text.format("o.j"))
