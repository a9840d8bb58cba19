"""Which views are row-to-row: every text here is made as a real DuckDB view and read back from the catalog."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.compile.views.row_to_row import RowView, base_name, row_to_row, why_not
from dpsql.compile.views.total_expressions import type_family

SETUP = """
CREATE TYPE mood AS ENUM ('x', 'y');
CREATE TABLE t (a INTEGER, b DOUBLE, c VARCHAR, e mood, f BOOLEAN, d DATE, h HUGEINT, m DECIMAL(38, 0),
                p DECIMAL(18, 18), i BIGINT, u UBIGINT, k STRUCT(a INTEGER), l INTEGER[], "odd ""name" INTEGER);
CREATE SCHEMA s;
CREATE TABLE s.q (a INTEGER);
ATTACH ':memory:' AS other;
CREATE TABLE other.main.z (a INTEGER);
CREATE VIEW plain AS SELECT a, c FROM t;
CREATE MACRO twice(x) AS x || x;
"""
ROWS = """
INSERT INTO t VALUES
    (1, 2.5, 'abc', 'x', true, '2020-01-01', 7, 5, 0.5, 9, 9, {'a': 1}, [1, 2], 4),
    (5, 'nan', ' X ', NULL, NULL, NULL, 170141183460469231731687303715884105727,
     99999999999999999999999999999999999999, 0.9, 9223372036854775807, 18446744073709551615, NULL, [], -3),
    (NULL, '-inf', '', 'y', false, '1999-12-31', -1, -1, NULL, -9223372036854775808, 0, {'a': NULL}, NULL, NULL),
    (-7, 1e300, '12', 'x', true, '0001-01-01', 0, 0, 0, 0, NULL, {'a': 3}, [3], 2147483647)
"""

ACCEPTED = [
    "SELECT a FROM t",
    "FROM t",
    "SELECT * FROM t",
    "SELECT t.* FROM t",
    "SELECT u.* FROM t AS u WHERE u.a = 5",
    "SELECT * FROM s.q",
    "SELECT a FROM memory.main.t",
    "SELECT * FROM plain",
    "SELECT a FROM t WHERE a > 2",
    "SELECT a FROM t WHERE 2 < a AND NOT (a = 4 OR b >= 1.5)",
    'SELECT "odd ""name" AS "x y" FROM t AS u',
    'SELECT "odd ""name" FROM t WHERE "odd ""name" <> -3',
    "SELECT a AS b, b AS a FROM t WHERE b > 3",
    "SELECT *, a AS again FROM t",
    "SELECT a FROM t ORDER BY a DESC",
    "SELECT a AS z, b FROM t ORDER BY z, 2",
    "SELECT a FROM t WHERE a IN (1, 5, NULL)",
    "SELECT a FROM t WHERE c IN ('abc', '') OR c NOT IN ('q')",
    "SELECT a FROM t WHERE a BETWEEN 1 AND 5 AND a NOT BETWEEN 2 AND 3",
    "SELECT a IS NULL AS missing, k IS NOT NULL AS there FROM t",
    "SELECT CASE WHEN a > 1 THEN 'u' WHEN f THEN 'w' ELSE 'v' END AS z FROM t",
    "SELECT CASE a WHEN 1 THEN 'one' END AS z FROM t",
    "SELECT coalesce(a, b, 0) AS filled, ifnull(c, 'none') AS text FROM t",
    "SELECT lower(c) AS l, upper(c) AS u, trim(c) AS s, nullif(a, 5) AS n FROM t",
    "SELECT a FROM t WHERE c LIKE 'a%' OR c NOT LIKE '%b'",
    "SELECT TRY_CAST(c AS INTEGER) AS x, TRY_CAST(c AS DECIMAL(5, 2)) AS y, TRY_CAST(a AS TINYINT) AS z FROM t",
    "SELECT CAST(a AS VARCHAR) AS text, CAST('2020-01-01' AS DATE) AS day, CAST('7' AS INTEGER) AS n FROM t",
    "SELECT a FROM t WHERE d >= DATE '2000-01-01'",
    "SELECT a FROM t WHERE f",
    "SELECT a FROM t WHERE f IS TRUE AND (a > 0) IS NOT FALSE",
    "SELECT a FROM t WHERE a IS DISTINCT FROM 5",
    "SELECT e, e = 'zzz' AS odd, coalesce(e, 'q') AS filled FROM t WHERE e IN ('x', 'other')",
    "SELECT h, m, k, l FROM t",
    "SELECT coalesce(i, u) < p AS q, p < u AS r, i > 0.0000000000001 AS s FROM t",
    "SELECT 1 AS one, -2.5 AS low, 'it''s' AS text, NULL AS nothing, true AS yes FROM t",
    "SELECT a FROM t WHERE true",
    "SELECT main.t.a FROM main.t",
]

REFUSED = [
    ("SELECT DISTINCT a FROM t", "DISTINCT"),
    ("SELECT DISTINCT ON (a) a FROM t", "DISTINCT"),
    ("SELECT a FROM t LIMIT 3", "LIMIT"),
    ("SELECT a FROM t LIMIT 50%", "LIMIT"),
    ("SELECT a FROM t OFFSET 3", "OFFSET"),
    ("SELECT a FROM t USING SAMPLE 10%", "SAMPLE"),
    ("SELECT a FROM t TABLESAMPLE 10%", "SAMPLE"),
    ("SELECT a FROM t GROUP BY a", "GROUP BY"),
    ("SELECT a FROM t GROUP BY ALL", "GROUP BY"),
    ("SELECT max(a) AS a FROM t", "aggregate"),
    ("SELECT max(a) AS a FROM t HAVING max(a) > 3", "HAVING"),
    ("SELECT count(*) AS n FROM t", "count_star"),
    ("SELECT row_number() OVER () AS n FROM t", "window"),
    ("SELECT sum(a) OVER (ORDER BY b) AS n FROM t", "window"),
    ("SELECT a FROM t QUALIFY row_number() OVER () = 1", "QUALIFY"),
    ("SELECT t.a FROM t JOIN s.q ON t.a = q.a", "one table"),
    ("SELECT t.a FROM t, s.q", "joins"),
    ("SELECT t.a FROM t SEMI JOIN s.q USING (a)", "one table"),
    ("SELECT t.a FROM t, LATERAL (SELECT t.a + 1)", "joins"),
    ("SELECT a FROM (SELECT * FROM t)", "one table"),
    ("SELECT a FROM t WHERE a > (SELECT max(a) FROM t)", "subquery"),
    ("SELECT a FROM t WHERE a IN (SELECT a FROM s.q)", "subquery"),
    ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM s.q)", "subquery"),
    ("SELECT a FROM t WHERE a = ANY ([1, 2])", "subquery"),
    ("SELECT (SELECT 1) AS one FROM t", "subquery"),
    ("WITH w AS (SELECT * FROM t) SELECT a FROM w", "WITH"),
    ("SELECT a FROM t UNION ALL SELECT a FROM s.q", "plain SELECT"),
    ("SELECT a FROM t EXCEPT SELECT a FROM s.q", "plain SELECT"),
    ("VALUES (1)", "one table"),
    ("SELECT 1 AS a", "one table"),
    ("SELECT a FROM range(3) AS r(a)", "one table"),
    ("SELECT unnest([1, 2]) AS a FROM t", "several rows"),
    ("SELECT unnest(l) AS a FROM t", "several rows"),
    ("SELECT random() AS a FROM t", "rand"),
    ("SELECT a FROM t WHERE random() < 0.5", "rand"),
    ("SELECT now() AS a FROM t", "calls"),
    ("SELECT current_date AS a FROM t", "calls"),
    ("SELECT uuid() AS a FROM t", "calls"),
    ("SELECT a FROM t ORDER BY random()", "rand"),
    ("SELECT a FROM t ORDER BY CAST(c AS INTEGER)", "CAST"),
    ("SELECT twice(c) AS a FROM t", "twice"),
    ("SELECT abs(a) AS a FROM t", "abs"),
    ("SELECT a + 1 AS a FROM t", "arithmetic"),
    ("SELECT -a AS a FROM t", "arithmetic"),
    ("SELECT a FROM t WHERE b / a > 1", "arithmetic"),
    ("SELECT a // 2 AS a FROM t", "arithmetic"),
    ("SELECT c || 'x' AS a FROM t", "operator"),
    ("SELECT CAST(c AS INTEGER) AS a FROM t", "CAST"),
    ("SELECT CAST(a AS TINYINT) AS a FROM t", "CAST"),
    ("SELECT CAST(a AS BIGINT) AS a FROM t", "CAST"),
    ("SELECT CAST('abc' AS INTEGER) AS a FROM t", "CAST"),
    ("SELECT CAST(300 AS TINYINT) AS a FROM t", "CAST"),
    ("SELECT a FROM t WHERE b > 100 AND CAST('junk' AS DATE) = d", "CAST"),
    ("SELECT a FROM t WHERE c IN (1, 2)", "number and text"),
    ("SELECT a FROM t WHERE c = true", "boolean and text"),
    ("SELECT a FROM t WHERE a > 'abc'", "number and text"),
    ("SELECT a FROM t WHERE d = c", "date and text"),
    ("SELECT a FROM t WHERE d = 'junk'", "date and text"),
    ("SELECT nullif(c, 1) AS a FROM t", "number and text"),
    ("SELECT coalesce(a, 'q') AS a FROM t", "number and text"),
    ("SELECT CASE a WHEN 'x' THEN 1 END AS a FROM t", "number and text"),
    ("SELECT a FROM t WHERE h > 0.5", "long number"),
    ("SELECT a FROM t WHERE m > 0.5", "long number"),
    ("SELECT a FROM t WHERE i > 0.00000000000000000000000000001", "15 digits"),
    ("SELECT a FROM t WHERE a", "boolean"),
    ("SELECT a FROM t WHERE a AND f", "boolean and number"),
    ("SELECT a FROM t WHERE c LIKE 'a!%' ESCAPE '!'", "like_escape"),
    ("SELECT a FROM t WHERE c LIKE c", "pattern"),
    ("SELECT a FROM t WHERE c ~ 'a+'", "cannot vouch"),
    ("SELECT a FROM t WHERE c COLLATE nocase = 'x'", "cannot vouch"),
    ("SELECT ltrim(c) AS a FROM t", "POSITION"),
    ("SELECT lcase(c) AS a FROM t", "lcase"),
    ('SELECT "if"(f, 1, 2) AS a FROM t', '"if"'),
    ("SELECT rowid AS a FROM t", "rowid"),
    ("SELECT a FROM t WHERE rowid < 3", "rowid"),
    ("SELECT t AS a FROM t", '"t"'),
    ("SELECT k.a FROM t", "k.a"),
    ("SELECT k['a'] AS a FROM t", "cannot vouch"),
    ("SELECT l[1] AS a FROM t", "cannot vouch"),
    ("SELECT k.* FROM t", "star"),
    ("SELECT a AS x, x AS y FROM t", '"x"'),
    ("SELECT a AS x FROM t WHERE x > 3", '"x"'),
    ("SELECT a, a FROM t", "two columns"),
    ("SELECT *, b AS a FROM t", "star"),
    ("SELECT *, * FROM t", "two"),
    ("SELECT * EXCLUDE (a) FROM t", "star"),
    ("SELECT * REPLACE (b AS a) FROM t", "star"),
    ("SELECT COLUMNS('a|b') FROM t", "columns"),
    ("SELECT coalesce(a, 1) FROM t", "no name"),
    ("SELECT x FROM t AS r(x)", "COLUMNS"),
    ("SELECT * FROM other.main.z", "another database"),
    ("SELECT #1 AS a FROM t", "cannot vouch"),
    ("PIVOT t ON e USING sum(a)", "CREATE VIEW"),
]


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Return a database with one table that holds difficult rows."""
    connection = duckdb.connect()
    connection.execute(SETUP)
    connection.execute(ROWS)
    yield connection
    connection.close()


def made(database: duckdb.DuckDBPyConnection, query: str, names: str = "") -> str:
    """Return the text that DuckDB stores for a view."""
    database.execute(f"CREATE OR REPLACE VIEW v {names} AS {query}")
    return str(database.execute("SELECT sql FROM duckdb_views() WHERE view_name = 'v'").fetchall()[0][0])


def types(database: duckdb.DuckDBPyConnection, text: str) -> dict[str, str]:
    """Return the column types of a view's base table."""
    found = base_name(text, "duckdb") or (None, "t")
    query = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? AND database_name = 'memory'"
    return dict(database.execute(query, [found[1]]).fetchall())


def examined(database: duckdb.DuckDBPyConnection, text: str) -> RowView | None:
    """Return what is found of a view when all facts of the catalog are given."""
    return row_to_row(text, "duckdb", types=types(database, text), macros=["twice"])


def rebuilt(view: RowView) -> exp.Select:
    """Return the query over the base table that a row-to-row view stands for."""
    items = [exp.alias_(item.copy(), name, quoted=True) for name, item in view.columns.items()]
    query = exp.select(*(["*"] if view.star else []), *items).from_(exp.table_(view.table, db=view.schema, quoted=True))
    return query if view.where is None else query.where(view.where.copy())


@pytest.mark.parametrize("query", ACCEPTED)
def test_accepted_view_is_its_rebuilt_query(database: duckdb.DuckDBPyConnection, query: str) -> None:
    """An accepted view gives, row for row, what its parts give over the base table."""
    view = examined(database, made(database, query))
    assert view is not None
    through_view = database.execute("SELECT * FROM v").fetchall()
    over_base = database.execute(rebuilt(view).sql("duckdb")).fetchall()
    assert sorted(map(repr, through_view)) == sorted(map(repr, over_base))


@pytest.mark.parametrize("query", ACCEPTED)
def test_accepted_view_has_its_column_names(database: duckdb.DuckDBPyConnection, query: str) -> None:
    """An accepted view has the column names that its parts say."""
    view = examined(database, made(database, query))
    assert view is not None
    through_view = [item[0] for item in database.execute("SELECT * FROM v").description]
    assert sorted(through_view) == sorted(item[0] for item in database.execute(rebuilt(view).sql("duckdb")).description)


@pytest.mark.parametrize(("query", "reason"), REFUSED)
def test_refused_view_says_why(database: duckdb.DuckDBPyConnection, query: str, reason: str) -> None:
    """A view that cannot be proved row-to-row is refused, with the reason in words."""
    text = made(database, query) if not query.startswith("PIVOT") else query
    words = why_not(text, "duckdb", types=types(database, text), macros=["twice"])
    assert words is not None
    assert reason in words


@pytest.mark.parametrize("query", [query for query, _ in REFUSED])
def test_refused_view_is_none(database: duckdb.DuckDBPyConnection, query: str) -> None:
    """A view that is refused has no parts."""
    text = made(database, query) if not query.startswith("PIVOT") else query
    assert examined(database, text) is None


def test_filter_needs_types(database: duckdb.DuckDBPyConnection) -> None:
    """Without the base table's types a comparison is refused: it could fail on a row."""
    text = made(database, "SELECT a FROM t WHERE a > 2")
    assert "types are not known" in (why_not(text, "duckdb", macros=[]) or "")


def test_plain_columns_need_no_types(database: duckdb.DuckDBPyConnection) -> None:
    """Columns taken as they are, and tests for NULL, need no facts beyond the text."""
    view = row_to_row(made(database, "SELECT a, b AS z FROM t WHERE c IS NOT NULL"), "duckdb")
    assert view is not None
    assert list(view.columns) == ["a", "z"]


@pytest.mark.parametrize("query", ["SELECT rowid AS r FROM t", "SELECT a AS x, x AS y FROM t", "SELECT t AS r FROM t"])
def test_names_that_need_types_are_refused_without(database: duckdb.DuckDBPyConnection, query: str) -> None:
    """Pseudo-columns, aliases used as columns and whole rows are refused without types too."""
    assert row_to_row(made(database, query), "duckdb") is None


@pytest.mark.parametrize("query", ["SELECT lower(c) AS l FROM t", "SELECT a FROM t WHERE c LIKE 'a%'"])
def test_functions_need_macros(database: duckdb.DuckDBPyConnection, query: str) -> None:
    """Without the list of macros no function and no LIKE is accepted."""
    text = made(database, query)
    assert "macros are not known" in (why_not(text, "duckdb", types=types(database, text)) or "")


@pytest.mark.parametrize(
    ("macro", "query"),
    [
        ("lower(x)", "SELECT lower(c) AS l FROM t"),
        ('"~~"(x, y)', "SELECT a FROM t WHERE c LIKE 'a%'"),
        ('"nullif"(x, y)', "SELECT nullif(a, 1) AS n FROM t"),
    ],
)
def test_macro_in_place_of_a_function_is_refused(macro: str, query: str) -> None:
    """A macro that stands in for a built-in function is seen, because DuckDB would run the macro."""
    with duckdb.connect() as connection:
        connection.execute(SETUP)
        connection.execute(f"CREATE MACRO {macro} AS random() < 0.5")
        find = "SELECT function_name FROM duckdb_functions() WHERE NOT internal"
        macros = [name for (name,) in connection.execute(find).fetchall()]
        text = made(connection, query)
        assert "a macro has replaced" in (why_not(text, "duckdb", types=types(connection, text), macros=macros) or "")


def test_quoted_coalesce_is_a_call(database: duckdb.DuckDBPyConnection) -> None:
    """Quoted names before a parenthesis are calls, even when they look like syntax."""
    text = 'CREATE VIEW v AS SELECT "coalesce"(a, 1) AS a FROM t'
    assert why_not(text, "duckdb", types=types(database, text), macros=[]) == 'calls "coalesce"'


def test_column_list_renames_in_order(database: duckdb.DuckDBPyConnection) -> None:
    """A view's own column list names its columns; the rest keep their names."""
    view = examined(database, made(database, "SELECT a, coalesce(b, 0), c FROM t", "(x, y)"))
    assert view is not None
    assert list(view.columns) == ["x", "y", "c"]


def test_column_list_over_a_star_is_refused(database: duckdb.DuckDBPyConnection) -> None:
    """A column list over a star would need the star's order, so that it is refused."""
    assert "star" in (why_not(made(database, "SELECT * FROM s.q", "(x)"), "duckdb") or "")


def test_columns_come_unqualified(database: duckdb.DuckDBPyConnection) -> None:
    """The parts of a view name base columns without the view's alias for the table."""
    view = examined(database, made(database, "SELECT r.a FROM t AS r WHERE r.b > 1"))
    assert view is not None
    assert view.where is not None
    assert "r." not in view.where.sql("duckdb") + view.columns["a"].sql("duckdb")


def test_home_is_the_schema_of_the_view(database: duckdb.DuckDBPyConnection) -> None:
    """An unqualified base is looked for in the view's own schema first, so that schema is told."""
    database.execute("CREATE OR REPLACE VIEW s.w AS SELECT * FROM q")
    text = database.execute("SELECT sql FROM duckdb_views() WHERE view_name = 'w'").fetchall()[0][0]
    view = row_to_row(text, "duckdb")
    assert view is not None
    assert (view.home, view.schema, view.table) == ("s", None, "q")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT a FROM t",
        "CREATE TABLE v AS SELECT a FROM t",
        "CREATE VIEW v AS SELECT (",
        "\x00",
        "DROP VIEW v",
        "CREATE VIEW v AS SELECT a FROM t; DROP TABLE t",
        "CREATE VIEW v AS SELECT ? AS a FROM t",
        "CREATE VIEW v AS SELECT a FROM t WHERE a = $1",
        "CREATE VIEW v AS SELECT a FROM t WHERE " + "(" * 3000,
    ],
)
def test_text_that_is_no_view_is_refused(text: str) -> None:
    """Text that is not one CREATE VIEW, or takes a parameter, is refused without a crash."""
    assert row_to_row(text, "duckdb", types={"a": "INTEGER"}, macros=[]) is None


@given(st.text(max_size=80))
def test_any_text_gets_an_answer(text: str) -> None:
    """Whatever a definition holds, the answer is a reason or parts, never a crash."""
    definition = f"CREATE VIEW v AS SELECT a FROM t WHERE {text}"
    view = row_to_row(definition, "duckdb", types={"a": "INTEGER"}, macros=[])
    assert (view is None) == (why_not(definition, "duckdb", types={"a": "INTEGER"}, macros=[]) is not None)


@settings(max_examples=20, deadline=None)
@given(st.text(min_size=1, max_size=20).filter(lambda name: "\x00" not in name and name.isprintable()))
def test_odd_names_survive(name: str) -> None:
    """Any printable name of a table and of a column comes back the same from the text DuckDB stores."""
    name += "!"  # so that DuckDB quotes it: a bare word that is a keyword to sqlglot alone is refused
    quoted = exp.to_identifier(name, quoted=True).sql("duckdb")
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE {quoted} ({quoted} INTEGER)")
        text = made(connection, f"SELECT {quoted} FROM {quoted} WHERE {quoted} > 1")
    view = row_to_row(text, "duckdb", types={name: "INTEGER"}, macros=[])
    assert view is not None
    assert (view.table, list(view.columns)) == (name, [name])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("INTEGER", "number"),
        ("HUGEINT", "long number"),
        ("DECIMAL(18,2)", "number"),
        ("DECIMAL(19,2)", "long number"),
        ("VARCHAR", "text"),
        ("ENUM('a')", "text"),
        ("INTEGER[]", "other"),
        ("no such type", "other"),
        ("TIMESTAMP", "timestamp"),
        ("TIMESTAMP WITH TIME ZONE", "other"),
        ("STRUCT(a INTEGER)", "other"),
    ],
)
def test_family_of_a_type(kind: str, expected: str) -> None:
    """Types whose values compare without failing are of one family; all others are "other"."""
    assert type_family(kind, "duckdb") == expected
