"""Labels new rows straight from a private table: charged once for all of them, with noise shaped for their votes.

The new rows are the caller's own and public. What is released is a forest, stored with its ledger entry like every
model. Its predictions for the new rows can be read again at no cost, and its certificate says which rows it was made
for. A *label request* names the registered table and the parameters of the matrix random forest. Making one costs
nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpsql.compile.predict.votes import ROW
from dpsql.engines.files.read_rows import is_file, read_rows
from dpsql.errors import ParameterError, SchemaError, UsageError
from dpsql.kernel.datasets.dataset import Dataset, look_at_dataset
from dpsql.kernel.plan import Plan
from dpsql.kernel.run import Job
from dpsql.kernel.session import Session
from dpsql.ledger import formats, json_text, parse_epsilon
from dpsql.ledger.amount import NANO
from dpsql.methods.base import Trained, resolve_parameters
from dpsql.methods.mrf.mrf import Mrf
from dpsql.methods.mrf.row_strategies import DISJOINT, SHARED, PreparedStrategies, prepare
from dpsql.models import store
from dpsql.models.model import Home
from dpsql.models.score import (
    PREDICTION,
    feature_rows,
    number_columns,
    public_file,
    public_table,
    with_moments,
)
from dpsql.models.usable_model import Model
from dpsql.runs.release_model import ModelLabel, release_model
from dpsql.schema import Schema
from dpsql.trees.grid import Cells, grid_cells

#: The most new rows that are labelled at once.
MOST_ROWS = 1_000_000
#: Which private rows each tree sees, and what the method calls that.
TREES_SEE = {"all": SHARED, "parts": DISJOINT}
#: The usual choice: every tree sees all private rows.
ALL_ROWS = "all"
_FORMAT = "dpsql-label-request"
#: What the file of a label request said under "dpsql" before it had a format and a number.
_UNNUMBERED = "structure 1"


@dataclass(frozen=True)
class LabelRequest:
    """Which private table is to label new rows, and the parameters by which its trees are grown."""

    table: str
    parameters: Mapping[str, Any]

    def to_json(self) -> str:
        """Return the request as JSON text."""
        stored = {**formats.stamp(_FORMAT), "table": self.table, "parameters": dict(self.parameters)}
        return json.dumps(stored, indent=2)

    @classmethod
    def from_json(cls, text: str) -> LabelRequest:
        """Return the request that a JSON text holds, or raise ParameterError."""
        try:
            stored = json_text.parse(text)
            formats.check_document(stored, _FORMAT)
            if ("format" not in stored and stored["dpsql"] != _UNNUMBERED) or not isinstance(stored["table"], str):
                raise KeyError
            return cls(stored["table"], resolve_parameters(Mrf(), stored["parameters"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            allowed = "a file that dpsql structure wrote, or the name of an mrf model"
            raise ParameterError("structure", allowed=allowed, given="other text") from None


def label_request(database: Home, table: str, parameters: Mapping[str, Any]) -> LabelRequest:
    """Return a request for labels from a registered table, checked. Reads no row, charges nothing."""
    dataset = look_at_dataset(database.engine, database.book, table)
    resolved = resolve_parameters(Mrf(), parameters)
    Mrf().plan(_class_schema(dataset), NANO, resolved)  # for an epsilon of 1: raises where no plan can be made
    return LabelRequest(dataset.table, resolved)


def find_label_request(database: Home, source: LabelRequest | str | Path) -> LabelRequest:
    """Return a request: as it is, from a file, or from a stored model of the matrix random forest."""
    if isinstance(source, LabelRequest):
        return source
    if Path(source).suffix == ".json" or (Path(source).is_file() and database.engine.table(str(source)) is None):
        try:
            return LabelRequest.from_json(json_text.read_file(Path(source)))
        except (OSError, ValueError):
            hint = "dpsql structure --table TABLE --to FILE.json"
            raise UsageError(f'there is no structure file "{source}" that can be read.', hint=hint) from None
    model = store.load_model(database.engine, str(source))
    if model.method != Mrf.name:
        raise UsageError(
            f'model "{model.name}" is of method {model.method}; only mrf labels batches privately.',
            hint="dpsql structure --table TABLE --to FILE.json",
        )
    try:
        parameters = model.certificate["plan"]["parameters"]
        return LabelRequest(str(model.table), {name: parameters[name] for name in Mrf.parameters})
    except (LookupError, TypeError):
        raise UsageError(
            f'the certificate of model "{model.name}" does not say how its trees were grown.',
            hint="dpsql structure --table TABLE --to FILE.json",
        ) from None


def plan_labels(
    database: Home,
    source: LabelRequest | str | Path,
    data: str | Path,
    *,
    epsilon: object,
    trees_see: str = ALL_ROWS,
) -> tuple[Plan, str]:
    """Return what labelling new rows would ask and cost, and the table that pays. Charges nothing."""
    dataset, prepared = _prepare(database, source, data, epsilon, trees_see)
    return prepared.plan, dataset.table


def predict_private(
    database: Home,
    source: LabelRequest | str | Path,
    data: str | Path,
    *,
    epsilon: object,
    who: str,
    trees_see: str = ALL_ROWS,
    name: str | None = None,
    request_id: str | None = None,
) -> Model:
    """Charge epsilon for labels of new rows, and return the stored model whose predictions are those labels."""
    database.book.upgrade()
    dataset, prepared = _prepare(database, source, data, epsilon, trees_see)
    job = Job.of(dataset, prepared.plan, who=who, request_id=request_id)
    new_rows = {"rows": prepared.plan.parameters["batch_rows"], "data": str(data), "way": TREES_SEE[trees_see]}
    label = ModelLabel(f"{dataset.table}_batch", name, {"batch": new_rows})

    def ask(session: Session) -> Trained:
        return Trained(prepared.ask(session))

    return release_model(database.engine, database.book, job, label, ask=ask)


def digest_of_new_rows(database: Home, request: LabelRequest, data: str | Path) -> str:
    """Return the hash of the public rows to be labelled, as the trees of a request see them."""
    schema = _class_schema(look_at_dataset(database.engine, database.book, request.table))
    return hashlib.sha256(_read_new_rows(database, schema, data).tobytes()).hexdigest()


def _prepare(
    database: Home, source: LabelRequest | str | Path, data: str | Path, epsilon: object, trees_see: str
) -> tuple[Dataset, PreparedStrategies]:
    """Return the dataset that pays, and the strategies for the new rows with their plan, after all checks."""
    if trees_see not in TREES_SEE:
        raise ParameterError("trees_see", allowed=f"one of {', '.join(TREES_SEE)}", given=trees_see)
    nano_epsilon = parse_epsilon(epsilon)
    request = find_label_request(database, source)
    dataset = look_at_dataset(database.engine, database.book, request.table)
    schema = _class_schema(dataset)
    rows = _read_new_rows(database, schema, data)
    return dataset, prepare(schema, nano_epsilon, request.parameters, rows, TREES_SEE[trees_see])


def _class_schema(dataset: Dataset) -> Schema:
    """Return the schema of a dataset whose label has classes; raise UsageError for any other."""
    if dataset.schema.target is not None or not dataset.schema.has_label:
        raise UsageError("the matrix random forest labels classes.", hint="register a table whose label has classes")
    return dataset.schema


def _read_new_rows(database: Home, schema: Schema, data: str | Path) -> Cells:
    """Return the cells of the rows to be labelled, from a public table of the database or a file."""
    if is_file(data) and database.engine.table(str(data)) is None:
        frame = with_moments(read_rows(public_file(database, Path(data)), number_columns(schema)), schema)
        if PREDICTION in (str(name).lower() for name in frame.columns):
            raise ParameterError("file", allowed=f'without a column named "{PREDICTION}"', given=Path(data).name)
        missing = [feature.name for feature in schema.features if feature.name not in frame.columns]
        if missing:
            raise SchemaError(f"the file lacks the feature {missing[0]!r}.", hint="name its columns as in the schema")
    else:
        info = public_table(database, str(data))
        if any(info.column(name) is not None for name in (PREDICTION, ROW)):
            raise ParameterError("table", allowed=f'without columns named "{PREDICTION}" or "{ROW}"', given=info.name)
        frame = feature_rows(database, schema, str(data), most=MOST_ROWS + 1)
    if not 1 <= len(frame) <= MOST_ROWS:
        raise ParameterError("batch", allowed=f"from 1 to {MOST_ROWS} rows", given=len(frame))
    return grid_cells(schema, {feature.name: frame[feature.name] for feature in schema.features})
