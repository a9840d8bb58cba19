"""Hostile names and values go through the compiler and the engine unchanged."""

from __future__ import annotations

from collections import Counter
from random import Random

from sqlglot import exp

from dpsql.compile.count.leaves import row_count
from dpsql.engines.base import Engine
from dpsql.schema import Categorical, Numeric, Schema, Unit
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import random_forest
from tests.compile.running import KEYS, disjoint_counts, one_by_one, run, shared_counts
from tests.hostile import HOSTILE
from tests.rows import Table, any_forest, create, naive_counts, source_of

SMALL = Schema("y", ("no", "yes"), (Numeric("x", 0, 64),))


def test_every_hostile_name_can_be_a_column(engine: Engine) -> None:
    """One table whose columns are all the hostile names is counted as in plain Python."""
    features = tuple(Numeric(name, 0, 64) for name in HOSTILE[1:])
    schema = Schema(HOSTILE[0], ("no", "yes"), features)
    chance = Random(1)
    types = dict.fromkeys(HOSTILE[1:], "DOUBLE") | {HOSTILE[0]: "VARCHAR"}
    columns = {name: [64 * chance.random() for _ in range(8)] for name in HOSTILE[1:]}
    made = Table(types, columns | {HOSTILE[0]: ["no", "yes"] * 4})
    create(engine, "people", made)
    forest = random_forest(axes(schema), trees=8, depth=6, seed=1)
    expected = naive_counts(schema, forest, made.rows)
    assert shared_counts(engine, source_of(schema), forest) == expected


def test_every_hostile_name_can_be_tested_in_a_predicate(engine: Engine) -> None:
    """The readable query of a leaf quotes each hostile column name rightly."""
    schema = Schema("y", ("no", "yes"), tuple(Numeric(name, 0, 64) for name in HOSTILE if name.lower() != "y"))
    types = {feature.name: "DOUBLE" for feature in schema.features} | {"y": "VARCHAR"}
    made = Table(types, {name: [10.0, 50.0] if kind == "DOUBLE" else ["no", "yes"] for name, kind in types.items()})
    create(engine, "people", made)
    forest = random_forest(axes(schema), trees=2, depth=5, seed=2)
    assert one_by_one(engine, source_of(schema), forest) == naive_counts(schema, forest, made.rows)


def test_every_hostile_text_can_be_a_category(engine: Engine) -> None:
    """Each hostile value falls into its own cell, in one statement and in one query per leaf."""
    schema = Schema("y", ("no", "yes"), (Categorical("c", tuple(HOSTILE)),))
    made = Table({"c": "VARCHAR", "y": "VARCHAR"}, {"c": HOSTILE, "y": ["no"] * len(HOSTILE)})
    create(engine, "people", made)
    forest = any_forest(axes(schema), trees=1, depth=2, seed=4)
    expected = naive_counts(schema, forest, made.rows)
    assert len(expected) > 5
    assert shared_counts(engine, source_of(schema), forest) == expected
    assert one_by_one(engine, source_of(schema), forest) == expected


def test_every_hostile_text_can_be_a_class(engine: Engine) -> None:
    """Each hostile label is counted under its own class."""
    schema = Schema("y", tuple(HOSTILE), (Numeric("x", 0, 64),))
    made = Table({"x": "DOUBLE", "y": "VARCHAR"}, {"x": [1.0] * len(HOSTILE), "y": HOSTILE})
    create(engine, "people", made)
    forest = random_forest(axes(schema), trees=1, depth=0, seed=1)
    assert shared_counts(engine, source_of(schema), forest) == Counter({(0, k): 1 for k in range(len(HOSTILE))})


def test_every_hostile_name_can_be_a_table(engine: Engine) -> None:
    """A table of each hostile name is listed in the catalog under it, and the rows of each third one are counted."""
    with engine.transaction() as transaction:
        for place, name in enumerate(HOSTILE):
            quoted = exp.to_identifier(name, quoted=True).sql()
            transaction.run(f"CREATE TABLE {quoted} AS SELECT 1.0 AS x, 'no' AS y FROM range({place % 5})")
    assert engine.tables() == sorted(HOSTILE)
    for place, name in list(enumerate(HOSTILE))[::3]:
        statement = row_count(source_of(SMALL, name), engine.vocabulary, KEYS)
        assert run(engine, statement)[()] == place % 5, name


def test_every_word_of_ours_can_be_a_column_of_a_unit_table(engine: Engine) -> None:
    """Columns named like the statement's own aliases are read as columns, never as aliases."""
    own = ["class", "ticket", "turn", "word_0", "node", "leaf", "rows", "row", "split", "packed", "chosen", "start"]
    for name in own:
        others = [word for word in own if word != name]
        schema = Schema(name, ("1", "0"), tuple(Numeric(word, 0, 64) for word in others[1:]), Unit(others[0], 2))
        types = dict.fromkeys(own, "INTEGER")
        made = Table(types, {word: [(7 * k + place) % 3 for k in range(9)] for place, word in enumerate(own)})
        create(engine, "people", made)
        forest = random_forest(axes(schema), trees=2, depth=2, seed=1)
        units = Counter(row[others[0]] for row in made.rows if row[name] in (0, 1))
        expected = sum(min(2, rows) for rows in units.values())
        assert disjoint_counts(engine, source_of(schema), forest).total() == expected
