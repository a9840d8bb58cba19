"""dpsql: differentially private decision forests, trained inside your database.

db = dpsql.connect("data.duckdb")
db.register("adult", schema="adult.yml", cap=3)
model = db.train("adult", epsilon=1.0, name="adult_v1")
model.predict("new_rows")
"""

from dpsql.api.database import Database, connect
from dpsql.api.duckdb_sql import attach
from dpsql.api.estimators import DPForestClassifier, DPForestRegressor
from dpsql.api.from_frame import from_frame
from dpsql.api.search_cost import SearchCost, search_cost
from dpsql.errors import (
    BudgetError,
    BudgetExceeded,
    ChargedBefore,
    ChargeTooSmall,
    DatabaseError,
    DatabaseLocked,
    DatabaseReadOnly,
    DataError,
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
    "from_frame",
    "hashed_cell",
    "merge",
    "search_cost",
    "unite",
]


def __dir__() -> list[str]:
    """Return the public names: what `dir(dpsql)` and a notebook's completion show, without the rooms inside."""
    return sorted(__all__)
