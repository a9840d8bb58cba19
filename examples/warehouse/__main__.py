"""Fills five tables with synthetic people, registers one view over them, trains and measures, and prints the seconds.

python -m examples.warehouse --db warehouse.duckdb --persons 100000 --visits 1000000
python -m examples.warehouse --db postgresql://owner@localhost/empty --persons 100000 --visits 1000000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dpsql
from dpsql import Database

HERE = Path(__file__).resolve().parent


def fill_tables(database: Database, *, persons: int, visits: int) -> None:
    """Create the five tables and fill them with people, their visits and half as many prescriptions."""
    sizes = iter([(persons, persons), (persons, visits), (persons, visits // 2)])
    lines = (HERE / "tables.sql").read_text(encoding="utf-8").splitlines()
    statements = "\n".join(line for line in lines if not line.startswith("--")).split(";")
    with database.engine.transaction() as transaction:
        for statement in (text.strip() for text in statements):
            if statement:
                transaction.run(statement, next(sizes) if "?" in statement else ())


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how many seconds a block took."""
    start = time.perf_counter()
    yield
    print(f"{what:<10} {time.perf_counter() - start:8.2f} s", flush=True)


def main() -> None:
    """Run the whole path once and print what came of it."""
    parser = argparse.ArgumentParser(description="A model over a warehouse of five tables.")
    parser.add_argument("--db", required=True, help="a new DuckDB file, or the URL of an empty PostgreSQL database")
    parser.add_argument("--persons", type=int, default=10_000)
    parser.add_argument("--visits", type=int, default=100_000)
    parser.add_argument("--epsilon", default="1", help="what training may cost")
    parser.add_argument("--method", default="auto")
    given = parser.parse_args()
    with dpsql.connect(given.db, create=True, who="owner") as database:
        with timed("fill"):
            fill_tables(database, persons=given.persons, visits=given.visits)
        with timed("register"):
            dataset = database.register("features", HERE / "features.yml", cap=3, view=HERE / "features.sql")
        with timed("train"):
            model = database.train("features", epsilon=given.epsilon, method=given.method)
        with timed("evaluate"):
            figures = database.evaluate(model, "features", epsilon="0.5")
        print(f"private tables: {', '.join(place[1] for place in dataset.base.tables)}; unit: {dataset.schema.unit}")
        print(figures)
        print(f"left of the budget: {database.budget('features').left_text}")


if __name__ == "__main__":
    main()
