"""A scored table answers under LIMIT, EXISTS and the like: DuckDB 2.0.0 never returns where a kept part meets itself.

The bug needs a part of the statement that is kept (MATERIALIZED, or named twice), joined with what was made of it, and
something above that stops early. Here every form of a scored table of 300,000 rows is read in every way that stops
early, with a deadline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from threading import Timer
from typing import Any, TypeVar

import duckdb
import numpy as np
import pandas as pd
import pytest
import sqlglot
from sqlglot import exp

import dpsql
from dpsql.models.export_sql import export_statements
from dpsql.models.score import public_table, scoring_query
from dpsql.models.usable_model import Model
from dpsql.schema import Categorical, Numeric, Schema, Target
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import random_forest
from dpsql.trees.voting import VotingForest
from tests.rows import any_forest
from tests.tables import model_of, voting

#: What is far longer than any of these answers takes, and the size from which on the bug was always seen.
SECONDS, ROWS = 60.0, 300_000
FEATURES = (Categorical("c", ("a", "b", "d")), *(Numeric(f"x{number}", 0, 64) for number in range(11)))
PAIR, TRIPLE = Schema("y", ("no", "yes"), FEATURES), Schema("y", ("no", "yes", "maybe"), FEATURES)
MANY = Schema("y", tuple(map(str, range(7))), FEATURES)
TARGET = Schema("y", (), FEATURES, target=Target(0, 10))
AXES = axes(PAIR)
Result = TypeVar("Result")


def log_scores(forest: Forest, classes: int) -> VotingForest:
    """Return a forest of log-scores, as the default method releases."""
    return replace(voting(forest, classes, most=900, seed=3), nat=1000)


def short_and_deep() -> Forest:
    """Return a forest whose first trees end before the others."""
    forests = (any_forest(AXES, trees=6, depth=3, seed=seed, wide=60) for seed in count())
    return next(forest for forest in forests if forest.trees_ending_early[0] > 1)


RELEASED: dict[str, tuple[Schema, VotingForest]] = {
    "one split": (PAIR, log_scores(random_forest(AXES, trees=13, depth=1, seed=1), 2)),
    "short and deep": (PAIR, log_scores(short_and_deep(), 2)),
    "deep": (PAIR, voting(random_forest(AXES, trees=4, depth=6, seed=2), 2)),
    "three classes": (TRIPLE, voting(any_forest(AXES, trees=5, depth=3, seed=5), 3, most=3)),
    "more classes than trees": (MANY, voting(any_forest(AXES, trees=3, depth=3, seed=6), 7)),
    "a number": (TARGET, voting(any_forest(AXES, trees=4, depth=3, seed=7), 2, most=8, seed=2)),
    "bare leaves": (PAIR, VotingForest(Forest(AXES, 3, ()), np.array([[1, 0], [0, 1], [0, 1]]))),
}
#: Ways to read that stop early, of a relation called `rows`.
EARLY = {
    "a limit": "SELECT * FROM {rows} LIMIT 3",
    "an offset": "SELECT * FROM {rows} LIMIT 3 OFFSET 5000",
    "no row": "SELECT * FROM {rows} LIMIT 0",
    "existence": "SELECT EXISTS (FROM {rows} WHERE prediction IS NOT NULL) AS found",
    "a counted limit": "SELECT count(*) AS rows FROM (SELECT * FROM {rows} LIMIT 3)",
    "keys of a limit": "SELECT key FROM fresh WHERE key IN (SELECT key FROM {rows} LIMIT 3)",
    "one key": "SELECT * FROM {rows} WHERE key = 123456 LIMIT 1",
}
#: Ways that read every row first.
LATE = {
    "an order": "SELECT * FROM {rows} ORDER BY key DESC LIMIT 3",
    "the top": "SELECT * FROM {rows} ORDER BY prediction DESC, key LIMIT 3",
    "a semi join": "SELECT key FROM fresh SEMI JOIN (SELECT * FROM {rows}) AS others USING (key) LIMIT 3",
    "a join with itself": "SELECT one.* FROM {rows} AS one JOIN {rows} AS other USING (key) LIMIT 3",
}


@dataclass
class Stage:
    """A connection prepared for SQL with the table "fresh" and one model of each kind."""

    connection: duckdb.DuckDBPyConnection
    models: dict[str, Model]

    def relation(self, kind: str, form: str) -> str:
        """Return what stands in a FROM clause for the scored table, in one form."""
        model, probabilities = self.models[kind], form.endswith("with probabilities")
        name = f'"{kind} {form}"'
        if form.startswith("dpsql_score"):
            return f"dpsql_score('{kind}', 'fresh', probabilities := {probabilities})"
        if form == "macro":
            self.within(lambda: self.connection.execute(model.sql("macro", name=f"{kind} {form}")))
            return f"(SELECT *, {name}({', '.join(one.name for one in FEATURES)}) AS prediction FROM fresh)"
        shape = form.split(" with ")[0]
        text = model.sql(shape, table="fresh", name=f"{kind} {form}", probabilities=probabilities)
        if shape == "select":
            return f"({text})"
        self.within(lambda: self.connection.execute(text))
        return name if shape == "view" else f"{name}('fresh')"

    def answer(self, query: str) -> pd.DataFrame:
        """Return a query's rows, or fail when they do not come in time."""
        return self.within(lambda: self.connection.execute(query).df())

    def within(self, act: Callable[[], Result]) -> Result:
        """Do something, or fail when it does not end in time."""
        timer = Timer(SECONDS, self.connection.interrupt)
        timer.start()
        try:
            return act()
        except duckdb.InterruptException:
            pytest.fail(f"no answer within {SECONDS:g} seconds")
        finally:
            timer.cancel()

    def check(self, kind: str, found: pd.DataFrame) -> None:
        """Check predictions, and probabilities where there are any, against Python's for the same rows."""
        model = self.models[kind]
        assert found["prediction"].tolist() == pytest.approx(model.labels(found).tolist())
        shares = [name for name in found.columns if name.startswith("p_")]
        if shares:
            assert np.allclose(found[shares].to_numpy(float), model.predict_proba(found).to_numpy(float))


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Open a database in memory with 300,000 rows."""
    connection = duckdb.connect()
    numbers = ", ".join(f"CAST((range * {number + 3}) % 67 - 1 AS DOUBLE) AS x{number}" for number in range(11))
    connection.execute(
        f"CREATE TABLE fresh AS SELECT range AS key, ['a', 'b', 'd', NULL][1 + range % 4] AS c, {numbers} "
        f"FROM range({ROWS})"
    )
    connection.execute("CREATE VIEW numbered_rows AS SELECT row_number() OVER () AS number, * FROM fresh")
    database = dpsql.attach(connection, who="ann")
    models = {kind: database.add(model_of(released, schema, kind)) for kind, (schema, released) in RELEASED.items()}
    yield Stage(connection, models)
    connection.close()


def cases() -> Iterator[tuple[str, str]]:
    """Yield every kind of model in every form that it has."""
    for kind, (schema, _) in RELEASED.items():
        yield from ((kind, form) for form in ("select", "view", "table_macro", "macro", "dpsql_score"))
        if schema.target is None:
            yield from ((kind, f"{form} with probabilities") for form in ("view", "dpsql_score"))


@pytest.mark.parametrize(("kind", "form"), list(cases()))
def test_every_form_stops_early(stage: Stage, kind: str, form: str) -> None:
    """A few rows of a scored table come at once, whatever the form and whatever asks for them."""
    rows = stage.relation(kind, form)
    for way, query in EARLY.items():
        found = stage.answer(query.format(rows=rows))
        assert len(found) == {"no row": 0, "existence": 1, "a counted limit": 1, "one key": 1}.get(way, 3), way
        if "prediction" in found.columns:
            stage.check(kind, found)


@pytest.mark.parametrize("kind", RELEASED)
def test_a_view_answers_what_reads_all(stage: Stage, kind: str) -> None:
    """An order, a semi join or a join of a scored table with itself ends, under a LIMIT too."""
    rows = stage.relation(kind, "view")
    for query in LATE.values():
        found = stage.answer(query.format(rows=rows))
        assert len(found) == 3
        if "prediction" in found.columns:
            stage.check(kind, found)


@pytest.mark.parametrize("kind", RELEASED)
def test_a_relation_shows_itself(stage: Stage, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`con.sql(…).show()` of a view comes at once."""
    rows = stage.relation(kind, "view")
    stage.within(lambda: stage.connection.sql(f"FROM {rows}").show())
    assert "prediction" in capsys.readouterr().out


def test_the_first_row_can_be_fetched(stage: Stage) -> None:
    """The first row of a view without any LIMIT can be fetched."""
    rows = stage.relation("one split", "view")
    first = stage.within(lambda: stage.connection.execute(f"SELECT key, prediction FROM {rows}").fetchone())
    assert first is not None
    assert first[0] in range(ROWS)


def test_the_call_for_one_row_stops_early(stage: Stage) -> None:
    """`dpsql_predict(model, row)` under a LIMIT comes at once."""
    found = stage.answer("SELECT *, dpsql_predict('deep', fresh) AS prediction FROM fresh LIMIT 3")
    stage.check("deep", found)


@pytest.mark.parametrize("kind", ["one split", "three classes", "a number"])
def test_the_exported_view_stops_early(stage: Stage, kind: str) -> None:
    """The script for DuckDB, run there, makes a view that answers: of a table, and of a view that numbers its rows."""
    model = stage.models[kind]
    for table in ("fresh", "numbered_rows"):
        for text in exported(model, table=table, probabilities=model.schema.target is None):
            stage.connection.execute(text.replace("CREATE ", "CREATE OR REPLACE ", 1))
        for way in ("a limit", "existence"):
            found = stage.answer(EARLY[way].format(rows='"moved_scored"'))
            if "prediction" in found.columns:
                stage.check(kind, found)


def exported(model: Model, *, table: str = "fresh", probabilities: bool) -> list[str]:
    """Return the statements of a model's script for DuckDB, with a view."""
    return export_statements(
        model, dialect="duckdb", table=table, form="view", name="moved", probabilities=probabilities
    )


def kept_parts(text: str) -> list[str]:
    """Return the parts of a statement in DuckDB's dialect that it keeps: said to be so, or named more than once."""
    statement: Any = sqlglot.parse_one(text, dialect="duckdb")
    named = Counter(table.name for table in statement.find_all(exp.Table) if not table.db)
    parts = list(statement.find_all(exp.CTE))
    return [part.alias for part in parts if part.args.get("materialized") or named[part.alias] > 1]


def test_the_guard_sees_the_shape() -> None:
    """The short case of the bug is seen, both as it is written and where DuckDB keeps a part by itself."""
    part = "(SELECT row_number() OVER () AS n, r FROM t)"
    rest = "w AS (SELECT c.n, max(r) AS b FROM c GROUP BY c.n) SELECT * FROM c JOIN w ON w.n = c.n"
    assert kept_parts(f"WITH c AS MATERIALIZED {part}, {rest}") == ["c"]
    assert kept_parts(f"WITH c AS {part}, {rest}") == ["c"]
    assert kept_parts(f"WITH c AS {part}, d AS (SELECT * FROM c) SELECT * FROM d") == []


@pytest.mark.parametrize("kind", RELEASED)
def test_no_statement_that_a_user_can_read_from_keeps_a_part(stage: Stage, kind: str) -> None:
    """No form of SQL that DuckDB users get, the exported one included, has a part that is kept and met again."""
    model = stage.models[kind]
    assert model.database is not None
    info = public_table(model.database, "fresh")
    allowed = [False] if model.schema.target is not None else [False, True]
    texts = [model.sql(form, table="fresh", probabilities=shares) for form in FORMS for shares in allowed]
    texts.append(f"SELECT {model.sql('macro').partition(') AS')[2]}")
    for shares in allowed:
        texts.append(exported(model, probabilities=shares)[-1])
        query = scoring_query(model, info, key=None, into="", probabilities=shares)
        texts.append(query.sql("duckdb"))
    assert [kept_parts(text) for text in texts] == [[]] * len(texts)


#: The forms that give rows; the scalar macro is an expression.
FORMS = ("select", "view", "table_macro")
