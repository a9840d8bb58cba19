"""SQL for a model: the four forms, their names, what is refused. That labels agree is tested in tests/compile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.api.database import Database
from dpsql.compile.predict.votes import OWN_COLUMNS
from dpsql.errors import DpsqlError, ParameterError
from dpsql.models.scoring_sql import FORMS, default_name
from dpsql.models.usable_model import Model
from dpsql.schema import Numeric, Schema
from dpsql.trees.grid import axes
from tests.hostile import HOSTILE
from tests.rows import any_forest
from tests.tables import SCHEMA, fill, memory, model_of, quote, rows_of, run, small_forest, some_rows, voting


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """Open a database with the table "fresh" of new rows."""
    with memory() as opened:
        fill(opened.engine, "fresh", some_rows(5))
        yield opened


@pytest.fixture(scope="module")
def model(database: Database) -> Model:
    """Return a model on the shelf."""
    return database.add(model_of(voting(small_forest(), 3), SCHEMA, "model"))


@pytest.mark.parametrize("form", FORMS)
def test_the_text_is_the_same_every_time(model: Model, form: str) -> None:
    """SQL depends on the model alone, so that it can be reviewed and compared."""
    assert model.sql(form, table="fresh") == model.sql(form, table="fresh")


@pytest.mark.parametrize("form", FORMS)
def test_the_text_reads_the_model_tables(model: Model, form: str) -> None:
    """The splits and votes are read from `dpsql.model_node` and `dpsql.model_leaf`, by the model's number."""
    text = model.sql(form, table="fresh")
    assert '"dpsql"."model_node"' in text
    assert '"dpsql"."model_leaf"' in text
    assert f"model_id = {model.model_id}" in text


def test_default_names_tell_the_model(model: Model) -> None:
    """A view or macro that is not named is called after its model."""
    assert [default_name(model, form) for form in FORMS[1:]] == ["model_scored", "model_score", "model_predict"]


@pytest.mark.parametrize("form", ["", "SELECT", "function", None, 3])
def test_an_unknown_form_is_refused(model: Model, form: object) -> None:
    """Only the four forms are known, and the error lists them."""
    with pytest.raises(ParameterError, match="table_macro"):
        model.sql(form)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in HOSTILE[::17] if len(name) < 60], ids=ascii)
def test_a_hostile_name_is_only_a_name(database: Database, model: Model, name: str) -> None:
    """Views, macros and tables may have any name; the SQL makes exactly that one."""
    run(database.engine, f"CREATE OR REPLACE TABLE {quote(name + ' t')} AS FROM fresh")
    run(database.engine, model.sql("view", table=name + " t", name=name + " v"))
    run(database.engine, model.sql("macro", name=name + " m"))
    scored = rows_of(database.engine, f"SELECT prediction, {quote(name + ' m')}(c, x) AS m FROM {quote(name + ' v')}")
    assert len(scored) == 11
    assert all(row["prediction"] == row["m"] for row in scored)


def test_a_macro_takes_the_features_in_order(model: Model) -> None:
    """The arguments of a scalar macro are the model's features, in the order of its schema."""
    head = model.sql("macro").split(") AS")[0].replace("\n", "").replace(" ", "")
    assert head == 'CREATEORREPLACEMACRO"model_predict"("c","x"'


def test_a_macro_follows_the_arguments_not_the_columns(database: Database, model: Model) -> None:
    """Constants and expressions can be scored, in any query."""
    run(database.engine, model.sql("macro"))
    found = rows_of(database.engine, "SELECT model_predict('a', 3.5) AS one, model_predict(NULL, NULL) AS none")
    import pandas as pd

    frame = pd.DataFrame({"c": ["a", None], "x": [3.5, None]}, dtype=object)
    assert list(found[0].values()) == model.labels(frame).tolist()


def test_many_features_and_trees_stay_readable(database: Database) -> None:
    """The text grows with the depth, not with the number of trees or leaves."""
    schema = Schema("y", ("no", "yes"), tuple(Numeric(f"f{k}", 0, 1) for k in range(12)))
    texts = []
    for trees in (2, 200):
        released = voting(any_forest(axes(schema), trees=trees, depth=3, seed=1, wide=900), 2)
        texts.append(database.add(model_of(released, schema, f"wide {trees}")).sql("select"))
    assert abs(len(texts[1]) - len(texts[0])) < 100


@pytest.mark.parametrize("name", OWN_COLUMNS)
@pytest.mark.parametrize("form", ["select", "view"])
def test_a_table_with_one_of_our_own_columns_is_refused(database: Database, model: Model, form: str, name: str) -> None:
    """A column called like one that the statement adds while it scores would be taken for it, so it is refused."""
    run(database.engine, f"CREATE OR REPLACE TABLE odd AS SELECT *, 1 AS {quote(name)} FROM fresh")
    with pytest.raises(ParameterError, match=name):
        model.sql(form, table="odd")
    with pytest.raises(ParameterError, match=name):
        model.predict("odd")


def test_a_view_and_macros_are_created(database: Database, model: Model) -> None:
    """`create_view` and `create_macro` leave what they return in the database, and all label alike."""
    assert model.create_view("fresh", name="as_view") == model.sql("view", table="fresh", name="as_view")
    assert model.create_macro(name="as_macro") == model.sql("macro", name="as_macro")
    model.create_macro(name="as_table", whole_table=True)
    labels = [
        [row["prediction"] for row in rows_of(database.engine, text)]
        for text in (
            "SELECT prediction FROM as_view ORDER BY person",
            "SELECT as_macro(c, x) AS prediction FROM fresh ORDER BY person",
            "SELECT prediction FROM as_table('fresh') ORDER BY person",
        )
    ]
    assert labels[0] == labels[1] == labels[2]
    assert len(labels[0]) > 0


def test_nothing_that_others_rely_on_is_replaced(database: Database, model: Model) -> None:
    """A table keeps its name, and so does a function of SQL's own; a private table gets no view."""
    for create in (
        lambda: model.create_view("fresh", name="fresh"),
        lambda: model.create_macro(name="abs"),
        lambda: model.create_macro(name="range", whole_table=True),
    ):
        with pytest.raises(ParameterError, match="name"):
            create()
    with pytest.raises(DpsqlError, match="cannot be read for free"):
        model.create_view("people", name="shown")
