"""Rows labelled by a released forest and counted in another, inside the database: the same as numpy gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpsql.compile.check import NotAggregate, check_statement, check_unlabelled
from dpsql.compile.count import pseudo_counts
from dpsql.compile.rows import Source, Tickets
from dpsql.engines.base import Engine
from dpsql.schema import Categorical, Numeric, Schema, Target, Unit
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes, grid_cells, words
from dpsql.trees.voting import VotingForest
from tests.compile.running import KEYS
from tests.rows import Table, any_forest, create, random_table, schemas, source_of

OTHER_KEYS = Tickets((7, 11, 13))
FEATURES = (Numeric("x", 0, 64), Categorical("c", ("a", "b", "c")))
PLAIN = Schema("label", ("no", "yes", "maybe"), FEATURES)


def unlabelled(schema: Schema, made: Table) -> Source:
    """Return the rows of "people" with their labels left alone."""
    return replace(source_of(schema, made=made), labelled=False)


def teacher_of(schema: Schema, *, seed: int, trees: int = 3, depth: int = 2, most: int = 9) -> VotingForest:
    """Return an irregular forest whose leaves vote with weights of both signs; small ones tie often."""
    forest = any_forest(axes(schema), trees=trees, depth=depth, seed=seed)
    generator = np.random.default_rng(seed)
    return VotingForest(forest, generator.integers(-most, most + 1, (forest.leaves, len(schema.classes))))


def in_database(
    engine: Engine, source: Source, teacher: VotingForest, pupil: Forest, keys: Tickets = KEYS
) -> NDArray[np.int64]:
    """Return the count of each (leaf, class) as the kernel asks for it: keep, then count."""
    kept = pseudo_counts.labelled_rows(source, teacher, engine.vocabulary, keys)
    check_unlabelled(kept.query, source.schema.label)
    counted = pseudo_counts.pseudo_leaf_counts("kept_guessed", pupil, engine.vocabulary)
    check_statement(counted.query, engine.vocabulary)
    found = np.zeros((pupil.leaves, teacher.weights.shape[1]), np.int64)
    with engine.workspace() as here:
        here.keep("kept_guessed", kept.query, kept.tables)
        groups = here.aggregate(counted.query, counted.tables)
    found[groups["leaf"], groups["class"]] = groups["rows"]
    return found


def in_python(schema: Schema, made: Table, teacher: VotingForest, pupil: Forest) -> NDArray[np.int64]:
    """Return the same by numpy: the first of the highest scores is the class, then each row walks every tree."""
    found = np.zeros((pupil.leaves, len(schema.classes)), np.int64)
    if made.rows:
        grid = grid_cells(schema, made.columns)
        scores = teacher.scores(grid).tolist()
        for leaves, score in zip(pupil.route(grid).tolist(), scores, strict=True):
            found[leaves, score.index(max(score))] += 1
    return found


@settings(max_examples=25)
@given(
    schema=schemas(most=14),
    seed=st.integers(0, 2**32 - 1),
    depths=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    most=st.sampled_from([1, 9, 2**38]),
)
def test_counts_are_those_of_numpy(
    engine: Engine, schema: Schema, seed: int, depths: tuple[int, int], most: int
) -> None:
    """For any schema and any two forests, shallow or deep, SQL counts what numpy predicts and routes."""
    made = random_table(schema, 30, seed)
    create(engine, "people", made)
    teacher = teacher_of(schema, seed=seed, depth=depths[0], most=most)
    pupil = any_forest(axes(schema), trees=2, depth=depths[1], seed=seed + 1)
    found = in_database(engine, unlabelled(schema, made), teacher, pupil)
    assert found.tolist() == in_python(schema, made, teacher, pupil).tolist()
    assert found.sum() == 30 * pupil.trees


@pytest.mark.parametrize(
    "own",
    [
        Schema("", (), FEATURES),
        Schema("label", (), FEATURES, target=Target(0, 1)),
        Schema("label", ("a", "b"), FEATURES),
    ],
    ids=["no label", "a number", "other classes"],
)
def test_the_teacher_says_how_many_classes_there_are(engine: Engine, own: Schema) -> None:
    """The table of the unlabelled rows may be registered without a label, or with another kind of label."""
    made = random_table(PLAIN, 30, 5)
    create(engine, "people", made)
    teacher, pupil = teacher_of(PLAIN, seed=5), any_forest(axes(PLAIN), trees=2, depth=2, seed=6)
    found = in_database(engine, unlabelled(own, made), teacher, pupil)
    assert found.tolist() == in_python(PLAIN, made, teacher, pupil).tolist()


def many(count: int) -> Schema:
    """Return a schema of so many numeric features."""
    return Schema("label", ("no", "yes"), tuple(Numeric(f"x{k}", 0, 1, cells=5) for k in range(count)))


@pytest.mark.parametrize("count", [9, 10, 11, 20, 21])
def test_rows_of_several_words_keep_all_of_them(engine: Engine, count: int) -> None:
    """Ten axes fit into a word: with one more, both forests read two, and the counts stay right."""
    schema = many(count)
    assert words(count) == -(-count // 10)
    made = random_table(schema, 60, count)
    create(engine, "people", made)
    teacher = teacher_of(schema, seed=count, trees=6, depth=3)
    pupil = any_forest(axes(schema), trees=6, depth=3, seed=count + 1)
    used = {int(axis) // 10 for forest in (teacher.forest, pupil) for one in forest.levels for axis in one.axis}
    assert used >= set(range(words(count)))
    found = in_database(engine, unlabelled(schema, made), teacher, pupil)
    assert found.tolist() == in_python(schema, made, teacher, pupil).tolist()


@pytest.mark.parametrize(
    ("weights", "winner"),
    [
        ([0, 0, 0], 0),
        ([-5, -5, -5], 0),
        ([-5, 3, 3], 1),
        ([-3, -2, -2], 1),
        ([-1, -2, 0], 2),
        ([-(2**40), -(2**40) + 1, -(2**40)], 1),
        ([2**40, 2**40 - 1, 2**40], 0),
    ],
)
def test_ties_go_to_the_first_class(engine: Engine, weights: list[int], winner: int) -> None:
    """The highest score wins, below zero too; of equal ones the first."""
    made = random_table(PLAIN, 12, 3)
    create(engine, "people", made)
    root = Forest(axes(PLAIN), 1, ())
    found = in_database(engine, unlabelled(PLAIN, made), VotingForest(root, np.array([weights])), root)
    assert found.tolist() == [[12 if number == winner else 0 for number in range(3)]]


def test_rows_without_a_known_label_count_too(engine: Engine) -> None:
    """Labels are not read: rows with a label, an unknown one or none are all labelled by the teacher alone."""
    made = random_table(PLAIN, 40, 5)
    teacher = teacher_of(PLAIN, seed=5)
    found = []
    for label in (None, "yes", "no such class"):
        other = Table(made.types, made.columns | {"label": [label] * 40})
        create(engine, "people", replace(other, types=made.types | {"label": "VARCHAR"}))
        found.append(in_database(engine, unlabelled(PLAIN, made), teacher, teacher.forest).tolist())
    assert found == [in_python(PLAIN, made, teacher, teacher.forest).tolist()] * 3


def test_an_empty_table_gives_zeros(engine: Engine) -> None:
    """Without rows there is no group, and the grid is all zeros."""
    made = random_table(PLAIN, 0, 1)
    create(engine, "people", made)
    teacher = teacher_of(PLAIN, seed=1)
    assert not in_database(engine, unlabelled(PLAIN, made), teacher, teacher.forest).any()


@pytest.mark.parametrize("label", ["class", "node", "CLASS", "word_0", "score", "packed", "ticket", "dpsql_row"])
def test_a_label_may_bear_one_of_our_names(engine: Engine, label: str) -> None:
    """A label column with the name of a column of ours is neither read nor taken for it."""
    schema = Schema(label, PLAIN.classes, FEATURES)
    made = random_table(schema, 30, 8)
    create(engine, "people", made)
    teacher = teacher_of(schema, seed=8)
    found = in_database(engine, unlabelled(schema, made), teacher, teacher.forest)
    assert found.tolist() == in_python(schema, made, teacher, teacher.forest).tolist()


@pytest.mark.parametrize("feature", ["class", "node", "word_0", "row", "shift"])
def test_a_feature_may_bear_one_of_our_names(engine: Engine, feature: str) -> None:
    """A feature with the name of a column of ours is read as the feature."""
    schema = Schema("label", PLAIN.classes, (Numeric(feature, 0, 64), FEATURES[1]))
    made = random_table(schema, 30, 8)
    create(engine, "people", made)
    teacher = teacher_of(schema, seed=8)
    found = in_database(engine, unlabelled(schema, made), teacher, teacher.forest)
    assert found.tolist() == in_python(schema, made, teacher, teacher.forest).tolist()


@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_unit_has_at_most_its_rows(engine: Engine, most: int) -> None:
    """Of each unit `max_rows` rows count, of NULL none; which ones follows from the keys, not from their order."""
    schema = replace(PLAIN, unit=Unit("person", most))
    owners = [None, 1, 1, 1, 1, 2, 2, 3]
    made = Table(
        {"x": "DOUBLE", "c": "VARCHAR", "label": "VARCHAR", "person": "BIGINT"},
        {
            "x": [float(7 * k % 64) for k in range(8)],
            "c": list("abcabcab"),
            "label": ["no", None, "yes", None, "maybe", "no", None, "??"],
            "person": owners,
        },
    )
    teacher = teacher_of(schema, seed=4, trees=1)
    found = []
    for order in range(3):
        create(engine, "people", made.shuffled(order))
        found.append(in_database(engine, unlabelled(schema, made), teacher, teacher.forest).tolist())
    assert np.sum(found[0]) == min(4, most) + min(2, most) + 1
    assert found[0] == found[1] == found[2]


def test_which_rows_of_a_unit_count_follows_from_the_keys(engine: Engine) -> None:
    """Under other keys other rows of the same units count."""
    schema = replace(PLAIN, unit=Unit("person", 1))
    made = random_table(schema, 200, 6)
    create(engine, "people", made)
    pupil = any_forest(axes(schema), trees=2, depth=3, seed=9)
    teacher = teacher_of(schema, seed=4)
    found = [in_database(engine, unlabelled(schema, made), teacher, pupil, keys) for keys in (KEYS, OTHER_KEYS)]
    assert found[0].sum() == found[1].sum() > 20
    assert found[0].tolist() != found[1].tolist()


@settings(max_examples=25)
@given(schema=schemas(most=6), seed=st.integers(0, 2**32 - 1))
def test_our_own_statement_is_unlabelled_and_a_labelled_one_is_refused(
    engine: Engine, schema: Schema, seed: int
) -> None:
    """Whatever the label is called, the statement passes the check; with the labels read in, it does not."""
    teacher, made = teacher_of(schema, seed=seed), random_table(schema, 0, seed)
    own = pseudo_counts.labelled_rows(unlabelled(schema, made), teacher, engine.vocabulary, KEYS)
    check_unlabelled(own.query, schema.label)
    read = pseudo_counts.labelled_rows(source_of(schema, made=made), teacher, engine.vocabulary, KEYS)
    with pytest.raises(NotAggregate):
        check_unlabelled(read.query, schema.label)


@pytest.mark.parametrize(
    "query",
    [
        'SELECT "label" FROM main.people',
        'SELECT "LABEL" AS node FROM main.people',
        "SELECT 0 AS node, CASE WHEN \"label\" = 'yes' THEN 1 ELSE 0 END AS class FROM main.people",
        "SELECT COALESCE(\"label\", 'no') AS class FROM main.people",
        'WITH packed AS (SELECT "label" AS class FROM main.people) SELECT class FROM packed',
        'SELECT class FROM (SELECT CAST("label" AS TEXT) AS class FROM main.people) AS inside',
        'SELECT ROW_NUMBER() OVER (ORDER BY "label") AS class FROM main.people',
        'SELECT (SELECT MAX("label") FROM main.people) AS class FROM main.people',
        'SELECT people."label" AS class FROM main.people',
        "SELECT * FROM main.people",
        "WITH packed AS (SELECT * FROM main.people) SELECT class FROM packed",
    ],
)
def test_a_statement_whose_values_come_from_the_label_is_refused(query: str) -> None:
    """The label in any value of any part of a statement is found, in any letter case."""
    with pytest.raises(NotAggregate, match="features are public"):
        check_unlabelled(sqlglot.parse_one(query, dialect="duckdb"), "label")


@pytest.mark.parametrize(
    "query",
    [
        'SELECT "x" AS word_0 FROM main.people',
        'SELECT "x" AS word_0 FROM main.people WHERE "label" IS NULL',
        'SELECT class, "x" FROM (SELECT 0 AS class, "x" FROM main.people) AS inside',
    ],
)
def test_which_rows_are_taken_may_depend_on_the_label(query: str) -> None:
    """Whether a row has a label is public, so a condition may say it; columns of ours are not the label."""
    check_unlabelled(sqlglot.parse_one(query, dialect="duckdb"), "label")
    check_unlabelled(sqlglot.parse_one(query, dialect="duckdb"), "class")


@pytest.mark.parametrize("query", ["DROP TABLE people", "CREATE TABLE other AS SELECT 1 AS x", "DELETE FROM people"])
def test_only_a_select_is_kept(query: str) -> None:
    """A statement that changes anything is refused."""
    with pytest.raises(NotAggregate):
        check_unlabelled(sqlglot.parse_one(query, dialect="duckdb"), "label")
