"""The owner's acts from SQL on a DuckDB connection: `CALL dpsql_register('clients', label := 'y', cap := 3, buy := 1)`.

Each act is a table macro over one Python function. Its arguments arrive as JSON, so that a list or a STRUCT says in SQL
what a schema file says in YAML. An argument that was left out arrives as `LEFT_OUT`, and so a NULL is always one that
was given. It is refused: an expression that turned out NULL must not stand for a choice that nobody made.

DuckDB runs a relation again each time it is looked at. So an act whose effect still stands, asked again on the same
connection in the same words, returns its row and writes nothing. What is charged is charged once (`charged_call.py`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlglot import exp

from dpsql.api.charged_call import (
    ChargedCall,
    ChargedCalls,
    asked_of_contribution,
    asked_of_labels,
    asked_of_update,
)
from dpsql.api.database import Database
from dpsql.api.sql_arguments import (
    _DECLARED,
    _DRAFTED,
    _OF_VIEWS,
    LEFT_OUT,
    Texts,
    as_flag,
    as_names,
    as_text,
    draft_arguments,
    macro_name,
    method_parameters,
    read_arguments,
    read_charged,
    read_words,
    registration_arguments,
)
from dpsql.kernel.datasets.dataset import Dataset, find_dataset
from dpsql.kernel.datasets.hold_out import hold_out_name
from dpsql.ledger import Budget
from dpsql.ledger.budget import ANY_ANALYST
from dpsql.ledger.odds import LargeEpsilonWarning
from dpsql.methods.mrf.mrf import Mrf
from dpsql.methods.rdt import Rdt
from dpsql.models.usable_model import Model
from dpsql.owner.drafts.proposal import LEFT_OUT as LEFT_OUT_ROLE
from dpsql.runs.label_rows import LabelRequest, find_label_request
from dpsql.runs.parties import merge, unite
from dpsql.schema import Schema

_DUCKDB = "duckdb"
Rows = list[dict[str, Any]]

_REGISTERED = (
    "STRUCT(table_name VARCHAR, dataset VARCHAR, unit VARCHAR, neighbours VARCHAR, features BIGINT, cap VARCHAR, "
    'spent VARCHAR, "left" VARCHAR, holdout VARCHAR, bought VARCHAR, left_out VARCHAR, note VARCHAR, '
    "declared VARCHAR)[]"
)
_BUDGET = (
    "STRUCT(table_name VARCHAR, kind VARCHAR, analyst VARCHAR, cap VARCHAR, spent VARCHAR, "
    '"left" VARCHAR, note VARCHAR)[]'
)
_PROPOSALS = 'STRUCT("column" VARCHAR, "role" VARCHAR, feature VARCHAR, origin VARCHAR, advice VARCHAR)[]'
_SOUND = "STRUCT(sound BOOLEAN, problem VARCHAR)[]"
_TEXT = 'STRUCT(table_name VARCHAR, "text" VARCHAR)[]'
_MODEL = (
    "STRUCT(model VARCHAR, method VARCHAR, trees BIGINT, depth BIGINT, leaves BIGINT, epsilon VARCHAR, "
    'composition VARCHAR, "text" VARCHAR)[]'
)
_MODEL_STATE = "STRUCT(model VARCHAR, was VARCHAR, dropped BOOLEAN, tags VARCHAR[])[]"


@dataclass(frozen=True)
class Act:
    """An act of the owner's: what SQL calls it, its arguments, and the rows that it gives.

    `first` are the arguments that must be given, `named` those that may be.
    """

    name: str
    first: tuple[str, ...]
    named: tuple[str, ...]
    gives: str

    @property
    def call(self) -> str:
        """The name of its Python function."""
        return f"dpsql_{self.name}_call"

    def pieces(self) -> dict[str, str]:
        """Return what stands in the macro of this act (`sql/duckdb/owner_macros.sql`): its parameters and values."""
        names = [*self.first, *self.named]
        parameters: list[exp.Expression] = [macro_name(name) for name in self.first]
        parameters += [
            exp.PropertyEQ(this=macro_name(name), expression=exp.Literal.string(LEFT_OUT)) for name in self.named
        ]
        texts = [exp.cast(exp.func("to_json", exp.column(macro_name(name))), exp.DataType.Type.TEXT) for name in names]
        values = exp.Map(keys=exp.array(*map(exp.Literal.string, names)), values=exp.array(*texts))
        return {
            f"{self.name}_parameters": ", ".join(parameter.sql(_DUCKDB) for parameter in parameters),
            f"{self.name}_values": values.sql(_DUCKDB),
        }


_OPTIONS = ("replace", "lost_runs", "least_epsilon", "holdout", "holdout_cap", "allow_large")
ACTS = (
    Act(
        "register",
        ("table",),
        ("schema", "entry", "cap", "no_cap", "buy", "delta", "unit", *dict.fromkeys([*_DECLARED, *_DRAFTED]),
         *_OPTIONS, *_OF_VIEWS),
        _REGISTERED,
    ),
    Act("draft", ("table",), _DRAFTED, _PROPOSALS),
    Act("draft_text", ("table",), _DRAFTED, _TEXT),
    Act(
        "set_cap",
        ("table", "cap"),
        ("analyst", "default_analyst", "kind", "delta", "selection_delta", "allow_large"),
        _BUDGET,
    ),
    Act("verify", (), (), _SOUND),
    Act("update", ("model", "batch"), ("epsilon", "name", "request_id", "again"), _MODEL),
    Act("export_structure", ("table",), tuple(Rdt.parameters), _TEXT),
    Act("contribute", ("table", "structure"), ("epsilon", "name", "request_id", "again"), _MODEL),
    Act("merge", ("models",), ("name",), _MODEL),
    Act("unite", ("models",), ("name",), _MODEL),
    Act("structure", ("table",), tuple(Mrf.parameters), _TEXT),
    Act(
        "predict_private",
        ("structure", "new_rows"),
        ("epsilon", "trees_see", "name", "request_id", "again"),
        _MODEL,
    ),
    Act("drop_model", ("model",), ("force",), _MODEL_STATE),
    Act("rename_model", ("model", "name"), (), _MODEL_STATE),
    Act("tag_model", ("model", "tags"), ("remove",), _MODEL_STATE),
)  # fmt: skip


class OwnerCalls:
    """The Python side of the acts on one connection, and what was asked there before."""

    def __init__(self, database: Callable[[], Database], session: ChargedCalls | None = None) -> None:
        self._database = database
        self._session = ChargedCalls() if session is None else session
        #: What a registration said -> its ledger entry, and what was bought.
        self._registrations: dict[str, tuple[int, dict[str, Any]]] = {}
        #: What was said of a cap -> the caps that held afterwards.
        self._caps: dict[str, object] = {}
        #: What was said of a model that was dropped or renamed.
        self._models_kept: set[str] = set()

    def register(self, texts: Texts) -> Rows:
        """Register a table and describe the dataset in one row; the same again, while it stands, writes nothing."""
        given = read_arguments(texts)
        table = as_text("table", given.pop("table"))
        request = registration_arguments(given)
        db, key = self._database(), _key(_said(table, request))
        if key in self._registrations:
            dataset = find_dataset(db.engine, db.book, table)
            entry, more = self._registrations[key]
            if dataset.registration == entry:
                return [_registered_row(db, dataset, ()) | more]
        with _large_epsilons() as notes:
            if "buy" in request:
                bought = db.buy_schema(table, **request)
                dataset, domains = bought.dataset, bought.domains
                left_out = [each.column for each in bought.draft.proposals if each.role == LEFT_OUT_ROLE]
                more = {"bought": None if domains is None else domains.epsilon, "left_out": ", ".join(left_out) or None}
            else:
                dataset, more = db.register(table, request.pop("schema"), **request), {}
        row = _registered_row(db, dataset, notes) | more
        self._registrations[key] = dataset.registration, more | {"note": row["note"]}
        return [row]

    def draft(self, texts: Texts) -> Rows:
        """Return the proposals of a draft, one row for each column."""
        proposals = [proposal.to_dict() for proposal in self._draft(texts).proposals]
        return [
            {
                "column": proposal["column"],
                "role": proposal["role"],
                "feature": json.dumps(proposal["feature"], ensure_ascii=False) if proposal["feature"] else None,
                "origin": proposal["origin"] or None,
                "advice": proposal["advice"] or None,
            }
            for proposal in proposals
        ]

    def draft_text(self, texts: Texts) -> Rows:
        """Return a draft as the text of a schema file."""
        draft = self._draft(texts)
        return [{"table_name": draft.table, "text": draft.text}]

    def set_cap(self, texts: Texts) -> Rows:
        """Set a cap and describe the budget in one row; a cap that this connection set, and that holds, stays so."""
        given = read_arguments(texts)
        table, cap = as_text("table", given.pop("table")), as_text("cap", given.pop("cap"))
        flags: dict[str, bool] = {
            name: as_flag(name, given.pop(name)) for name in ("default_analyst", "allow_large") if name in given
        }
        words: dict[str, Any] = {name: as_text(name, value) for name, value in given.items()}
        words.update(**flags)
        db, key = self._database(), _key([table, cap, words])
        kind = str(words.get("kind", "pure"))
        if key in self._caps and self._caps[key] == _caps(db.budget(table, kind)):
            return [_budget_row(db.budget(table, kind), words, ())]
        with _large_epsilons() as notes:
            budget = db.set_cap(table, cap, **words)
        self._caps[key] = _caps(budget)
        return [_budget_row(budget, words, notes)]

    def verify(self, texts: Texts) -> Rows:
        """Return one row for each thing in the ledger that does not hold, or one that says that it is sound."""
        problems = self._database().verify()
        return [{"sound": False, "problem": problem} for problem in problems] or [{"sound": True, "problem": None}]

    def update(self, texts: Texts) -> Rows:
        """Add a batch to a model of counts and describe the new model in one row."""
        db, (given, request_id, again) = self._database(), read_charged(texts)
        model = db.model(given.pop("model"))
        call = ChargedCall("update", asked_of_update(db, model, given), request_id, again)
        batch = given.pop("batch")
        answer = self._session.make_model(db, call, lambda own_id: db.update(model, batch, **given, request_id=own_id))
        return [_model_row(answer.value)]

    def export_structure(self, texts: Texts) -> Rows:
        """Return the public trees that several parties count in."""
        table, parameters = method_parameters(texts)
        return [{"table_name": table, "text": self._database().export_structure(table, **parameters)}]

    def contribute(self, texts: Texts) -> Rows:
        """Count a party's rows in shared trees; the text of the row is what the others are sent."""
        db, (given, request_id, again) = self._database(), read_charged(texts)
        table, shared_trees = given.pop("table"), given.pop("structure")
        call = ChargedCall("contribute", asked_of_contribution(db, table, shared_trees, given), request_id, again)
        answer = self._session.make_model(
            db, call, lambda own_id: db.contribute(table, shared_trees, **given, request_id=own_id)
        )
        return [_model_row(answer.value, text=answer.value.to_json())]

    def merge(self, texts: Texts) -> Rows:
        """Add up and store the counts of parties that hold different people."""
        return self._join(merge, texts, "merged")

    def unite(self, texts: Texts) -> Rows:
        """Unite and store the models of parties that hold different columns of the same people."""
        return self._join(unite, texts, "united")

    def structure(self, texts: Texts) -> Rows:
        """Return what the trees of a matrix random forest would look like."""
        table, parameters = method_parameters(texts)
        request = self._database().structure(table, **parameters)
        return [{"table_name": request.table, "text": request.to_json()}]

    def predict_private(self, texts: Texts) -> Rows:
        """Label new rows under a charged budget and describe the model that labels them in one row."""
        db, (given, request_id, again) = self._database(), read_charged(texts)
        source, new_rows = given.pop("structure"), given.pop("new_rows")
        request = LabelRequest.from_json(source) if source.lstrip().startswith("{") else find_label_request(db, source)
        call = ChargedCall("predict_private", asked_of_labels(db, request, new_rows, given), request_id, again)
        answer = self._session.make_model(
            db, call, lambda own_id: db.predict_private(request, new_rows, **given, request_id=own_id)
        )
        return [_model_row(answer.value)]

    def drop_model(self, texts: Texts) -> Rows:
        """Drop a stored model; one that this connection dropped in the same words stays dropped."""
        given = read_arguments(texts)
        name, force = as_text("model", given["model"]), as_flag("force", given.get("force", False))
        self._keep_once(["drop", name, force], name, lambda: self._database().drop_model(name, force=force))
        return [_model_state_row(name, dropped=True)]

    def rename_model(self, texts: Texts) -> Rows:
        """Give a stored model another name; one that this connection renamed in the same words keeps it."""
        given = read_words(texts)
        was, name = given["model"], given["name"]
        self._keep_once(["rename", was, name], was, lambda: self._database().rename_model(was, name))
        return [_model_state_row(name, was=was)]

    def tag_model(self, texts: Texts) -> Rows:
        """Write tags on a stored model, or take them off it; the row has those that it has then."""
        given = read_arguments(texts)
        name, tags = as_text("model", given["model"]), as_names("tags", given["tags"])
        remove = as_flag("remove", given.get("remove", False))
        return [_model_state_row(name, tags=self._database().tag_model(name, *tags, remove=remove))]

    def _keep_once(self, said: list[object], name: str, act: Callable[[], object]) -> None:
        """Act, unless the same was said before and the model is gone from its name since."""
        key = _key(said)
        if key not in self._models_kept or name in set(self._database().models()["name"]):
            act()
            self._models_kept.add(key)

    def _draft(self, texts: Texts) -> Any:
        given = read_arguments(texts)
        return self._database().draft(as_text("table", given.pop("table")), **draft_arguments(given))

    def _join(self, join: Callable[..., Model], texts: Texts, usual: str) -> Rows:
        """Join models of this database, or given as JSON texts or files, and store the result once."""
        given = read_arguments(texts)
        db, sources = self._database(), as_names("models", given["models"])
        joined = join([_read_model(db, source) for source in sources], name=as_text("name", given.get("name", usual)))
        stored = db.models()
        known = stored[(stored["name"] == joined.name) & (stored["digest"] == joined.certificate["digest"])]
        model = db.model(joined.name) if len(known) else db.add(joined)
        return [_model_row(model, text=model.to_json())]


@contextlib.contextmanager
def _large_epsilons() -> Iterator[list[str]]:
    """Collect the warnings of large epsilons, which the row of an act shows."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always", LargeEpsilonWarning)
        yield notes
    for warning in issued:
        if issubclass(warning.category, LargeEpsilonWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


# What was given.


def _read_model(db: Database, source: str) -> Model:
    """Return a model: from its JSON text, from a file, or a stored one by its name."""
    if source.lstrip().startswith("{"):
        return Model.from_json(source)
    return Model.from_json(Path(source)) if Path(source).suffix == ".json" else db.model(source)


def _key(said: object) -> str:
    """Return a text that is equal for equal requests; a file is known by what it holds."""
    return json.dumps(said, default=_key_of, sort_keys=True)


def _said(table: str, request: dict[str, Any]) -> object:
    """Return what a registration says: sources that may be files as paths."""
    return [table, request | {name: Path(request[name]) for name in ("like", "dictionary") if name in request}]


def _key_of(value: object) -> object:
    if isinstance(value, Schema):
        return value.to_dict()
    if isinstance(value, Path):
        return [str(value), hashlib.sha256(value.read_bytes()).hexdigest() if value.is_file() else ""]
    return repr(value)


# What is shown.


def _registered_row(db: Database, dataset: Dataset, notes: Sequence[str]) -> dict[str, Any]:
    budget, unit = db.budget(dataset.table), dataset.schema.unit
    return {
        "table_name": dataset.table,
        "dataset": dataset.id,
        "unit": str(unit),
        "neighbours": str(unit.neighbours),
        "features": len(dataset.schema.features),
        "cap": budget.cap_text,
        "spent": budget.spent_text,
        "left": budget.left_text,
        "holdout": None if dataset.hold_out is None else hold_out_name(dataset.table),
        "bought": None,
        "left_out": None,
        "note": "; ".join(notes) or None,
        "declared": json.dumps(dataset.schema.to_dict(), ensure_ascii=False),
    }


def _model_state_row(
    name: str, *, was: str | None = None, dropped: bool = False, tags: Sequence[str] | None = None
) -> dict[str, Any]:
    return {"model": name, "was": was, "dropped": dropped, "tags": None if tags is None else list(tags)}


def _budget_row(budget: Budget, words: Mapping[str, Any], notes: Iterable[str]) -> dict[str, Any]:
    """Return a budget, or one analyst's part of it, as a row."""
    name = ANY_ANALYST if words.get("default_analyst") else words.get("analyst")
    share = next((each for each in budget.analysts if each.name == name), None)
    shown = budget if share is None else share
    return {
        "table_name": budget.table,
        "kind": budget.kind,
        "analyst": name,
        "cap": shown.cap_text,
        "spent": shown.spent_text,
        "left": shown.left_text,
        "note": "; ".join(notes) or None,
    }


def _caps(budget: Budget) -> object:
    """Return all caps of a budget, to see whether another was set in the meantime."""
    return budget.cap, budget.delta, budget.selection_delta, [(share.name, share.cap) for share in budget.analysts]


def _model_row(model: Model, text: str | None = None) -> dict[str, Any]:
    forest = model.released.forest
    return {
        "model": model.name,
        "method": model.method,
        "trees": forest.trees,
        "depth": forest.depth,
        "leaves": forest.leaves,
        "epsilon": model.certificate["epsilon"],
        "composition": model.certificate.get("composition"),
        "text": text,
    }
