"""Tests of `get-tables` against a server of our own: what is whole is kept, what is not is never taken for it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from dpsql.errors import DpsqlError, UsageError
from dpsql.schema import Schema
from examples.benchmarks import get_tables, sources
from examples.benchmarks.__main__ import main
from examples.benchmarks.download import LOCK, Folder
from examples.benchmarks.folder import without_notes
from examples.benchmarks.sources import RECIPES
from tests.bench_data import bench_data

SCALE = "balance-scale/balance-scale.data"
WORDS = b"some words that make up a file\n" * 5000
SHA = hashlib.sha256(WORDS).hexdigest()


def balance_scale() -> bytes:
    """Return the original of the table `balance_scale`, which is all combinations of weights and distances."""
    lines = []
    for left_weight, left, right_weight, right in product(range(1, 6), repeat=4):
        tilt = left_weight * left - right_weight * right
        side = "L" if tilt > 0 else "R" if tilt < 0 else "B"
        lines.append(f"{side},{left_weight},{left},{right_weight},{right}\n")
    return "".join(lines).encode()


@dataclass
class Site:
    """A server on this machine: its files, what was asked, and how it misbehaves."""

    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""
    break_after: int | None = None
    ranges: bool = True


@pytest.fixture
def site() -> Iterator[Site]:
    """Serve files on 127.0.0.1 until the test ends."""
    served = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, wanted = self.path.lstrip("/"), self.headers.get("Range")
            served.asked.append((name, wanted))
            if name not in served.files:
                self.send_error(404)
                return
            content = served.files[name]
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and served.ranges else 0
            if start >= len(content) > 0:
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start:][: served.break_after])

        def log_message(self, *_words: object) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    served.address = f"http://127.0.0.1:{server.server_port}"
    yield served
    server.shutdown()
    thread.join()
    server.server_close()


def run(data: Path, site: Site, *words: str) -> Result:
    """Run the command in this process, with the server as mirror."""
    given = ["get-tables", "--data", str(data), "--mirror", site.address, *words]
    return CliRunner().invoke(main, given, catch_exceptions=False)


def left_over(folder: Path) -> list[str]:
    """Return the files that are not whole."""
    return [path.name for path in folder.rglob("*.part")]


def test_a_table_is_downloaded_and_written_with_its_schema(tmp_path: Path, site: Site) -> None:
    """The Parquet file has all rows, the entry is a schema that dpsql reads, and nothing half-written is left."""
    site.files[SCALE] = balance_scale()
    done = run(tmp_path, site, "--sets", "balance_scale")
    assert (done.exit_code, done.stdout) == (0, "balance_scale: 625 rows\n"), done.stderr
    rows = duckdb.execute("FROM read_parquet(?)", [str(tmp_path / "balance_scale.parquet")]).df()
    assert rows["class"].value_counts().to_dict() == {"L": 288, "R": 288, "B": 49}
    entry = json.loads((tmp_path / "schemas.json").read_text(encoding="utf-8"))["balance_scale"]
    assert Schema.from_dict(without_notes(entry)).classes == ("L", "B", "R")
    assert left_over(tmp_path) == []


def test_a_table_that_was_downloaded_can_be_measured(tmp_path: Path, site: Site) -> None:
    """The accuracy command finds it in the folder."""
    site.files[SCALE] = balance_scale()
    run(tmp_path, site, "--sets", "balance_scale")
    words = ["--sets", "balance_scale", "--method", "rdt", "--param", "trees=2", "--epsilon", "1", "--splits", "1"]
    done = CliRunner().invoke(main, ["accuracy", "--data", str(tmp_path), *words], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr


def test_what_is_there_is_not_downloaded_again(tmp_path: Path, site: Site) -> None:
    """A second run asks the server for nothing, and other tables keep their entries."""
    pytest.importorskip("sklearn")
    site.files[SCALE] = balance_scale()
    run(tmp_path, site, "--sets", "balance_scale")
    run(tmp_path, site, "--sets", "syn5d,balance_scale")
    assert site.asked == [(SCALE, None)]
    assert set(json.loads((tmp_path / "schemas.json").read_text(encoding="utf-8"))) == {"balance_scale", "syn5d"}


def test_a_checksum_that_is_not_known_is_locked_on_first_use(tmp_path: Path, site: Site) -> None:
    """Other content is refused from then on, from the server and on disk."""
    site.files[SCALE] = balance_scale()
    run(tmp_path, site, "--sets", "balance_scale")
    originals = tmp_path / get_tables.ORIGINALS
    locked = json.loads((originals / LOCK).read_text(encoding="utf-8"))
    assert locked == {SCALE: hashlib.sha256(balance_scale()).hexdigest()}
    (originals / SCALE).write_bytes(balance_scale() + b"L,1,1,1,1\n")
    changed_on_disk = run(tmp_path, site, "--sets", "balance_scale")
    (originals / SCALE).unlink()
    site.files[SCALE] = balance_scale().replace(b"B", b"L")
    changed_on_server = run(tmp_path, site, "--sets", "balance_scale")
    for done in (changed_on_disk, changed_on_server):
        assert done.exit_code != 0
        assert f"not {locked[SCALE]}" in done.stderr
    assert not (originals / SCALE).exists()
    assert left_over(tmp_path) == []


def test_a_wrong_checksum_is_refused_and_leaves_nothing(tmp_path: Path, site: Site) -> None:
    """An original with a known checksum must have it, from a mirror too."""
    site.files["iris/iris.data"] = b"5.1,3.5,1.4,0.2,Iris-setosa\n"
    done = run(tmp_path, site, "--sets", "iris")
    assert done.exit_code != 0
    assert f"not {RECIPES['iris'].originals[0].sha256}" in done.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_with_other_rows_is_no_table(tmp_path: Path, site: Site) -> None:
    """Without a known checksum the number of rows and the classes must still be right."""
    site.files[SCALE] = balance_scale()[:-10]
    done = run(tmp_path, site, "--sets", "balance_scale")
    assert "624 rows" in done.stderr
    assert not (tmp_path / "balance_scale.parquet").exists()
    assert not (tmp_path / "schemas.json").exists()


def test_a_download_that_breaks_off_is_no_file(tmp_path: Path, site: Site) -> None:
    """The error says so; a later run goes on from the part where the checksum is known."""
    site.files["words"], site.break_after = WORDS, 100_000
    folder = Folder(tmp_path)
    with pytest.raises(DpsqlError, match="broke off|cannot be read"):
        folder.fetch("words", f"{site.address}/words", sha256=SHA)
    assert not (tmp_path / "words").exists()
    there = (tmp_path / "words.part").stat().st_size
    assert 0 < there <= 100_000
    site.break_after = None
    assert folder.fetch("words", f"{site.address}/words", sha256=SHA).read_bytes() == WORDS
    assert site.asked[-1] == ("words", f"bytes={there}-")
    assert left_over(tmp_path) == []


def test_a_part_is_not_gone_on_with_where_nobody_knows_the_checksum(tmp_path: Path, site: Site) -> None:
    """Two versions of a file could be mixed: the download starts anew."""
    site.files["words"] = WORDS
    (tmp_path / "words.part").write_bytes(b"something older")
    assert Folder(tmp_path).fetch("words", f"{site.address}/words").read_bytes() == WORDS
    assert site.asked == [("words", None)]


@pytest.mark.parametrize("part", [WORDS[:1000], WORDS], ids=["a part", "all of it"])
@pytest.mark.parametrize("ranges", [True, False])
def test_a_part_is_completed_whatever_the_server_can_do(tmp_path: Path, site: Site, part: bytes, ranges: bool) -> None:
    """A server that cannot go on sends all of it, and the part is written over."""
    site.files["words"], site.ranges = WORDS, ranges
    (tmp_path / "words.part").write_bytes(part)
    assert Folder(tmp_path).fetch("words", f"{site.address}/words", sha256=SHA).read_bytes() == WORDS


def test_a_wrong_part_is_found_out(tmp_path: Path, site: Site) -> None:
    """A part of another file gives another checksum; it is deleted, and the next run starts anew."""
    site.files["words"] = WORDS
    (tmp_path / "words.part").write_bytes(b"x" * 1000)
    with pytest.raises(DpsqlError, match="SHA-256"):
        Folder(tmp_path).fetch("words", f"{site.address}/words", sha256=SHA)
    assert Folder(tmp_path).fetch("words", f"{site.address}/words", sha256=SHA).read_bytes() == WORDS


def test_a_missing_file_is_told(tmp_path: Path, site: Site) -> None:
    """The address and the server's answer are in the message."""
    done = run(tmp_path, site, "--sets", "balance_scale")
    assert "answered 404" in done.stderr
    assert "Try:" in done.stderr


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://somewhere/x"])
def test_only_web_addresses_are_read(tmp_path: Path, url: str) -> None:
    """A mirror cannot name a file of this machine."""
    with pytest.raises(UsageError, match="https://"):
        Folder(tmp_path).fetch("x", url)


def test_a_broken_lock_file_is_refused(tmp_path: Path, site: Site) -> None:
    """It is not taken for an empty one, which would trust anything."""
    (tmp_path / LOCK).write_text("{", encoding="utf-8")
    with pytest.raises(UsageError, match="lock"):
        Folder(tmp_path).fetch("words", f"{site.address}/words")


def test_unknown_tables_are_refused(tmp_path: Path, site: Site) -> None:
    """With the nearest name."""
    done = run(tmp_path, site, "--sets", "mushrooms")
    assert (done.exit_code, site.asked) == (2, [])
    assert 'Did you mean "mushroom"?' in done.stderr


def test_the_list_tells_source_licence_and_checksum(tmp_path: Path, site: Site) -> None:
    """Nothing is downloaded for it."""
    done = run(tmp_path, site, "--list")
    assert all(recipe.page in done.stdout and recipe.licence in done.stdout for recipe in RECIPES.values())
    assert all(original.url in done.stdout for recipe in RECIPES.values() for original in recipe.originals)
    assert "trusted on first use" in done.stdout
    assert site.asked == []


def test_every_table_has_a_recipe_and_a_schema_that_dpsql_reads() -> None:
    """The public schemas and the recipes name the same tables."""
    entries = get_tables.public_entries()
    assert set(entries) == set(RECIPES)
    for name, entry in entries.items():
        assert Schema.from_dict(without_notes(entry)).label == entry["label"], name


def test_adult_test_loses_its_first_line_and_its_dots() -> None:
    """Both are there in the original."""
    rows = sources.adult_test(["|1x3 Cross validator\n25, ?, <=50K.\n38, Private, >50K.\n"], ["age", "work", "income"])
    assert rows["income"].tolist() == ["<=50K", ">50K"]
    assert rows["work"].isna().tolist() == [True, False]


def test_claves_have_the_first_output_as_class() -> None:
    """Remarks are read past; a line without an output is incoherent."""
    bits = " ".join("10" * 8)
    lines = [f"{bits} 0 1 0 0", f"{bits}\t0 0 1 1 \t error fixed", f"{bits} 0 0 0 0"]
    rows = sources.claves(["\n".join(lines)], [*(f"bit_{place}" for place in range(1, 17)), "class"])
    assert rows["class"].tolist() == ["reverse_clave", "forward_clave", "incoherent"]
    assert rows.iloc[:, :16].to_numpy().tolist() == [[1, 0] * 8] * 3


def test_heart_keeps_complete_rows_and_counts_categories_from_0() -> None:
    """A row with a gap is left out; the diagnosis is none or some."""
    text = "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0\n"
    text += "67.0,1.0,4.0,160.0,286.0,0.0,2.0,108.0,1.0,1.5,2.0,3.0,3.0,2\n"
    text += "53.0,0.0,3.0,128.0,216.0,0.0,2.0,115.0,0.0,0.0,1.0,0.0,?,0\n"
    rows = sources.cleveland([text], [*sources.HEART, "condition"])
    assert rows[["age", "cp", "slope", "thal", "oldpeak", "condition"]].to_numpy().tolist() == [
        [63, 0, 2, 1, 2.3, 0],
        [67, 3, 1, 0, 1.5, 1],
    ]


def test_libsvm_lines_become_bits() -> None:
    """Features are counted from 1."""
    rows = sources.libsvm(["-1 1:1 123:1 \n", "+1 2:1\n"], ["label", *(f"f{place}" for place in range(1, 124))])
    assert rows["label"].tolist() == [-1, 1]
    assert rows.drop(columns="label").to_numpy().nonzero()[1].tolist() == [0, 122, 1]


def as_original(rows: pd.DataFrame, between: str, ending: str) -> str:
    """Return rows as UCI writes them: values between commas, `?` for NULL."""
    plain = rows.astype(object).where(rows.notna(), "?")
    return "\n".join(between.join(map(str, row)) + ending for row in plain.itertuples(index=False)) + "\n"


#: How the originals whose checksums are known are laid out around their rows.
LAYOUTS: dict[str, Callable[[pd.DataFrame], str]] = {
    "car": lambda rows: as_original(rows, ",", ""),
    "iris": lambda rows: as_original(rows, ",", "") + "\n",
    "adult": lambda rows: as_original(rows, ", ", "") + "\n",
    "adult_test": lambda rows: "|1x3 Cross validator\n" + as_original(rows, ", ", ".") + "\n",
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_tables_are_the_originals_that_the_checksums_name(name: str) -> None:
    """Written out as UCI does, a table has the recorded checksum, and is read back the same."""
    folder = bench_data(f"{name}.parquet")
    rows = duckdb.execute("FROM read_parquet(?)", [str(folder / f"{name}.parquet")]).df()
    text, recipe = LAYOUTS[name](rows), RECIPES[name]
    assert hashlib.sha256(text.encode()).hexdigest() == recipe.originals[0].sha256
    again = recipe.read([text], list(rows.columns))
    pd.testing.assert_frame_equal(again, rows, check_dtype=False)


@pytest.mark.parametrize("name", RECIPES)
def test_the_tables_have_the_rows_and_classes_of_their_entries(name: str) -> None:
    """What the recipe demands of a download holds of the tables that all figures were made with."""
    folder = bench_data(f"{name}.parquet")
    entry = get_tables.public_entries()[name]
    rows = duckdb.execute("FROM read_parquet(?)", [str(folder / f"{name}.parquet")]).df()
    assert len(rows) == entry["rows"]
    assert {str(value) for value in rows[entry["label"]]} == {str(value) for value in entry["classes"]}
    assert {column for column in rows.columns if rows[column].isna().any()} == set(entry["nulls"])
