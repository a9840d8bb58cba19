"""The random pairs: neighbours that differ in one unit, anywhere in the table, with all other addresses in place."""

from __future__ import annotations

from itertools import count
from typing import cast

import numpy as np

from dpsql.audit.neighbours import MadeUpTable, Pair, random_pair, random_schema
from dpsql.audit.ways import WAYS, database_in_memory, random_case
from dpsql.ledger import Entry
from tests.audit.pairs import PEOPLE, ROWS, TYPES

PAIRS = 40


def pair_of(seed: int, *, unit: bool = True, labels: bool = False) -> Pair:
    """Return a random pair."""
    chance = np.random.default_rng(seed)
    return random_pair(chance, random_schema(chance, unit=unit, labels=labels), labels=labels)


def test_rows_that_are_gone_leave_the_addresses_of_others() -> None:
    """Rows are deleted from the middle, and those behind them are still where they were."""
    table = MadeUpTable("people", TYPES, PEOPLE, ROWS, gone=frozenset({0, 3}))
    with database_in_memory([table]) as database, database.engine.transaction() as transaction:
        rows = transaction.rows("SELECT rowid AS place, x FROM people ORDER BY rowid")
    assert [row["place"] for row in rows] == [1, 2, *range(4, len(PEOPLE))]
    assert [row["x"] for row in rows] == [row[1] for place, row in enumerate(PEOPLE) if place not in (0, 3)]


def test_neighbours_have_the_rows_of_one_unit_more() -> None:
    """The second table has all rows of the first and, scattered among them, those that differ; in its middle too."""
    pairs = [pair_of(seed, unit=bool(seed % 2)) for seed in range(PAIRS)]
    for pair in pairs:
        added = [pair.second.rows[place] for place in sorted(pair.first.gone)]
        assert str(added) == str(list(pair.differing))
        assert len(pair.second.present) == len(pair.first.present) + len(added)
    assert any(pair.first.gone and min(pair.first.gone) < len(pair.first.present) for pair in pairs)


def test_neighbours_by_label_have_the_same_rows() -> None:
    """With private labels no row is gone, and all that differs between the tables are labels that are not NULL."""
    for seed in range(PAIRS):
        pair = pair_of(seed, labels=True)
        place = list(pair.first.types).index("y")
        for one, other in zip(pair.first.present, pair.second.present, strict=True):
            assert str([*one[:place], *one[place + 1 :]]) == str([*other[:place], *other[place + 1 :]])
            assert (one[place] is None) == (other[place] is None)


def test_the_kinds_of_neighbours_all_occur() -> None:
    """Plain units over both batches, crowds, and rows that are nobody's: each among the first few pairs."""
    pairs = [pair_of(seed) for seed in range(PAIRS)]
    assert any(not pair.has_unit for pair in pairs)
    assert any(len(pair.first.present) > 100 for pair in pairs)
    assert any(len({str(row[1:-2]) for row in pair.differing}) == 1 < len(pair.differing) for pair in pairs)


def test_rows_that_are_nobodys_may_lose_nothing() -> None:
    """No charge is theirs, so that counting a single one of them would be a broken promise."""
    cases = (random_case("size", seed) for seed in count())
    found = next(case for case in cases if not case.pays(cast(Entry, None))).replay()
    assert found.loss == found.promise == 0
    assert found.holds


def test_every_second_case_counts_in_small_statements() -> None:
    """Of each way, so that forests of any size are counted in one statement and in several."""
    assert {way for way in WAYS if random_case(way, 0).groups is None} == set(WAYS)
    assert {way for way in WAYS if random_case(way, 1).groups is not None} == set(WAYS)
