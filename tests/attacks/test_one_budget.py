"""One table, one budget: rows that have a budget get no second one and no free look, whatever they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import duckdb
import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import BudgetError, DpsqlError, NotRegistered, TableChanged, UsageError
from dpsql.models.score import public_table
from dpsql.schema import Unit
from tests.attacks.budgets import SCHEMA, TINY, assert_no_free_look, assert_one_budget
from tests.servers import fresh_database
from tests.tables import rows_of, run

COLUMNS = "(person BIGINT, x DOUBLE PRECISION, c VARCHAR, y VARCHAR, month VARCHAR)"
#: How a table is named in SQL, whatever the connection's search path is.
HOME = {"duckdb": "main", "postgres": "public"}
OPEN: dict[str, Callable[[], Database]] = {
    "duckdb": lambda: connect(":memory:", who="ann"),
    "postgres": lambda: connect(fresh_database(), who="ann"),
}


def make(db: Database, name: str, *, of: str | None = None) -> None:
    """Make a table with ten rows, in the home schema where none is given before a dot."""
    if of is not None:
        run(db.engine, f"CREATE TABLE {name} AS SELECT * FROM {of}")
        return
    values = ", ".join(f"({n}, {n}, 'a', 'yes', 'm{n % 2}')" for n in range(10))
    run(db.engine, f"CREATE TABLE {name} {COLUMNS}", f"INSERT INTO {name} VALUES {values}")


@pytest.fixture(params=sorted(OPEN))
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open a database with a table "people" that is not registered, and a public one, "newcomers"."""
    with OPEN[request.param]() as opened:
        home = HOME[opened.engine.dialect]
        make(opened, f"{home}.people")
        make(opened, f"{home}.newcomers")
        yield opened


@pytest.fixture
def server() -> Iterator[Database]:
    """Open a PostgreSQL database with the two tables."""
    with OPEN["postgres"]() as opened:
        make(opened, "public.people")
        make(opened, "public.newcomers")
        yield opened


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a DuckDB file whose table "people" is registered and has spent half of its cap."""
    with connect(tmp_path / "data.duckdb", create=True, who="ann") as opened:
        make(opened, "people")
        make(opened, "newcomers")
        opened.register("people", SCHEMA, cap=1)
        opened.train("people", **TINY)
    return tmp_path / "data.duckdb"


def home(db: Database, name: str) -> str:
    """Return a table of the home schema as SQL names it."""
    return f"{HOME[db.engine.dialect]}.{name}"


# At the same moment.


def test_a_table_and_its_view_registered_at_the_same_moment_have_one_budget(db: Database) -> None:
    """Twelve times, four who register a table and its views at once: one of them gets a budget."""
    names = ["people", "seen", "other", "third"]
    for view in names[1:]:
        run(db.engine, f"CREATE VIEW {home(db, view)} AS SELECT x, c, y FROM {home(db, 'people')}")
    for turn in range(12):
        base = f"people{turn}"
        views = [f"{view}{turn}" for view in names[1:]]
        make(db, home(db, base))
        for view in views:
            run(db.engine, f"CREATE VIEW {home(db, view)} AS SELECT x, c, y FROM {home(db, base)}")
        start = Barrier(4)

        def attempt(name: str, start: Barrier = start) -> bool:
            start.wait()
            try:
                db.register(name, SCHEMA, cap=1)
            except UsageError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(attempt, [base, *views])) == 1
    assert len(db.book.datasets()) == 12
    assert db.verify() == []


# Other names.


def test_a_renamed_table_keeps_its_budget(db: Database) -> None:
    """Under its new name it cannot be registered, read for free or trained on; `replace` takes the budget along."""
    db.register("people", SCHEMA, cap=1)
    db.train("people", **TINY)
    run(db.engine, f"ALTER TABLE {home(db, 'people')} RENAME TO folk")
    assert_one_budget(db, "folk")
    with pytest.raises(TableChanged, match="renamed"):
        db.train("folk", **TINY)
    db.register("folk", SCHEMA, cap=1, replace=True)
    assert db.budget("folk").spent_text == "0.5"
    db.train("folk", **TINY)
    assert db.budget("folk").left == 0


def test_a_table_renamed_in_a_closed_file_keeps_its_budget(file: Path) -> None:
    """DuckDB numbers its tables anew when a file is opened, so its numbers tell nothing: the identity must last."""
    with duckdb.connect(str(file)) as connection:
        connection.execute("ALTER TABLE people RENAME TO folk")
        connection.execute("ALTER TABLE folk ADD COLUMN note VARCHAR")
        connection.execute("CHECKPOINT")
    with connect(file) as db:
        assert_one_budget(db, "folk")


def test_a_table_registered_in_another_ledger_has_its_budget_there(file: Path) -> None:
    """Copied into another database without its ledger, as DuckDB copies whole databases, a table gets no second one."""
    copy = file.with_name("copy.duckdb")
    with duckdb.connect(str(file)) as connection:
        connection.execute(f"ATTACH '{copy}' AS copy")
        connection.execute("COPY FROM DATABASE data TO copy")
        connection.execute("DROP SCHEMA copy.dpsql CASCADE")
    with connect(copy) as db:
        with pytest.raises(UsageError, match="another ledger"):
            db.register("people", SCHEMA, cap=1)
        assert_no_free_look(db, "people")


def test_a_comment_of_the_owners_stays_beside_the_identity(tmp_path: Path) -> None:
    """Where the identity is kept in a table's comment, what stood there stays."""
    with connect(tmp_path / "data.duckdb", create=True) as db:
        make(db, "people")
        run(db.engine, "COMMENT ON TABLE people IS 'all customers'")
        db.register("people", SCHEMA, cap=1)
        (row,) = rows_of(db.engine, "SELECT comment FROM duckdb_tables() WHERE table_name = 'people'")
        assert row["comment"].startswith("all customers [dpsql ")


def test_a_table_that_took_the_name_of_another_is_not_it(db: Database) -> None:
    """Two tables change names: the registered one keeps its budget, the other has none until its owner says so."""
    db.register("people", SCHEMA, cap=1)
    run(
        db.engine,
        f"ALTER TABLE {home(db, 'people')} RENAME TO old",
        f"ALTER TABLE {home(db, 'newcomers')} RENAME TO people",
    )
    assert_one_budget(db, "old")
    with pytest.raises(TableChanged, match="another took its name"):
        db.train("people", **TINY)
    assert db.budget("people").spent == 0


def test_a_table_made_anew_is_another_until_its_owner_says_so(db: Database) -> None:
    """A table dropped and created again is refused; registered again it has the old budget."""
    db.register("people", SCHEMA, cap=1)
    db.train("people", **TINY)
    run(db.engine, f"DROP TABLE {home(db, 'people')}")
    make(db, home(db, "people"))
    with pytest.raises(TableChanged, match="made anew"):
        db.train("people", **TINY)
    db.register("people", SCHEMA, cap=1, replace=True)
    assert db.budget("people").spent_text == "0.5"


def test_a_name_that_could_mean_two_tables_is_refused(db: Database) -> None:
    """Table "people" of schema "hr" and a table called "hr.people" are never taken for each other."""
    run(db.engine, "CREATE SCHEMA hr")
    make(db, "hr.people")
    db.register("hr.people", SCHEMA, cap=1)
    make(db, home(db, '"hr.people"'))
    for ask in (db.train, db.plan, db.explain, lambda name: public_table(db, name)):
        with pytest.raises(DpsqlError, match="can mean two tables"):
            ask("hr.people")
    run(
        db.engine,
        f"CREATE VIEW {home(db, 'peek')} AS SELECT * FROM hr.people",
        f"""CREATE VIEW {home(db, "fine")} AS SELECT * FROM {home(db, '"hr.people"')}""",
    )
    assert_no_free_look(db, "peek")
    assert public_table(db, "fine").name == "fine"
    run(db.engine, "DROP VIEW " + home(db, "peek"), "DROP TABLE hr.people")
    with pytest.raises(TableChanged, match="no longer there"):
        db.train("hr.people", **TINY)


def test_a_table_moved_to_another_schema_keeps_its_budget(server: Database) -> None:
    """SET SCHEMA changes what a table is called, not what it is."""
    server.register("people", SCHEMA, cap=1)
    run(server.engine, "CREATE SCHEMA hr", "ALTER TABLE public.people SET SCHEMA hr")
    assert_one_budget(server, "hr.people")


# Views.


def test_a_view_moved_to_another_table_leaves_no_rows_without_a_budget(db: Database) -> None:
    """Registered again over another table, the dataset still holds the rows that it had before."""
    text = "VIEW {view} AS SELECT x, c, y FROM {table}"
    names = {"view": home(db, "seen"), "table": home(db, "people")}
    run(db.engine, "CREATE " + text.format(**names))
    db.register("seen", SCHEMA, cap=1)
    db.train("seen", **TINY)
    run(db.engine, "CREATE OR REPLACE " + text.format(**(names | {"table": home(db, "newcomers")})))
    with pytest.raises(TableChanged):
        db.train("seen", **TINY)
    db.register("seen", SCHEMA, cap=1, replace=True)
    assert_one_budget(db, "people")
    assert_one_budget(db, "newcomers")


def test_rows_of_two_budgets_cannot_become_one_dataset(db: Database) -> None:
    """A view that was registered on one table and now reads another registered one is refused, with `replace` too."""
    make(db, home(db, "strangers"))
    run(db.engine, f"CREATE VIEW {home(db, 'seen')} AS SELECT x, c, y FROM {home(db, 'strangers')}")
    db.register("seen", SCHEMA, cap=1)
    db.register("people", SCHEMA, cap=1)
    run(db.engine, f"CREATE OR REPLACE VIEW {home(db, 'seen')} AS SELECT x, c, y FROM {home(db, 'people')}")
    with pytest.raises(UsageError, match="two budgets"):
        db.register("seen", SCHEMA, cap=1, replace=True)


def batched(db: Database, meaning: str) -> None:
    """Make (or replace) the view "seen", with a batch column of this meaning."""
    query = f"SELECT x, c, y, person, {meaning} AS part FROM {home(db, 'people')}"
    run(db.engine, f"CREATE OR REPLACE VIEW {home(db, 'seen')} AS {query}")


def test_batches_of_another_meaning_start_from_what_any_batch_has_spent(db: Database) -> None:
    """A row may be in another batch now, so all rows count as if they had been in the batch that spent most."""
    schema = replace(SCHEMA, batch="part")
    batched(db, "month")
    db.register("seen", schema, cap=1)
    model = db.train("seen", **(TINY | {"epsilon": "0.75"}), batch="m0")
    db.train("seen", **TINY, batch="m1")
    batched(db, "c")
    db.register("seen", schema, cap=1, replace=True)
    with pytest.raises(BudgetError):
        db.train("seen", **TINY, batch="a")
    with pytest.raises(UsageError, match="mean other rows"):
        db.update(model, "a", epsilon="0.25")
    db.train("seen", **(TINY | {"epsilon": "0.25"}), batch="a")
    assert db.budget("seen").left == 0
    assert db.verify() == []


def test_batches_of_the_same_meaning_stay_apart(db: Database) -> None:
    """A new filter or feature moves no row to another batch."""
    schema = replace(SCHEMA, batch="part")
    batched(db, "month")
    db.register("seen", schema, cap=1)
    db.train("seen", **TINY, batch="m0")
    query = f"SELECT x, c, y, month AS part FROM {home(db, 'people')} WHERE x > 2"
    run(db.engine, f"DROP VIEW {home(db, 'seen')}", f"CREATE VIEW {home(db, 'seen')} AS {query}")
    db.register("seen", schema, cap=1, replace=True)
    assert db.budget("seen").left_in("part=m1") == 1_000_000_000


def test_another_unit_is_refused_whatever_kind_was_spent(db: Database) -> None:
    """What was spent with a delta counts too: losses of rows and of persons do not add up."""
    db.register("people", SCHEMA, cap=1)
    db.set_cap("people", 1, kind="approximate", delta="1e-6")
    db.train("people", **TINY, delta="1e-9")
    assert db.budget("people").spent == 0
    with pytest.raises(UsageError, match="privacy unit"):
        db.register("people", replace(SCHEMA, unit=Unit("person", 2)), cap=1, replace=True)


def test_a_unit_made_of_something_else_is_another_unit(db: Database) -> None:
    """A view whose unit column gets another expression protects others than those who were charged."""
    schema = replace(SCHEMA, unit=Unit("part", 2))
    batched(db, "person")
    db.register("seen", schema, cap=1)
    db.train("seen", **TINY)
    run(db.engine, f"DROP VIEW {home(db, 'seen')}")
    batched(db, "x")
    with pytest.raises(UsageError, match="privacy unit"):
        db.register("seen", schema, cap=1, replace=True)


# Free looks.


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM people",
        "FROM people",
        "TABLE people",
        "SELECT * FROM query_table('people')",
        "SELECT * FROM query('FROM people')",
        "SELECT * FROM peek()",
        "SELECT *, total() AS n FROM newcomers",
        "SELECT * REPLACE (lower(c) AS c) FROM newcomers",
        "SELECT * FROM newcomers WHERE x < (SELECT count(*) FROM people)",
        "SELECT n.* FROM newcomers n POSITIONAL JOIN people p",
        "SELECT * FROM newcomers ANTI JOIN people USING (x)",
        "WITH people AS (SELECT * FROM people) SELECT * FROM people",
        "WITH newcomers AS (FROM people) SELECT * FROM newcomers",
        "PIVOT people ON c IN ('a', 'b') USING count(*)",
        "SUMMARIZE people",
        "SELECT * FROM (SUMMARIZE people)",
        "SELECT estimated_size AS x, 'a' AS c, 'yes' AS y FROM duckdb_tables()",
        "SELECT estimated_size AS x, 'a' AS c, 'yes' AS y FROM duckdb_tables",
        "SELECT x, c, y FROM memory.main.people",
        "SELECT x, c, y FROM other.main.people",
        "SELECT x, c, y FROM seen",
        'SELECT x, c, y FROM "SEEN"',
        "SELECT x, c, y FROM newcomers UNION ALL SELECT x, c, y FROM people",
    ],
)
def test_nothing_in_duckdb_shows_private_rows_for_free(query: str) -> None:
    """Views that read a registered table by whatever way, macros, table functions and catalogs are refused."""
    with duckdb.connect() as connection:
        connection.execute("ATTACH ':memory:' AS other")
        db = connect(connection, who="ann")
        for name in ("people", "newcomers"):
            connection.execute(f"CREATE TABLE {name} AS SELECT 1.0 AS x, 'a' AS c, 'yes' AS y")
        connection.execute("CREATE TABLE other.main.people AS FROM people")
        connection.execute("CREATE MACRO peek() AS TABLE FROM people")
        connection.execute("CREATE MACRO total() AS (SELECT count(*) FROM people)")
        connection.execute("CREATE MACRO lower(t) AS (SELECT count(*) FROM people)")
        connection.execute("CREATE VIEW seen AS SELECT x, c, y FROM people")
        connection.execute(f"CREATE VIEW look AS {query}")
        db.register("people", SCHEMA, cap=1)
        assert_no_free_look(db, "look")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM newcomers WHERE x > 3",
        "WITH kept AS (SELECT lower(c) AS c, x, y FROM newcomers) SELECT * FROM kept",
        "SELECT a.x, coalesce(b.c, 'a') AS c, b.y FROM newcomers a JOIN newcomers b ON a.x = b.x",
        "SELECT avg(x) AS x, min(c) AS c, y FROM newcomers GROUP BY y",
    ],
)
def test_views_of_public_tables_stay_free(db: Database, query: str) -> None:
    """What reads public tables alone can be read, whatever the query does."""
    db.register("people", SCHEMA, cap=1)
    run(db.engine, f"CREATE VIEW {home(db, 'look')} AS {query.replace('newcomers', home(db, 'newcomers'))}")
    assert public_table(db, "look").name == "look"


def test_an_evaluation_through_a_macro_is_refused(db: Database) -> None:
    """The front door: without epsilon a view that counts private rows gives no figures."""
    db.register("people", SCHEMA, cap=1)
    model = db.train("people", **TINY)
    run(
        db.engine,
        f"CREATE VIEW {home(db, 'look')} AS SELECT n.x, n.c, n.y FROM {home(db, 'newcomers')} AS n "
        f"WHERE n.x < (SELECT count(*) FROM {home(db, 'people')} AS p)",
    )
    for look in (db.evaluate, lambda m, name: m.predict(name), lambda m, name: m.predict(name, into="kept")):
        with pytest.raises(BudgetError, match="free"):
            look(model, "look")


POSTGRES = {
    "function": (
        "CREATE FUNCTION public.total() RETURNS BIGINT LANGUAGE sql AS 'SELECT count(*) FROM public.people'",
        "SELECT x + public.total() AS x, c, y FROM public.newcomers",
    ),
    "table function": (
        "CREATE FUNCTION public.peek() RETURNS SETOF public.people LANGUAGE sql AS 'SELECT * FROM public.people'",
        "SELECT x, c, y FROM public.peek()",
    ),
    "function called as a built-in one": (
        "CREATE FUNCTION public.lower(INT) RETURNS BIGINT LANGUAGE sql AS 'SELECT count(*) FROM public.people'",
        "SELECT public.lower(1) AS x, c, y FROM public.newcomers",
    ),
    "operator": (
        "CREATE FUNCTION public.plus(INT, INT) RETURNS BIGINT LANGUAGE sql AS 'SELECT count(*) FROM public.people'; "
        "CREATE OPERATOR public.+ (FUNCTION = public.plus, LEFTARG = INT, RIGHTARG = INT)",
        "SELECT 1 OPERATOR(public.+) 1 AS x, c, y FROM public.newcomers",
    ),
    "domain": (
        "CREATE FUNCTION public.ok(TEXT) RETURNS BOOLEAN LANGUAGE sql AS 'SELECT count(*) > 0 FROM public.people'; "
        "CREATE DOMAIN public.odd AS TEXT CHECK (public.ok(VALUE))",
        "SELECT x, CAST(c AS public.odd) AS c, y FROM public.newcomers",
    ),
    "query as text": (
        "SELECT 1",
        "SELECT length(CAST(query_to_xml('SELECT * FROM public.people', true, true, '') AS TEXT)) AS x, c, y "
        "FROM public.newcomers",
    ),
    "statistics": ("SELECT 1", "SELECT n_live_tup AS x, 'a' AS c, 'yes' AS y FROM pg_stat_user_tables"),
    "catalog": ("SELECT 1", "SELECT reltuples AS x, 'a' AS c, 'yes' AS y FROM pg_class"),
    "view of a view": (
        "CREATE VIEW public.seen AS SELECT * FROM public.people",
        "SELECT x, c, y FROM public.seen",
    ),
    "barrier": ("SELECT 1", "SELECT x, c, y FROM public.people WHERE x > 3"),
}


@pytest.mark.parametrize("way", POSTGRES)
def test_nothing_in_postgres_shows_private_rows_for_free(server: Database, way: str) -> None:
    """Functions, operators and domains of users, texts that are run, statistics and views of views are refused."""
    before, query = POSTGRES[way]
    server.register("people", SCHEMA, cap=1)
    run(server.engine, *before.split("; "), f"CREATE VIEW public.look WITH (security_barrier) AS {query}")
    assert_no_free_look(server, "look")


def test_a_materialized_view_is_not_read_for_free(server: Database) -> None:
    """It holds copies of rows; whose they are is not asked."""
    server.register("people", SCHEMA, cap=1)
    run(server.engine, "CREATE MATERIALIZED VIEW public.kept AS SELECT * FROM public.people")
    assert_no_free_look(server, "kept")


def test_a_foreign_table_is_not_read_for_free(server: Database) -> None:
    """It can lead back to the very same server."""
    server.register("people", SCHEMA, cap=1)
    run(
        server.engine,
        "CREATE FOREIGN DATA WRAPPER nowhere",
        "CREATE SERVER back FOREIGN DATA WRAPPER nowhere",
        f"CREATE FOREIGN TABLE public.looped {COLUMNS} SERVER back",
        f"CREATE TABLE public.above {COLUMNS} PARTITION BY LIST (c)",
        "CREATE FOREIGN TABLE public.part PARTITION OF public.above DEFAULT SERVER back",
    )
    for name in ("looped", "above", "part"):
        assert_no_free_look(server, name)
        with pytest.raises(DpsqlError):
            server.register(name, SCHEMA, cap=1)


# Parts of tables.


def test_a_parent_of_a_registered_table_has_its_rows(server: Database) -> None:
    """A registered table that becomes a partition gives its parent no second budget; the table goes on with its own."""
    server.register("people", SCHEMA, cap=1)
    run(
        server.engine,
        f"CREATE TABLE public.above {COLUMNS} PARTITION BY LIST (c)",
        "ALTER TABLE public.above ATTACH PARTITION public.people DEFAULT",
    )
    assert_one_budget(server, "above")
    server.train("people", **TINY)
    assert server.budget("people").spent_text == "0.5"


def test_a_parent_by_inheritance_has_its_childs_rows(server: Database) -> None:
    """So it is with INHERIT, over two generations."""
    server.register("people", SCHEMA, cap=1)
    run(
        server.engine,
        f"CREATE TABLE public.grandparent {COLUMNS}",
        "CREATE TABLE public.parent () INHERITS (public.grandparent)",
        "ALTER TABLE public.people INHERIT public.parent",
    )
    assert_one_budget(server, "parent")
    assert_one_budget(server, "grandparent")


def partitioned(db: Database) -> None:
    """Make a partitioned table "visits" with two parts."""
    run(
        db.engine,
        f"CREATE TABLE public.visits {COLUMNS} PARTITION BY LIST (month)",
        "CREATE TABLE public.first PARTITION OF public.visits FOR VALUES IN ('m0')",
        "CREATE TABLE public.second PARTITION OF public.visits FOR VALUES IN ('m1')",
        "INSERT INTO public.visits SELECT * FROM public.people",
    )


def test_a_part_of_a_registered_table_has_its_budget(server: Database) -> None:
    """A partition cannot be registered apart or read for free, neither inside its parent nor detached from it."""
    partitioned(server)
    server.register("visits", SCHEMA, cap=1)
    server.train("visits", **TINY)
    assert_one_budget(server, "first")
    run(server.engine, "ALTER TABLE public.visits DETACH PARTITION public.first")
    assert_one_budget(server, "first")
    run(server.engine, "ALTER TABLE public.first RENAME TO folk")
    assert_one_budget(server, "folk")


def test_a_new_part_waits_for_the_owner(server: Database) -> None:
    """A partition that came later may have had a budget: the run is refused until the table is registered again."""
    partitioned(server)
    server.register("visits", SCHEMA, cap=1)
    run(server.engine, "CREATE TABLE public.third PARTITION OF public.visits DEFAULT")
    assert_no_free_look(server, "third")
    with pytest.raises(TableChanged, match="other parts"):
        server.train("visits", **TINY)
    server.register("visits", SCHEMA, cap=1, replace=True)
    server.train("visits", **TINY)
    run(server.engine, "ALTER TABLE public.visits DETACH PARTITION public.third")
    assert_one_budget(server, "third")


def test_a_copied_database_is_not_the_registered_one(server: Database) -> None:
    """A copy has the same numbers for its tables; its owner must say that the ledger there is the copy's."""
    server.register("people", SCHEMA, cap=1)
    server.close()
    import psycopg

    url = str(server.engine._conninfo)  # type: ignore[attr-defined]
    name = url.rsplit("/", 1)[1]
    with psycopg.connect(url.rsplit("/", 1)[0] + "/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}_copy TEMPLATE {name}")
    with connect(f"{url}_copy") as copy, pytest.raises(TableChanged, match="made anew"):
        copy.train("people", **TINY)


# Files.


def test_a_renamed_file_keeps_its_budget(tmp_path: Path) -> None:
    """A file is the same file under another name."""
    (tmp_path / "people.csv").write_text("x,c,y\n1,a,yes\n2,b,no\n")
    with connect(tmp_path) as db:
        db.register("people", SCHEMA, cap=1)
    (tmp_path / "people.csv").rename(tmp_path / "folk.csv")
    (tmp_path / "people.csv").write_text("x,c,y\n1,a,yes\n")
    with connect(tmp_path) as db:
        assert_one_budget(db, "folk")


def test_a_copy_has_no_budget(db: Database) -> None:
    """What can be told is told: a copy is another table, which its owner must register."""
    db.register("people", SCHEMA, cap=1)
    make(db, home(db, "twin"), of=home(db, "people"))
    with pytest.raises(NotRegistered):
        db.train("twin", **TINY)


@pytest.mark.parametrize(
    "macro",
    [
        "lower(t) AS 'nothing'",
        "duckdb_functions() AS TABLE SELECT 'nothing' AS function_name, false AS internal",
        "duckdb_columns() AS TABLE SELECT 1 AS nothing",
        "current_database() AS 'elsewhere'",
        '"+"(a, b) AS 0',
        "greatest(a, b) AS 0",
    ],
)
def test_a_macro_called_as_a_built_in_function_is_seen(macro: str) -> None:
    """A macro that stands in for a function of the catalog or of the ledger does not hide: nothing runs beside it."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE people AS SELECT 1.0 AS x, 'a' AS c, 'yes' AS y")
        db = connect(connection, who="ann")
        db.register("people", SCHEMA, cap=1)
        connection.execute(f"CREATE MACRO {macro}")
        with pytest.raises(DpsqlError, match="redefines the built-in function"):
            db.train("people", **TINY)
        assert db.budget("people").spent == 0
        connection.execute("ALTER TABLE people RENAME TO folk")
        with pytest.raises(UsageError, match="one budget"):
            db.register("folk", SCHEMA, cap=1)
