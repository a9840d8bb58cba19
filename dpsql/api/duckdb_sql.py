"""Prepares a DuckDB connection so that dpsql can be called from SQL: `FROM dpsql_train('adult', epsilon := 1.0)`.

The macros are written by hand in `sql/duckdb/macros.sql`; what needs Python is registered here as functions of the
connection. Each call works on a cursor of its own, so that a charge is committed whatever the calling query does next.
"""

from __future__ import annotations

import functools
import re
import weakref
from collections.abc import Callable
from dataclasses import MISSING, replace
from typing import Any, TypeVar

import numpy as np
from sqlglot import exp

from dpsql import methods
from dpsql.advice.advise import Recommendation
from dpsql.api.charged_call import (
    ChargedCall,
    ChargedCalls,
    asked_of_comparison,
    asked_of_evaluation,
    asked_of_purchase,
    asked_of_training,
)
from dpsql.api.database import Database, connect
from dpsql.api.owner_sql import ACTS, OwnerCalls
from dpsql.api.rows_asked import RowsAsked
from dpsql.api.sql_hints import DUCKDB_FORM, sql_hint
from dpsql.engines import sql_files
from dpsql.engines.duckdb.engine import Connection, define
from dpsql.engines.duckdb.use_statement import remember_use
from dpsql.engines.interruption import call_inside_statement
from dpsql.errors import DpsqlError, ParameterError, QueryFailed, SchemaError, UnknownName, UsageError
from dpsql.ledger import Ledger
from dpsql.models import store
from dpsql.models.evaluate import number_or_none
from dpsql.models.release_store import MODELS
from dpsql.models.score import public_table, scoring_query
from dpsql.models.usable_model import Model
from dpsql.runs import train as training
from dpsql.runs.arguments import arguments, with_options
from dpsql.runs.compare import interval
from dpsql.runs.private_evaluation import evaluation_of_training
from dpsql.runs.train import TrainRequest, parse_flag
from dpsql.schema import Dated, Feature, Numeric

_Result = TypeVar("_Result")
#: Named values as SQL hands them over.
_Texts = dict[str, str | None]
_DUCKDB = "duckdb"
_TRAINED = (
    "STRUCT(model VARCHAR, method VARCHAR, trees BIGINT, depth BIGINT, leaves BIGINT, epsilon VARCHAR, "
    'neighbours VARCHAR, spent VARCHAR, "left" VARCHAR, delta VARCHAR, rho VARCHAR, '
    "accuracy DOUBLE, accuracy_low DOUBLE, accuracy_high DOUBLE, majority DOUBLE, auc DOUBLE, note VARCHAR)[]"
)
_STEPS = (
    'STRUCT(step VARCHAR, operation VARCHAR, epsilon VARCHAR, noise_scale DOUBLE, scans BIGINT, "values" BIGINT, '
    "expected_error VARCHAR)[]"
)
_IMPORTANCE = "STRUCT(feature VARCHAR, importance DOUBLE, note VARCHAR)[]"
_CASES = ("now", "twice_rows", "twice_epsilon", "fewer_rows", "smaller_epsilon")
_ADVICE_FIGURES = (
    "rows", "epsilon", "trees", "depth", "noise_per_leaf", "rows_per_leaf", "signal_kept", "expected_gain",
    "smallest_epsilon", "method", "verdict",
)  # fmt: skip
_ADVICE = (
    'STRUCT("case" VARCHAR, "rows" BIGINT, epsilon VARCHAR, trees BIGINT, depth BIGINT, noise_per_leaf DOUBLE, '
    "rows_per_leaf DOUBLE, signal_kept DOUBLE, expected_gain DOUBLE, smallest_epsilon DOUBLE, method VARCHAR, "
    "verdict VARCHAR)[]"
)
_TEXT = "VARCHAR"
#: A row of a table: column -> value as text.
_ROW = "MAP(VARCHAR, VARCHAR)"
#: Arguments of a call: name -> value as text.
_VALUES = "MAP(VARCHAR, VARCHAR)"
_SHARES = "MAP(VARCHAR, DOUBLE)"
_FIGURES = "STRUCT(figure VARCHAR, value DOUBLE, low DOUBLE, high DOUBLE)[]"
_COMPARED = "STRUCT(model VARCHAR, figure VARCHAR, value DOUBLE, low DOUBLE, high DOUBLE)[]"
_CALLS = (
    "dpsql_train_call",
    "dpsql_plan_call",
    "dpsql_predict_call",
    "dpsql_proba_call",
    "dpsql_score_call",
    "dpsql_evaluate_call",
    "dpsql_compare_call",
    "dpsql_explain_call",
    "dpsql_advise_call",
)
_ALL_CALLS = (*_CALLS, *(act.call for act in ACTS))
#: The connections that carry the functions; DuckDB shares functions between the connections to one database.
_ATTACHED: weakref.WeakSet[Connection] = weakref.WeakSet()
#: The charged calls of each of them: attaching again does not forget what was paid for.
_SESSIONS: weakref.WeakKeyDictionary[Connection, ChargedCalls] = weakref.WeakKeyDictionary()
#: What the row of a training says where nothing was trained.
_REPEATED = "the model that the same call trained before; nothing was charged (again := true trains another)"


def attach(connection: Connection, *, who: str | None = None) -> Database:
    """Prepare a connection for calls from SQL and return it as a Database. Attaching again changes only `who`.

    The connection stays yours and cannot be locked down: `Database.weaknesses()` says what it leaves open.
    """
    remember_use(connection)
    database = connect(connection, who=who)
    Ledger(database.engine).install()
    MODELS.install(database.engine)
    _make_room(connection, database)
    session = _SESSIONS.setdefault(connection, ChargedCalls())
    calls = _Calls(connection, database.who, session)
    train, plan, predict, proba, score, evaluate, compare, explain, advise = _CALLS
    define(connection, train, _hide_error_text(calls.train), [_VALUES, _VALUES], _TRAINED, changes=True)
    define(connection, plan, _hide_error_text(calls.plan), [_VALUES, _VALUES], _STEPS)
    define(connection, predict, _hide_error_text(calls.predict), [_TEXT, _ROW, _TEXT], _TEXT)
    define(connection, proba, _hide_error_text(calls.predict_proba), [_TEXT, _ROW, _TEXT], _SHARES)
    define(connection, score, _hide_error_text(calls.score), [_TEXT, _TEXT, _TEXT], _TEXT)
    define(connection, evaluate, _hide_error_text(calls.evaluate), [_TEXT] * 5, _FIGURES, changes=True)
    names_and_texts = [f"{_TEXT}[]", *[_TEXT] * 4]
    define(connection, compare, _hide_error_text(calls.compare), names_and_texts, _COMPARED, changes=True)
    define(connection, explain, _hide_error_text(calls.explain), [_TEXT], _IMPORTANCE)
    define(connection, advise, _hide_error_text(calls.advise), [_TEXT] * 7, _ADVICE, changes=True)
    owner = OwnerCalls(calls.database, session)
    for act in ACTS:
        call = _hide_error_text(getattr(owner, act.name))
        define(connection, act.call, call, [_VALUES], act.gives, changes=True)
    _ATTACHED.add(connection)
    for statement in macro_statements():
        connection.execute(statement)
    return database


def macro_statements() -> list[str]:
    """Return the statements that create the macros, with the arguments of a training run in their places."""
    pieces = {
        "train_parameters": _parameter_list(names_release=True),
        "train_values": _value_map(names_release=True),
        "plan_parameters": _parameter_list(names_release=False),
        "plan_values": _value_map(names_release=False),
    }
    for act in ACTS:
        pieces |= act.pieces()
    places = re.compile(rf":({'|'.join(pieces)})\b")
    statements = [*sql_files.statements("duckdb/macros.sql"), *sql_files.statements("duckdb/owner_macros.sql")]
    return [places.sub(lambda place: pieces[place[1]], text) for text in statements]


def _parameter_list(*, names_release: bool) -> str:
    """Return the parameters of a macro with their defaults: the arguments of a run, then the methods' parameters."""
    defaults = {name: argument.default for name, argument in arguments(names_release=names_release).items()}
    defaults |= dict.fromkeys(methods.PARAMETERS)
    if names_release:
        defaults["again"] = False
    return ", ".join(
        _macro_name(name).sql(_DUCKDB)
        if default is MISSING
        else exp.PropertyEQ(this=_macro_name(name), expression=exp.convert(default)).sql(_DUCKDB)
        for name, default in defaults.items()
    )


def _value_map(*, names_release: bool) -> str:
    """Return a MAP from the name of each argument and parameter to its value as text."""
    names = [*arguments(names_release=names_release), *methods.PARAMETERS, *(["again"] if names_release else [])]
    keys = exp.array(*(exp.Literal.string(name) for name in names))
    texts = exp.array(*(exp.cast(exp.column(_macro_name(name)), exp.DataType.Type.TEXT) for name in names))
    return exp.Map(keys=keys, values=texts).sql(_DUCKDB)


def _macro_name(name: str) -> exp.Identifier:
    """Return what a macro calls an argument: "table" alone has another name, since it is a reserved word of SQL."""
    return exp.to_identifier("table_name" if name == "table" else name, quoted=True)


def _make_room(connection: Connection, database: Database) -> None:
    """Take the functions of an earlier attach off this connection; refuse when another connection carries them."""
    if connection in _ATTACHED:
        for name in _ALL_CALLS:
            connection.remove_function(name)
        return
    if _CALLS[0] in database.engine.user_functions():
        raise UsageError(
            "dpsql is already attached to another connection to this database.", hint="use that connection"
        )


class _Calls:
    """The Python side of the calls. It holds the connection weakly: the connection holds these functions."""

    def __init__(self, connection: Connection, who: str, session: ChargedCalls) -> None:
        self._connection = weakref.ref(connection)
        self._who = who
        self._session = session
        self._models: dict[str, Model] = {}
        self._rows_asked = RowsAsked()

    def train(self, values: _Texts, options: _Texts | None) -> list[dict[str, Any]]:
        """Train and describe the new model in one row; the same call again describes the model that it has paid for."""
        given = with_options(values, options or {})
        again = parse_flag("again", given.pop("again"))
        db, request = self.database(), TrainRequest.from_text(given)
        call = ChargedCall("train", asked_of_training(db, request), request.request_id, again)

        def train(request_id: str) -> Model:
            return training.train(db.engine, db.book, replace(request, request_id=request_id), who=db.who)

        def is_complete(model: Model) -> bool:
            return request.evaluate is None or evaluation_of_training(model) is not None

        answer = self._session.make_model(db, call, train, is_complete=is_complete)
        model = answer.value
        budget = db.budget(request.table, model.certificate.get("kind", "pure"))
        forest = model.released.forest
        return [
            {
                "model": model.name,
                "method": model.method,
                "trees": forest.trees,
                "depth": forest.depth,
                "leaves": forest.leaves,
                "epsilon": model.certificate["epsilon"],
                "neighbours": model.certificate["neighbours"],
                "spent": budget.spent_text,
                "left": budget.left_text,
                "delta": model.certificate.get("delta"),
                "rho": model.certificate.get("rho"),
                **_measured_figures(model),
                "note": _REPEATED if answer.repeated else None,
            }
        ]

    def plan(self, values: _Texts, options: _Texts | None) -> list[dict[str, Any]]:
        """Describe the steps of a plan, one row each."""
        db, request = self.database(), TrainRequest.from_text(with_options(values, options or {}))
        steps = training.plan(db.engine, db.book, request).to_dict()["steps"]
        names = ("operation", "epsilon", "noise_scale", "scans", "values", "expected_error")
        return [{"step": step["name"], **{name: step[name] for name in names}} for step in steps]

    def predict(self, name: str | None, row: dict[str, str | None] | None, statement: str | None) -> str | None:
        """Return the label of one row, given as texts by column name; NULL where there is no row."""
        model = self._model(_check_name(name, "model"))
        self._check_rows(statement)
        return None if row is None else model.label(_columns(model, row))

    def predict_proba(
        self, name: str | None, row: dict[str, str | None] | None, statement: str | None
    ) -> dict[str, float] | None:
        """Return the probability of each class for one row, given as texts by column name; NULL where there is none."""
        model = self._model(_check_name(name, "model"))
        self._check_rows(statement)
        return None if row is None else model.probabilities(_columns(model, row))

    def _check_rows(self, statement: str | None) -> None:
        """Refuse to label rows of a private table, as far as the statement shows where they come from."""
        if not self._rows_asked.is_known(statement):
            self._rows_asked.check(self.database(), statement)

    def score(self, name: str | None, table: str | None, probabilities: str | None) -> str:
        """Return the SQL that scores a whole table."""
        model = self._model(_check_name(name, "model"))
        assert model.database is not None
        info = public_table(model.database, _check_name(table, "table"))
        shown = probabilities == "true"
        if shown:
            model.check_classes()
        return scoring_query(model, info, key=None, into="", probabilities=shown).sql(model.database.engine.dialect)

    def evaluate(
        self, name: str | None, table: str | None, epsilon: str | None, request_id: str | None, again: str | None
    ) -> list[dict[str, Any]]:
        """Measure a model and give one row for each figure, with its interval where the rows are private."""
        db, name, table = self.database(), _check_name(name, "model"), _check_name(table, "table")
        anew = parse_flag("again", again)
        if epsilon is None:
            if anew:
                raise ParameterError("again", allowed="given only with epsilon", given="true")
            evaluation = db.evaluate(name, table, request_id=request_id).to_dict()
        else:
            call = ChargedCall("evaluate", asked_of_evaluation(db, name, table, epsilon), request_id, anew)
            evaluation = self._session.make(
                db, call, lambda own_id: db.evaluate(name, table, epsilon=epsilon, request_id=own_id).to_dict()
            ).value
        figures = evaluation | {
            f"{what} of {label}": value
            for what in ("f1", "precision", "recall")
            for label, value in evaluation.get(f"class_{what}", {}).items()
        }
        bounds = evaluation.get("intervals", {})
        return [
            {"figure": figure, "value": value, "low": low, "high": high}
            for figure, value in figures.items()
            if isinstance(value, int | float | None) and figure != "ledger_entry"
            for low, high in [bounds.get(figure, (None, None))]
        ]

    def compare(
        self,
        names: list[str] | None,
        table: str | None,
        epsilon: str | None,
        request_id: str | None,
        again: str | None,
    ) -> list[dict[str, Any]]:
        """Measure several models on the same rows and give one row for each model and figure."""
        db, table, anew = self.database(), _check_name(table, "table"), parse_flag("again", again)
        if epsilon is None:
            if anew:
                raise ParameterError("again", allowed="given only with epsilon", given="true")
            comparison = db.compare(names or [], table, request_id=request_id)
        else:
            call = ChargedCall("compare", asked_of_comparison(db, names or [], table, epsilon), request_id, anew)
            comparison = self._session.make(
                db, call, lambda own_id: db.compare(names or [], table, epsilon=epsilon, request_id=own_id)
            ).value
        return [
            {"model": evaluation.model, "figure": figure, "value": number_or_none(value), "low": low, "high": high}
            for evaluation in comparison.evaluations
            for figure in comparison.figures
            for value, (low, high) in [(getattr(evaluation, figure), interval(evaluation, figure))]
            if value is not None
        ]

    def explain(self, name: str | None) -> list[dict[str, Any]]:
        """Return how much the predictions depend on each feature, one row each, the most important first."""
        effects = self._model(_check_name(name, "model")).explain().effects
        return [{"feature": effect.feature, "importance": effect.importance, "note": effect.note} for effect in effects]

    def advise(
        self,
        table: str | None,
        epsilon: str | None,
        rows: str | None,
        buy: str | None,
        majority: str | None,
        request_id: str | None,
        again: str | None,
    ) -> list[dict[str, Any]]:
        """Advise on a table: one row for the case as it is and for each other case, or for each of several sizes."""
        size = None if rows is None else _parse_integer("rows", rows)
        share = None if majority is None else _parse_number(majority)
        db, named, anew = self.database(), _check_name(table, "table"), parse_flag("again", again)

        def advise(own_id: str | None) -> Recommendation:
            return db.advise(named, epsilon=epsilon, rows=size, buy=buy, majority=share, request_id=own_id)

        if buy is None:
            if anew:
                raise ParameterError("again", allowed="given only with buy", given="true")
            advice = advise(request_id).to_dict()
        else:
            call = ChargedCall("advise", asked_of_purchase(db, named, buy), request_id, anew)
            advice = self._session.make(db, call, advise).value.to_dict()
        cases = [(name.replace("_", " "), advice[name]) for name in _CASES if advice[name] is not None]
        cases += [("if so many rows", outlook) for outlook in advice["by_size"]]
        return [
            {"case": case, **{name: _round_figure(figures[name]) for name in _ADVICE_FIGURES}}
            for case, figures in cases
        ]

    def _model(self, name: str) -> Model:
        db = self.database()
        if name not in self._models:
            self._models = {name: store.load_model(db.engine, name)}  # without its database, which holds the connection
        return self._models[name].within(db)

    def database(self) -> Database:
        """Return the database behind the connection, on a cursor of its own."""
        connection = self._connection()
        if connection is None:
            raise DpsqlError("the connection was closed.")
        return connect(connection, who=self._who)


def _measured_figures(model: Model) -> dict[str, float | None]:
    """Return what the evaluation at the end of a training said; NULL in each place where there was none."""
    figures = evaluation_of_training(model) or {}
    low, high = figures.get("intervals", {}).get("accuracy", (None, None))
    bounds = {"accuracy_low": low, "accuracy_high": high}
    named = {"accuracy": "accuracy", "majority": "majority_class_share", "auc": "auc"}
    return {name: figures.get(figure) for name, figure in named.items()} | bounds


def _hide_error_text(call: Callable[..., _Result]) -> Callable[..., _Result]:
    """Return a call whose unexpected errors lose their text: DuckDB would quote it, and it can hold a private value."""

    @functools.wraps(call)
    def call_hiding_errors(*values: Any) -> _Result:
        problem: DpsqlError
        try:
            return call_inside_statement(lambda: call(*values))
        except DpsqlError as error:
            problem = error
            problem.hint = sql_hint(error.hint, DUCKDB_FORM)
        except Exception:  # noqa: BLE001  the border to the database: what passes it is shown to anyone
            problem = QueryFailed("finish the call", "why is withheld too")
        raise problem

    return call_hiding_errors


def _columns(model: Model, row: dict[str, str | None]) -> dict[str, Any]:
    """Return the features of one row as columns of one value."""
    columns: dict[str, Any] = {}
    lowered = {key.lower(): value for key, value in row.items()}
    for feature in model.schema.features:
        if feature.name.lower() not in lowered:
            raise UnknownName("column in the row called", feature.name, row)
        text = lowered[feature.name.lower()]
        columns[feature.name] = [_parse_cell(feature, text)]
    return columns


def _check_name(name: str | None, what: str) -> str:
    if name is None:
        raise ParameterError(what, allowed=f"the name of a {what}", given="NULL")
    return name


def _parse_integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ParameterError(name, allowed="a whole number", given=text) from None


def _round_figure(value: Any) -> Any:
    """Return a figure with four digits, anything else as it is."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _parse_cell(feature: Feature, text: str | None) -> Any:
    """Return a cell of a row as its feature reads it: a date that is none goes where NULL goes."""
    if isinstance(feature, Dated):
        try:
            return feature.number(text)
        except SchemaError:
            return np.nan
    return _parse_number(text) if isinstance(feature, Numeric) else text


def _parse_number(text: str | None) -> float:
    """Return a cell as a number. As in a CSV file, a text that is not a number goes where NULL goes."""
    if text is None:
        return np.nan
    try:
        return float(text)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(text, np.nan)
