"""For neighbouring tables everything but the noisy values is the same: keys, shapes, statements, plan, ledger.

A method with `trees_are_public = False` grows its trees from noisy answers. Its trees are then noisy values themselves,
and so is what speaks of them: the stored nodes, the number of leaves, every statement after the first. All the rest is
compared for such a method too.

Where labels alone are private, neighbours have the same rows with other labels. Then everything is the same, trees
included, and released leaf values alone may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql import methods
from dpsql.api.database import Database
from dpsql.compile.count.leaves import EVERY_UNIT
from dpsql.kernel import exact
from dpsql.kernel.plan import Plan
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.schema import Schema
from tests.kernel.helpers import EPSILON, Watched, exact_leaf_counts, has_scale, held, leaf_step, refill
from tests.tables import (
    LABEL_WAYS,
    SCHEMA,
    TARGET,
    TARGET_UNITS,
    UNITS,
    WAYS,
    Row,
    fitted,
    memory,
    plain,
    rows_of,
    shape,
    small_forest,
    some_rows,
    some_targets,
)

NUMBERS = st.sampled_from([None, 0.0, 5.0, 63.0, -9.0, 1e300, float("nan"), float("inf"), float("-inf")])
ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, 1, 2, 3]),
        NUMBERS,
        st.sampled_from([None, "a", "b", "??"]),
        st.sampled_from([None, "no", "yes", "maybe", "??"]),
    ),
    max_size=8,
)
ODD: dict[str, list[Row]] = {
    "one row": [(1, 1.0, "a", "no")],
    "all NULL": [(None, None, None, None)],
    "one class": [(k, 1.0, "a", "no") for k in range(5)],
    "unknown labels": [(k, 1.0, "a", "??") for k in range(5)],
    "all kinds": some_rows(),
    "a unit of many rows": [*some_rows(), *[(77, float(k), "a", "yes") for k in range(9)]],
}

TARGETS: dict[str, list[Row]] = {
    "one row": [(1, 1.0, "a", 5.0)],
    "no targets": [(1, 1.0, "a", None), (2, 1.0, "a", float("nan"))],
    "beyond the bounds": [(k, 1.0, "a", float("inf") if k % 2 else -1e300) for k in range(5)],
    "all kinds": some_targets(),
}


#: The ways that protect rows: neighbours have one row, or one unit, more or less.
ROW_WAYS = [way for way in WAYS if way not in LABEL_WAYS]
LABELS = pytest.mark.parametrize("method", LABEL_WAYS)
LEVELS = pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])
TREES = pytest.mark.parametrize("shared", [False, True], ids=["disjoint", "shared"])


@cache
def empty(schema: Schema, method: str) -> dict[str, Any]:
    """Return what training on an empty table leaves: what every other table is compared with."""
    return artifact([], schema, method)


def artifact(rows: list[Row], schema: Schema, method: str) -> dict[str, Any]:
    """Return everything that a training run leaves or sends, with released values replaced by their types."""
    way = fitted(method, schema)
    with memory(rows, schema=way.schema, kind=way.kind) as opened:
        watched = Watched(opened.engine)
        database = Database(watched, who="ann")  # type: ignore[arg-type]
        model = database.train("people", epsilon=1, request_id="r", **way.asked)
        exported = plain(model.to_json())
        trees = exported["forest"]
        tables = {
            table: rows_of(opened.engine, f"SELECT {columns} FROM dpsql.{table} ORDER BY ALL")
            for table, columns in {"model_node": "*", "model_leaf": "leaf, count(*) OVER ()"}.items()
        }
        found = {
            "statements": watched.statements,
            "joined": [unweighted(tables) for tables in watched.tables],
            "structure": (trees["trees"], trees["levels"], shape(trees["leaves"])),
            "exported": shape({key: value for key, value in exported.items() if key != "forest"}),
            "tables": tables,
            "plan": model.certificate["plan"],
            "certificate": shape(model.certificate),
            "entries": [shape(vars(entry)) for entry in database.book.entries()],
            "words": (repr(model), database.models().drop(columns=["created_at", "digest"]).to_dict("records")),
            "budget": database.budget("people", way.kind).spent,
        }
        whole = way.kind == "label" or methods.get(way.asked["method"]).trees_are_public
        return found if whole else without_structure(found)


def unweighted(tables: dict[str, Any]) -> dict[str, Any]:
    """Return the small tables of a statement; the votes of a released forest are released values, so not these."""
    return {
        name: {key: shape(column) if (name, key) == ("leaf_votes", "weight") else column for key, column in one.items()}
        for name, one in tables.items()
    }


def without_structure(found: dict[str, Any]) -> dict[str, Any]:
    """Return what must be the same though the trees follow from noisy answers; the first statement comes before any."""
    kept = {key: value for key, value in found.items() if key not in ("structure", "tables", "words")}
    certificate, exported = found["certificate"], found["exported"]
    if (
        "size" in certificate
    ):  # the second charge is planned for a released size; the replay audit holds that size fixed
        size, rest = found["entries"][-2:]
        kept |= {"plan": size["plan"], "entries": [*found["entries"][:-1], without_facts(rest)]}
    return {
        **kept,
        "statements": found["statements"][:1],
        "joined": found["joined"][:1],
        # What a method notes along the way is noisy values, as many as its trees and its groups of bins; whether leaves
        # hold shares or log-scores follows from a bought size.
        "certificate": without_facts(certificate),
        "exported": {**exported, "certificate": without_facts(exported["certificate"])},
    }


def without_facts(certificate: dict[str, Any]) -> dict[str, Any]:
    """Return a certificate without a method's own notes and points of log-scores, and without a plan for a size."""
    left_out = ("facts", "nat", "plan") if "size" in certificate or "entry_id" in certificate else ("facts", "nat")
    return {key: value for key, value in certificate.items() if key not in left_out}


@LEVELS
@pytest.mark.parametrize("rows", ODD.values(), ids=ODD)
@pytest.mark.parametrize("method", ROW_WAYS)
def test_odd_tables_leave_the_shape_of_an_empty_one(method: str, rows: list[Row], schema: Schema) -> None:
    """What depends on rows is never an error and never shows in the shape of a release."""
    assert artifact(rows, schema, method) == empty(schema, method)


@pytest.mark.parametrize("schema", [TARGET, TARGET_UNITS], ids=["row", "unit"])
@pytest.mark.parametrize("rows", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("method", [name for name, method in methods.METHODS.items() if method.regression])
def test_odd_targets_leave_the_shape_of_an_empty_table(method: str, rows: list[Row], schema: Schema) -> None:
    """Numbers to predict, missing, infinite or beyond their bounds, never show in the shape of a release either."""
    assert artifact(rows, schema, method) == empty(schema, method)


@pytest.mark.parametrize("method", ROW_WAYS)
@settings(max_examples=4)
@given(rows=ROWS)
def test_any_table_leaves_the_shape_of_an_empty_one(method: str, rows: list[Row]) -> None:
    """Rows more or less, whatever is in them, change no key, no length, no statement and no figure."""
    assert artifact(rows, UNITS, method) == empty(UNITS, method)


@pytest.mark.parametrize(
    ("rows", "schema"),
    [(ODD["all NULL"], SCHEMA), (ODD["all kinds"], SCHEMA), (ODD["a unit of many rows"], UNITS)],
    ids=["all NULL", "all kinds", "a unit of many rows"],
)
def test_all_steps_of_auto_leave_the_shape_of_an_empty_table(rows: list[Row], schema: Schema) -> None:
    """With a declared size and much epsilon `auto` goes through all its steps, whatever is in the table.

    Which steps it takes, their order and what each releases follow from the plan; the facts name all features.
    """
    declared = replace(schema, rows=100_000)
    found, wanted = artifact(rows, declared, "auto"), empty(declared, "auto")
    assert found == wanted
    names = [step["name"] for step in found["plan"]["steps"]]
    assert names == ["zoom", "zoom_2", "zoom_3", "zoom_4", "marginals", "splits", "counts", "pick", "calibration"]


def test_only_grown_trees_are_left_out() -> None:
    """`rosnam` is compared whole; `id3`, whose trees follow from noisy answers, keeps all but its trees."""
    whole, partial = empty(SCHEMA, "rosnam"), empty(SCHEMA, "id3")
    assert whole.keys() - partial.keys() == {"structure", "tables", "words"}
    assert len(partial["statements"]) == len(partial["joined"]) == 1


def test_these_tests_see_the_statements() -> None:
    """The statements that are compared are those that ran, whole: one for `rosnam`, with its secret keys left out."""
    statements = empty(SCHEMA, "rosnam")["statements"]
    assert len(statements) == 1
    assert "GROUP BY" in statements[0]
    assert "XOR(HASH(rowid), CAST(KEY AS UBIGINT))" in statements[0]


@LEVELS
@pytest.mark.parametrize("gone", [0, 7, 40, 44, 45], ids=["labelled", "another", "no unit", "unknown label", "NULL"])
def test_a_row_of_either_side_changes_no_shape(gone: int, schema: Schema) -> None:
    """`sspe` without one row, labelled or not, leaves the shape that it leaves with it."""
    rows = some_rows()
    fewer = rows[:gone] + rows[gone + 1 :]
    assert artifact(fewer, schema, "sspe") == artifact(rows, schema, "sspe")


# Labels alone


def relabelled(rows: Sequence[Row], labels: Sequence[int]) -> list[Row]:
    """Return the rows with other known labels where they have known ones; the others stay as they are."""
    classes = SCHEMA.classes
    pairs = zip(rows, labels, strict=True)
    return [(*row[:3], classes[label % 3] if row[3] in classes else row[3]) for row, label in pairs]


@pytest.fixture
def same_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every session draw the same secret keys, so that two runs differ in noise alone."""
    monkeypatch.setattr(exact, "random_key", lambda: 0x1234567890ABCDEF)


@LABELS
@LEVELS
@pytest.mark.parametrize("rows", ODD.values(), ids=ODD)
@pytest.mark.usefixtures("same_keys")
def test_other_labels_change_nothing_but_leaf_values(method: str, rows: list[Row], schema: Schema) -> None:
    """With other labels every statement, every table it joins and every tree is the same."""
    found = artifact(rows, schema, method)
    assert {"structure", "tables", "words"} < found.keys()
    for shift in (1, 2):
        labels = [number * shift + shift for number in range(len(rows))]
        assert artifact(relabelled(rows, labels), schema, method) == found


@LABELS
@settings(max_examples=4)
@given(rows=ROWS, seed=st.integers(0, 2**32))
@pytest.mark.usefixtures("same_keys")
def test_any_labels_change_nothing_but_leaf_values(method: str, rows: list[Row], seed: int) -> None:
    """Whatever the rows, other known labels leave the same statements, trees, plan and ledger."""
    labels = np.random.default_rng(seed).integers(0, 3, len(rows)).tolist()
    assert artifact(relabelled(rows, labels), UNITS, method) == artifact(rows, UNITS, method)


@pytest.mark.usefixtures("same_keys")
def test_these_tests_see_other_features() -> None:
    """The comparison has power: with other features, where they are public, the trees of `pte` differ."""
    rows = some_rows()
    moved = [(person, None if x is None else x / 9, c, y) for person, x, c, y in rows]
    one, other = (artifact(table, SCHEMA, "pte") for table in (rows, moved))
    assert one["structure"] != other["structure"]
    assert one["statements"] == other["statements"]


FOREST = small_forest(trees=4, depth=3)


def label_session(rows: Sequence[Row], schema: Schema, *, shared: bool, nano: int = EPSILON) -> tuple[Any, Session]:
    """Return the table and an open session of a plan that protects labels alone."""
    database = held(rows, schema=replace(schema, public_features=True))
    step = leaf_step("leaf_counts", FOREST, len(schema.classes), shared=shared, nano=nano)
    plan = Plan("test", step, Promise(schema.unit, labels_only=True))
    return database, Session(database.engine, database.source, plan)


@TREES
@pytest.mark.parametrize("place", range(0, 40, 7))
def test_a_changed_label_moves_two_counts(place: int, shared: bool) -> None:
    """The exact counts of two neighbours differ by one down and one up in one leaf of each tree the row is in."""
    rows = some_rows()
    database, opened = label_session(rows, SCHEMA, shared=shared)
    before = opened._rows.leaf_counts(FOREST, EVERY_UNIT, shared=shared)
    other = SCHEMA.classes[(SCHEMA.classes.index(str(rows[place][3])) + 1) % 3]
    refill(opened, [*rows[:place], (*rows[place][:3], other), *rows[place + 1 :]], schema=database.schema)
    moved = opened._rows.leaf_counts(FOREST, EVERY_UNIT, shared=shared) - before
    trees = FOREST.trees if shared else 1
    assert sorted(moved[moved != 0].tolist()) == [-1] * trees + [1] * trees
    assert sorted(np.abs(moved).sum(axis=1).tolist())[-trees - 1 :] == [0] + [2] * trees
    assert np.abs(moved).sum() == opened.plan.steps[0].sensitivity(opened.plan.promise)


@TREES
def test_the_labels_of_a_unit_move_two_counts_for_each_row_used(shared: bool) -> None:
    """All labels of a person of nine rows changed: the three rows that count stay the same ones, each moves two counts.

    Which rows count must not hang on labels: another row would move a count of another leaf.
    """
    many: list[Row] = [(77, 7.0 * k, "ab"[k % 2], "yes") for k in range(9)]
    database, opened = label_session([*some_rows(), *many], UNITS, shared=shared)
    before = opened._rows.leaf_counts(FOREST, EVERY_UNIT, shared=shared)
    refill(opened, [*some_rows(), *[(*row[:3], "no") for row in many]], schema=database.schema)
    moved = opened._rows.leaf_counts(FOREST, EVERY_UNIT, shared=shared) - before
    assert np.abs(moved).sum() == opened.plan.steps[0].sensitivity(opened.plan.promise)
    assert not moved.sum(axis=1).any()


@TREES
@LEVELS
def test_counts_of_a_label_plan_carry_twice_the_noise(schema: Schema, shared: bool) -> None:
    """Released minus exact counts is noise of scale 2c/epsilon, times the trees where they are shared."""
    nano = EPSILON // 4
    noise = []
    for _ in range(20):
        database, opened = label_session(some_rows(), schema, shared=shared, nano=nano)
        found = opened.leaf_counts("leaves", FOREST)
        noise.append(found - exact_leaf_counts(database, opened, FOREST, shared=shared))
    scale = Fraction(4 * 2 * (FOREST.trees if shared else 1) * schema.unit.max_rows)
    values = np.stack(noise)
    assert values.size > 1500
    assert has_scale(values, scale)
    assert not has_scale(values, scale * Fraction(13, 10))
    assert not has_scale(values, scale / 2)
