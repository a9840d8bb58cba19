"""Finding 4 on Spark: it has no snapshots, so a run reads one set of files, or one copy of the rows, or fails."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dpsql.compile.rows import Part
from dpsql.engines.open_engine import open_engine
from dpsql.errors import SchemaError, TableChanged
from dpsql.kernel.datasets import dataset as datasets
from dpsql.kernel.plan import LABELLED, UNLABELLED
from tests.attacks.test_snapshot import ROWS, people, rows_of
from tests.servers import spark
from tests.tables import SCHEMA, dataset_of

TYPES = "c string, x double, y string"
UPDATED = "SELECT c, x, coalesce(y, 'yes') AS y FROM before"


@pytest.fixture
def engine() -> Iterator[Any]:
    """Open Spark, without the tables of other tests."""
    opened = open_engine(spark(), ledger=":memory:")
    opened.session.sql("DROP TABLE IF EXISTS people")
    opened.session.catalog.dropTempView("people")
    yield opened
    opened.session.catalog.dropTempView("people")
    opened.session.sql("DROP TABLE IF EXISTS people")
    opened.close()


def frame(engine: Any) -> Any:
    """Return the rows of `people`, every third with a label, and let "before" name a fixed copy of them."""
    made = engine.session.createDataFrame([tuple(row.values()) for row in people().rows], TYPES)
    made.createOrReplaceTempView("before")
    return made


def write_table(engine: Any, folder: Path) -> Any:
    """Store the rows as a table of the catalog; return what labels them all."""
    frame(engine).write.saveAsTable("people")
    return lambda: engine.session.sql(f"INSERT OVERWRITE people {UPDATED}")


def append_to_table(engine: Any, folder: Path) -> Any:
    """Store the rows as a table of the catalog; return what adds labelled ones."""
    frame(engine).write.saveAsTable("people")
    return lambda: engine.session.sql(f"INSERT INTO people {UPDATED}")


def rewrite_files(engine: Any, folder: Path) -> Any:
    """Show Parquet files as a temporary view; return what writes labels into them, under the same names."""
    frame(engine).coalesce(1).write.parquet(str(folder / "people"))
    engine.session.read.parquet(str(folder / "people")).createOrReplaceTempView("people")

    def rewrite() -> None:
        engine.session.sql(UPDATED).coalesce(1).write.parquet(str(folder / "new"))
        (new,), (old,) = (list((folder / name).glob("*.parquet")) for name in ("new", "people"))
        for crc in (folder / "people").glob(".*.crc"):
            crc.unlink()
        shutil.copyfile(new, old)

    return rewrite


def rewrite_lines(engine: Any, folder: Path) -> Any:
    """Show lines of text, read anew by each statement, as a temporary view; return what writes labels into them."""
    file = folder / "lines.txt"
    file.write_text("".join(f"{row['x']},{row['y'] or ''}\n" for row in people().rows))
    lines = engine.session.sparkContext.textFile(str(file)).map(lambda line: line.split(","))
    cells = lines.map(lambda row: ("a", float(row[0]), row[1] or None))
    engine.session.createDataFrame(cells, TYPES).createOrReplaceTempView("people")
    return lambda: file.write_text("".join(f"{row['x']},yes\n" for row in people().rows))


@pytest.mark.parametrize("way", [write_table, append_to_table, rewrite_files, rewrite_lines])
def test_both_sides_are_of_one_state(engine: Any, tmp_path: Path, way: Any) -> None:
    """Rows that are labelled or added between two counts are on one side, or the run fails."""
    write = way(engine, tmp_path)
    with closing(rows_of(engine)) as rows:
        labelled = rows.size(Part(side=LABELLED))
        write()
        try:
            unlabelled = rows.size(Part(side=UNLABELLED))
        except TableChanged:
            return
        assert (labelled, unlabelled) == (ROWS // 3, ROWS - ROWS // 3)


def test_an_undisturbed_run_is_whole(engine: Any, tmp_path: Path) -> None:
    """The checks refuse nothing where nobody writes."""
    write_table(engine, tmp_path)
    with closing(rows_of(engine)) as rows:
        sizes = rows.size(Part(side=LABELLED)), rows.size(Part(side=UNLABELLED)), rows.size(Part())
    assert sizes == (ROWS // 3, ROWS - ROWS // 3, ROWS)


def test_a_table_that_was_put_in_its_place_is_not_read(engine: Any, tmp_path: Path) -> None:
    """A run was charged for a table: one of that name with other columns is refused at the first statement."""
    write_table(engine, tmp_path)
    with closing(rows_of(engine)) as rows:
        engine.session.sql("DROP TABLE people")
        engine.session.sql("SELECT *, 1 AS more FROM before").write.saveAsTable("people")
        with pytest.raises(TableChanged):
            rows.size(Part())


@pytest.mark.parametrize("options", [{}, {"multiLine": "true"}])
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_files_of_text_are_no_private_table(engine: Any, tmp_path: Path, kind: str, options: dict[str, str]) -> None:
    """Where rows start follows from other rows there: neither a view nor a table of them can be registered."""
    made = frame(engine)
    made.write.format(kind).save(str(tmp_path / "text"))
    made.write.format(kind).saveAsTable("people")
    reader = engine.session.read.schema(TYPES).options(**options)
    reader.format(kind).load(str(tmp_path / "text")).createOrReplaceTempView("text")
    for name in ("text", "people"):
        info = engine.table(name)
        assert info.kind == "view"
        with pytest.raises(SchemaError, match=name):
            datasets.source(engine, dataset_of(engine, name, SCHEMA))
    engine.session.catalog.dropTempView("text")
