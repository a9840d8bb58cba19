"""The owner's functions inside a PostgreSQL server: they work for the owner, and give an analyst nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dpsql.api import census
from tests.attacks.analyst import OWNER, PRIVATE, Server, prepared, put

psycopg = pytest.importorskip("psycopg")
SCHEMA = json.dumps(census.SCHEMA)
#: The owner role in a URL.
LOGIN = "own%20er"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Prepare a server with a second private table, "others", that is not registered yet."""
    ready = prepared(rows=300)
    put(ready.url, "others", 300, seed=3, schema="private")
    ready.run(f'GRANT SELECT ON private.others TO "{OWNER}"', f'ALTER TABLE private.others OWNER TO "{OWNER}"')
    ready.run(f'ALTER ROLE "{OWNER}" LOGIN')
    ready.run(f"DROP ROLE IF EXISTS {HELPER}")
    ready.run(f'CREATE ROLE {HELPER} LOGIN IN ROLE "{OWNER}"')
    yield ready
    ready.run(f"DROP ROLE {HELPER}")


#: A login role that is a member of the owner role.
HELPER = "helper_of_owner"


def entries(server: Server) -> int:
    """Return how many entries the ledger has."""
    return int(server.run("SELECT count(*) FROM dpsql.entry")[0][0])


def cap(server: Server, table: str) -> object:
    """Return a table's cap in whole numbers."""
    return server.run(f"SELECT cap FROM dpsql.budgets WHERE table_name = '{table}' AND kind = 'pure'")[0][0]


def test_the_owner_registers_sets_caps_and_verifies(server: Server) -> None:
    """A member of the owner role needs psql and nothing else; the ledger has the name of the login."""
    call = f"SELECT registered, cap_set, features FROM dpsql.register('private.others', '{SCHEMA}', '3')"
    assert server.run(call, role=HELPER) == [("private.others", "3", len(census.SCHEMA["features"]))]
    with pytest.raises(psycopg.Error, match="already registered") as refused:
        server.run(call, role=HELPER)
    assert "SELECT * FROM dpsql.register('private.others', …, replace => true)" in str(refused.value.diag.message_hint)
    again = f"SELECT cap_set FROM dpsql.register('private.others', '{SCHEMA}', '4', replace => true)"
    assert server.run(again, role=LOGIN) == [("4",)]
    lower = "SELECT of_table, cap_set FROM dpsql.set_cap('private.others', '2')"
    assert server.run(lower, role=HELPER) == [("private.others", "2")]
    share = "SELECT of_analyst, cap_set FROM dpsql.set_cap('private.others', '1', analyst => 'ann')"
    assert server.run(share, role=HELPER) == [("ann", "1")]
    assert server.run("SELECT * FROM dpsql.verify()", role=HELPER) == [(True, None)]
    assert server.run("SELECT who FROM dpsql.entry ORDER BY entry_id DESC LIMIT 1") == [(HELPER,)]
    assert cap(server, "private.others") == 2


def test_a_rollback_takes_back_no_cap(server: Server) -> None:
    """What the owner did is committed on its own, as a charge is."""
    with psycopg.connect(server.as_role(HELPER)) as connection:
        connection.execute("SELECT * FROM dpsql.set_cap('private.people', '9')")
        connection.rollback()
    assert cap(server, PRIVATE) == 9


CALLS = {
    "register": f"SELECT * FROM dpsql.register('private.people', '{SCHEMA}', '1000', replace => true)",
    "raise the cap": "SELECT * FROM dpsql.set_cap('private.people', '1000', allow_large => true)",
    "raise one's own": "SELECT * FROM dpsql.set_cap('private.people', '5', analyst => 'ann')",
    "verify": "SELECT * FROM dpsql.verify()",
    "in a function": "CREATE FUNCTION pg_temp.f() RETURNS SETOF RECORD LANGUAGE sql AS "
    "'SELECT of_table FROM dpsql.set_cap(''private.people'', ''19'')';; SELECT * FROM pg_temp.f() AS f(t TEXT)",
    "in a view": "CREATE TEMP VIEW v AS SELECT * FROM dpsql.set_cap('private.people', '19');; SELECT * FROM v",
    "grant it": "GRANT EXECUTE ON FUNCTION dpsql.verify() TO ann",
    "replace it": "CREATE OR REPLACE FUNCTION dpsql.verify() RETURNS TABLE (sound BOOLEAN, problem TEXT) "
    "LANGUAGE sql AS 'SELECT true, NULL'",
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_an_analyst_calls_none_of_them(server: Server, name: str) -> None:
    """The right to call is the owner's alone; nothing changes."""
    before, held = entries(server), cap(server, PRIVATE)
    with pytest.raises(psycopg.Error, match="permission denied|must be owner"):
        server.run(*CALLS[name].split(";; "), role="ann")
    assert (entries(server), cap(server, PRIVATE)) == (before, held)


def test_a_lent_right_is_not_enough(server: Server) -> None:
    """The worker looks who logged in: neither a GRANT by mistake nor the owner's definer function lets ann pass."""
    before = entries(server)
    definition = (
        "CREATE FUNCTION public.lend() RETURNS TEXT SECURITY DEFINER LANGUAGE sql AS "
        "'SELECT cap_set FROM dpsql.set_cap(''private.people'', ''19'')'"
    )
    signature = "dpsql.set_cap(TEXT, TEXT, TEXT, BOOLEAN, TEXT, TEXT, TEXT, BOOLEAN)"
    server.run(definition, f'ALTER FUNCTION public.lend() OWNER TO "{OWNER}"')
    server.run(f"GRANT EXECUTE ON FUNCTION {signature} TO ann")
    try:
        for call in ("SELECT public.lend()", "SELECT * FROM dpsql.set_cap('private.people', '19')"):
            with pytest.raises(psycopg.Error, match="for the owner of the tables alone"):
                server.run(call, role="ann")
    finally:
        server.run("DROP FUNCTION public.lend()", f"REVOKE ALL ON FUNCTION {signature} FROM ann")
    assert entries(server) == before


REFUSED = {
    "a file as schema": ("SELECT * FROM dpsql.register('private.people', '\"/etc/passwd\"', '3')", "JSON object"),
    "a file as view": (
        f"SELECT * FROM dpsql.register('v', '{SCHEMA}', '3', options => '{{\"view\": \"/tmp/x.sql\"}}')",
        "text of a query",
    ),
    "a sample": (
        "SELECT * FROM dpsql.register('private.people', NULL, '3', "
        'options => \'{"buy": "0.1", "like": "/etc/passwd"}\')',
        'no option "like"',
    ),
    "a look at values": (
        "SELECT * FROM dpsql.register('private.people', NULL, '3', "
        'options => \'{"buy": "0.1", "values_are_public": ["region"]}\')',
        'no option "values_are_public"',
    ),
    "SQL in a name": (f"SELECT * FROM dpsql.register('x; DROP TABLE people', '{SCHEMA}', '3')", "there is no table"),
    "no table": (f"SELECT * FROM dpsql.register(NULL, '{SCHEMA}', '3')", "table_name"),
    "no schema": ("SELECT * FROM dpsql.register('private.people', NULL, '3')", "a schema is needed"),
    "no cap": (f"SELECT * FROM dpsql.register('private.people', '{SCHEMA}', NULL)", "say what all runs together"),
    "no flag": (f"SELECT * FROM dpsql.register('private.people', '{SCHEMA}', '3', replace => NULL)", "replace must be"),
    "no cap to set": ("SELECT * FROM dpsql.set_cap('private.people', NULL)", "cap must be"),
    "no analyst": ("SELECT * FROM dpsql.set_cap('private.people', '1', analyst => NULL)", "analyst must be"),
    "a cap too large": ("SELECT * FROM dpsql.set_cap('private.people', '50')", "no protection"),
    "SQL in an analyst's name": (
        "SELECT * FROM dpsql.set_cap('people''; DELETE FROM dpsql.entry; --', '1', analyst => 'x''; --')",
        "there is no table",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_must_not_pass_is_refused_for_the_owner_too(server: Server, name: str) -> None:
    """Files of the server's machine, looks at rows, NULLs, SQL in names: refused in our words, nothing written."""
    call, message = REFUSED[name]
    before = entries(server)
    with pytest.raises(psycopg.Error, match=message):
        server.run(call, role=HELPER)
    assert entries(server) == before


def test_the_owner_registers_without_a_schema(server: Server) -> None:
    """What the catalog does not say is bought, and charged."""
    put(server.url, "plain", 300, seed=4, schema="private")
    server.run(f'ALTER TABLE private.plain OWNER TO "{OWNER}"')
    options = json.dumps({"buy": "0.2", "label": "income", "classes": list(census.CLASSES)})
    call = f"SELECT registered, bought, spent FROM dpsql.register('private.plain', NULL, '3', options => '{options}')"
    assert server.run(call, role=HELPER) == [("private.plain", "0.2", "0.2")]
