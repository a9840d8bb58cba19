"""The public names of the package, pinned: a change here is a change for users and belongs in the changelog."""

from __future__ import annotations

import dpsql

NAMES = [
    "Boolean",
    "BudgetError",
    "BudgetExceeded",
    "Categorical",
    "ChargeTooSmall",
    "DPForestClassifier",
    "DPForestRegressor",
    "Database",
    "DatabaseError",
    "DatabaseLocked",
    "DatabaseReadOnly",
    "Dated",
    "DiskFull",
    "DpsqlError",
    "Evaluation",
    "Hashed",
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
    "QueryFailed",
    "RunFailed",
    "RunsUnfinished",
    "Schema",
    "SchemaError",
    "TableChanged",
    "Target",
    "Unit",
    "UnknownName",
    "UsageError",
    "__version__",
    "attach",
    "connect",
    "hashed_cell",
    "merge",
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
    "contribute",
    "doctor",
    "draft",
    "evaluate",
    "explain",
    "export_structure",
    "init",
    "ledger",
    "model",
    "models",
    "plan",
    "plans_by_size",
    "plan_advice",
    "plan_batch",
    "plan_evaluation",
    "predict_private",
    "register",
    "set_cap",
    "set_limits",
    "spent_on",
    "structure",
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


def test_a_database_has_exactly_these_methods() -> None:
    """The public methods of Database are the pinned list."""
    public = [name for name in vars(dpsql.Database) if not name.startswith("_")]
    assert sorted(public) == sorted(DATABASE)


def test_a_model_has_these_methods() -> None:
    """Model offers what the docs promise."""
    fields = set(dpsql.Model.__dataclass_fields__)
    assert all(hasattr(dpsql.Model, name) or name in fields for name in MODEL)
