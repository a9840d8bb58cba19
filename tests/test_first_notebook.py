"""The notebook in `examples/` runs, cell by cell in a kernel, and shows tables and pictures; none are stored in it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "examples" / "first_notebook.ipynb"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Run the notebook and return what its cells show, each as texts by their type."""
    place = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(place), "MPLBACKEND": "agg"}
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3")
    client.execute(cwd=str(place), env=environment)
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert [output for output in shown if output.output_type == "stream"] == []
    return [dict(output.data) for output in shown]


def test_every_value_shows_itself_as_html(outputs: list[dict[str, Any]]) -> None:
    """Plan, advice, model, budgets, evaluation, explanation, estimator and ledger are shown as HTML, and as text."""
    pages = " ".join(output.get("text/html", "") for output in outputs)
    for words in ("Plan of auto", "Advice for", "Model &quot;income&quot;", "balanced_accuracy", "learned", "reserve"):
        assert words in pages
    texts = [output["text/plain"] for output in outputs]
    assert 'Budget of "people": 0 of 3 spent, 3 left' in texts
    assert 'Budget of "people": 1 of 3 spent, 2 left' in texts
    assert 'Budget of "all fits": 1 of 2 spent, 1 left' in texts


def test_figures_are_pictures(outputs: list[dict[str, Any]]) -> None:
    """The reliability diagram and the explanation are shown as PNG, without a file."""
    assert sum("image/png" in output for output in outputs) == 2


def test_the_notebook_is_stored_without_outputs() -> None:
    """What is in the repository is what people run, not what somebody saw."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells)
