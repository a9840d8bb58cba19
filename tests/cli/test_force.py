"""--force: files are overwritten in one step, and never a database, a receipt, a private table or what is no file."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, kept

#: Command -> its words without the file, and the option that names it.
WRITERS: dict[str, tuple[tuple[str, ...], str]] = {
    "draft": (("schema", "draft", "--table", "people"), "--to"),
    "structure": (("structure", "--table", "people", "--trees", "2", "--depth", "1"), "--to"),
    "export": (("export", "--model", "m"), "--to"),
    "export as SQL": (("export", "--model", "m", "--dialect", "duckdb"), "--to"),
    "export as ONNX": (("export", "--model", "m"), "--onnx"),
    "predict": (("predict", "--model", "m", "--table", "fresh"), "--to"),
    "explain": (("explain", "--model", "m"), "--plot"),
    "evaluate": (("evaluate", "--model", "m", "--table", "fresh"), "--plot"),
    "shared trees": (("party", "export-structure", "--table", "people", "--depth", "2"), "--to"),
}
NEEDS = {"export as ONNX": "onnx", "explain": "matplotlib", "evaluate": "matplotlib"}
ENDINGS = {"--onnx": ".onnx", "--plot": ".png"}


def _words(name: str, *more: str) -> tuple[tuple[str, ...], Path]:
    """Return the words of a command with a file that exists."""
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    words, option = WRITERS[name]
    file = Path(f"bank's{'.csv' if name == 'predict' else ENDINGS.get(option, '.txt')}")
    file.write_text("mine")
    return (*words, option, str(file), *more), file


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_overwritten_with_force_alone(cli: Cli, name: str) -> None:
    """Without it the file stays, and the message says how; with it the file is new, and nothing lies beside it."""
    words, file = _words(name)
    refused = cli(*words)
    assert (refused.code, file.read_text()) == (2, "mine")
    assert "exists, and is not overwritten" in refused.err
    assert "--force overwrites it" in refused.err
    before = set(os.listdir())
    assert cli(*words, "--force").code == 0
    assert file.read_bytes() != b"mine"
    assert set(os.listdir()) == before


@pytest.mark.parametrize("name", WRITERS)
def test_a_database_or_its_receipt_is_never_overwritten(cli: Cli, path: Path, name: str) -> None:
    """Not even with --force."""
    words, option = WRITERS[name]
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    before = kept(path)
    for file in ("data.duckdb", "data.duckdb.anchor"):
        refused = cli(*words, option, file, "--force")
        assert (refused.code, "is not overwritten" in refused.err) == (2, True)
    assert kept(path) == before


def test_what_is_no_file_is_never_overwritten(cli: Cli) -> None:
    """A folder stays one."""
    Path("folder").mkdir()
    refused = cli("export", "--model", "m", "--to", "folder", "--force")
    assert (refused.code, "is no file" in refused.err) == (2, True)
    assert Path("folder").is_dir()


def test_a_private_table_in_a_file_is_never_overwritten(cli: Cli, path: Path) -> None:
    """A CSV file that is registered is known by what it is, under any name; a public one beside it may be."""
    folder = Path("lake")
    folder.mkdir()
    text = "x,c,y\n" + "".join(f"{n % 8},u,{'yes' if n % 3 else 'no'}\n" for n in range(200))
    for name in ("private", "public"):
        (folder / f"{name}.csv").write_text(text)
    flags = ("--label", "y", "--class", "no", "--class", "yes", "--numeric", "x:0:8", "--cap", "9")
    assert cli("register", "--table", "private", *flags, db=folder).code == 0
    assert cli("train", "--table", "private", "--name", "f", "--method", "rdt", "--trees", "2", db=folder).code == 0
    (Path("link.csv")).symlink_to(folder / "private.csv")
    for file in ("lake/private.csv", "link.csv"):
        refused = cli("export", "--model", "f", "--to", file, "--force", db=folder)
        assert refused.code == 3, refused.err
        assert 'registered private table "private"' in refused.err
    assert (folder / "private.csv").read_text() == text
    assert cli("export", "--model", "f", "--to", "lake/public.csv", "--force", db=folder).code == 0


def test_a_command_that_fails_leaves_the_file_as_it_was(cli: Cli) -> None:
    """Nothing half-written, and nothing beside it."""
    Path("out.csv").write_text("mine")
    before = set(os.listdir())
    assert cli("predict", "--model", "m", "--table", "absent", "--to", "out.csv", "--force").code == 2
    assert Path("out.csv").read_text() == "mine"
    assert set(os.listdir()) == before


def test_a_link_stays_a_link(cli: Cli) -> None:
    """What it leads to is overwritten."""
    Path("real.json").write_text("mine")
    Path("link.json").symlink_to("real.json")
    assert cli("export", "--model", "m", "--to", "link.json", "--force").code == 0
    assert Path("link.json").is_symlink()
    assert "dpsql-model" in Path("real.json").read_text()
