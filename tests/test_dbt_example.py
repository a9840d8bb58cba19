"""`examples/dbt`: a model trained once for each version of the data, predictions in plain SQL, a test of the budget."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from dpsql.api.database import connect
from dpsql.api.demo import demonstrate
from tests.dbt_place import ROOT, dbt_python

#: Seconds that one call of dbt may take on a busy machine; it takes ten.
PATIENCE = 300


@dataclass(frozen=True)
class Project:
    """A copy of the example, with a small demo database of its own."""

    folder: Path

    @property
    def database(self) -> Path:
        """Return the database file."""
        return self.folder / "demo.duckdb"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run dbt with these words, on the code of this working copy."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "DPSQL_DB": str(self.database)}
        return subprocess.run(
            [dbt_python(), "-m", "dbt.cli.main", "--no-use-colors", *words, "--profiles-dir", "."],
            cwd=self.folder / "census",
            env={**environment, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def spent(self) -> str:
        """Return what dbt has spent on the private table."""
        with connect(self.database) as db:
            return next(share.spent_text for share in db.budget("census").analysts if share.name == "dbt")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Copy the example, make a small demo database, and build everything once."""
    dbt_python()
    folder = tmp_path_factory.mktemp("dbt") / "dbt"
    shutil.copytree(ROOT / "examples" / "dbt", folder, ignore=shutil.ignore_patterns("target", "logs", "*.duckdb*"))
    made = Project(folder)
    demonstrate(str(made.database), rows=2000)
    for words in (("deps",), ("build",)):
        done = made.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
    return made


def rows(project: Project, query: str) -> list[tuple[object, ...]]:
    """Return the rows of a query on a plain connection, which knows nothing of dpsql."""
    with duckdb.connect(str(project.database), read_only=True) as connection:
        return connection.execute(query).fetchall()


def test_a_version_is_trained_once_and_another_once_more(project: Project) -> None:
    """A second build charges nothing and gives the same row; another version is another model and another charge."""
    before, [first] = project.spent(), rows(project, "SELECT model, epsilon, leaves FROM income_model")
    again = project.run("build")
    assert again.returncode == 0, again.stdout
    assert (project.spent(), rows(project, "SELECT model, epsilon, leaves FROM income_model")) == (before, [first])
    other = project.run("build", "--vars", "{data_version: another}")
    assert other.returncode == 0, other.stdout
    assert project.spent() == str(float(before) + 0.5).removesuffix(".0")
    assert rows(project, "SELECT model FROM income_model") == [("income_model_another",)]


def test_predictions_are_a_view_that_needs_no_dpsql(project: Project) -> None:
    """Any DuckDB reads it: a label of the model for each row."""
    [(people, labels)] = rows(project, "SELECT count(*), list(DISTINCT prediction) FROM income_scored")
    [(public,)] = rows(project, "SELECT count(*) FROM census_holdout")
    assert people == public
    assert set(labels) <= {"<=50K", ">50K"}  # type: ignore[call-overload]
    [(text,)] = rows(project, "SELECT sql FROM duckdb_views() WHERE view_name = 'income_scored'")
    assert "dpsql_score" not in str(text).replace("dpsql_scores", "")


def test_compiling_charges_nothing(project: Project) -> None:
    """Whoever draws the lineage or reads the compiled SQL pays nothing for it."""
    before = project.spent()
    done = project.run("compile", "--vars", "{data_version: never}")
    assert done.returncode == 0, done.stdout
    assert project.spent() == before


@pytest.mark.parametrize(("table", "at_least"), [("census", "2.9"), ("census_holdout", "0")])
def test_a_budget_that_is_short_fails_the_test(project: Project, table: str, at_least: str) -> None:
    """Less left than asked for, or a table that is not registered, is a failed test of dbt."""
    file = project.folder / "census" / "models" / "sources.yml"
    text = file.read_text(encoding="utf-8")
    test = f"data_tests:\n          - dpsql.budget_left:\n              arguments: {{at_least: {at_least}}}\n"
    try:
        file.write_text(f"sources:\n  - name: census\n    schema: main\n    tables:\n      - name: census\n"
                        f"      - name: census_holdout\n      - name: {table}_again\n        identifier: {table}\n"
                        f"        {test}", encoding="utf-8")  # fmt: skip
        done = project.run("test")
    finally:
        file.write_text(text, encoding="utf-8")
    assert done.returncode == 1, done.stdout
    assert "FAIL 1" in done.stdout
