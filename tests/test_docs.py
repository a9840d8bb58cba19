"""The docs cannot rot: every code block of the README and of `docs/` runs, and every file that a page names exists.

console   lines that start with `$ ` are run; the words printed below a command must appear in its output.
          A command may end with `# exit N`.
python    run in order, one namespace for each page
sql       run in `dpsql shell` on the page's demo.duckdb
yaml      read as a schema; with a first line such as `# visits.yml` also written to that file
sh        setup commands; not run here, but checked against a list (CI runs the README's)
text      output or pictures; not run
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dpsql.cli.main import app, run_command_line
from dpsql.cli.reference import reference
from dpsql.kernel.session import Session
from dpsql.methods import METHODS
from dpsql.schema import schema_file

#: What pages show is what users see, large caps included.
pytestmark = pytest.mark.usefixtures("caps_in_words")
ROOT = Path(__file__).resolve().parent.parent
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
PAGES = [*TOP, *sorted((ROOT / "docs").rglob("*.md")), ROOT / "examples" / "README.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"console", "python", "sql", "yaml", "sh", "text"}
SETUP = (
    "python3 -m venv",
    "python -m pytest",
    "pip install 'dpsql[",
    "make ",
    "dpsql register",
    "dpsql train",
    "dpsql predict",
    "dpsql update",
    "dpsql init",
    "python -m dpsql.bench",
    "dpsql bench",
    "python -m examples.",
)
#: What in code marks is the name of a file or a folder of this repository.
NAMED_FILE = re.compile(r"(?:dpsql|tests|sql|docs|examples)/[\w./*-]*|[\w*-]+(?:/[\w*-]+)+\.(?:py|sql|md)|[\w*]+\.py")
#: Where a full stop ends no sentence: code, the targets of links, brackets, abbreviations, initials.
NO_SENTENCE_ENDS = re.compile(r"`[^`]*`|\]\([^)]*\)|\([^()]*\)|\b(?:e\.g|i\.e|et al|vs|pp?|[A-Z])\.")
#: Packages without which a page cannot run, where it says `import` or names an option that needs one.
NEEDS = {"--plot": "matplotlib", ".plot(": "matplotlib", "--onnx": "onnx", "export_onnx": "onnx", "sklearn": "sklearn"}


def name_of(page: Path) -> str:
    """Return a page's path in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return language and text of each fenced block of a page."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of the page's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPSQL_WHO", "root")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_of_a_page_runs(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each block of the page does what the page says."""
    for words, package in NEEDS.items():
        if any(words in text for language, text in blocks(page) if language in ("console", "python")):
            pytest.importorskip(package)
    names: dict[str, object] = {}
    for language, text in blocks(page):
        assert language in LANGUAGES, f"a block of {page.name} has the unknown language {language!r}"
        if language == "console":
            run_console(text, capsys)
        elif language == "python":
            exec(compile(text, page.name, "exec"), names)  # noqa: S102
        elif language == "sql":
            assert run_command_line(["shell", "--db", "demo.duckdb", "-c", text]) == 0, capsys.readouterr().err
        elif language == "yaml":
            assert schema_file.loads(text).features
            if named := re.match(r"# (\w+\.yml)\n", text):
                (folder / named.group(1)).write_text(text, encoding="utf-8")
        elif language == "sh":
            assert all(line.startswith(SETUP) for line in text.strip().splitlines())


def run_console(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the commands of a console block and look for the words of the output that stands below each."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        stated_code = re.search(r"#\s*exit (\d)\s*$", command)
        words = shlex.split(command, comments=True)
        assert words[0] == "dpsql"
        capsys.readouterr()
        code = run_command_line(words[1:])
        printed = capsys.readouterr()
        assert code == (int(stated_code.group(1)) if stated_code else 0), printed.err
        for word in re.findall(r"[A-Za-z_]{3,}", shown):
            assert word in printed.out + printed.err, f"{command}: {word!r} is not in its output"


def test_the_command_reference_is_what_the_program_says() -> None:
    """`docs/reference/commands.md` equals `python -m dpsql.cli.reference`."""
    assert (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8") == reference()


def test_every_command_is_in_the_reference() -> None:
    """Each command has its own heading in the docs."""
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert all(f"## dpsql {name}\n" in page for name in app.commands)


def test_every_method_has_a_page_of_its_name() -> None:
    """`--method rdt` is explained in `docs/methods/rdt.md`, and no page explains what is gone."""
    pages = {page.stem for page in (ROOT / "docs" / "methods").glob("*.md")} - {"index"}
    assert pages == set(METHODS)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    """Each relative link of a page names a file that exists."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose(page)):
        assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_a_page_names_exist(page: Path) -> None:
    """A path in code marks is that of a file or folder: whole, from inside the package, or the bare name of a module.

    A star stands for any name; a part in capitals, as in `docs/methods/NAME.md`, for one that the reader chooses.
    """
    for path in re.findall(r"`([\w./*-]+)`", prose(page)):
        if NAMED_FILE.fullmatch(path) and not re.search(r"\b[A-Z]{4,}\b", path):
            places = [place for top in (ROOT, ROOT / "dpsql") for place in top.glob(path.rstrip("/"))]
            if "/" not in path:
                places = [place for top in ("dpsql", "tests", "examples") for place in (ROOT / top).rglob(path)]
            assert places, f"{name_of(page)} names {path}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_operations_that_a_page_lists_are_the_kernels(page: Path) -> None:
    """In a table of operations the first column names questions that a session answers."""
    for table in re.findall(r"^\| operation \|.*\n\|[-| ]+\n((?:\|.*\n)+)", prose(page), re.MULTILINE):
        for row in table.splitlines():
            names = re.findall(r"`(\w+)`", row.split("|")[1])
            assert names, f"{name_of(page)}: no operation is named in {row}"
            assert all(callable(getattr(Session, name, None)) for name in names), f"{name_of(page)}: {row}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "commands.md"], ids=name_of)
def test_a_line_of_prose_is_one_sentence(page: Path) -> None:
    """One sentence per line, so that a change shows as the sentences that changed; tables and headings aside."""
    if page.name == "CHANGELOG.md":
        return
    for line in prose(page).splitlines():
        if line.lstrip().startswith(("|", "#", "![", ">")) or line.startswith("    "):
            continue
        plain = NO_SENTENCE_ENDS.sub("x", re.sub(r"^\s*\d+\. ", "", line))
        assert not re.search(r"[a-z\d)*][.?!] +[A-Z]", plain), f"{name_of(page)}: two sentences: {line}"


def test_the_pages_build_as_a_site(tmp_path: Path) -> None:
    """Sphinx finds no broken reference, no page that is in no contents, and nothing else to warn of."""
    if importlib.util.find_spec("furo") is None:
        pytest.skip("docs: furo is not installed (pip install -e '.[docs]')")
    command = ["sphinx", "-W", "--keep-going", "-q", "-b", "html", str(ROOT / "docs"), str(tmp_path / "site")]
    command += ["-d", str(tmp_path / "doctrees")]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "searchindex.js").exists()
