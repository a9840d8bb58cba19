"""A process that trains until Ctrl-C comes, which the test sends. Prints what happens, one line of JSON each.

Arguments: an engine, a folder for its tables and its ledger, and the URL of a PostgreSQL database.

It trains three times: once to the end (`seconds` from its charge on), once to be stopped (`charged` says from when on,
`stopped` what was raised), and once more, small, on the same connection.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

import dpsql
from dpsql.api.database import Database
from dpsql.schema import Numeric, Schema

#: For each engine, rows and trees for which a statement takes a few seconds.
SIZES = {
    "duckdb": (2_000_000, 40),
    "postgres": (300_000, 10),
    "spark": (1_000_000, 60),
    "connect": (1_000_000, 60),
    "chdb": (3_000_000, 60),
}
COLUMNS = {"a": 100.0, "b": 1.0, "c": 1.0, "d": 1.0}
SCHEMA = Schema("y", ("yes", "no"), tuple(Numeric(name, 0, upper) for name, upper in COLUMNS.items()))
DUCKDB_ROWS = """
SELECT random() * 100 AS a, random() AS b, random() AS c, random() AS d,
    CASE WHEN random() < 0.3 THEN 'yes' ELSE 'no' END AS y
FROM range({})
"""
POSTGRES_ROWS = DUCKDB_ROWS.replace("range({})", "generate_series(1, {})")
CHDB_ROWS = """
CREATE TABLE t ENGINE = MergeTree ORDER BY tuple() AS
SELECT randCanonical() * 100 AS a, randCanonical(1) AS b, randCanonical(2) AS c, randCanonical(3) AS d,
    if(randCanonical(4) < 0.3, 'yes', 'no') AS y
FROM numbers({})
"""


@contextmanager
def open_table(engine: str, folder: Path, url: str, rows: int) -> Iterator[tuple[Database, Callable[[], int]]]:
    """Open a database with a registered table; also what counts its rows, on the connection of the caller's own."""
    ledger = folder / "ledger.duckdb"
    if engine == "duckdb":
        own = duckdb.connect(str(folder / "own.duckdb"))
        own.execute(f"CREATE TABLE t AS {DUCKDB_ROWS.format(rows)}")
        with dpsql.connect(own) as db:
            yield db, lambda: int(own.execute("SELECT count(*) FROM t").fetchall()[0][0])
    elif engine == "postgres":
        import psycopg

        with psycopg.connect(url, autocommit=True) as other:
            other.execute(f"CREATE TABLE t AS {POSTGRES_ROWS.format(rows)}".encode())
            with dpsql.connect(other) as db:
                yield db, lambda: int(other.execute("SELECT count(*) FROM t").fetchall()[0][0])
    elif engine == "chdb":
        from chdb.session import Session

        session = Session(str(folder / "chdb"))
        session.query(CHDB_ROWS.format(rows))
        with dpsql.connect(session, ledger=ledger) as db:
            yield db, lambda: int(str(session.query("SELECT count() FROM t")))
        session.close()
    else:
        with _open_spark(engine, folder, rows) as spark, dpsql.connect(spark, ledger=ledger) as db:
            yield db, spark.table("t").count


@contextmanager
def _open_spark(engine: str, folder: Path, rows: int) -> Iterator[Any]:
    """Start Spark in this process, or a server of Spark Connect, with a table of Parquet."""
    from pyspark.sql import SparkSession

    (folder / "rows").mkdir()
    duckdb.execute(f"COPY ({DUCKDB_ROWS.format(rows)}) TO '{folder}/rows/part-0.parquet'")
    builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.sql.warehouse.dir", str(folder))
    builder = builder.config("spark.sql.shuffle.partitions", "4")
    session = (builder.remote if engine == "connect" else builder.master)("local[2]").getOrCreate()
    session.sql(f"CREATE TABLE t USING parquet LOCATION '{folder / 'rows'}'")
    yield session
    session.stop()


def say(**words: object) -> None:
    """Print what has happened, with the clock."""
    print(json.dumps({**words, "at": time.time()}), flush=True)


def train(db: Database, trees: int) -> None:
    """Train on the table; a thread says when the charge is in the ledger."""
    before = len(db.book.entries())

    def tell() -> None:
        while len(db.book.entries()) == before:
            time.sleep(0.01)
        say(charged=True)

    threading.Thread(target=tell, daemon=True).start()
    db.train("t", method="rdt", epsilon=0.5, trees=trees, depth=6)


def main(engine: str, folder: Path, url: str) -> None:
    """Train to the end, until Ctrl-C, and once more."""
    rows, trees = SIZES[engine]
    with open_table(engine, folder, url, rows) as (db, count_rows):
        db.register("t", SCHEMA, cap=5)
        db.train("t", method="rdt", epsilon=0.1, trees=1, depth=1)  # buys the size, and loads what is loaded once
        train(db, trees)
        say(ended=True)
        try:
            train(db, trees)
        except KeyboardInterrupt as error:
            stopped, links, at = error, [repr(error.__cause__), repr(error.__context__)], time.time()
        charge = stopped.charges[-1] if isinstance(stopped, dpsql.Interrupted) else None
        last = db.book.entries()[-1]
        say(
            stopped=str(stopped),
            seconds_at=at,
            charge=None if charge is None else [charge.entry, charge.state, charge.amount, charge.measure],
            entry=[last.entry_id, last.state, last.amount_text],
            behind=links,
            findings=db.verify(),
            rows=count_rows() == rows,
        )
        say(model=db.train("t", method="rdt", epsilon=0.1, trees=1, depth=1).name)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    gc.collect()  # pyspark hangs where a session of Spark Connect is let go while the interpreter ends
