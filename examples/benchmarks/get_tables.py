"""The command `python -m examples.benchmarks get-tables`: fills the data folder with the public tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import duckdb
import pandas as pd

from dpsql.errors import DpsqlError, UnknownName
from examples.benchmarks.download import Folder, write_all_or_nothing
from examples.benchmarks.folder import DATA_OPTION, SCHEMAS, read_schemas
from examples.benchmarks.sources import RECIPES, Original, Recipe
from examples.benchmarks.splits import SYNTHETIC, synthetic, synthetic_problem

#: The folder of downloaded originals, inside the data folder.
ORIGINALS = "originals"


@click.command("get-tables")
@DATA_OPTION
@click.option("--sets", help="Tables, separated by commas [default: all].")
@click.option("--mirror", metavar="URL", help="Take the originals from here, under the same file names.")
@click.option("--list", "only_list", is_flag=True, help="Say where each table comes from and under which licence.")
def get_tables(data: Path, sets: str | None, mirror: str | None, only_list: bool) -> None:
    """Download the public tables and make the synthetic ones.

    \b
    Example:
      python -m examples.benchmarks get-tables --data bench-data
      python -m examples.benchmarks get-tables --list

    Each original is checked against its SHA-256 and kept. Where no checksum is known, the first download is trusted,
    its checksum is written to a lock file, and any other content is refused later. What is there is not downloaded
    again, and no file is left half-written.
    """
    names = sets.split(",") if sets else [*RECIPES, *SYNTHETIC]
    for name in names:
        if name not in RECIPES and name not in SYNTHETIC:
            raise UnknownName("table", name, [*RECIPES, *SYNTHETIC])
    if only_list:
        for name in names:
            click.echo(describe(name))
        return
    for name in names:
        why = "" if name in RECIPES else synthetic_problem()
        click.echo(
            f"{name} is skipped: {why}" if why else f"{name}: {make_table(data, name, mirror)} rows", err=bool(why)
        )


def describe(name: str) -> str:
    """Return where a table comes from, its licence, and what is known of its originals' checksums."""
    if name in SYNTHETIC:
        return f"{name}\n  made by scikit-learn's make_classification, no licence needed"
    recipe = RECIPES[name]
    lines = [f"{name}", f"  page     {recipe.page}", f"  licence  {recipe.licence}"]
    for original in recipe.originals:
        lines += [f"  file     {original.url}", f"  sha256   {original.sha256 or 'not known: trusted on first use'}"]
    return "\n".join(lines)


def make_table(data: Path, name: str, mirror: str | None = None) -> int:
    """Write a table's Parquet file and its entry in `schemas.json`; return how many rows it has."""
    data.mkdir(parents=True, exist_ok=True)
    if name in SYNTHETIC:
        table = synthetic(name)
        entry, rows = {"file": f"{name}.parquet", **table.schema}, table.frame
    else:
        entry = dict(public_entries()[name])
        rows = original_rows(data, RECIPES[name], entry, mirror)
    write_parquet(data / entry["file"], rows)
    write_all_or_nothing(data / SCHEMAS, json.dumps(read_schemas(data) | {name: entry}, indent=1) + "\n")
    return len(rows)


def public_entries() -> Mapping[str, Any]:
    """Return the public schema of every table that is downloaded, with its file, rows and columns with NULLs."""
    return read_schemas(Path(__file__).parent)


def original_rows(data: Path, recipe: Recipe, entry: Mapping[str, Any], mirror: str | None) -> pd.DataFrame:
    """Return a table's rows from its originals; refuse what does not have the rows and classes that it must have."""
    folder = Folder(data / ORIGINALS)
    texts = [
        folder.fetch(original.file, address(original, mirror), sha256=original.sha256).read_text(encoding="utf-8")
        for original in recipe.originals
    ]
    features = list(entry["features"])
    columns = [entry["label"], *features] if recipe.label_first else [*features, entry["label"]]
    rows = recipe.read(texts, columns)
    classes = {str(value) for value in rows[entry["label"]].unique()}
    if len(rows) != entry["rows"] or classes != {str(value) for value in entry["classes"]}:
        raise DpsqlError(
            f"{', '.join(original.file for original in recipe.originals)}: {len(rows)} rows of the classes "
            f"{', '.join(sorted(classes))} are not the table, which has {entry['rows']} rows.",
            hint=f"delete the file in {folder.path} and its line in the lock file, and run the command again",
        )
    return rows


def address(original: Original, mirror: str | None) -> str:
    """Return where to download an original: its own address, or the same file name at a mirror."""
    return original.url if mirror is None else f"{mirror.rstrip('/')}/{original.file}"


def write_parquet(file: Path, rows: pd.DataFrame) -> None:
    """Write rows to a Parquet file, which gets its name when it is whole."""
    part = file.with_name(file.name + ".part")
    with duckdb.connect() as connection:
        connection.register("table_rows", rows)
        connection.execute("COPY table_rows TO ? (FORMAT parquet, COMPRESSION zstd)", [str(part)])
    part.replace(file)
