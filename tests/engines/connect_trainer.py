"""A process that trains through Spark Connect: its session has no Java on this side. Prints what it saw as JSON.

Arguments: a folder with Parquet tables `adult` and `fresh`, and the ledger.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import sqlglot
from pyspark.sql import SparkSession

import dpsql
from dpsql.api import census
from dpsql.errors import DpsqlError


def main(folder: str, ledger: str) -> None:
    """Register, train, predict; try a temporary view, and an error that quotes a cell."""
    session = SparkSession.builder.remote("local[2]").getOrCreate()
    for name in ("adult", "fresh"):
        session.sql(f"CREATE TABLE {name} USING parquet LOCATION '{Path(folder) / name}'")
    session.table("adult").createOrReplaceTempView("passing")
    seen: dict[str, object] = {"session": type(session).__module__}
    with dpsql.connect(session, ledger=ledger) as db:
        db.register("adult", census.SCHEMA, cap=3)
        model = db.train("adult", method="spe", trees=3, depth=3)
        labels = model.predict("fresh")["prediction"]
        seen["equal"] = list(labels) == list(model.predict(session.table("fresh").toPandas()))
        seen["rows"] = db.evaluate(model, "fresh").rows
        seen["spent"] = db.budget("adult").spent_text
        seen["weak"] = any("log" in one for one in db.weaknesses())
        try:
            db.register("passing", census.SCHEMA, cap=1)
        except DpsqlError as error:
            seen["refused"] = error.message
        try:
            db.engine.frame(sqlglot.parse_one("SELECT RAISE_ERROR('a secret') AS n", dialect="spark"))
        except DpsqlError as error:
            seen["failed"], seen["behind"] = error.message, repr(error.__context__)
    seen["open"] = session.range(3).count()
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
    gc.collect()  # pyspark hangs where a session of Spark Connect is let go while the interpreter ends
