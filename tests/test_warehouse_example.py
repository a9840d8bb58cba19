"""`python -m examples.warehouse` fills five tables, registers one view, trains and measures, on both databases."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from examples.warehouse.__main__ import main
from tests.servers import fresh_database


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_the_example_runs_from_empty_tables_to_figures(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One command gives a model that beats the largest class, and says which tables it read and what is left."""
    place = str(tmp_path / "warehouse.duckdb") if kind == "duckdb" else fresh_database()
    given = ["--db", place, "--persons", "2000", "--visits", "20000", "--method", "rdt", "--epsilon", "2"]
    monkeypatch.setattr(sys, "argv", ["warehouse", *given])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["fill", "register", "train", "evaluate"]
    assert lines[4] == 'private tables: visits, prescriptions, persons; unit: "person_id", at most 1 rows each'
    assert float(lines[5].split("accuracy ")[1].split("%")[0]) > 55
    assert lines[6] == "left of the budget: 0.5"
