"""The operations behind bought domains: right noise, right threshold, nothing beyond what was declared."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from sqlglot import parse_one

from dpsql.compile.check import NotAggregate, check_value_counts
from dpsql.compile.count.value_counts import value_counts
from dpsql.compile.rows import EVERY_UNIT, Tickets
from dpsql.engines.duckdb.vocabulary import DuckDBVocabulary
from dpsql.errors import ParameterError
from dpsql.kernel import noise
from dpsql.kernel.operations import CommonValues, HashCounts, Magnitudes, Size
from dpsql.kernel.plan import Composition, Plan, Sequential, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import AllowanceExceeded, Session
from dpsql.schema import WIDE_HASH_CELLS, Hashed, Numeric, Schema, Unit, hashed_cell
from dpsql.trees.magnitude_grid import MAGNITUDES, magnitude, magnitude_range
from tests.kernel.helpers import EPSILON, Held, has_scale, held, session
from tests.rows import source_of
from tests.tables import SCHEMA, UNITS, some_rows

DELTA, HALF = Decimal("1e-6"), Decimal("5e-7")


def magnitude_step(columns: int = 1, *, axes: int | None = None) -> Step:
    """Return the step that counts numbers by magnitude."""
    return Step("m", Magnitudes(), EPSILON, axes=axes or columns, cells=columns * MAGNITUDES)


def selection_step(columns: int = 1) -> Step:
    """Return the step that selects common texts."""
    return Step("v", CommonValues(), EPSILON, axes=columns, cells=columns)


def promise_with(part: Decimal = HALF, unit: Unit | None = None) -> Promise:
    """Return a promise with a delta, a part of which is set aside for selections."""
    return Promise(unit or Unit(), approximate=noise.approximate(EPSILON, DELTA, part))


def selecting(database: Held, composition: Composition | None = None) -> Session:
    """Return an open session that may select common texts."""
    plan = Plan("test", composition or selection_step(), promise_with(unit=database.schema.unit))
    return Session(database.engine, database.source, plan)


# The grid.


def test_each_cell_holds_its_own_range() -> None:
    """The bounds of a cell are in it, or in the next one."""
    for cell in range(MAGNITUDES - 1):
        lower, upper = magnitude_range(cell)
        assert magnitude((lower + upper) / 2) == cell
        assert magnitude(math.nextafter(upper, lower)) == cell


# Magnitudes.


def test_the_noise_on_magnitudes_has_the_scale_of_the_number_of_columns() -> None:
    """Each of K columns gets discrete Laplace noise of scale K·c/ε on every cell, empty ones included."""
    database = held(some_rows(), schema=UNITS)
    noisy = [session(database, magnitude_step()).magnitudes("m", ["x"]) for _ in range(12)]
    exact = session(database, magnitude_step())._rows.magnitudes(["x"], EVERY_UNIT)
    assert has_scale(np.concatenate([answer - exact for answer in noisy]).ravel(), UNITS.unit.max_rows)
    assert magnitude_step(2).scale(Promise(UNITS.unit)) == 2 * UNITS.unit.max_rows


@pytest.mark.parametrize(
    "columns",
    [["c"], ["nobody"], [], ["x", "x"], "x", ["y"], [b"x"]],
    ids=["text", "unknown", "none", "twice", "no list", "the label", "bytes"],
)
def test_only_registered_numbers_can_be_asked_about(columns: Any) -> None:
    """Anything else is refused before a row is read, and the step can still be used."""
    opened = session(held(some_rows()), magnitude_step())
    with pytest.raises(AllowanceExceeded):
        opened.magnitudes("m", columns)
    assert opened.magnitudes("m", ["x"]).shape == (1, MAGNITUDES)


def test_more_columns_than_declared_are_refused() -> None:
    """The plan says how many columns are charged for."""
    schema = Schema("y", SCHEMA.classes, (*SCHEMA.features, type(SCHEMA.features[1])("person", 0, 9)))
    opened = session(held(some_rows(), schema=schema), magnitude_step(2, axes=1))
    with pytest.raises(AllowanceExceeded):
        opened.magnitudes("m", ["x", "person"])


# Cells of the wide hash.


def hash_step(columns: int = 1, *, axes: int | None = None) -> Step:
    """Return the step that counts texts by the cells of the wide hash."""
    return Step("h", HashCounts(), EPSILON, axes=axes or columns, cells=columns * (WIDE_HASH_CELLS + 1))


def hashing(database: Held, step: Step, *names: str) -> Session:
    """Return an open session in which the column "c" is hashed, and others too."""
    features = (*map(Hashed, ("c", *names)), Numeric("x", 0, 64))
    schema = Schema("y", SCHEMA.classes, features, database.schema.unit)
    return session(Held(database.engine, schema), step)


def test_the_noise_on_hash_cells_has_the_scale_of_the_number_of_columns() -> None:
    """Each of K columns gets discrete Laplace noise of scale K·c/ε on every cell, empty ones included."""
    database = held(some_rows(), schema=UNITS)
    noisy = [hashing(database, hash_step()).hash_counts("h", ["c"]) for _ in range(2)]
    exact = hashing(database, hash_step())._rows.hash_counts(["c"], EVERY_UNIT)
    assert has_scale(np.concatenate([answer - exact for answer in noisy]).ravel(), UNITS.unit.max_rows)
    assert hash_step(2).scale(Promise(UNITS.unit)) == 2 * UNITS.unit.max_rows


def test_each_text_is_counted_in_the_cell_of_its_hash() -> None:
    """NULL has the last cell; the grid is whole whatever the rows hold."""
    rows = [(number, 1.0, text, "no") for number, text in enumerate(["a", "a", "b", None])]
    counts = hashing(held(rows), hash_step())._rows.hash_counts(["c"], EVERY_UNIT)
    assert counts.shape == (1, WIDE_HASH_CELLS + 1)
    places = {hashed_cell(text, WIDE_HASH_CELLS): count for text, count in (("a", 2), ("b", 1), (None, 1))}
    assert {int(place): int(counts[0, place]) for place in np.flatnonzero(counts[0])} == places


@pytest.mark.parametrize(
    "columns",
    [["x"], ["nobody"], [], ["c", "c"], "c", ["y"], [b"c"]],
    ids=["number", "unknown", "none", "twice", "no list", "the label", "bytes"],
)
def test_only_hashed_features_can_be_counted_by_hash(columns: Any) -> None:
    """Anything else is refused before a row is read, and the step can still be used."""
    opened = hashing(held(some_rows()), hash_step())
    with pytest.raises(AllowanceExceeded):
        opened.hash_counts("h", columns)
    assert opened.hash_counts("h", ["c"]).shape == (1, WIDE_HASH_CELLS + 1)


def test_more_hashed_columns_than_declared_are_refused() -> None:
    """The plan says how many columns are charged for."""
    opened = hashing(held(some_rows()), hash_step(2, axes=1), "person")
    with pytest.raises(AllowanceExceeded):
        opened.hash_counts("h", ["c", "person"])


# Common texts.


def test_a_text_of_many_rows_comes_out_and_one_of_few_does_not() -> None:
    """The threshold lies between."""
    rows = [(number, 1.0, "a" if number < 200 else f"p{number}", "no") for number in range(220)]
    released = selecting(held(rows)).common_values("v", ["c"])
    assert [(column, text) for column, text, _ in released] == [("c", "a")]
    assert abs(released[0][2] - 200) < 60


def test_the_threshold_is_that_of_the_proof() -> None:
    """T = 2c + √(2·variance·ln(K·c/δ)), rounded up: a smaller one would break the proof, a larger one lose texts."""
    step, promise = selection_step(3), promise_with(unit=Unit("person", 4))
    variance = float(noise.variance(step, promise))
    exact = 2 * 4 + math.sqrt(2 * variance * math.log(3 * 4 / float(HALF)))
    assert exact <= noise.least_common(step, promise) <= exact + 2
    rho = promise.approximate.nano_rho / 10**9 if promise.approximate else 0
    assert variance == pytest.approx(4**2 * 3 / (2 * rho), rel=1e-5)


def test_a_text_that_one_unit_alone_has_stays_inside_however_lucky_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit may repeat a text in all its rows: those groups do not even get noise."""
    rows = [(1, 1.0, "mine", "no")] * 3 + [(number, 1.0, "a", "no") for number in range(2, 9)]
    monkeypatch.setattr(noise, "discrete_gaussian", lambda variance, size: np.full(size, 10**9))
    assert {text for _, text, _ in selecting(held(rows, schema=UNITS)).common_values("v", ["c"])} == {"a"}


def test_rows_of_a_unit_beyond_its_limit_do_not_count() -> None:
    """A unit with a hundred rows contributes three of them."""
    rows = [(1, 1.0, "mine", "no")] * 100
    database = held(rows, schema=UNITS)
    assert selecting(database)._rows.common_values(["c"], EVERY_UNIT, more_than=2) == {("c", "mine"): 3}


@pytest.mark.parametrize("columns", [["x"], ["y"], [], ["c", "c"], ("c", "x")])
def test_only_registered_texts_can_be_asked_about(columns: Any) -> None:
    """Numbers, the label and unknown columns are refused."""
    with pytest.raises(AllowanceExceeded):
        selecting(held(some_rows())).common_values("v", columns)


def test_a_selection_needs_a_part_of_delta() -> None:
    """Without a delta, without a part of it, or twice: no such plan can be made; nor a part without a selection."""
    bare = Promise(Unit(), approximate=noise.approximate(EPSILON, DELTA))
    for promise in (Promise(Unit()), bare):
        with pytest.raises(ParameterError):
            Plan("test", selection_step(), promise)
    twice = Step("w", CommonValues(), EPSILON // 2)
    with pytest.raises(ParameterError):
        Plan("test", Sequential((Step("v", CommonValues(), EPSILON - EPSILON // 2), twice)), promise_with())
    with pytest.raises(ParameterError):
        Plan("test", Step("s", Size(), EPSILON), promise_with())


def test_the_part_of_delta_lowers_rho() -> None:
    """What is set aside cannot be spent twice: rho is that of the rest of delta."""
    whole, part = noise.approximate(EPSILON, DELTA), noise.approximate(EPSILON, DELTA, HALF)
    assert part.nano_rho < whole.nano_rho
    assert part.nano_rho == noise.approximate(EPSILON, HALF).nano_rho
    for wrong in (DELTA, Decimal("-1e-7"), Decimal(1)):
        with pytest.raises(ParameterError):
            noise.approximate(EPSILON, DELTA, wrong)


def test_a_selection_cannot_be_opened_later() -> None:
    """Its part of delta is charged with the plan, so it must stand in the plan."""
    assert not CommonValues.may_come_later


# The second lock.


def statement() -> Any:
    """Return the statement behind a selection."""
    query = value_counts(source_of(SCHEMA), ["c"], DuckDBVocabulary(), Tickets((1, 2, 3)), more_than=1)
    return query.query


def test_the_statement_of_a_selection_passes_its_check() -> None:
    """As it is built, it is an aggregate."""
    check_value_counts(statement(), DuckDBVocabulary())


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("rows > 1", "rows >= 1"),
        lambda text: text.replace("WHERE rows > 1", ""),
        lambda text: text.replace("SELECT ask, value, rows FROM counted", "SELECT ask, value FROM placed"),
        lambda text: text.replace("GROUP BY ask, value", "GROUP BY ask, value, ticket"),
        lambda text: text.replace("COUNT(*) AS rows", "SUM(ticket) AS rows"),
        lambda text: text + " LIMIT 1",
        lambda text: text.replace(
            "SELECT ask, value, rows FROM counted", "SELECT ask, value, rows FROM counted, packed"
        ),
    ],
    ids=["at least", "all", "rows", "by ticket", "a sum", "limit", "join"],
)
def test_another_statement_does_not(change: Any) -> None:
    """Rows, smaller groups, other keys and other aggregates are refused."""
    text = statement().sql("duckdb")
    changed = change(text)
    assert changed != text
    with pytest.raises(NotAggregate):
        check_value_counts(parse_one(changed, dialect="duckdb"), DuckDBVocabulary())
