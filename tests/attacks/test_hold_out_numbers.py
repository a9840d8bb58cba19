"""Numbers that are equal to a database are one unit, and one unit is in one of a table's two datasets."""

from __future__ import annotations

import pytest

from dpsql.api.database import connect
from dpsql.kernel.datasets.dataset import Dataset, find_dataset, hold_out_of, source
from dpsql.schema import Numeric, Schema, Unit
from tests.tables import rows_of, run

SCHEMA = Schema("y", ("a", "b"), (Numeric("x", 0, 1),), Unit("p"))
#: Spellings of one number each, in SQL.
EQUAL = {
    "nan": ["CAST('nan' AS {t})", "-CAST('nan' AS {t})", "CAST('-nan' AS {t})"],
    "zero": ["CAST(0.0 AS {t})", "CAST(-0.0 AS {t})", "-CAST(0.0 AS {t})"],
}


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize("number", sorted(EQUAL))
def test_equal_numbers_are_on_one_side(number: str, kind: str) -> None:
    """Whatever the key, the rows of one unit are all in the hold-out or all outside of it."""
    sides = set()
    for _ in range(12):
        with connect(":memory:", who="ann") as db:
            values = ", ".join(f"({text.format(t=kind)}, 0.5, 'a')" for text in EQUAL[number])
            run(db.engine, f"CREATE TABLE t (p {kind}, x DOUBLE, y VARCHAR)", f"INSERT INTO t VALUES {values}")
            assert [row["n"] for row in rows_of(db.engine, "SELECT COUNT(*) AS n FROM t GROUP BY p")] == [3]
            db.register("t", SCHEMA, cap=1, holdout="50%")
            rest = find_dataset(db.engine, db.book, "t")
            beside = hold_out_of(db.book, rest)
            assert beside is not None

            def rows(dataset: Dataset) -> int:
                where = source(db.engine, dataset).where
                assert where is not None
                return int(rows_of(db.engine, f"SELECT COUNT(*) AS n FROM t WHERE {where.sql('duckdb')}")[0]["n"])

            sides.add((rows(rest), rows(beside)))
    assert sides <= {(3, 0), (0, 3)}
