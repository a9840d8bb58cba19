"""dpsql: differentially private decision forests, trained inside your database.

db = dpsql.connect("data.duckdb")
db.register("adult", schema="adult.yml", cap=3)
model = db.train("adult", epsilon=1.0, name="adult_v1")
model.predict("new_rows")

A public name is loaded when it is first used, so that `import dpsql` costs next to nothing.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsql.api.database import Database, connect
    from dpsql.api.duckdb_sql import attach
    from dpsql.api.estimators import DPForestClassifier, DPForestRegressor
    from dpsql.api.from_frame import from_frame
    from dpsql.api.search_cost import SearchCost, fit_search, search_cost
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
    from dpsql.kernel.progress import Progress
    from dpsql.models.evaluate import Evaluation, NumericEvaluation
    from dpsql.models.usable_model import Model
    from dpsql.runs.parties import merge, unite
    from dpsql.schema import Boolean, Categorical, Dated, Hashed, Numeric, Schema, Target, Unit, hashed_cell

__version__ = "0.1.0"

#: Each module with the public names that it defines. A type checker reads the same above; a test compares the two.
_NAMES_OF = {
    "api.database": ("Database", "connect"),
    "api.duckdb_sql": ("attach",),
    "api.estimators": ("DPForestClassifier", "DPForestRegressor"),
    "api.from_frame": ("from_frame",),
    "api.search_cost": ("SearchCost", "fit_search", "search_cost"),
    "errors": (
        "BudgetError",
        "BudgetExceeded",
        "ChargedBefore",
        "ChargeTooSmall",
        "DatabaseError",
        "DatabaseLocked",
        "DatabaseReadOnly",
        "DataError",
        "DiskFull",
        "DpsqlError",
        "Interrupted",
        "LedgerBroken",
        "NewerFormat",
        "NoRowsCounted",
        "NoRowsWarning",
        "NotPrivate",
        "NotRegistered",
        "ParameterError",
        "QueryFailed",
        "RunFailed",
        "RunsUnfinished",
        "SchemaError",
        "TableChanged",
        "UnknownName",
        "UsageError",
    ),
    "kernel.progress": ("Progress",),
    "models.evaluate": ("Evaluation", "NumericEvaluation"),
    "models.usable_model": ("Model",),
    "runs.parties": ("merge", "unite"),
    "schema": ("Boolean", "Categorical", "Dated", "Hashed", "Numeric", "Schema", "Target", "Unit", "hashed_cell"),
}
_HOME_OF = {name: home for home, names in _NAMES_OF.items() for name in names}

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


if not TYPE_CHECKING:  # a type checker that saw this function would believe that every name exists

    def __getattr__(name):
        """Load a public name, or a package of dpsql such as `dpsql.schema`, when it is first used."""
        if name in _HOME_OF:
            value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
            globals()[name] = value
            return value
        if not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names: what `dir(dpsql)` and a notebook's completion show, without the rooms inside."""
    return sorted(__all__)
