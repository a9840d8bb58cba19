"""Fits a forest to rows in memory: register them in a database of their own, perhaps buy their domains, train."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pandas as pd

from dpsql.api.database import Database, connect
from dpsql.api.fit_ledger import FitLedger
from dpsql.api.fitting_rows import FittingRows
from dpsql.api.from_frame import create_table
from dpsql.errors import ParameterError, SchemaError, UnknownName, UsageError
from dpsql.ledger.amount import Amount, format_epsilon, parse_epsilon
from dpsql.models.usable_model import Model
from dpsql.schema import Schema, category_text

#: The lower and upper bound of all columns of numbers, or of each by its name.
Bounds: TypeAlias = tuple[float, float] | Mapping[str, tuple[float, float]]
#: What the table in memory is called, in its ledger and in certificates.
TABLE = "rows"


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """What a fit may cost and how its rows are described: by a schema, or by bounds, classes or a target, and `buy`.

    `epsilon` is what the fit costs in all; `buy` is the part of it that buys what is not declared.
    """

    epsilon: Amount
    method: str
    schema: Schema | None = None
    bounds: Bounds | None = None
    classes: Sequence[object] | None = None
    target: tuple[float, float] | None = None
    buy: Amount | None = None
    cap: Amount | None = None
    name: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if "delta" in self.parameters:
            raise ParameterError(
                "delta", allowed='left out for rows in memory; with fit(db, "table") it can be given', given="a value"
            )
        shortcuts = {"bounds": self.bounds, "classes": self.classes, "target": self.target, "buy": self.buy}
        given = [name for name, value in shortcuts.items() if value is not None]
        if self.schema is not None and given:
            raise ParameterError(given[0], allowed="left out where there is a schema", given="a value")
        if self.buy is not None and self.bought >= self.total:
            raise ParameterError("buy", allowed="below epsilon, which it is a part of", given=self.buy)

    @property
    def total(self) -> int:
        """What the fit costs in all, in nano-epsilon."""
        return parse_epsilon(self.epsilon)

    @property
    def bought(self) -> int:
        """The part that buys domains, in nano-epsilon."""
        return 0 if self.buy is None else parse_epsilon(self.buy, "buy")


def fit_rows(rows: FittingRows, request: FitRequest, ledger: FitLedger) -> Model:
    """Return a model of rows in memory. Its charges are entered in the ledger, also where no model came of them."""
    cap = None if request.cap is None else parse_epsilon(request.cap, "cap")
    features = _declared_features(rows, request)
    with ledger.charge(request.total, cap) as settle, connect(":memory:") as database:
        try:
            create_table(database, TABLE, rows.frame, request.schema)
            _register(database, rows, request, features)
            rest = format_epsilon(request.total - request.bought)
            model = database.train(
                TABLE, epsilon=rest, method=request.method, name=request.name, **dict(request.parameters)
            )
        finally:
            settle(sum(budget.spent for budget in database.budgets()), database.ledger())
    return replace(model, database=None, model_id=None)


def _register(database: Database, rows: FittingRows, request: FitRequest, features: dict[str, dict[str, Any]]) -> None:
    """Register the table under the schema, under what is declared of it, or buy what is not declared."""
    cap = format_epsilon(request.total)
    label: dict[str, Any] = {"classes": None if request.classes is None else _texts(request.classes)}
    label |= {"target": request.target}
    label = {name: value for name, value in label.items() if value is not None}
    if request.schema is not None:
        database.register(TABLE, request.schema, cap=cap, allow_large=True)
    elif request.buy is not None:
        _buy(database, cap=cap, buy=request.buy, label=rows.label, features=features, **label)
    else:
        if request.target is not None:
            label["target"] = {"lower": request.target[0], "upper": request.target[1]}
        declared = {"label": rows.label, **label, "features": features}
        database.register(TABLE, declared, cap=cap, allow_large=True)


def _buy(database: Database, **given: Any) -> None:
    """Buy what is not declared; where the classes stay unknown, say how an estimator is told of them."""
    try:
        database.buy_schema(TABLE, allow_large=True, **given)
    except SchemaError as error:
        if "classes" in given or "target" in given:
            raise
        hint = "classes=[…] (target=(lower, upper) of a regressor): declare what you know; or a larger buy"
        raise SchemaError(error.message, hint=hint) from None


def _declared_features(rows: FittingRows, request: FitRequest) -> dict[str, dict[str, Any]]:
    """Return the features that are declared without a schema; refuse if some are not, and nothing is to be bought."""
    if request.schema is not None:
        return {}
    columns = rows.frame[list(rows.features)]
    features = {
        name: {"type": "numeric", "lower": float(low), "upper": float(high)}
        for name, (low, high) in _bounds_by_name(columns, request.bounds).items()
    }
    if request.buy is not None:
        return features
    features |= {
        name: {"type": "boolean"} for name in rows.features if name not in features and columns[name].dtype == bool
    }
    open_columns = [name for name in rows.features if name not in features]
    label_is_open = request.classes is None and request.target is None
    if open_columns or label_is_open:
        raise _undeclared_error(open_columns, label_is_open)
    return {name: features[name] for name in rows.features}


def _bounds_by_name(columns: pd.DataFrame, bounds: Bounds | None) -> dict[str, tuple[float, float]]:
    """Return bounds by column: those of all columns of numbers, or of the columns that are named."""
    if bounds is None:
        return {}
    if isinstance(bounds, Mapping):
        unknown = [name for name in bounds if name not in columns.columns]
        if unknown:
            raise UnknownName("column of X called", str(unknown[0]), map(str, columns.columns))
        return {name: _pair(pair) for name, pair in bounds.items()}
    numbers = [name for name in columns if columns[name].dtype.kind in "iuf"]
    return {str(name): _pair(bounds) for name in numbers}


def _pair(bounds: Any) -> tuple[float, float]:
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise ParameterError("bounds", allowed="(lower, upper), or such a pair for each column", given=bounds)
    return (bounds[0], bounds[1])


def _texts(classes: Iterable[object]) -> list[str]:
    return [category_text(value) or "" for value in classes]


def _undeclared_error(columns: Sequence[str], label_is_open: bool) -> UsageError:
    """Return the error that says what is not declared, and how it can be."""
    names = ", ".join(f'"{name}"' for name in columns[:8]) + (", …" if len(columns) > 8 else "")
    parts = [f"the domains of {names}"] if columns else []
    parts += ["the classes (or the target's bounds) of y"] if label_is_open else []
    return UsageError(
        f"nothing says {' and '.join(parts)}, and dpsql never reads them from private rows.",
        hint='schema={"label": …, "classes": […], "features": {…}} as for Database.register; '
        "or bounds=(0, 100) for numbers and classes=[…] (target=(0, 100) of a regressor); "
        "or buy=0.1, which buys them for a part of epsilon",
    )
