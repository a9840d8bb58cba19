"""Nothing that an analyst has made is evaluated with the owner's or a superuser's rights (issue 15, finding 9)."""

from __future__ import annotations

import pytest

from dpsql import census
from dpsql.database import connect
from dpsql.errors import DatabaseError, DpsqlError, SchemaError
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
        BEGIN INSERT INTO public.diary SELECT current_user, count(*) FROM public.people; RETURN $1; END $$
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
        "DROP TABLE IF EXISTS public.typed",
        "CREATE TABLE public.typed AS SELECT * FROM people",
        "ALTER TABLE public.typed ALTER COLUMN region TYPE public.place USING CAST(region AS public.place)",
    )
    diary(server)
    with connect(server.url) as db, pytest.raises(SchemaError, match='"region".*a type of role "ann"'):
        db.register("typed", census.SCHEMA, cap=1)


def test_a_domain_over_an_analysts_type_cannot_be_registered(server: Server) -> None:
    """A type of the owner's that is made of an analyst's is refused too."""
    server.run(
        "DROP TABLE IF EXISTS public.typed",
        "DROP DOMAIN IF EXISTS public.somewhere",
        "CREATE DOMAIN public.somewhere AS public.place",
        f"CREATE TABLE public.typed (age BIGINT, region public.somewhere, income TEXT, {_typed(COLUMNS)})",
    )
    with connect(server.url) as db, pytest.raises(SchemaError, match='a type of role "ann"'):
        db.register("typed", census.SCHEMA, cap=1)


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
        "CREATE TABLE public.given (area public.area, income TEXT)",
        "INSERT INTO public.given VALUES ('north', '>50K')",
        f'GRANT SELECT ON public.given TO "{OWNER}"',
    )
    features = {"area": {"type": "categorical", "values": ["north", "south"]}}
    with connect(server.url) as db:
        db.register("given", {"label": "income", "classes": list(census.CLASSES), "features": features}, cap=1)
    server.run("ALTER TYPE public.area OWNER TO ann")
    before = server.spent()
    with pytest.raises(psycopg.Error, match='a type of role "ann"'):
        server.run("SELECT * FROM dpsql.train('given', '0.1', 'rdt')", role="ann")
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
        "SELECT * FROM dpsql.train('people', '0.01', 'rdt', '{\"trees\": 2, \"depth\": 2}')",
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
        told = [one.found for one in db.doctor() if one.what == "schemas" and not one.well]
        assert told == ['analysts can create in "public" (ann)']
        again = db.init(owner=OWNER, analyst="analysts")
    assert [one for one in again.warnings if '"public" (ann)' in one]


def test_an_error_on_the_way_is_in_our_own_words(server: Server) -> None:
    """What a caller is told of a table that is not there holds no word of Python's or the server's."""
    with pytest.raises(psycopg.Error) as refused:
        server.run("SELECT * FROM dpsql.evaluate('first', 'nowhere')", role="ann")
    assert 'there is no table "nowhere"' in str(refused.value)
    assert not isinstance(refused.value, DpsqlError)
