"""Writes the fixtures of this folder with the code of commit f20b367, the last one before stored formats had numbers.

Run it by hand, with that commit and no other; tests only read what it wrote:

    git worktree add --detach /tmp/old f20b367
    cd /tmp && PYTHONPATH=/tmp/old python UPGRADES/write_old_database.py UPGRADES/format1

where UPGRADES is this folder, and `python` has dpsql's dependencies with the extra `postgres`.

It writes `everything.duckdb` with its receipt, `files/` (a CSV table whose ledger is a DuckDB file beside it, with its
receipt), exported models, one certificate, a shared structure, what the old code says of all of it (`told.json`), and,
where PostgreSQL's programs are found, `everything.sql` (pg_dump). Databases and dumps are compressed (`.gz`). All rows
are made up by arithmetic. Noise has no seed, so that a second run writes other figures: tests compare with `told.json`,
never with figures of their own.
"""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
from dpsql.database import Database, connect

import dpsql
from dpsql import methods
from dpsql.errors import DpsqlError
from dpsql.kernel.run import charge_for
from dpsql.ledger import Ledger

#: DuckDB's smallest block keeps the fixture small: of its usual ones, 256 KB each, every table takes some.
BLOCK_BYTES = 16384
FEATURES = {"x": {"type": "numeric", "lower": 0, "upper": 64}, "c": {"type": "categorical", "values": ["a", "b"]}}
CLASSES = {"label": "y", "classes": ["no", "yes"], "features": FEATURES}
#: Tables that are not registered themselves: one has a view that is, and one is public.
UNREGISTERED = ("everyone", "fresh")
#: Few trees, so that stored models stay small.
SMALL = {"trees": 2, "depth": 2}
#: table: (its schema, its columns, its rows)
TABLES: dict[str, tuple[dict[str, Any], str, int]] = {
    "people": (CLASSES | {"batch": "month"}, "month VARCHAR(9), x DOUBLE PRECISION, c VARCHAR(9), y VARCHAR(9)", 120),
    "visits": (
        CLASSES | {"privacy_unit": {"column": "person", "max_rows": 3}},
        "person BIGINT, x DOUBLE PRECISION, c VARCHAR(9), y VARCHAR(9)",
        90,
    ),
    "houses": (
        {"label": "price", "target": {"lower": 0, "upper": 10}, "features": FEATURES},
        "x DOUBLE PRECISION, c VARCHAR(9), price DOUBLE PRECISION",
        60,
    ),
    "answers": (CLASSES | {"public_features": True}, "x DOUBLE PRECISION, c VARCHAR(9), y VARCHAR(9)", 60),
    "risks": (CLASSES | {"rows": 60}, "x DOUBLE PRECISION, c VARCHAR(9), y VARCHAR(9)", 60),
    "published": (CLASSES, "x DOUBLE PRECISION, c VARCHAR(9), y VARCHAR(9)", 60),
    "everyone": (CLASSES, "age INTEGER, x DOUBLE PRECISION, c VARCHAR(9), y VARCHAR(9)", 60),
    "strangers": (
        {"label": None, "features": FEATURES, "disjoint_from": ["people"]},
        "x DOUBLE PRECISION, c VARCHAR(9)",
        40,
    ),
    "failing": (CLASSES, "x DOUBLE PRECISION, c VARCHAR(9), y VARCHAR(9)", 30),
    "moved": (CLASSES | {"batch": "month"}, "month VARCHAR(9), year VARCHAR(9), x DOUBLE PRECISION, c VARCHAR(9), "
              "y VARCHAR(9)", 60),
    "tested": (CLASSES, "x DOUBLE PRECISION, c VARCHAR(9), y VARCHAR(9)", 60),
    "fresh": (CLASSES, "x DOUBLE PRECISION, c VARCHAR(9)", 8),
}  # fmt: skip


def main() -> None:
    """Write all fixtures into the folder that the command names."""
    folder = Path(sys.argv[1]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _write_duckdb(folder)
    _write_files(folder / "files")
    _write_postgres(folder / "everything.sql", folder / "everything.sql.json")
    for path in (*folder.rglob("*.duckdb"), *folder.rglob("*.sql")):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        path.unlink()


def _write_duckdb(folder: Path) -> None:
    path = folder / "everything.duckdb"
    _make_small(path)
    with connect(path, who="olga") as database:
        _make_tables(database, "main")
        _use(database)
        _lose_receipt(database)
        _tell(database, folder / "told.json")
        for name in ("auto", "updated", "houses", "votes"):
            database.model(name).to_json(folder / f"{name}.json")
        certificate = json.dumps(dict(database.model("updated").certificate), indent=2)
        (folder / "certificate.json").write_text(certificate + "\n", encoding="utf-8")
        (folder / "structure.json").write_text(database.export_structure("tested", **SMALL), encoding="utf-8")
    with duckdb.connect(str(path)) as again:
        again.execute("CHECKPOINT")


def _make_small(path: Path) -> None:
    """Make an empty database of small blocks."""
    with duckdb.connect() as made:
        made.execute(f"ATTACH '{path}' AS made (BLOCK_SIZE {BLOCK_BYTES})")


def _write_files(folder: Path) -> None:
    """Write a CSV file, which DuckDB reads, and its ledger beside it."""
    folder.mkdir()
    with (folder / "people.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["month", "x", "c", "y"])
        lines.writerows(_rows("people"))
    _make_small(folder / "dpsql_ledger.duckdb")
    with connect(folder, who="olga") as database:
        database.register("people", TABLES["people"][0], cap=2)
        database.train("people", epsilon="0.5", method="rdt", name="first", request_id="files-1", batch="a", **SMALL)
        _tell(database, folder / "told.json")


def _write_postgres(path: Path, told: Path) -> None:
    """Write the same as for DuckDB by a server of its own, as plain SQL; nothing where there is no server."""
    initdb = shutil.which("initdb")
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    programs = places[-1] if places else Path(initdb).parent if initdb else None
    if programs is None:
        print("no PostgreSQL here", file=sys.stderr)
        return
    folder = Path(tempfile.mkdtemp(prefix="dpsql-old-"))
    shutil.chown(folder, "postgres")
    server = ["runuser", "-u", "postgres", "--", str(programs / "pg_ctl"), "-D", f"{folder}/data"]
    _run(
        "runuser",
        "-u",
        "postgres",
        "--",
        str(programs / "initdb"),
        "-D",
        f"{folder}/data",
        "-U",
        "tester",
        "-A",
        "trust",
    )
    _run(
        *server,
        "-o",
        f"-p 54399 -k {folder} -c fsync=off -c listen_addresses=127.0.0.1",
        "-l",
        f"{folder}/log",
        "-w",
        "start",
    )
    try:
        _run(str(programs / "createdb"), "-h", "127.0.0.1", "-p", "54399", "-U", "tester", "made")
        url = "postgresql://tester@127.0.0.1:54399/made"
        with connect(url, who="olga") as database:
            _make_tables(database, "public")
            database.init(tables=["people"], keep_statistics=True)
            _use(database)
            _tell(database, told)
        dump = _run(str(programs / "pg_dump"), "--no-owner", "--no-privileges", "--inserts", url)
        path.write_text(dump, encoding="utf-8")
    finally:
        _run(*server, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def _make_tables(database: Database, schema: str) -> None:
    with database.engine.transaction() as into:
        for table, (_, columns, _) in TABLES.items():
            into.run(f"CREATE TABLE {schema}.{table} ({columns})")
            for row in _rows(table):
                into.run(f"INSERT INTO {schema}.{table} VALUES ({', '.join('?' for _ in row)})", row)
        into.run(f"CREATE VIEW {schema}.adults AS SELECT age, x, c, y FROM {schema}.everyone WHERE age >= 18")


def _rows(table: str) -> list[tuple[Any, ...]]:
    """Return made-up rows: what each column holds is arithmetic on the row's number."""
    _, columns, count = TABLES[table]
    names = [column.split()[0] for column in columns.split(", ")]
    return [tuple(_cell(name, number) for name in names) for number in range(count)]


def _cell(name: str, number: int) -> Any:
    x = number * 37 % 64
    return {
        "person": number // 3,
        "month": "ab"[number % 2],
        "year": "pq"[number % 3 == 0],
        "age": number * 11 % 90,
        "x": float(x),
        "c": "ab"[number * 5 % 3 == 0],
        "y": ("no", "yes")[x > 30],
        "price": x / 8,
    }[name]


def _use(database: Database) -> None:
    """Do everything that leaves something in the database."""
    _register(database)
    _train(database)
    _train_labels_and_more(database)
    _replace(database)
    _fail(database)


def _register(database: Database) -> None:
    for table in TABLES:
        if table not in UNREGISTERED:
            cap = {"published": None, "failing": 5}.get(table, 2)
            database.register(table, TABLES[table][0], cap=cap)
    database.register("adults", CLASSES, cap="0.7")
    database.set_cap("people", 3)
    database.set_cap("people", "2.5", analyst="bea")
    database.set_cap("people", 1, analyst="cy")
    database.set_cap("people", None, analyst="cy")
    database.set_cap("answers", 2, kind="label")
    database.set_cap("answers", 3, kind="label")
    database.set_cap("risks", 3, kind="approximate", delta="1e-6")


def _train(database: Database) -> None:
    """Train for two people: on all rows, on batches, with an update, and twice under one request."""
    database.train("people", epsilon="0.5", name="auto", request_id="auto-1")
    database.train("people", epsilon="0.5", name="auto", request_id="auto-1")  # the same again: nothing is charged
    bea = Database(database.engine, who="bea")
    bea.train("people", epsilon="0.25", method="rdt", name="first", request_id="rdt-1", batch="a", **SMALL)
    bea.update("first", "b", epsilon="0.25", name="updated", request_id="update-1")
    bea.advise("people", epsilon=1, buy="0.05", request_id="size-1")
    database.train("visits", epsilon=1, method="spe", name="visits", request_id="spe-1", **SMALL)
    database.train("houses", epsilon=1, name="houses", request_id="houses-1")
    database.train("risks", epsilon=1, delta="1e-7", method="rdt", name="risks", request_id="delta-1", **SMALL)
    database.train("adults", epsilon="0.6", method="rosnam", name="votes", request_id="view-1", **SMALL)
    database.train("published", epsilon=1, method="spe", name="spe", request_id="public-1", as_published=True, **SMALL)
    database.evaluate("auto", "tested", epsilon="0.5", request_id="evaluate-1")
    database.evaluate("auto", "tested", epsilon="0.5", request_id="evaluate-1")


def _train_labels_and_more(database: Database) -> None:
    """Train where labels alone are private, on two tables at once, on a shared structure, and for one batch."""
    labels = {"name": "labels", "request_id": "label-1", "privacy": "labels", "unlabelled": "x < 20"}
    database.train("answers", epsilon=1, method="sspe", **labels, **SMALL)
    sides = {"name": "sides", "request_id": "sides-1", "unlabelled": "strangers"}
    database.train("people", epsilon="0.5", method="sspe", **sides, **SMALL)
    structure = database.export_structure("tested", **SMALL)
    database.contribute("tested", structure, epsilon="0.5", name="part", request_id="party-1")
    small = {"trees": 2, "depth": 2, "bins": 2, "seconds": 2}
    matrix = database.structure("tested", **small)
    database.predict_private(matrix, "fresh", epsilon="0.5", name="batch", request_id="batch-1")
    database.add(database.model("first"), name="imported")


def _replace(database: Database) -> None:
    """Register tables anew: one under other bounds, one whose batches are other rows from then on.

    That commit takes no charge on a batch of the second column, so that the whole table is charged.
    """
    database.train("moved", epsilon="0.5", method="rdt", name="moved", request_id="moved-1", batch="a", **SMALL)
    database.register("moved", CLASSES | {"batch": "year"}, cap=2, replace=True)
    database.train("moved", epsilon="0.25", method="rdt", name="moved2", request_id="moved-2", **SMALL)
    wider = FEATURES | {"x": {"type": "numeric", "lower": -10, "upper": 100}}
    database.register("visits", TABLES["visits"][0] | {"features": wider}, cap=4, replace=True)


def _fail(database: Database) -> None:
    """Lose six runs, leave one without an end, and go on with a charge below what is the least one today."""
    method = methods.get("rosnam")
    with mock.patch.object(type(method), "train", side_effect=ZeroDivisionError):
        for number in range(6):
            with suppress(DpsqlError):
                database.train("failing", epsilon="0.1", method="rosnam", request_id=f"lost-{number}", **SMALL)
    plan = database.plan("failing", epsilon="0.2", method="rdt", **SMALL)
    dataset = dpsql.kernel.dataset.find_dataset(database.engine, database.book, "failing")
    database.book.reserve(charge_for(dataset, plan, who="olga", request_id="killed-1"))
    database.advise("failing", epsilon=1, buy="0.0005", request_id="size-2")


def _lose_receipt(database: Database) -> None:
    """Lose the receipt, accept the ledger as it stands, and go on."""
    assert database.book.receipt_path is not None
    database.book.receipt_path.unlink()
    database.accept()
    database.advise("tested", epsilon=1, buy="0.01", request_id="size-3")


def _tell(database: Database, path: Path) -> None:
    """Write down what the old code says: entries, budgets, models, and that the chain holds."""
    book: Ledger = database.book
    assert database.verify() == []
    told = {
        "commit": "f20b367",
        "verify": database.verify(),
        "entries": [
            {
                name: getattr(entry, name)
                for name in ("entry_id", "event", "state", "dataset", "kind", "hash", "last_hash")
            }
            for entry in book.entries()
        ],
        "budgets": [
            {name: getattr(budget, name) for name in ("dataset", "kind", "cap", "spent")}
            for budget in database.budgets()
        ],
        "models": json.loads(database.models().to_json(orient="records")),
    }
    path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _run(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
