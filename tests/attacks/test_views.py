"""Views are the owner's SQL, and still no row may make one fail: what could is refused when the view is registered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.api.database import Database
from dpsql.compile.views.row_to_row import row_to_row, why_not
from dpsql.engines.base import Engine
from dpsql.errors import ParameterError, SchemaError
from dpsql.schema import Numeric, Schema
from tests.servers import OPEN_EMPTY
from tests.tables import SCHEMA, on_disk, run, some_rows

TYPES = {
    "duckdb": {"n": "BIGINT", "x": "DOUBLE", "c": "VARCHAR", "d": "VARCHAR", "p": "DECIMAL(18,3)"},
    "postgres": {"n": "bigint", "x": "double precision", "c": "text", "d": "text", "p": "numeric(18,3)"}
    | {"f": "real", "q": "numeric(5,400)"},
    "spark": {"n": "bigint", "x": "double", "c": "string", "d": "string", "p": "decimal(18,3)"},
    "clickhouse": {"n": "Int64", "x": "Float64", "c": "String", "d": "String", "p": "Decimal(18, 3)"},
}
EVERYWHERE = {
    "a pattern that ends in its escape": r"c LIKE 'x\\'",
    "a pattern with a backslash": r"c LIKE '\\%a'",
    "a pattern with an escape of its own": "c LIKE 'a!' ESCAPE '!'",
    "a number above all doubles": "x < 1e400",
    "a number below all doubles": "x > 1e-400",
    "a subnormal number": "x = 5e-324",
    "a long number": "n < 99999999999999999999",
    "a collation": "c COLLATE nocase = 'a'",
    "two columns of text": "c = d",
    "two columns of text in one value": "coalesce(c, d) = 'a'",
    "two columns of text in CASE": "CASE WHEN n > 1 THEN c ELSE d END = 'a'",
    "a column in a list": "n IN (1, x)",
    "a cast that can fail": "CAST(c AS INT) = 1",
    "a short cast that can fail": "c::INT = 1",
    "a cast of NULL to somebody's type": "CAST(NULL AS her.domain) IS NULL",
    "a cast of a text to somebody's type": "CAST('a' AS domain) IS NULL",
    "a cast to text with a collation": "CAST(c AS TEXT COLLATE nocase) = 'a'",
    "a list": "CAST(NULL AS INT[]) IS NULL",
    "a function": "length(c) > 1",
}
ALONE = {
    ("postgres", "TRY_CAST(c AS INT) = 1"): "a cast that would be a plain one",
    ("clickhouse", "TRY_CAST(c AS INT) = 1"): "a cast that would be a plain one",
    ("clickhouse", "CAST(n AS String) = '1'"): "a cast of NULL to a type that takes none",
    ("clickhouse", "p > n"): "a decimal that is scaled out of its type",
    ("clickhouse", "p > 1000"): "a decimal beside a number",
    ("postgres", "COALESCE(f, CASE WHEN n = 1 THEN 1e300 ELSE 0.5 END) > 0"): "a number above all of a column's type",
    ("postgres", "CASE WHEN c IS NULL THEN f WHEN n = 1 THEN 1e-300 ELSE n END > 0"): "a number below them",
    ("postgres", "x < q"): "a decimal that no double holds",
}


def view(test: str) -> str:
    """Return a view with a test as its filter."""
    return f"CREATE VIEW v AS SELECT n FROM t WHERE {test}"


@pytest.mark.parametrize("dialect", TYPES)
@pytest.mark.parametrize("test", EVERYWHERE.values(), ids=EVERYWHERE)
def test_what_a_row_could_make_fail_is_refused_in_every_dialect(dialect: str, test: str) -> None:
    """As a filter and as a column, with a reason in words."""
    for text in (view(test), f"CREATE VIEW v AS SELECT ({test}) AS n FROM t"):
        assert row_to_row(text, dialect, types=TYPES[dialect], macros=()) is None
        assert (why_not(text, dialect, types=TYPES[dialect], macros=()) or "")[:1].isalpha()


@pytest.mark.parametrize(("dialect", "test"), ALONE, ids=ALONE.values())
def test_what_fails_in_one_database_is_refused_there(dialect: str, test: str) -> None:
    """Casts and decimals differ: what is total elsewhere can fail on a row here."""
    assert row_to_row(view(test), dialect, types=TYPES[dialect], macros=()) is None


@pytest.mark.parametrize("dialect", TYPES)
@pytest.mark.parametrize(
    "test", ["c LIKE 'a%_'", "x < 1e300", "x > 0.5 AND n IN (1, -2)", "c IN ('a', 'b')", "lower(c) = 'a'", "n < x"]
)
def test_what_cannot_fail_is_taken(dialect: str, test: str) -> None:
    """Plain filters still make a row-to-row view."""
    assert row_to_row(view(test), dialect, types=TYPES[dialect], macros=()) is not None


@pytest.fixture(params=sorted(OPEN_EMPTY), scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Open a database of each engine, one for all tests."""
    opened = OPEN_EMPTY[request.param]()
    yield opened
    opened.close()


#: A view that fails on some rows, as each database's own SQL.
FAILING = {
    "duckdb": ["CAST(c AS INT) = 1"],
    "postgres": [r"c LIKE 'x\'", "CAST(c AS INT) = 1"],
    "spark": ["CAST(c AS INT) = 1", r"c LIKE 'x\\'"],
    "clickhouse": [r"c LIKE 'x\\'", "p > n", "CAST(c AS Nullable(Int32)) = 1", "CAST(n AS String) = '1'"],
}


def test_a_view_that_fails_on_a_row_cannot_be_registered(engine: Engine) -> None:
    """Registering it is refused by name, so that no run on it can tell whether such a row is there."""
    kinds = {"clickhouse": "Nullable({})", "spark": "{}"}.get(engine.dialect, "{}")
    made = {name: kind for name, kind in TYPES[engine.dialect].items() if name != "d"}
    columns = ", ".join(f"{name} {kinds.format(kind)}" for name, kind in made.items())
    ending = " ENGINE = MergeTree ORDER BY tuple()" if engine.dialect == "clickhouse" else ""
    run_here = engine.session.sql if engine.dialect == "spark" else None  # type: ignore[attr-defined]
    run_here = engine.session.query if engine.dialect == "clickhouse" else run_here  # type: ignore[attr-defined]
    run_here = run_here or (lambda statement: run(engine, statement))
    home = f"{engine.home}." if engine.dialect == "postgres" else ""
    run_here(f"CREATE TABLE {home}failing ({columns}, y {made['c']}){ending}")
    database = Database(engine, who="ann")
    for number, test in enumerate(FAILING[engine.dialect]):
        run_here(f"CREATE VIEW {home}shown_{number} AS SELECT n, y FROM {home}failing WHERE {test}")
        with pytest.raises(SchemaError, match="row-to-row|cannot be registered"):
            database.register(f"shown_{number}", Schema("y", ("a", "b"), (Numeric("n", 0, 9),)), cap=1)
        if engine.dialect == "spark":  # its catalog is that of all tests of a process
            run_here(f"DROP VIEW shown_{number}")
    if engine.dialect == "spark":
        run_here("DROP TABLE failing")


@pytest.mark.parametrize("dialect", TYPES)
def test_columns_that_differ_in_letter_case_alone_are_refused(dialect: str) -> None:
    """In PostgreSQL c and "C" are two columns, whose collations may differ: taken for one, they could be compared."""
    types = {**TYPES[dialect], "C": TYPES[dialect]["c"]}
    text = view("c = 'a'")
    assert row_to_row(text, dialect, types=types, macros=()) is None
    assert "letter case" in (why_not(text, dialect, types=types, macros=()) or "")


def test_two_spellings_of_a_column_cannot_be_registered_as_a_view() -> None:
    """Comparing v with "V" fails on the first row that gets there, where their collations differ."""
    engine = OPEN_EMPTY["postgres"]()
    run(engine, 'CREATE TABLE public.spelled (n BIGINT, v TEXT COLLATE "C", "V" TEXT COLLATE "en-x-icu", y TEXT)')
    run(engine, """CREATE VIEW public.compared AS SELECT n, y FROM public.spelled WHERE n < 1000 OR v = "V\"""")
    with Database(engine, who="ann") as db, pytest.raises(SchemaError, match="letter case"):
        db.register("compared", Schema("y", ("a", "b"), (Numeric("n", 0, 9),)), cap=1)


@pytest.mark.parametrize("name", ["adults", "ADULTS"])
def test_a_view_that_predicts_does_not_replace_a_registered_one(tmp_path: Path, name: str) -> None:
    """What the owner declared stands: a model's view takes no name that has a budget."""
    with on_disk(tmp_path / "data.duckdb", some_rows(), cap=5) as database:
        model = database.train("people", epsilon=1, method="rdt", trees=1, depth=1)
        run(
            database.engine,
            "CREATE TABLE fresh AS SELECT * FROM people WHERE false",
            "CREATE TABLE everyone AS SELECT * FROM people",
            "CREATE VIEW adults AS SELECT * FROM everyone",
        )
        database.register("adults", SCHEMA, cap=1)
        with pytest.raises(ParameterError, match="a registered view has that name"):
            model.create_view("fresh", name=name)
        assert database.train("adults", epsilon=1, method="rdt", trees=1, depth=1).table == "adults"
