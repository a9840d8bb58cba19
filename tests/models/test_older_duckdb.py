"""SQL that dpsql makes, on older DuckDB versions: the same labels and probabilities in every row as on the present one.

The file is made by the older version, filled by dpsql, and then read by both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpsql.api.database import Database, connect
from dpsql.models.usable_model import Model
from dpsql.schema import Boolean, Categorical, Dated, Hashed, Numeric, Schema, Target
from tests.older_duckdb import VERSIONS, OlderDuckDB, install, present_answers
from tests.tables import quote, run

#: Every kind of feature, and enough of them that a row needs several words.
FEATURES = (
    Numeric("age", 0, 100),
    Numeric("rate", 0.1, 0.7, null=0.5),
    Boolean("flag", null="true"),
    Categorical("color", ("red", "Red", "", "O'Neil"), unknown="Red"),
    Hashed("job", 20),
    Dated("joined", "2015-01-01", "2026-12-31", null="2020-01-01"),
    Dated("seen", "2020-01-01T00:00:00", "2020-06-03", kind="timestamp"),
    *(Numeric(f"more {number}", 0, 1000) for number in range(6)),
)
TWO = Schema("y", ("no", "it's"), FEATURES)
FOUR = Schema("z", ("a", "b", "c", "d"), FEATURES)
NUMBER = Schema("amount", (), FEATURES, target=Target(0, 10, steps=100))
#: The table of rows: missing values, values that no schema lists, moments out of bounds among them.
ROWS = """
CREATE TABLE people AS SELECT
    i AS id,
    CASE WHEN i % 41 = 0 THEN NULL WHEN i % 43 = 0 THEN 'NaN'::DOUBLE ELSE (i * 7919) % 120 - 10 END AS age,
    CASE WHEN i % 37 = 0 THEN NULL ELSE (i * 31 % 97) / 97.0 END AS rate,
    CASE i % 5 WHEN 0 THEN NULL ELSE i % 3 = 0 END AS flag,
    ['red', 'Red', '', 'O''Neil', 'blue', NULL][1 + i * 13 % 6] AS color,
    'job ' || (i * 17 % 53) AS job,
    CASE WHEN i % 29 = 0 THEN NULL ELSE DATE '2010-01-01' + CAST(i * 31 % 7000 AS INTEGER) END AS joined,
    TIMESTAMP '2019-12-30 00:00:01' + TO_MINUTES(i * 719) AS seen,
    (i * 3) % 1000 AS "more 0", (i * 5) % 1000 AS "more 1", (i * 7) % 1000 AS "more 2",
    (i * 11) % 1000 AS "more 3", (i * 13) % 1000 AS "more 4", (i * 19) % 1000 AS "more 5",
    CASE WHEN (i * 7919) % 120 > 60 THEN 'it''s' ELSE 'no' END AS y,
    ['a', 'b', 'c', 'd'][CASE WHEN (i * 7919) % 120 > 60 THEN 1 + i % 2 ELSE 3 + i % 2 END] AS z,
    ((i * 7919) % 120) / 12.0 AS amount
FROM RANGE(1000) AS made(i)
"""
NEW_ROWS = 'CREATE TABLE "new rows" AS SELECT * EXCLUDE (y, z, amount) FROM people'
#: Each model's schema, method and parameters. One tree of four classes votes by its own leaves' classes alone.
MODELS: dict[str, tuple[Schema, dict[str, Any]]] = {
    "auto two": (TWO, {"method": "auto"}),
    "auto four": (FOUR, {"method": "auto"}),
    "rdt two": (TWO, {"method": "rdt", "trees": 5, "depth": 4}),
    "rdt four": (FOUR, {"method": "rdt", "trees": 3, "depth": 3}),
    "snr two": (TWO, {"method": "snr", "trees": 3, "depth": 4}),
    "snr four": (FOUR, {"method": "snr", "trees": 2, "depth": 3}),
    "fs four": (FOUR, {"method": "fs", "depth": 2}),
    "rdt number": (NUMBER, {"method": "rdt", "trees": 3, "depth": 3}),
}


@pytest.fixture(scope="module", params=VERSIONS)
def older(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> OlderDuckDB:
    """Give each older version in turn."""
    return install(request.param, tmp_path_factory.mktemp("duckdb"))


@dataclass(frozen=True)
class Stored:
    """A file of the older version with models and their macros in it, and queries that score by them."""

    file: Path
    queries: dict[str, str]
    scripts: dict[str, str]


@pytest.fixture(scope="module")
def stored(older: OlderDuckDB, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Return a file that the older version made, into which dpsql has put models, views and macros."""
    file = tmp_path_factory.mktemp("file") / "own.duckdb"
    assert older.answers(file, [ROWS, NEW_ROWS]) == [[[1000]], [[1000]]]
    stored = Stored(file, {}, {})
    with connect(file, who="ann") as database:
        run(database.engine, *(f"CREATE TABLE {quote(label)} AS FROM people" for label in ("y", "z", "amount")))
        for schema in (TWO, FOUR, NUMBER):
            database.register(schema.label, schema, cap=10)
        for name, (schema, asked) in MODELS.items():
            _store_forms(stored, _trained(database, name, schema, asked))
    return stored


def _trained(database: Database, name: str, schema: Schema, asked: dict[str, Any]) -> Model:
    return database.train(schema.label, epsilon=1, name=name, **asked)


def _store_forms(stored: Stored, model: Model) -> None:
    """Create each form of a model's SQL, and keep the queries that use it."""
    arguments = ", ".join(quote(feature.name) for feature in model.schema.features)
    model.create_macro(name=f"{model.name} row")
    stored.queries[f"{model.name}: macro"] = (
        f'SELECT id, {quote(model.name + " row")}({arguments}) FROM "new rows" ORDER BY id'
    )
    for shares in (False, True) if model.schema.target is None else (False,):
        ending = " shares" if shares else ""
        columns = ", ".join(["id", "prediction", *(quote(f"p_{label}") for label in model.classes if shares)])
        model.create_view("new rows", name=f"{model.name} view{ending}", probabilities=shares)
        model.create_macro(name=f"{model.name} table{ending}", whole_table=True, probabilities=shares)
        places = {
            "view": quote(f"{model.name} view{ending}"),
            "table macro": quote(f"{model.name} table{ending}") + "('new rows')",
            "select": f"({model.sql('select', table='new rows', probabilities=shares)})",
        }
        for form, place in places.items():
            stored.queries[f"{model.name}: {form}{ending}"] = f"SELECT {columns} FROM {place} ORDER BY id"
        # The script's own tables are named after the model, so each script gets a name of its own.
        own = f"{model.name.replace(' ', '_')}{'_shares' if shares else ''}"
        script = model.export_sql("duckdb", table="new rows", form="view", name=own, probabilities=shares)
        stored.scripts[f"{model.name}: view{ending}"] = script
        stored.queries[f"{model.name}: script{ending}"] = f"SELECT {columns} FROM {own}_scored ORDER BY id"


def test_every_form_gives_the_same_rows_as_on_the_present_version(stored: Stored, older: OlderDuckDB) -> None:
    """View, macros, SELECT and exported script: labels are equal, and probabilities to the last bit."""
    ran = older.answers(stored.file, list(stored.scripts.values()))
    assert not [answer for answer in ran if isinstance(answer, str)]
    there = dict(zip(stored.queries, older.answers(stored.file, list(stored.queries.values())), strict=True))
    here = dict(zip(stored.queries, present_answers(stored.file, list(stored.queries.values())), strict=True))
    assert {name: answer for name, answer in there.items() if isinstance(answer, str)} == {}
    assert {name for name, answer in there.items() if answer != here[name]} == set()
    assert all(len(answer) == 1000 for answer in there.values())


def test_all_forms_agree_on_the_older_version(stored: Stored, older: OlderDuckDB) -> None:
    """What the scalar macro, the table macro, the view and the SELECT say of a row is one and the same."""
    named = {name: query for name, query in stored.queries.items() if "shares" not in name and "script" not in name}
    answers = dict(zip(named, older.answers(stored.file, list(named.values())), strict=True))
    for model in MODELS:
        forms = [answer for name, answer in answers.items() if name.startswith(f"{model}: ")]
        assert len(forms) == 4
        assert all(form == forms[0] for form in forms)
        assert len({str(row[1]) for row in forms[0]}) > 1, model


def test_a_file_that_dpsql_made_opens_there(older: OlderDuckDB, tmp_path: Path) -> None:
    """A new file is in a format that older versions open: its tables can be read, and written to, there."""
    file = tmp_path / "new.duckdb"
    with connect(file, create=True) as database:
        run(database.engine, "CREATE TABLE one AS SELECT 1 AS number")
    assert older.answers(file, ["FROM one", "INSERT INTO one VALUES (2)"]) == [[[1]], [[1]]]
    with connect(file, read_only=True) as database:
        assert database.engine.table("one") is not None
