"""No text of an analyst's is evaluated as SQL on private rows: oracles are refused before a charge, by every entry."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.api.database import Database, connect
from dpsql.cli.main import run_command_line as run_cli
from dpsql.engines.base import Engine
from dpsql.errors import UsageError
from tests.conformance.tables import put
from tests.kernel.helpers import Watched
from tests.rows import Table
from tests.servers import OPEN_EMPTY, fresh_database, has_plpython
from tests.tables import SCHEMA, SMALL, TYPES, UNITS, fill, memory, on_disk, some_rows, stored

#: Each fails, or is something else, only on rows that reach it: one bit of a private row for nothing.
ORACLES = {
    "a pattern that ends in its escape": "c LIKE 'x\\'",
    "behind a test": "c = 'a' AND c LIKE 'x\\'",
    "a pattern with an escape of its own": "c LIKE 'a!' ESCAPE '!'",
    "a number that no double holds": "x < 1e400",
    "a number below all doubles": "x > 1e-400",
    "a subnormal number": "x = 5e-324",
    "a number of many digits": "x < " + "9" * 400,
    "a collation": "c COLLATE \"C\" = 'a'",
    "two collations": 'c COLLATE "C" = c COLLATE "en_US"',
    "a collation that is nondeterministic": "c = 'a' COLLATE her.ignore_case",
    "a domain": "CAST(NULL AS her.domain) IS NULL",
    "a short cast to a domain": "NULL::her.domain IS NULL",
    "a cast": "CAST(c AS INTEGER) = 1",
    "a cast of the column's type": "CAST(x AS DOUBLE PRECISION) = 1",
    "TRY_CAST": "TRY_CAST(c AS INTEGER) = 1",
    "division": "1 / x > 0",
    "overflow": "x * 1e308 > 0",
    "a regular expression": "c ~ '('",
    "a slow regular expression": "regexp_matches(c, '(a+)+$')",
    "SIMILAR TO": "c SIMILAR TO '('",
    "a function": "length(c) > 3",
    "a function that fails": "error(c) IS NULL",
    "a function that waits": "pg_sleep(1) IS NULL",
    "a function of an analyst's": "her.tell(c) = 1",
    "an operator of an analyst's": "c OPERATOR(her.=) 'a'",
    "CASE": "CASE WHEN c = 'a' THEN 1/0 ELSE 1 END = 1",
    "a subquery": "x > (SELECT max(x) FROM people)",
    "another table": "other.x > 1",
    "another table's rows": "EXISTS (SELECT 1 FROM other)",
    "a column of the system": "ctid IS NULL",
    "the row's address": "rowid < 5",
    "the whole row": "people IS NULL",
    "a column that is not declared": "person = 3",
    "what a label says": "y = 'no'",
    "which label is in a list": "y NOT IN ('no')",
    "an order of texts": "c > 'a'",
    "a variable": "x = current_setting('a')",
    "a parameter": "x = $1",
    "a comment": "c = 'a' -- ",
    "a comment within": "c = 'a' /* */",
    "a second statement": "c = 'a'; DROP TABLE people",
    "a closed bracket": "c = 'a') OR (1 = 1",
    "an escape text": "c = E'\\x41'",
    "a backslash before a quote": "c = '\\' OR c LIKE '",
    "a dollar text": "c = $$a$$",
    "a zero byte": "c = 'a\0'",
    "half a character": "c = '\udcff'",
    "a letter that looks like another": "\u0445 = 1",
    "a quote that looks like another": "c = \u02bca\u02bc",
    "a name that folds to another": "\u212a = 1",
    "a space that is none": "c\u2003= 'a'",
    "a huge text": "c = '" + "a" * 100_000 + "'",
    "a huge list": "x IN (" + ",".join("1" * 3 for _ in range(5000)) + ")",
    "deep brackets": "(" * 5000 + "x = 1" + ")" * 5000,
    "deep negations and brackets": "NOT (" * 300 + "x = 1" + ")" * 300,
    "many tests": " OR ".join(["x=1"] * 1500),
}
KNOWN = [name for name in ORACLES if "pattern" in name or "double" in name or "coll" in name or "domain" in name]
Entry = Callable[[str], None]


@pytest.fixture
def database() -> Iterator[Database]:
    """Open a registered table, and remember what is asked of it."""
    with memory(some_rows()) as opened:
        yield Database(Watched(opened.engine), who="ann")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ORACLES)
def test_an_oracle_is_refused_before_anything_is_charged_or_read(database: Database, name: str) -> None:
    """It is an error of usage, with the ledger as it was and no statement sent; a dry run refuses it too."""
    before = stored(database)
    for way in (database.train, database.plan):
        with pytest.raises(UsageError) as caught:
            way("people", method="sspe", epsilon=1, unlabelled=ORACLES[name], **SMALL)
        assert len(str(caught.value)) < 2000
    assert stored(database) == before
    assert database.engine.statements == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["sspe", "pte", "ssrdt"])
@pytest.mark.parametrize("name", KNOWN)
def test_every_method_refuses_the_known_oracles(method: str, name: str) -> None:
    """Where labels alone are private as well, and at unit level."""
    with memory(some_rows(), schema=replace(UNITS, public_features=True), kind="label") as database:
        before = stored(database)
        with pytest.raises(UsageError):
            database.train("people", method=method, epsilon=1, unlabelled=ORACLES[name], **SMALL)
        assert stored(database) == before


@pytest.mark.parametrize("name", [name for name in ORACLES if "\0" not in ORACLES[name]])
def test_the_command_line_refuses_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """`dpsql train --unlabelled` ends as wrong usage, without a charge."""
    path = tmp_path / "data.duckdb"
    on_disk(path, some_rows()).close()
    code = run_cli(["train", "--db", str(path), "--table", "people", "--method", "sspe", "--epsilon", "1",
                    "--unlabelled", ORACLES[name]])  # fmt: skip
    assert code == 2
    assert "Traceback" not in capsys.readouterr().err
    with connect(path) as opened:
        assert opened.budget("people").spent == 0
        assert opened.book.entries(event="reserve") == []


@pytest.mark.parametrize("name", KNOWN)
def test_sql_functions_refuse_it(name: str) -> None:
    """`dpsql_train(…, options := MAP {…})` on an attached connection passes the same door."""
    connection = duckdb.connect()
    database = dpsql.attach(connection, who="ann")
    fill(database.engine, "people", some_rows())
    database.register("people", SCHEMA, cap=5)
    call = "FROM dpsql_train('people', epsilon := 1, method := 'sspe', options := MAP {'unlabelled': ?})"
    with pytest.raises(duckdb.Error) as caught:
        connection.execute(call, [ORACLES[name]]).fetchall()
    assert "unlabelled" in str(caught.value)
    assert database.budget("people").spent == 0


@pytest.mark.parametrize("name", KNOWN)
def test_a_model_file_brings_no_condition(database: Database, name: str) -> None:
    """A declared condition is looked for in the ledger alone: a model's schema, whoever wrote it, declares nothing."""
    model = database.train("people", method="rdt", epsilon=1, name="first", **SMALL)
    told = json.loads(model.to_json())
    told["schema"]["conditions"] = {"mine": ORACLES[name].replace("\0", "")}
    told["name"] = "brought"
    database.add(dpsql.Model.from_json(json.dumps(told)))
    spent = database.budget("people").spent
    with pytest.raises(UsageError):
        database.train("people", method="sspe", epsilon=1, unlabelled="mine", **SMALL)
    assert database.budget("people").spent == spent


@pytest.fixture(params=sorted(OPEN_EMPTY), scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Open a database of each engine, one for all tests."""
    opened = OPEN_EMPTY[request.param]()
    yield opened
    opened.close()


def test_every_engine_refuses_them_and_takes_what_is_allowed(engine: Engine) -> None:
    """What is refused does not depend on the database; a run with a condition on hostile rows ends well."""
    rows = [*some_rows(), (7, 5e-324, "x\\", "no"), (8, -1e308, "%", "yes")]
    put(engine, "attacked", Table(TYPES, {name: [row[n] for row in rows] for n, name in enumerate(TYPES)}))
    database = Database(engine, who="ann")
    declared = (("young", "x < 20 AND c != 'b'"), ("early", "person BETWEEN 3 AND 9 OR y IS NULL"))
    database.register("attacked", replace(SCHEMA, conditions=declared), cap=100)
    for text in ORACLES.values():
        with pytest.raises(UsageError):
            database.train("attacked", method="sspe", epsilon=1, unlabelled=text, **SMALL)
    assert database.budget("attacked").spent == 0
    for given in (
        "young",
        "early",
        "x >= 2.2250738585072014e-308 AND c IN ('x\\', '%', 'a')",
        "NOT (c = 'q' OR x > 9)",
    ):
        model = database.train("attacked", method="sspe", epsilon=1, unlabelled=given, trees=1, depth=1)
        assert model.certificate["plan"]["unlabelled"] == given


def test_inside_the_server_an_analyst_gets_no_further() -> None:
    """`dpsql.train(…, '{"unlabelled": …}')` in PostgreSQL refuses the oracles for a role with EXECUTE alone."""
    psycopg: Any = pytest.importorskip("psycopg")
    url = fresh_database()
    if not has_plpython():
        pytest.skip("plpython: the server has none")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA private")
        connection.execute("CREATE TABLE private.people (person BIGINT, x DOUBLE PRECISION, c TEXT, y TEXT)")
        connection.execute("INSERT INTO private.people SELECT i, i % 64, 'a', 'no' FROM generate_series(1, 200) AS i")
        connection.execute("DROP ROLE IF EXISTS mallory")
    with connect(url, who="boss") as database:
        table, roles = "private.people", {"owner": "owner of conditions", "analyst": "analysts of conditions"}
        database.init(**roles, tables=[table], plpython=True)
        database.register(table, SCHEMA, cap=5)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute('CREATE ROLE mallory LOGIN IN ROLE "analysts of conditions"')
        with psycopg.connect(url.replace("//tester@", "//mallory@"), autocommit=True) as analyst:
            for name in KNOWN:
                options = json.dumps({"unlabelled": ORACLES[name], "trees": 1, "depth": 1})
                with pytest.raises(psycopg.Error, match="unlabelled"):
                    analyst.execute("SELECT * FROM dpsql.train('private.people', '0.1', 'sspe', %s)", [options])
        assert database.budget(table).spent == 0
