"""Where labels alone are private, no value of a label decides whether a row counts, or on which side it stands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsql import methods
from dpsql.api.database import Database, connect
from dpsql.compile.rows import Part
from dpsql.engines.base import Engine
from dpsql.errors import NotPrivate
from dpsql.kernel.datasets.dataset import find_dataset, source
from dpsql.kernel.operations import PublicSize
from dpsql.kernel.plan import FEATURES, LABELLED, UNLABELLED, Plan, Sequential, Sides, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.kernel.unlabelled_rows import sources
from dpsql.methods.shared.noisy_leaves import leaf_step
from dpsql.methods.sspe import public_forest, public_splits_step
from dpsql.schema import Categorical, Numeric, Schema, Unit
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from tests.conformance.tables import put
from tests.rows import Table
from tests.servers import OPEN_EMPTY
from tests.tables import LABEL_WAYS, SCHEMA, TARGET, Row, fill, fitted, memory, run, small_forest, types_of, voting

COUNT = 60
PERSONS = Unit("person", 3)
CLASSES = replace(SCHEMA, public_features=True)
NUMBERS = replace(TARGET, public_features=True)
#: Schema, what one label says on one table, and what it says on its neighbour.
CHANGES: dict[str, tuple[Schema, Any, Any]] = {
    "an undeclared label": (CLASSES, "yes", "??"),
    "an empty label": (CLASSES, "maybe", ""),
    "another undeclared label": (CLASSES, "??", "no "),
    "a target that is NaN": (NUMBERS, 5.0, math.nan),
    "an infinite target": (NUMBERS, math.nan, -math.inf),
    "a target far away": (NUMBERS, 1e300, 0.25),
}


@pytest.fixture(params=sorted(OPEN_EMPTY), scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Open a database of each engine, one for all tests."""
    opened = OPEN_EMPTY[request.param]()
    yield opened
    opened.close()


def rows(schema: Schema, label: Any) -> list[Row]:
    """Return rows, some without a label and some with odd ones; the first says `label`."""
    pool = [None, "no", "yes", "maybe", "??"] if schema.classes else [None, 1.0, 2.5, 9.0, math.nan]
    made: list[Row] = [(k // 2, float(k * 7 % 64), "ab"[k % 2], pool[k % 5]) for k in range(COUNT)]
    return [(0, 3.0, "a", label), *made]


def table(schema: Schema, label: Any) -> Table:
    """Return the rows as columns."""
    types = types_of(schema)
    return Table(types, {name: [row[n] for row in rows(schema, label)] for n, name in enumerate(types)})


def session_of(database: Database, name: str, way: str) -> Session:
    """Return a session for a way to run a method, as the kernel opens it after a charge."""
    dataset = find_dataset(database.engine, database.book, name)
    plan = sums_plan(dataset.schema)
    if dataset.schema.classes:
        plan = database.plan(name, epsilon=1, **{**fitted(way, dataset.schema).asked, "depth": None})
    where = source(database.engine, dataset)
    return Session(database.engine, where, plan, sources(database.engine, dataset, None, plan, where))


def sums_plan(schema: Schema) -> Plan:
    """Return a plan for numeric targets, which none of the methods for labels alone takes: the kernel does."""
    unlabelled = Sequential((Step("unlabelled_size", PublicSize(), 0), public_splits_step("splits", 3, 2)))
    labelled = Sequential((Step("size", PublicSize(), 0), leaf_step(10**9, 3, schema, 100)))
    sides = Sides(unlabelled, labelled, disjoint=True)
    return Plan("mine", sides, Promise(schema.unit, labels_only=True), {"trees": 3, "seed": 0})


def exact_releases(session: Session, schema: Schema, way: str) -> dict[str, Any]:
    """Return everything that a run of this way is told without noise, with a fixed teacher."""
    told: dict[str, Any] = {"labelled": session.public_size("size")}
    roots = Forest(axes(schema), session.plan.parameters["trees"], ())
    if way != "ssrdt":
        grown = public_forest(session, roots, 2)
        told["splits"] = [(level.axis.tolist(), level.child.tolist(), level.planes.tolist()) for level in grown.levels]
    if way != "sspe labels":
        told["unlabelled"] = session.public_size("unlabelled_size")
        teacher = voting(small_forest(schema), len(schema.classes))
        forest = small_forest(schema, trees=session.plan.parameters["more_trees"])
        told["pseudo"] = session.pseudo_counts("pseudo_labels", teacher, forest).tolist()
    return told


def skip_most_on_spark(engine: Engine, change: str) -> None:
    """Leave Spark two changes, of classes and of a target: each of its cases takes ten seconds and more."""
    if engine.dialect == "spark" and change not in ("an undeclared label", "a target that is NaN"):
        pytest.skip("spark: a statement takes seconds, so two cases must do")


@pytest.mark.parametrize("level", ["row", "unit"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_told_without_noise_is_the_same_for_neighbours(engine: Engine, change: str, level: str) -> None:
    """Sizes, splits and pseudo-labels are bitwise equal on tables that differ in what one label says."""
    skip_most_on_spark(engine, change)
    schema, *labels = CHANGES[change]
    schema = replace(schema, unit=PERSONS) if level == "unit" else schema
    told: list[dict[str, Any]] = []
    database = Database(engine, who="ann")
    for number, label in enumerate(labels):
        name = f"told_{list(CHANGES).index(change)}_{level}_{number}"
        put(engine, name, table(schema, label))
        database.register(name, schema, cap=1)
        ways = LABEL_WAYS if schema.classes else ("sspe labels",)
        told.append({way: exact_releases(session_of(database, name, way), schema, way) for way in ways})
    assert told[0] == told[1]


@pytest.mark.parametrize("level", ["row", "unit"])
@pytest.mark.parametrize("change", CHANGES)
def test_another_label_moves_a_row_and_never_removes_it(engine: Engine, change: str, level: str) -> None:
    """The exact counts behind a noisy release have the same sum on neighbours, and differ by one down and one up."""
    skip_most_on_spark(engine, change)
    schema, *labels = CHANGES[change]
    schema = replace(schema, unit=PERSONS) if level == "unit" else schema
    database, found, sizes = Database(engine, who="ann"), [], []
    for number, label in enumerate(labels):
        name = f"moved_{list(CHANGES).index(change)}_{level}_{number}"
        put(engine, name, table(schema, label))
        database.register(name, schema, cap=1)
        opened = session_of(database, name, "sspe labels")._rows
        forest, part = small_forest(schema, trees=1), Part(side=LABELLED)
        counted = opened.leaf_counts if schema.classes else opened.leaf_sums
        found.append(counted(forest, part, shared=True))
        sizes.append([opened.size(Part(side=side)) for side in (UNLABELLED, LABELLED, FEATURES, "")])
        opened.close()
    assert sizes[0] == sizes[1]
    assert sizes[0][1] == sizes[0][2] == sizes[0][3] > sizes[0][0] > 0
    assert found[0].sum() == found[1].sum()
    assert np.abs(found[0] - found[1]).sum() <= 2 * max(1, schema.steps)


def test_a_size_that_a_method_of_its_own_asks_for_follows_nulls_alone() -> None:
    """A plan without sides is told the number of labelled rows too: an undeclared label is among them."""
    plan = Plan("mine", Step("size", PublicSize(), 0), Promise(CLASSES.unit, labels_only=True))
    for label in ("yes", "??"):
        with memory(rows(CLASSES, label), schema=CLASSES, kind="label") as database:
            dataset = find_dataset(database.engine, database.book, "people")
            where = source(database.engine, dataset)
            assert Session(database.engine, where, plan).public_size("size") == 1 + COUNT * 4 // 5


@pytest.mark.parametrize("kind", ["BIGINT", "BOOLEAN"])
def test_whole_numbers_and_booleans_count_by_null_alone(kind: str) -> None:
    """A label of another type that is none of the classes is a label all the same."""
    sizes = []
    for label in (1, 0):
        with connect(":memory:", who="ann") as database:
            run(
                database.engine,
                f"CREATE TABLE people AS SELECT range AS person, 1.0::DOUBLE AS x, 'a' AS c, "
                f"CAST(CASE WHEN range = 0 THEN {label} WHEN range < 5 THEN 1 END AS {kind}) AS y FROM range(9)",
            )
            classes = ("1", "2") if kind == "BIGINT" else ("true", "false")
            database.register("people", replace(CLASSES, classes=classes), cap=1)
            opened = session_of(database, "people", "pte")
            sizes.append([opened.public_size(name) for name in ("size", "unlabelled_size")])
    assert sizes == [[5, 4], [5, 4]]


def test_a_cell_of_csv_that_holds_no_number_is_a_label(tmp_path: Any) -> None:
    """What cannot be read as the declared target stays on its side: an empty cell alone has no label."""
    sizes = []
    for label in ("5", "five"):
        path = tmp_path / f"rows-{label}.csv"
        path.write_text("person,x,c,y\n1,2,a," + label + "\n2,3,b,\n3,4,a,7\n")
        with connect(path, who="ann", ledger=tmp_path / f"{label}.duckdb") as database:
            (name,) = [one for one in database.engine.tables() if "rows" in one]
            database.register(name, NUMBERS, cap=1)
            opened = session_of(database, name, "sspe labels")
            sizes.append(opened._rows.size(Part(side=LABELLED)))
            assert opened._rows.size(Part(side=UNLABELLED)) == 1
            opened.close()
    assert sizes == [2, 2]


def test_a_view_that_makes_null_of_a_label_hides_no_row() -> None:
    """The NULLs of the base column decide: a view that turns some labels into NULL would tell which."""
    sizes = []
    for label in ("yes", "no"):
        with connect(":memory:", who="ann") as database:
            fill(database.engine, "people", rows(CLASSES, label))
            run(database.engine, "CREATE VIEW shown AS SELECT person, x, c, nullif(y, 'no') AS y FROM people")
            database.register("shown", CLASSES, cap=1)
            opened = session_of(database, "shown", "pte")
            sizes.append([opened.public_size(name) for name in ("size", "unlabelled_size")])
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize(
    ("columns", "schema"),
    [
        ("upper(y) AS person, x, c, y", replace(CLASSES, unit=PERSONS)),
        ("lower(y) AS person, x, c, y", replace(CLASSES, partition="person")),
        ("trim(y) AS person, x, c, y", replace(CLASSES, batch="person")),
    ],
)
def test_a_unit_partition_or_batch_made_of_the_label_is_refused(columns: str, schema: Schema) -> None:
    """They decide which rows are used and where: another label would move what is read without noise."""
    with connect(":memory:", who="ann") as database:
        fill(database.engine, "people", rows(CLASSES, "yes"))
        run(database.engine, f"CREATE VIEW shown AS SELECT {columns} FROM people")
        database.register("shown", schema, cap=1)
        database.set_cap("shown", 1, kind="label")
        with pytest.raises(NotPrivate, match="from its label"):
            database.train("shown", method="pte", trees=2, depth=2)


@pytest.mark.parametrize("way", LABEL_WAYS)
def test_every_label_method_is_known_here(way: str) -> None:
    """The ways above are all that protect labels alone, and each of them trains on labels of every kind."""
    found = fitted(way, CLASSES)
    assert found.asked["method"] in methods.METHODS
    with memory(rows(CLASSES, "??"), schema=found.schema, kind="label") as database:
        model = database.train("people", epsilon=1, **found.asked)
    assert model.certificate["neighbours"] == "change the label of one row"


@pytest.mark.parametrize("method", ["pte", "ssrdt"])
def test_a_second_table_takes_no_rows_from_its_label(method: str) -> None:
    """A view that picks its rows by their label would tell labels through counts that get no noise."""
    with connect(":memory:", who="ann") as db:
        cells = "(VALUES ('a', 1, 'no'), ('b', 2, 'yes')) AS rows(c, x, y)"
        run(db.engine, *(f"CREATE TABLE {name} AS SELECT * FROM {cells}" for name in ("people", "others")))
        run(db.engine, "CREATE VIEW chosen AS SELECT c, x, y FROM others WHERE y = 'yes'")
        schema = Schema("y", ("no", "yes"), (Categorical("c", ("a", "b")), Numeric("x", 0, 64)), public_features=True)
        for name in ("people", "chosen"):
            db.register(name, schema, cap=1)
            db.set_cap(name, 1, kind="label")
        with pytest.raises(NotPrivate, match='"chosen" takes features or rows from its label'):
            db.train("people", epsilon="0.5", method=method, unlabelled="chosen", trees=1, more_trees=1, depth=1)
        assert [budget.spent for budget in db.budgets()] == [0] * 4
