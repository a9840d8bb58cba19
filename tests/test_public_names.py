"""The public names of the package, pinned: a change here is a change for users and belongs in the changelog."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dpsql

NAMES = [
    "Boolean",
    "BudgetError",
    "BudgetExceeded",
    "Categorical",
    "ChargeTooSmall",
    "ChargedBefore",
    "DPForestClassifier",
    "DPForestRegressor",
    "DataError",
    "Database",
    "DatabaseError",
    "DatabaseLocked",
    "DatabaseReadOnly",
    "Dated",
    "DiskFull",
    "DpsqlError",
    "Evaluation",
    "Hashed",
    "Interrupted",
    "LedgerBroken",
    "Model",
    "NewerFormat",
    "NoRowsCounted",
    "NoRowsWarning",
    "NotPrivate",
    "NotRegistered",
    "Numeric",
    "NumericEvaluation",
    "ParameterError",
    "Progress",
    "QueryFailed",
    "RunFailed",
    "RunsUnfinished",
    "Schema",
    "SchemaError",
    "SearchCost",
    "TableChanged",
    "Target",
    "Unit",
    "UnknownName",
    "UsageError",
    "__version__",
    "attach",
    "connect",
    "fit_search",
    "from_frame",
    "hashed_cell",
    "merge",
    "search_cost",
    "unite",
]
DATABASE = [
    "accept",
    "accept_runs",
    "add",
    "add_row_ids",
    "advise",
    "budget",
    "budgets",
    "close",
    "compare",
    "contribute",
    "doctor",
    "draft",
    "drop_model",
    "evaluate",
    "explain",
    "export_structure",
    "init",
    "ledger",
    "method",
    "methods",
    "model",
    "models",
    "plan",
    "plans_by_size",
    "plan_advice",
    "plan_batch",
    "plan_comparison",
    "plan_evaluation",
    "predict_private",
    "register",
    "rename_model",
    "set_cap",
    "set_limits",
    "spent_on",
    "structure",
    "tag_model",
    "train",
    "tune",
    "update",
    "verify",
    "weaknesses",
    "buy_schema",
    "draft_of",
    "plan_purchase",
]
MODEL = [
    "explain",
    "export_onnx",
    "export_sql",
    "predict",
    "predict_proba",
    "show",
    "sql",
    "to_json",
    "from_json",
    "certificate",
    "classes",
]


def test_the_package_exports_exactly_these_names() -> None:
    """`dpsql.__all__` is the pinned list, and each name is there."""
    assert sorted(dpsql.__all__) == sorted(NAMES)
    assert all(hasattr(dpsql, name) for name in NAMES)
    assert dir(dpsql) == sorted(NAMES)


def test_a_type_checker_finds_each_name_where_python_does() -> None:
    """The imports for type checkers name the same modules as the list that names are loaded by."""
    tree = ast.parse(Path(str(dpsql.__file__)).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    checked = {alias.name: str(node.module).removeprefix("dpsql.") for node in imports for alias in node.names}
    assert checked == dpsql._HOME_OF
    assert set(checked) | {"__version__"} == set(NAMES)


@pytest.mark.parametrize(
    "script",
    [
        "from dpsql import *; print(connect, Schema, DPForestClassifier, UnknownName)",
        "import dpsql; print(dpsql.errors.DpsqlError is dpsql.DpsqlError or 1 / 0)",
        "import dpsql; print(dpsql.schema.Numeric is dpsql.Numeric or 1 / 0)",
        "from dpsql import ledger, schema; print(ledger.Ledger, schema.Numeric)",
    ],
)
def test_names_and_packages_are_there_without_an_import_of_theirs(script: str) -> None:
    """A star import, and the packages inside as attributes, work in a process that has imported `dpsql` alone."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["conect", "_names", "__wrapped__"])
def test_a_name_that_is_not_there_is_an_attribute_error(name: str) -> None:
    """As for any module, so that `hasattr` and tools that look around work."""
    assert not hasattr(dpsql, name)
    with pytest.raises(AttributeError, match=f"module 'dpsql' has no attribute '{name}'"):
        getattr(dpsql, name)


def test_a_database_has_exactly_these_methods() -> None:
    """The public methods of Database are the pinned list."""
    public = [name for name in vars(dpsql.Database) if not name.startswith("_")]
    assert sorted(public) == sorted(DATABASE)


def test_a_model_has_these_methods() -> None:
    """Model offers what the docs promise."""
    fields = set(dpsql.Model.__dataclass_fields__)
    assert all(hasattr(dpsql.Model, name) or name in fields for name in MODEL)
