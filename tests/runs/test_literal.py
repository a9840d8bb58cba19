"""Training literally: one statement for each leaf, the same charge and kind of model, and a log without secrets."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.api.database import Database
from dpsql.compile.count.literal import LOGGER, MOST_LEAVES
from dpsql.errors import ParameterError, UsageError
from dpsql.runs.train import TrainRequest
from tests.tables import memory, run, some_rows, stored

SMALL: dict[str, Any] = {"method": "rosnam", "trees": 3, "depth": 2}
FEATURES = {"x": {"type": "numeric", "lower": 0, "upper": 64}, "c": {"type": "categorical", "values": ["a", "b"]}}
SCHEMA: dict[str, Any] = {"label": "y", "classes": ["no", "yes", "maybe"], "features": FEATURES}
PARTED = SCHEMA | {"partition": {"column": "part", "parts": 3}}


@pytest.fixture
def database() -> Iterator[Database]:
    """Open a database with a table whose rows have a stored part, and the same table without a declared part."""
    with memory(some_rows(60)) as opened:
        for name in ("parted", "hashed"):
            run(opened.engine, f"CREATE TABLE {name} AS SELECT *, person % 3 AS part FROM people")
        opened.register("parted", PARTED, cap=5)
        opened.register("hashed", SCHEMA, cap=5)
        yield opened


def test_a_literal_run_is_charged_and_stored_like_any_other(database: Database) -> None:
    """Epsilon, plan and shape of the model are those of the one statement."""
    plain = database.train("parted", epsilon=1, **SMALL)
    literal = database.train("parted", epsilon=1, literal=True, **SMALL)
    assert database.budget("parted").spent_text == "2"
    assert literal.certificate["plan"] == plain.certificate["plan"]
    assert literal.released.forest.leaves == plain.released.forest.leaves


def test_with_much_epsilon_both_forms_give_the_same_model(database: Database) -> None:
    """Where noise is negligible, the labels of all leaves that have rows agree."""
    database.set_cap("parted", 10_000)
    models = [database.train("parted", epsilon=2000, literal=literal, **SMALL) for literal in (False, True)]
    weights = [model.released.weights.argmax(axis=1).tolist() for model in models]
    assert sum(first == second for first, second in zip(*weights, strict=True)) >= len(weights[0]) - 4


def test_the_log_has_the_statements_and_no_counts(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """One statement for each leaf, with the test on its part; nothing in the log depends on rows."""
    texts = []
    for keep in ("TRUE", "person < 0"):
        run(database.engine, f"DELETE FROM parted WHERE NOT {keep}")
        caplog.clear()
        with caplog.at_level(logging.INFO, logger=LOGGER):
            model = database.train("parted", epsilon="0.5", literal=True, **SMALL)
        assert len(caplog.messages) == model.released.forest.leaves
        texts.append(caplog.messages)
    assert texts[0] == texts[1]
    assert sum('"part" = 2' in text for text in texts[0]) == sum(model.released.forest.leaf_tree == 2)
    assert "GROUP BY" in texts[0][0]


def test_the_log_hides_the_keys_of_hashed_rows(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """Where rows are dealt out by a hash, its keys are names in the log, never their values."""
    with caplog.at_level(logging.INFO, logger=LOGGER):
        database.train("hashed", literal=True, **SMALL)
    assert caplog.messages
    assert all("$key_3" in text and not re.search("[0-9]{12}", text) for text in caplog.messages)


@pytest.mark.parametrize("asked", [{"method": "auto"}, {"method": "rdt", "trees": 100, "depth": 6}, {"method": "mrf"}])
def test_a_large_or_unknown_forest_is_refused_before_any_charge(database: Database, asked: dict[str, Any]) -> None:
    """Whoever asks for too many leaves, or for trees that nobody knows yet, is told what would do."""
    before = stored(database)
    with pytest.raises(UsageError, match=f"at most {MOST_LEAVES} leaves"):
        database.train("parted", literal=True, **asked)
    assert stored(database) == before


def test_the_sql_of_a_literal_run_is_shown(database: Database) -> None:
    """`--sql --literal` prints as many statements as there are leaves; without it there is one."""
    shown = database.explain("parted", literal=True, **SMALL)
    assert shown.statements == shown.statement_sql.count("GROUP BY") > 1
    assert database.explain("parted", **SMALL).statements == 1


def test_sql_takes_the_flag() -> None:
    """The macro passes it on as text; what is neither true nor false is refused."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE parted AS SELECT range % 64 AS x, 'yes' AS y, range % 3 AS part FROM range(90)")
    with dpsql.connect(connection) as database:
        schema = {**PARTED, "features": {"x": FEATURES["x"]}}
        database.register("parted", schema, cap=5)
        dpsql.attach(connection)
        call = "FROM dpsql_train('parted', method := 'rosnam', trees := 3, depth := 2, literal := {})"
        assert len(connection.execute(call.format("true")).fetchall()) == 1
        with pytest.raises(duckdb.Error, match="true or false"):
            connection.execute(call.format("'maybe'")).fetchall()


@pytest.mark.parametrize(("given", "meant"), [(False, False), (True, True), ("TRUE", True), ("false", False)])
def test_a_flag_may_be_written_as_text(given: object, meant: bool) -> None:
    """A bool and the words of SQL are read; anything else is refused."""
    assert TrainRequest(table="t", literal=given).literal is meant  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="true or false"):
        TrainRequest(table="t", literal=2)  # type: ignore[arg-type]
