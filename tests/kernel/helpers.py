"""Shared by the kernel's tests: sessions on small tables, exact counts by plain Python, tests of a noise scale."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.compile.rows import Source
from dpsql.engines.base import Arrays, Engine, TableInfo, Workspace
from dpsql.engines.duckdb.open_database import open_file
from dpsql.kernel.operations import OPERATIONS, Histograms, LeafSums
from dpsql.kernel.plan import Composition, Plan, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.schema import CELLS, Schema
from dpsql.trees.forest import Forest
from tests.compile.running import row_tickets
from tests.rows import class_of, one_cell, source_of, walk
from tests.tables import SCHEMA, Row, fill, types_of

EPSILON = 10**9


@dataclass(frozen=True)
class Held:
    """An engine that holds the table "people", and its schema. No ledger: a session is opened as after a charge."""

    engine: Engine
    schema: Schema

    @property
    def source(self) -> Source:
        """The table as a source of rows."""
        return source_of(self.schema)


class Watched:
    """An engine that remembers the statements it ran over private rows, and the small tables they joined."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.statements: list[str] = []
        self.tables: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def aggregate(self, query: Any, tables: Any) -> Arrays:
        """Run a statement and remember it."""
        with self.workspace() as here:
            return here.aggregate(query, tables)

    @contextmanager
    def workspace(self, reads: Sequence[TableInfo] = ()) -> Iterator[WatchedWorkspace]:
        """Open a workspace that remembers too."""
        with self._engine.workspace(reads) as here:
            yield WatchedWorkspace(here, self)

    def remember(self, query: Any, tables: Any) -> None:
        """Write a statement down, secret keys left out."""
        self.statements.append(re.sub(r"[0-9]{12,}", "KEY", query.sql("duckdb")))
        self.tables.append({name: {key: column.tolist() for key, column in t.items()} for name, t in tables.items()})


class WatchedWorkspace:
    """A workspace whose statements are remembered."""

    def __init__(self, here: Workspace, watched: Watched) -> None:
        self._here = here
        self._watched = watched

    def keep(self, name: str, query: Any, tables: Any) -> None:
        """Keep rows and remember how."""
        self._watched.remember(query, tables)
        self._here.keep(name, query, tables)

    def aggregate(self, query: Any, tables: Any) -> Arrays:
        """Run a statement and remember it."""
        self._watched.remember(query, tables)
        return self._here.aggregate(query, tables)


@cache
def _engine() -> Engine:
    return open_file(":memory:")


def held(rows: Iterable[Row] = (), *, schema: Schema = SCHEMA) -> Held:
    """Return the one engine of the kernel's tests, with new rows in "people"."""
    fill(_engine(), "people", rows, types_of(schema), anew=True)
    return Held(_engine(), schema)


def refill(opened: Session, rows: Iterable[Row], *, schema: Schema = SCHEMA) -> None:
    """Put new rows in "people", and let a session see them under the same keys: its workspace holds the old state."""
    opened._rows.close()
    held(rows, schema=schema)


def session(database: Held, composition: Composition) -> Session:
    """Return an open session for a plan, as the kernel opens it after a charge."""
    return Session(database.engine, database.source, Plan("test", composition, Promise(database.schema.unit)))


def leaf_step(operation: str, forest: Forest, classes: int, *, shared: bool, nano: int = EPSILON) -> Step:
    """Return a step that releases the leaves of a forest: counts by class, or one label each."""
    cells = forest.leaves * (classes if operation == "leaf_counts" else 1)
    return Step(
        "leaves", OPERATIONS[operation](), nano, trees=forest.trees, shared=shared, cells=cells, classes=classes
    )


def histogram_step(forest: Forest, axes: Sequence[int], classes: int, *, shared: bool) -> Step:
    """Return a step that releases histograms of some axes at the leaves of a forest."""
    cells = sum(forest.axes[axis].cells for axis in axes) * forest.leaves * classes
    return Step("bins", Histograms(), EPSILON, trees=forest.trees, shared=shared, axes=len(axes), cells=cells)


def counted(database: Held, opened: Session) -> list[tuple[dict[str, Any], int, int]]:
    """Return the rows that count, each with its class and its ticket under the session's own secret keys.

    At unit level the table must not hold more rows of a unit than are used, so that all of them count.
    """
    where = database.source
    table = [dict(row) for row in _table_rows(database)]
    unit = where.schema.unit.column
    kept = [row for row in table if class_of(where.schema, row) is not None and (unit is None or row[unit] is not None)]
    tickets = dict(_tickets(database, opened, where, kept))
    return [(row, int(class_of(where.schema, row) or 0), tickets[number]) for number, row in enumerate(kept)]


def exact_leaf_counts(database: Held, opened: Session, forest: Forest, *, shared: bool) -> NDArray[np.int64]:
    """Return the count of each (leaf, class) by walking the trees in plain Python."""
    schema = opened.schema
    found = np.zeros((forest.leaves, len(schema.classes)), np.int64)
    for row, label, ticket in counted(database, opened):
        leaves = walk(schema, forest, row)
        for leaf in leaves if shared else [leaves[ticket % forest.trees]]:
            found[leaf, label] += 1
    return found


def sums_step(forest: Forest, *, shared: bool, nano: int = EPSILON, steps: int = 100) -> Step:
    """Return a step that releases the two sums of each leaf of a forest."""
    return Step(
        "leaves", LeafSums(), nano, trees=forest.trees, shared=shared, cells=forest.leaves * 2, row_weight=steps
    )


def exact_leaf_sums(database: Held, opened: Session, forest: Forest, *, shared: bool) -> NDArray[np.int64]:
    """Return the steps below `upper` and above `lower` of each leaf's targets, by walking the trees in plain Python."""
    found = np.zeros((forest.leaves, 2), np.int64)
    for row, above, ticket in counted(database, opened):
        leaves = walk(opened.schema, forest, row)
        for leaf in leaves if shared else [leaves[ticket % forest.trees]]:
            found[leaf] += (opened.schema.steps - above, above)
    return found


def exact_histograms(
    database: Held, opened: Session, forest: Forest, axes: Sequence[int], *, shared: bool
) -> NDArray[np.int64]:
    """Return the count of each (leaf, axis, cell, class) by walking the trees in plain Python."""
    schema = opened.schema
    found = np.zeros((forest.leaves, len(axes), CELLS, len(schema.classes)), np.int64)
    for row, label, ticket in counted(database, opened):
        leaves = walk(schema, forest, row)
        for leaf in leaves if shared else [leaves[ticket % forest.trees]]:
            for place, axis in enumerate(axes):
                one = forest.axes[axis]
                feature = schema.features[one.feature]
                cell = one_cell(feature, row[feature.name]) // CELLS**one.digit % CELLS
                found[leaf, place, cell, label] += 1
    return found


def mean_size(scale: Fraction | float) -> float:
    """Return the expected absolute value of discrete Laplace noise of a scale."""
    ratio = float(np.exp(-1 / float(scale)))
    return 2 * ratio / (1 - ratio**2)


def has_scale(noise: NDArray[np.int64], scale: Fraction | float, *, tolerance: float = 0.13) -> bool:
    """Whether noise is centred and as large as its scale says; 2,000 values or more tell 30 % apart with certainty."""
    values = noise.ravel().astype(float)
    size = np.abs(values).mean() / mean_size(scale)
    centre = abs(values.mean()) / (values.std() / np.sqrt(len(values)) + 1e-9)
    return bool(abs(size - 1) < tolerance and centre < 6)


def _table_rows(database: Held) -> list[dict[str, Any]]:
    with database.engine.transaction() as transaction:
        return transaction.rows("SELECT * FROM people ORDER BY rowid")


def _tickets(database: Held, opened: Session, where: Source, kept: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
    """Return the ticket of each counted row, in the order of the table (of the classes too, as a check)."""
    drawn = row_tickets(database.engine, where, opened._rows._tickets)
    if where.schema.unit.column is None:
        assert [label for _, label in drawn] == [class_of(where.schema, row) for row in kept]
        return [(number, ticket) for number, (ticket, _) in enumerate(drawn)]
    return _unit_tickets(database, opened, where, kept)


def _unit_tickets(
    database: Held, opened: Session, where: Source, kept: Sequence[dict[str, Any]]
) -> list[tuple[int, int]]:
    """Return tickets by unit: the statement may give rows in another order, so each unit is looked up by its value."""
    vocabulary = database.engine.vocabulary
    unit = str(where.schema.unit.column)
    hashed = vocabulary.keyed_hash([where.column(unit)], opened._rows._tickets.keys).sql(vocabulary.dialect)
    with database.engine.transaction() as transaction:
        rows = transaction.rows(f'SELECT DISTINCT "{unit}" AS unit, {hashed} AS ticket FROM people')
    tickets = {row["unit"]: row["ticket"] for row in rows}
    return [(number, tickets[row[unit]]) for number, row in enumerate(kept)]
