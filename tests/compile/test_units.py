"""Privacy units and tickets: bounded rows per unit, independence of order, parts that depend on the keys."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.compile.count.leaves import Part, row_count
from dpsql.compile.rows import Tickets
from dpsql.engines.base import Engine
from dpsql.schema import Categorical, Numeric, Schema, Unit
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import random_forest
from tests.compile.running import KEYS, disjoint_counts, row_tickets, run, shared_counts
from tests.rows import Table, any_forest, class_of, create, naive_counts, random_table, schemas, source_of

FEATURES = (Numeric("x", 0, 64), Categorical("c", ("a", "b", "c")))
OTHER_KEYS = Tickets((0x0123456789ABCDEF, 0x7777777712345678, 0x1111222233334444))
ROWS = 4000


def units(max_rows: int) -> Schema:
    """Return a schema whose privacy unit is "person"."""
    return Schema("label", ("no", "yes"), FEATURES, Unit("person", max_rows))


def people(rows: int, persons: int, seed: int) -> Table:
    """Return a table of distinct rows, each of one of `persons` persons or of NULL."""
    chance = Random(seed)
    columns: dict[str, list[Any]] = {
        "person": [chance.choice([None, *range(persons)]) for _ in range(rows)],
        "x": [64 * k / rows for k in range(rows)],
        "c": [chance.choice("abc") for _ in range(rows)],
        "label": [chance.choice(["no", "yes", None, "strange"]) for _ in range(rows)],
    }
    return Table({"person": "BIGINT", "x": "DOUBLE", "c": "VARCHAR", "label": "VARCHAR"}, columns)


def numbered(engine: Engine) -> Schema:
    """Create a table of many rows without a key; return its schema."""
    with engine.transaction() as transaction:
        transaction.run(f"CREATE TABLE people AS SELECT 1.0 AS x, 'no' AS label FROM range({ROWS})")
    return Schema("label", ("no", "yes"), (FEATURES[0],))


def chi_square(parts: list[int], count: int) -> float:
    """Return Pearson's statistic against equal parts."""
    found = np.bincount(parts, minlength=count)
    expected = len(parts) / count
    return float(((found - expected) ** 2 / expected).sum())


def too_uneven(statistic: float, freedom: int) -> bool:
    """Tell whether a chi-square statistic lies six standard deviations above its mean."""
    return statistic > freedom + 6 * (2 * freedom) ** 0.5


@settings(max_examples=12)
@given(schema=schemas(most=6, unit=True), seed=st.integers(0, 2**32 - 1))
def test_no_unit_has_more_rows_than_allowed(engine: Engine, schema: Schema, seed: int) -> None:
    """The rows used are, for each unit, those it has or `max_rows`; rows of no unit are not used."""
    made = random_table(schema, 40, seed)
    create(engine, "people", made)
    owned = Counter(row[str(schema.unit.column)] for row in made.rows if class_of(schema, row) is not None)
    used = sum(min(rows, schema.unit.max_rows) for unit, rows in owned.items() if unit is not None)
    assert run(engine, row_count(source_of(schema), engine.vocabulary, KEYS))[()] == used


@settings(max_examples=8)
@given(schema=schemas(most=6, unit=True), seed=st.integers(0, 2**32 - 1))
def test_units_within_their_limit_count_as_rows_do(engine: Engine, schema: Schema, seed: int) -> None:
    """Where no unit has more rows than allowed, the counts are those of plain Python over rows with a unit."""
    roomy = Schema(schema.label, schema.classes, schema.features, Unit(schema.unit.column, 1000))
    made = random_table(roomy, 40, seed)
    create(engine, "people", made)
    forest = any_forest(axes(roomy), trees=2, depth=3, seed=seed)
    owned = [row for row in made.rows if row[str(roomy.unit.column)] is not None]
    assert shared_counts(engine, source_of(roomy), forest) == naive_counts(roomy, forest, owned)


@pytest.mark.parametrize("max_rows", [1, 2, 5])
def test_the_chosen_rows_do_not_depend_on_order(engine: Engine, max_rows: int) -> None:
    """Shuffling the table changes no count under the same keys: rows are chosen by content, never by place."""
    made = people(300, 20, 1)
    schema = units(max_rows)
    forest = random_forest(axes(schema), trees=4, depth=5, seed=1)
    found = []
    for order in range(4):
        create(engine, "people", made.shuffled(order))
        found.append(disjoint_counts(engine, source_of(schema), forest))
    assert found[1:] == found[:1] * 3


def test_the_chosen_rows_depend_on_the_keys(engine: Engine) -> None:
    """Other keys choose other rows of a unit."""
    schema = units(1)
    create(engine, "people", people(300, 20, 1))
    forest = random_forest(axes(schema), trees=1, depth=6, seed=1)
    assert disjoint_counts(engine, source_of(schema), forest) != disjoint_counts(
        engine, source_of(schema), forest, keys=OTHER_KEYS
    )


def test_one_units_rows_change_only_their_own_counts(engine: Engine) -> None:
    """Without one person the counts differ by that person's used rows alone, at most `max_rows`."""
    schema = units(3)
    made = people(300, 20, 2)
    kept = [k for k, person in enumerate(made.columns["person"]) if person != 7]
    fewer = Table(made.types, {name: [values[k] for k in kept] for name, values in made.columns.items()})
    forest = random_forest(axes(schema), trees=4, depth=5, seed=1)
    create(engine, "people", made)
    whole = disjoint_counts(engine, source_of(schema), forest)
    create(engine, "people", fewer)
    without = disjoint_counts(engine, source_of(schema), forest)
    assert without <= whole
    assert 1 <= (whole - without).total() <= 3


def test_all_rows_of_a_unit_are_in_one_part(engine: Engine) -> None:
    """A unit's rows share one ticket, so that they fall into one tree and one part."""
    schema = units(1000)
    made = people(300, 20, 3)
    create(engine, "people", made)
    owners = sorted(
        row["person"] for row in made.rows if row["person"] is not None and class_of(schema, row) is not None
    )
    tickets = Counter(ticket for ticket, _ in row_tickets(engine, source_of(schema)))
    assert sorted(tickets.values()) == sorted(Counter(owners).values())


def test_a_partition_column_decides_the_ticket(engine: Engine) -> None:
    """Rows that share a value of the declared partition column share a ticket; those without one have their own."""
    schema = Schema("label", ("no", "yes"), FEATURES, partition="person")
    made = people(300, 20, 4)
    create(engine, "people", made)
    persons = [row["person"] for row in made.rows if class_of(schema, row) is not None]
    tickets: dict[int | None, set[int]] = defaultdict(set)
    for person, (ticket, _) in zip(persons, row_tickets(engine, source_of(schema)), strict=True):
        tickets[person].add(ticket)
    assert len(tickets.pop(None)) == persons.count(None)
    assert all(len(found) == 1 for found in tickets.values())
    assert len(set.union(*tickets.values())) == len(tickets)


def test_a_partition_column_does_not_limit_rows(engine: Engine) -> None:
    """With a row as the unit every row counts, those without a partition value included."""
    schema = Schema("label", ("no", "yes"), FEATURES, partition="person")
    made = people(300, 20, 5)
    create(engine, "people", made)
    counted = sum(class_of(schema, row) is not None for row in made.rows)
    assert run(engine, row_count(source_of(schema), engine.vocabulary, KEYS))[()] == counted


@pytest.mark.parametrize("count", [2, 3, 8, 64, 100])
def test_which_rows_share_a_part_changes_with_the_keys(engine: Engine, count: int) -> None:
    """Under other keys two rows share a part as if by chance: the parts are not merely given other numbers."""
    schema = numbered(engine)
    first = [ticket % count for ticket, _ in row_tickets(engine, source_of(schema))]
    second = [ticket % count for ticket, _ in row_tickets(engine, source_of(schema), OTHER_KEYS)]
    pairs = [a * count + b for a, b in zip(first, second, strict=True)]
    assert not too_uneven(chi_square(pairs, count**2), count**2 - 1)


@pytest.mark.parametrize("count", [2, 8, 100])
def test_relabelled_parts_would_be_noticed(engine: Engine, count: int) -> None:
    """The test above has power: a partition that only gets other numbers fails it."""
    schema = numbered(engine)
    first = [ticket % count for ticket, _ in row_tickets(engine, source_of(schema))]
    pairs = [a * count + (a + 1) % count for a in first]
    assert too_uneven(chi_square(pairs, count**2), count**2 - 1)


@pytest.mark.parametrize("key", [0, 1, 2])
def test_each_key_moves_rows_between_parts(engine: Engine, key: int) -> None:
    """Changing any one key, even by one bit, gives an unrelated partition."""
    schema = numbered(engine)
    changed = Tickets(tuple(int(value) ^ (place == key) for place, value in enumerate(KEYS.keys)))
    first = [ticket % 8 for ticket, _ in row_tickets(engine, source_of(schema))]
    second = [ticket % 8 for ticket, _ in row_tickets(engine, source_of(schema), changed)]
    assert not too_uneven(chi_square([a * 8 + b for a, b in zip(first, second, strict=True)], 64), 63)


@pytest.mark.parametrize("count", [2, 5, 16, 100])
def test_parts_are_near_uniform(engine: Engine, count: int) -> None:
    """Trees and parts get about equally many rows, and the two are independent of each other."""
    schema = numbered(engine)
    tickets = [ticket for ticket, _ in row_tickets(engine, source_of(schema))]
    trees = [ticket % count for ticket in tickets]
    halves = [(ticket >> 32) % 2 for ticket in tickets]
    assert not too_uneven(chi_square(trees, count), count - 1)
    assert not too_uneven(chi_square([a * 2 + b for a, b in zip(trees, halves, strict=True)], count * 2), count * 2 - 1)


def test_slightly_uneven_parts_would_be_noticed() -> None:
    """The uniformity test has power: one part of five with 30 % more rows fails it."""
    parts = [k % 5 for k in range(ROWS)] + [0] * (ROWS // 5 * 3 // 10)
    assert too_uneven(chi_square(parts, 5), 4)


def test_a_part_follows_the_upper_half_of_the_ticket(engine: Engine) -> None:
    """`Part(k, n)` holds exactly the rows whose ticket's upper half is k modulo n."""
    schema = numbered(engine)
    expected = Counter((ticket >> 32) % 3 for ticket, _ in row_tickets(engine, source_of(schema)))
    sizes = [run(engine, row_count(source_of(schema), engine.vocabulary, KEYS, Part(k, 3)))[()] for k in range(3)]
    assert sizes == [expected[k] for k in range(3)]


def test_keys_are_not_shown() -> None:
    """The keys appear neither in the repr of tickets nor in their text."""
    assert repr(KEYS) == str(KEYS) == "<Tickets>"
