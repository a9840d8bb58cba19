"""Trains in a folder of chDB, in a process of its own: a process has one folder open."""

from __future__ import annotations

import sys
from pathlib import Path

from chdb.session import Session

import dpsql
from dpsql.api import census
from dpsql.errors import DatabaseError


def main(folder: Path) -> None:
    """Fill the folder, train by its URL, open it again, and print what came of it."""
    data = folder / "data"
    data.mkdir()
    session = Session(str(data))
    with dpsql.connect(session, ledger=":memory:") as db:
        db.engine.create("adult", _all(), {"made": census.rows(800, 1)})
        db.engine.create("fresh", _all(), {"made": census.rows(60, 2)})
    session.close()
    url, ledger = f"chdb://{data}", folder / "ledger.duckdb"
    with dpsql.connect(url, ledger=ledger) as db:
        db.register("adult", census.SCHEMA, cap=1)
        model = db.train("adult", method="rdt", trees=3, depth=3)
        first = model.predict("fresh")["prediction"].tolist()
        (folder / "other").mkdir()
        try:
            dpsql.connect(f"chdb://{folder}/other", ledger=":memory:")
        except DatabaseError as error:
            print("refused:", error)
    with dpsql.connect(url, ledger=ledger) as db:
        print(db.engine.tables(), db.budget("adult").spent_text)
        print(db.model(model.name).predict("fresh")["prediction"].tolist() == first, db.verify())


def _all() -> object:
    from sqlglot import exp

    return exp.select("*").from_("made")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
