"""Nothing that an analyst has made is evaluated with the owner's or a superuser's rights (issue 15, finding 9)."""

from __future__ import annotations

import pytest

from dpsql.api import census
from dpsql.api.database import connect
from dpsql.errors import DatabaseError, DpsqlError, SchemaError, TableChanged
from tests.attacks.analyst import OWNER, Server, prepared
from tests.servers import fresh_database

psycopg = pytest.importorskip("psycopg")
REGIONS = ", ".join(f"'{region}'" for region in census.REGIONS)


@pytest.fixture(scope="module")
def server() -> Server:
    """Prepare a database in which ann writes down who evaluates what she has made."""
    server = prepared()
    server.run(
        "CREATE TABLE public.diary (who TEXT, seen BIGINT)",
        "GRANT ALL ON public.diary TO PUBLIC",
        """
        CREATE FUNCTION public.spy(BIGINT) RETURNS BIGINT LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO public.diary VALUES (current_user, NULL); RETURN $1; END $$
        """,
        """
        CREATE FUNCTION public.peek(BIGINT) RETURNS BIGINT LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO public.diary SELECT current_user, count(*) FROM private.people; RETURN $1; END $$
        """,
        f"CREATE TYPE public.place AS ENUM ({REGIONS})",
        """
        CREATE FUNCTION public.told(public.place) RETURNS TEXT LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO public.diary VALUES (current_user, NULL); RETURN 'north'; END $$
        """,
        "CREATE CAST (public.place AS TEXT) WITH FUNCTION public.told(public.place) AS IMPLICIT",
        *(
            f"ALTER FUNCTION public.{name} OWNER TO ann"
            for name in ("spy(BIGINT)", "peek(BIGINT)", "told(public.place)")
        ),
        "ALTER TYPE public.place OWNER TO ann",
    )
    return server


def diary(server: Server) -> set[tuple[str, int | None]]:
    """Return who evaluated what ann has made, and what was seen; then forget it."""
    found = set(server.run("SELECT who, seen FROM public.diary"))
    server.run("TRUNCATE public.diary")
    return found


COLUMNS = ", ".join(f'"{feature}"' for feature in census.SCHEMA["features"] if feature not in ("age", "region"))
LURES = {
    "a function in a view": f'SELECT public.spy(age) AS age, region, income, {COLUMNS} FROM newcomers',
    "a cast of an ENUM": f'SELECT age, CAST(region AS public.place) AS region, income, {COLUMNS} FROM newcomers',
}  # fmt: skip


@pytest.mark.parametrize("lure", LURES)
def test_free_evaluation_evaluates_nothing_as_the_owner(server: Server, lure: str) -> None:
    """Views of ann's with functions or casts of her own are refused; owner and superusers never evaluate them."""
    server.run("DROP VIEW IF EXISTS public.lure", f"CREATE VIEW public.lure AS {LURES[lure]}", role="ann")
    server.run(f'GRANT SELECT ON public.lure TO "{OWNER}"')
    with pytest.raises(psycopg.Error, match="lure"):
        server.run("SELECT figure, value FROM dpsql.evaluate('first', 'lure')", role="ann")
    assert {who for who, _ in diary(server)} <= {"ann"}


def test_free_evaluation_reads_a_plain_view_of_the_callers(server: Server) -> None:
    """What selects from tables that the caller may read is evaluated, under the caller's rights."""
    plain = f"SELECT age, region, income, {COLUMNS} FROM newcomers"
    server.run("DROP VIEW IF EXISTS public.lure", f"CREATE VIEW public.lure AS {plain}", role="ann")
    found = dict(server.run("SELECT figure, value FROM dpsql.evaluate('first', 'lure')", role="ann"))
    assert found["rows"] == 100


@pytest.mark.parametrize("kind", ["", "WITH (security_invoker)"])
def test_free_evaluation_lends_no_right_to_read(server: Server, kind: str) -> None:
    """A function that counts the private rows fails, as it does for ann herself, and nobody has seen the count."""
    peeking = f"SELECT public.peek(age) AS age, region, income, {COLUMNS} FROM newcomers"
    server.run("DROP VIEW IF EXISTS public.lure", f"CREATE VIEW public.lure {kind} AS {peeking}", role="ann")
    server.run(f'GRANT SELECT ON public.lure TO "{OWNER}"')
    with pytest.raises(psycopg.Error) as refused:
        server.run("SELECT * FROM dpsql.evaluate('first', 'lure')", role="ann")
    assert "1000" not in str(refused.value)
    assert diary(server) == set()


def test_an_epsilon_that_is_missing_is_no_way_round(server: Server) -> None:
    """The function that works as the owner takes no NULL for an epsilon."""
    with pytest.raises(psycopg.Error, match="epsilon must be given"):
        server.run("SELECT * FROM dpsql.evaluate('first', 'newcomers', NULL)", role="ann")


def test_a_column_of_an_analysts_type_cannot_be_registered(server: Server) -> None:
    """Whoever owns a type gives it casts that run as whoever reads it: such a column is refused by name."""
    server.run(
        "DROP TABLE IF EXISTS private.typed",
        "CREATE TABLE private.typed AS SELECT * FROM people",
        "ALTER TABLE private.typed ALTER COLUMN region TYPE public.place USING CAST(region AS public.place)",
    )
    diary(server)
    with connect(server.url) as db, pytest.raises(SchemaError, match='"region".*a type of role "ann"'):
        db.register("private.typed", census.SCHEMA, cap=1)


def test_a_domain_over_an_analysts_type_cannot_be_registered(server: Server) -> None:
    """A type of the owner's that is made of an analyst's is refused too."""
    server.run(
        "DROP TABLE IF EXISTS private.typed",
        "DROP DOMAIN IF EXISTS public.somewhere",
        "CREATE DOMAIN public.somewhere AS public.place",
        f"CREATE TABLE private.typed (age BIGINT, region public.somewhere, income TEXT, {_typed(COLUMNS)})",
    )
    with connect(server.url) as db, pytest.raises(SchemaError, match='a type of role "ann"'):
        db.register("private.typed", census.SCHEMA, cap=1)


def _typed(columns: str) -> str:
    kinds = {
        f'"{name}"': "BIGINT" if feature["type"] == "numeric" else "TEXT"
        for name, feature in census.SCHEMA["features"].items()
    }
    return ", ".join(f"{column} {kinds[column]}" for column in columns.split(", "))


def test_a_type_that_was_given_away_stops_the_run(server: Server) -> None:
    """A registered table whose type becomes ann's is no longer as registered: refused, and nothing is charged."""
    server.run(
        "CREATE TYPE public.area AS ENUM ('north', 'south')",
        "CREATE TABLE private.given (area public.area, income TEXT)",
        "INSERT INTO private.given VALUES ('north', '>50K')",
        f'GRANT SELECT ON private.given TO "{OWNER}"',
    )
    features = {"area": {"type": "categorical", "values": ["north", "south"]}}
    with connect(server.url) as db:
        db.register("private.given", {"label": "income", "classes": list(census.CLASSES), "features": features}, cap=1)
    server.run("ALTER TYPE public.area OWNER TO ann")
    before = server.spent()
    with pytest.raises(psycopg.Error, match='a type of role "ann"'):
        server.run("SELECT * FROM dpsql.train('private.given', '0.1', 'rdt')", role="ann")
    assert server.spent() == before


def test_no_function_lends_rights(server: Server) -> None:
    """Not one function of dpsql is SECURITY DEFINER."""
    assert server.run("SELECT proname FROM pg_proc WHERE pronamespace = 'dpsql'::regnamespace AND prosecdef") == []


def test_the_sessions_python_holds_nothing_of_the_owners(server: Server) -> None:
    """After a charged run the caller's own Python has loaded no driver, no kernel and no numbers."""
    look = "SELECT array_agg(one) FROM public.loaded() AS one"
    found = server.run(
        """
        CREATE FUNCTION public.loaded() RETURNS SETOF TEXT LANGUAGE plpython3u AS
        'import sys; return [name for name in sys.modules if name.split(".")[0] in ("dpsql", "psycopg", "numpy")]'
        """,
        "SET SESSION AUTHORIZATION ann",
        "SELECT * FROM dpsql.train('private.people', '0.01', 'rdt', '{\"trees\": 2, \"depth\": 2}')",
        "RESET SESSION AUTHORIZATION",
        look,
    )
    assert found == [(None,)]


def test_a_schema_that_an_analyst_made_first_is_refused() -> None:
    """A trigger of ann's on a ledger that she made would run as the owner, or as the superuser who prepares."""
    server = Server(fresh_database())
    if not server.run("SELECT 1 FROM pg_roles WHERE rolname = 'eve'"):
        server.run("CREATE ROLE eve LOGIN")
    server.run(f"GRANT CREATE ON DATABASE {server.name} TO eve")
    server.run("CREATE SCHEMA dpsql", "CREATE TABLE dpsql.chain (ledger_id TEXT, created_at TEXT)", role="eve")
    with connect(server.url) as db, pytest.raises(DatabaseError, match='of role "eve"'):
        db.init(owner=OWNER, analyst="analysts")
    assert server.run("SELECT count(*) FROM dpsql.chain") == [(0,)]


def test_schemas_in_which_analysts_create_are_named(server: Server) -> None:
    """Init and doctor say where an analyst can make what somebody else's session would meet."""
    with connect(server.url) as db:
        told = [one.state for one in db.doctor() if one.what == "schemas" and not one.well]
        assert told == ['analysts can create in "public" (ann)']
        again = db.init(owner=OWNER, analyst="analysts")
    assert [one for one in again.warnings if '"public" (ann)' in one]


def test_an_error_on_the_way_is_in_our_own_words(server: Server) -> None:
    """What a caller is told of a table that is not there holds no word of Python's or the server's."""
    with pytest.raises(psycopg.Error) as refused:
        server.run("SELECT * FROM dpsql.evaluate('first', 'nowhere')", role="ann")
    assert 'there is no table "nowhere"' in str(refused.value)
    assert not isinstance(refused.value, DpsqlError)


#: A function of ann's that looks harmless and, run by anybody else, counts private rows into a sequence of hers: what
#: a sequence was set to stays, whatever is rolled back.
TELL = """
    CREATE FUNCTION public.tell(TEXT) RETURNS TEXT VOLATILE LANGUAGE plpgsql AS $$
    BEGIN
      IF current_user <> 'ann' THEN
        PERFORM pg_catalog.setval('public.told', (SELECT count(*) FROM private.people));
      END IF;
      RETURN $1;
    END $$
"""
HARMLESS = """
    CREATE FUNCTION public.harmless(TEXT) RETURNS TEXT IMMUTABLE LANGUAGE plpgsql AS $$
    BEGIN RETURN public.tell($1); END $$
"""
CODE = {
    "an index": "CREATE INDEX ON {table} ((public.harmless('a')))",
    "an index of some rows": "CREATE INDEX ON {table} (age) WHERE public.harmless('a') = 'a'",
    "a check": "ALTER TABLE {table} ADD CHECK (public.harmless('a') = 'a')",
    "statistics": "CREATE STATISTICS public.figures ON (public.harmless('a')), age FROM {table}",
    "a default": "ALTER TABLE {table} ALTER region SET DEFAULT public.harmless('a')",
}


@pytest.fixture(scope="module")
def trap(server: Server) -> Server:
    """Give ann her functions."""
    server.run("CREATE SEQUENCE public.told", "GRANT ALL ON SEQUENCE public.told TO PUBLIC", TELL, HARMLESS, role="ann")
    return server


def told(server: Server) -> int:
    """Return what ann reads in her sequence; 1 is what it started with."""
    return int(server.run("SELECT last_value FROM public.told", role="ann")[0][0])


@pytest.mark.parametrize("reader", ["tester", OWNER.replace(" ", "%20")])
@pytest.mark.parametrize("code", CODE)
def test_code_on_an_analysts_table_is_not_run_by_others(trap: Server, code: str, reader: str) -> None:
    """The planner evaluates what hangs on a table as whoever reads it: owner and superusers do not read such."""
    trap.run("DROP TABLE IF EXISTS public.hers", f'ALTER ROLE "{OWNER}" LOGIN')
    trap.run("CREATE TABLE public.hers AS SELECT * FROM newcomers", CODE[code].format(table="public.hers"), role="ann")
    trap.run("GRANT SELECT ON public.hers TO PUBLIC", role="ann")
    with connect(trap.as_role(reader)) as db:
        with pytest.raises(DpsqlError, match='role "ann"'):
            db.evaluate("first", "hers")
        with pytest.raises(DpsqlError, match='role "ann"'):
            db.model("first").predict("hers")
        with pytest.raises(DpsqlError, match='role "ann"'):
            db.register("hers", census.SCHEMA, cap=None)
    assert told(trap) == 1


@pytest.mark.parametrize("code", CODE)
def test_code_of_an_analysts_on_a_table_of_the_owners_is_not_run(trap: Server, code: str) -> None:
    """Somebody used ann's function for an index on a private table: it is not read until that is gone."""
    table = f"private.ours_{sorted(CODE).index(code)}"
    trap.run("DROP TABLE IF EXISTS public.hers", f"CREATE TABLE {table} AS SELECT * FROM people")
    with connect(trap.url) as db:
        db.register(table, census.SCHEMA, cap=1)
        trap.run(CODE[code].format(table=table), "SELECT setval('public.told', 1)")
        before = trap.spent()
        with pytest.raises(DpsqlError, match='function public.harmless.text., of role "ann"'):
            db.train(table, epsilon="0.1", method="rdt", trees=2, depth=2)
    assert trap.spent() == before
    assert told(trap) == 1
    trap.run(f"DROP TABLE {table}")


def test_a_table_of_an_analysts_cannot_be_registered(server: Server) -> None:
    """She could put an index on it afterwards, and each of her own calls would run it as the owner."""
    server.run("CREATE TABLE public.annes AS SELECT * FROM newcomers", role="ann")
    server.run(f'GRANT SELECT ON public.annes TO "{OWNER}"')
    with connect(server.url) as db, pytest.raises(SchemaError, match='rows of role "ann"') as refused:
        db.register("annes", census.SCHEMA, cap=None)
    assert f'OWNER TO "{OWNER}"' in str(refused.value.hint)


def test_a_table_that_was_given_away_stops_the_run(server: Server) -> None:
    """Before anything is charged; and what is given away while a run waits stops it after the lock."""
    server.run("CREATE TABLE private.lent AS SELECT * FROM people", f'GRANT SELECT ON private.lent TO "{OWNER}"')
    with connect(server.url) as db:
        db.register("private.lent", census.SCHEMA, cap=1)
        info = db.engine.table("private.lent")
        assert info is not None
        server.run("ALTER TABLE private.lent OWNER TO ann")
        before = server.spent()
        with pytest.raises(TableChanged, match='rows of role "ann"'):
            db.train("private.lent", epsilon="0.1", method="rdt", trees=2, depth=2)
        assert server.spent() == before
        with pytest.raises(TableChanged), db.engine.workspace([info]):
            pass


def test_a_role_with_all_of_the_owners_rights_may_own_tables(server: Server) -> None:
    """Whoever is a member of the owner role gains nothing by it."""
    server.run("DROP ROLE IF EXISTS steward", f'CREATE ROLE steward IN ROLE "{OWNER}"')
    server.run("CREATE TABLE private.kept AS SELECT * FROM people", "ALTER TABLE private.kept OWNER TO steward")
    with connect(server.url) as db:
        assert db.register("private.kept", census.SCHEMA, cap=1).table == "private.kept"


def test_a_field_of_a_composite_type_can_be_a_domain(trap: Server) -> None:
    """A view that casts to such a type would evaluate the domain's CHECK: refused, nothing registered or not."""
    trap.run("SELECT setval('public.told', 1)")
    trap.run(
        "CREATE DOMAIN public.checked AS BIGINT CHECK (public.harmless('a') = 'a')",
        "CREATE TYPE public.composed AS (field public.checked)",
        f"""CREATE VIEW public.composing AS SELECT age, income, {COLUMNS},
            CAST(CAST('(7)' || substr(region, 1, 0) AS public.composed) AS TEXT) AS region FROM newcomers""",
        "GRANT SELECT ON public.composing TO PUBLIC",
        role="ann",
    )
    for reader in ("tester", OWNER.replace(" ", "%20")):
        with connect(trap.as_role(reader)) as db, pytest.raises(DpsqlError, match="composing"):
            db.evaluate("first", "composing")
    assert told(trap) == 1


def test_an_analyst_still_reads_what_is_hers(trap: Server) -> None:
    """Inside the server nothing is lent, so her own table with her own index is read for free."""
    trap.run("DROP TABLE IF EXISTS public.hers")
    trap.run("CREATE TABLE public.hers AS SELECT * FROM newcomers", CODE["an index"].format(table="hers"), role="ann")
    found = dict(trap.run("SELECT figure, value FROM dpsql.evaluate('first', 'hers')", role="ann"))
    assert found["rows"] == 100
