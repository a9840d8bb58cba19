"""dpsql: differentially private decision forests, trained inside your database.

db = dpsql.connect("data.duckdb")
db.register("adult", schema="adult.yml", cap=3)
model = db.train("adult", epsilon=1.0, name="adult_v1")
model.predict("new_rows")
"""

from dpsql.api.database import Database, connect
from dpsql.api.duckdb_sql import attach
from dpsql.api.estimators import DPForestClassifier, DPForestRegressor
from dpsql.errors import (
    BudgetError,
    BudgetExceeded,
    ChargeTooSmall,
    DatabaseError,
    DatabaseLocked,
    DatabaseReadOnly,
    DiskFull,
    DpsqlError,
    Interrupted,
    LedgerBroken,
    NewerFormat,
    NoRowsCounted,
    NoRowsWarning,
    NotPrivate,
    NotRegistered,
    ParameterError,
    QueryFailed,
    RunFailed,
    RunsUnfinished,
    SchemaError,
    TableChanged,
    UnknownName,
    UsageError,
)
from dpsql.kernel.progress import Progress
from dpsql.models.evaluate import Evaluation, NumericEvaluation
from dpsql.models.usable_model import Model
from dpsql.runs.parties import merge, unite
from dpsql.schema import Boolean, Categorical, Dated, Hashed, Numeric, Schema, Target, Unit, hashed_cell

__version__ = "0.1.0"

__all__ = [
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


def __dir__() -> list[str]:
    """Return the public names: what `dir(dpsql)` and a notebook's completion show, without the rooms inside."""
    return sorted(__all__)
