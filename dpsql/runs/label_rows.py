"""Labels a batch of new rows straight from a private table: charged for the batch, with noise shaped for its votes.

The new rows are the caller's own and public. What is released is a forest, stored with its ledger entry like every
model: its predictions for the batch can be read again at no cost, and it says what it was made for. A *structure* is
what trees look like: the registered table and the parameters of the matrix random forest. It costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsql import jsontext
from dpsql.compile.predict.votes import ROW
from dpsql.engines.files.read_rows import is_file, read_rows
from dpsql.errors import ParameterError, SchemaError, UsageError
from dpsql.kernel.dataset import Dataset, find
from dpsql.kernel.plan import Plan
from dpsql.kernel.run import charge_for
from dpsql.ledger import formats, parse_epsilon
from dpsql.methods.base import resolved
from dpsql.methods.mrf.mrf import Mrf
from dpsql.methods.mrf.row_strategies import BATCH, WAYS, Prepared, prepare
from dpsql.models.model import Model
from dpsql.models.score import PREDICTION, feature_rows, public_file, public_table
from dpsql.runs.train import Job, carry_out
from dpsql.schema import Schema
from dpsql.trees.grid import Cells, cells

if TYPE_CHECKING:
    from dpsql.api.database import Database

#: The most rows of a batch.
MOST_ROWS = 1_000_000


_FORMAT = "dpsql-label-request"
#: What such a file said under "dpsql" before it had a format and a number.
_UNNUMBERED = "structure 1"


@dataclass(frozen=True)
class Structure:
    """What trees look like, before any row is read: the registered table and the method's parameters."""

    table: str
    parameters: Mapping[str, Any]

    def to_json(self) -> str:
        """Return the structure as JSON text."""
        stored = {**formats.stamp(_FORMAT), "table": self.table, "parameters": dict(self.parameters)}
        return json.dumps(stored, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Structure:
        """Return the structure that a JSON text holds, or raise ParameterError."""
        try:
            stored = jsontext.parse(text)
            formats.check_document(stored, _FORMAT)
            if ("format" not in stored and stored["dpsql"] != _UNNUMBERED) or not isinstance(stored["table"], str):
                raise KeyError
            return cls(stored["table"], resolved(Mrf(), stored["parameters"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            allowed = "a file that dpsql structure wrote, or the name of an mrf model"
            raise ParameterError("model-structure", allowed=allowed, given="other text") from None


def structure(database: Database, table: str, parameters: Mapping[str, Any]) -> Structure:
    """Return a structure for a registered table, checked. Reads no row, charges nothing."""
    dataset = find(database.engine, database.book, table)
    chosen = resolved(Mrf(), parameters)
    Mrf().plan(_classes(dataset), 10**9, chosen)
    return Structure(dataset.table, chosen)


def find_structure(database: Database, given: Structure | str | Path) -> Structure:
    """Return a structure from a file or from a stored model of the matrix random forest."""
    if isinstance(given, Structure):
        return given
    if Path(given).suffix == ".json" or (Path(given).is_file() and database.engine.table(str(given)) is None):
        try:
            return Structure.from_json(jsontext.read_file(Path(given)))
        except (OSError, ValueError):
            hint = "dpsql structure --table TABLE --to FILE.json"
            raise UsageError(f'there is no structure file "{given}" that can be read.', hint=hint) from None
    model = database.model(str(given))
    if model.method != Mrf.name:
        raise UsageError(
            f'model "{model.name}" is of method {model.method}; only mrf labels batches privately.',
            hint="dpsql structure --table TABLE --to FILE.json",
        )
    try:
        known = model.certificate["plan"]["parameters"]
        return Structure(str(model.table), {name: known[name] for name in Mrf.parameters})
    except (LookupError, TypeError):
        raise UsageError(
            f'the certificate of model "{model.name}" does not say how its trees were grown.',
            hint="dpsql structure --table TABLE --to FILE.json",
        ) from None


def plan_batch(
    database: Database, given: Structure | str | Path, data: str | Path, *, epsilon: object, way: str = BATCH
) -> tuple[Plan, str]:
    """Return what labelling a batch would ask and cost, and the table that pays. Charges nothing."""
    dataset, prepared = _prepared(database, given, data, epsilon, way)
    return prepared.plan, dataset.table


def predict_private(
    database: Database,
    given: Structure | str | Path,
    data: str | Path,
    *,
    epsilon: object,
    way: str = BATCH,
    name: str | None = None,
    request_id: str | None = None,
) -> Model:
    """Charge epsilon for a batch, and return the stored model whose predictions for it were asked for."""
    dataset, prepared = _prepared(database, given, data, epsilon, way)
    charge = charge_for(dataset, prepared.plan, who=database.who, request_id=request_id)
    notes = {"batch": {"rows": prepared.plan.parameters["batch_rows"], "data": str(data), "way": way}}
    job = Job(dataset, prepared.plan, charge, name=name, base=f"{dataset.table}_batch", notes=notes)
    return carry_out(database.engine, database.book, job, ask=prepared.ask).within(database)


def _prepared(
    database: Database, given: Structure | str | Path, data: str | Path, epsilon: object, way: str
) -> tuple[Dataset, Prepared]:
    if way not in WAYS:
        raise ParameterError("way", allowed=f"one of {', '.join(WAYS)}", given=way)
    nano_epsilon = parse_epsilon(epsilon)
    found = find_structure(database, given)
    dataset = find(database.engine, database.book, found.table)
    schema = _classes(dataset)
    return dataset, prepare(schema, nano_epsilon, found.parameters, _batch(database, schema, data), way)


def _classes(dataset: Dataset) -> Schema:
    if dataset.schema.target is not None or not dataset.schema.labelled:
        raise UsageError("the matrix random forest labels classes.", hint="register a table whose label has classes")
    return dataset.schema


def _batch(database: Database, schema: Schema, data: str | Path) -> Cells:
    """Return the cells of the rows to be labelled, from a public table of the database or a file."""
    if is_file(data) and database.engine.table(str(data)) is None:
        frame = read_rows(public_file(database, Path(data)), [feature.name for feature in schema.numeric])
        if PREDICTION in (str(name).lower() for name in frame.columns):
            raise ParameterError("file", allowed=f'without a column named "{PREDICTION}"', given=Path(data).name)
        missing = [one.name for one in schema.features if one.name not in frame.columns]
        if missing:
            raise SchemaError(f"the file lacks the feature {missing[0]!r}.", hint="name its columns as in the schema")
    else:
        info = public_table(database, str(data))
        if any(info.column(name) is not None for name in (PREDICTION, ROW)):
            raise ParameterError("table", allowed=f'without columns named "{PREDICTION}" or "{ROW}"', given=info.name)
        frame = feature_rows(database, schema, str(data), most=MOST_ROWS + 1)
    if not 1 <= len(frame) <= MOST_ROWS:
        raise ParameterError("batch", allowed=f"from 1 to {MOST_ROWS} rows", given=len(frame))
    return cells(schema, {feature.name: frame[feature.name] for feature in schema.features})
