"""How accuracy falls when rows arrive in batches: Figure 4 of Jagannathan et al. 2012, through the real product.

    python examples/updates.py --data ../shared/data --sets nursery,mushroom --epsilon 0.5 --batches 1,2,4,6,8,10

For each number of batches the rows are dealt out at random; the first batch is trained on, the others are added one
by one. Every row pays epsilon once, whatever the number of batches: the ledger's total is printed beside the accuracy.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import duckdb

import dpsql

#: One tenth is held out; the rest gets a batch number. Both follow from a hash of row number and run.
SPLIT = """
CREATE TABLE dealt AS
SELECT source.* EXCLUDE (file_row_number), hash(file_row_number, $run) AS draw
FROM read_parquet($file, file_row_number = true) AS source
"""
TRAIN = """
CREATE TABLE train AS
SELECT * EXCLUDE (draw), CAST((draw // 10) % $batches AS INTEGER) AS batch FROM dealt WHERE draw % 10 <> 0
"""
TEST = "CREATE TABLE test AS SELECT * EXCLUDE (draw) FROM dealt WHERE draw % 10 = 0"


def main() -> None:
    """Run every number of batches on every table and print one line for each."""
    asked = parser().parse_args()
    schemas = json.loads((asked.data / "schemas.json").read_text(encoding="utf-8"))
    print(f"{'set':12}{'batches':>8}{'mean %':>8}{'sd':>6}{'spent per row':>15}")
    for name in asked.sets.split(","):
        if name not in schemas or not (asked.data / schemas[name]["file"]).exists():
            print(f"{name:12}skipped: it is not in {asked.data}")
            continue
        for batches in map(int, asked.batches.split(",")):
            runs = [one_run(asked, schemas[name], batches, run) for run in range(asked.runs)]
            accuracy = [100 * figure for figure, _ in runs]
            spread = stdev(accuracy) if len(accuracy) > 1 else 0.0
            spent = ", ".join(sorted({spent for _, spent in runs}))
            print(f"{name:12}{batches:8}{mean(accuracy):8.1f}{spread:6.1f}{spent:>15}", flush=True)


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of Parquet files")
    options.add_argument("--sets", default="nursery,mushroom", help="tables, separated by commas")
    options.add_argument("--epsilon", default="0.5", help="cost of each batch")
    options.add_argument("--batches", default="1,2,4,6,8,10", help="numbers of batches, separated by commas")
    options.add_argument("--runs", type=int, default=10, help="runs for each number of batches")
    return options


def one_run(asked: argparse.Namespace, schema: dict[str, Any], batches: int, run: int) -> tuple[float, str]:
    """Train on the first batch, add the others, and return the accuracy and what a row has paid."""
    with duckdb.connect() as connection:
        connection.execute(SPLIT, {"file": str(asked.data / schema["file"]), "run": run})
        connection.execute(TRAIN, {"batches": batches})
        connection.execute(TEST)
        db = dpsql.connect(connection)
        db.register("train", {**schema, "batch": "batch"}, cap=asked.epsilon)
        model = db.train("train", epsilon=asked.epsilon, method="rdt", batch="0", seed=run)
        for batch in range(1, batches):
            model = model.update(str(batch))
        return db.evaluate(model, "test").accuracy, db.budget("train").spent_text


if __name__ == "__main__":
    main()
