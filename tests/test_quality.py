"""Formatter, linter and type checker, so that one command checks everything."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from dpsql import __version__
from tests.markers import SLOW
from tests.requirements import PACKAGES, missing_packages

ROOT = Path(__file__).resolve().parent.parent
CHECKS = {
    "format": ["ruff", "format", "--check", "."],
    "lint": ["ruff", "check", "."],
    "types": ["mypy", "--no-error-summary"],
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_code_is_clean(name: str, tmp_path: Path) -> None:
    """The tool finds nothing to complain about."""
    command = [sys.executable, "-m", *CHECKS[name]]
    if name == "types":
        command += ["--cache-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("name", "end"), [("demo", "dpsql demo"), ("tests", "python -m pytest")])
def test_ci_runs_a_command_of_the_readme(name: str, end: str) -> None:
    """`.ci/run` states the README's two commands, word for word, so that neither can rot alone."""
    stated = re.search(f'^{name}="(.*)"$', (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert stated is not None
    assert stated.group(1).endswith(end)
    assert f"\n```sh\n{stated.group(1)}\n```\n" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_module_runs_as_the_command() -> None:
    """`python -m dpsql` does what `dpsql` does."""
    done = subprocess.run([sys.executable, "-m", "dpsql", "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"dpsql, version {__version__}\n"


def test_the_citation_names_this_version() -> None:
    """`CITATION.cff` has what the format demands, and the version of the package."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["version"] == __version__
    for reference in citation["references"]:
        assert {"type", "title", "authors", "year"} <= set(reference), reference


def test_all_test_extras_are_in_test_all() -> None:
    """What any test needs is in `test-all`, so that the README's command skips nothing for want of a package.

    Only dbt is not: it has an environment of its own (tests/dbt_place.py).
    """
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = {name for name in extras if name.startswith("test-")} - {"test-all", "test-dbt"} | {"docs"}
    assert set(re.findall(r"[\w-]+", extras["test-all"][0].partition("[")[2])) == named
    assert {extra for extra, _ in PACKAGES.values()} <= set(extras)


def test_slow_tests_that_are_listed_exist() -> None:
    """The list of slow tests names folders, files and tests that are there."""
    for place in SLOW:
        path, _, test = place.partition("::")
        assert (ROOT / path).exists(), place
        assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), place


@pytest.mark.parametrize("name", ["postgress", "postgres,spork"])
def test_a_required_name_that_is_unknown_is_refused(name: str) -> None:
    """A typo in DPSQL_REQUIRE must not turn a required server into a skipped one."""
    assert any("is unknown" in sentence for sentence in missing_packages(name))


def test_a_required_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says what requires it, and how to install it."""
    monkeypatch.setitem(PACKAGES, "peers", ("test-peers", ("no_such_package",)))
    assert missing_packages("peers") == [
        "DPSQL_REQUIRE: peers needs no_such_package, which is not installed. Try: pip install -e '.[test-peers]'"
    ]


def test_modules_stay_small() -> None:
    """No module of the package or its tests passes 600 lines."""
    for folder in ("dpsql", "tests", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            assert len(path.read_text(encoding="utf-8").splitlines()) <= 600, path
