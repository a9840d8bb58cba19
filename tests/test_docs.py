"""The docs cannot rot: every code block of the README and of `docs/` runs.

console   lines that start with `$ ` are run; the words printed below a command must appear in its output.
          A command may end with `# exit N`.
python    run in order, one namespace for each page
sql       run in `dpsql shell` on the page's demo.duckdb
yaml      read as a schema
sh        setup commands; not run here, but checked against a list (CI runs the README's)
text      output or pictures; not run
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from dpsql.cli.main import app, run
from dpsql.cli.reference import reference
from dpsql.schema import schema_file

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples" / "README.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"console", "python", "sql", "yaml", "sh", "text"}
SETUP = (
    "python3 -m venv",
    "pip install 'dpsql[",
    "dpsql register",
    "dpsql train",
    "dpsql predict",
    "dpsql update",
    "dpsql init",
    "python -m dpsql.bench",
    "dpsql bench",
    "python -m examples.",
)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return language and text of each fenced block of a page."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of the page's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPSQL_WHO", "root")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_a_page_runs(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each block of the page does what the page says."""
    names: dict[str, object] = {}
    for language, text in blocks(page):
        assert language in LANGUAGES, f"a block of {page.name} has the unknown language {language!r}"
        if language == "console":
            run_console(text, capsys)
        elif language == "python":
            exec(compile(text, page.name, "exec"), names)  # noqa: S102
        elif language == "sql":
            assert run(["shell", "--db", "demo.duckdb", "-c", text]) == 0, capsys.readouterr().err
        elif language == "yaml":
            assert schema_file.loads(text).features
        elif language == "sh":
            assert all(line.startswith(SETUP) for line in text.strip().splitlines())


def run_console(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the commands of a console block and look for the words of the output that stands below each."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        wanted = re.search(r"#\s*exit (\d)\s*$", command)
        words = shlex.split(command, comments=True)
        assert words[0] == "dpsql"
        capsys.readouterr()
        code = run(words[1:])
        printed = capsys.readouterr()
        assert code == (int(wanted.group(1)) if wanted else 0), printed.err
        for word in re.findall(r"[A-Za-z_]{3,}", shown):
            assert word in printed.out + printed.err, f"{command}: {word!r} is not in its output"


def test_the_command_reference_is_what_the_program_says() -> None:
    """`docs/commands.md` equals `python -m dpsql.cli.reference`."""
    assert (ROOT / "docs" / "commands.md").read_text(encoding="utf-8") == reference()


def test_every_command_is_in_the_reference() -> None:
    """Each command has its own heading in the docs."""
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert all(f"## dpsql {name}\n" in page for name in app.commands)


def test_links_between_pages_lead_somewhere() -> None:
    """Each relative link of a page names a file that exists."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
