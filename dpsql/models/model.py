"""A released model as a plain value: a forest, its schema, and the certificate that says what it cost.

A released model is safe to publish. This module has what needs the value alone: labels for rows in memory, and the JSON
text. The methods that people call, such as `predict` on a table, are in `models/usable_model.py`, which builds on this
module and on all that reads models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpsql.engines.base import Engine
from dpsql.errors import SchemaError, UnknownName, UsageError
from dpsql.ledger import Ledger, formats, json_text
from dpsql.models.boolean_columns import check_booleans
from dpsql.models.read_decision import read_decision
from dpsql.notebook_html import html_heading, html_table
from dpsql.schema import Categorical, Dated, Feature, Numeric, Schema
from dpsql.trees import grid
from dpsql.trees.estimate.decisions import Decision, decide, most_probable
from dpsql.trees.estimate.means import predicted_numbers
from dpsql.trees.grid import Cells
from dpsql.trees.moment_columns import moment_numbers
from dpsql.trees.serialize import from_json, to_json
from dpsql.trees.tree_count import forest_count_text
from dpsql.trees.voting import VotingForest

#: The name of the format of a model's JSON text.
FORMAT = "dpsql-model"
#: The name of the format of a certificate.
CERTIFICATE = "dpsql-certificate"
#: The key of a certificate under which columns stand whose values the owner looked up.
LOOKED_UP = "looked_up"
#: The key of a certificate under which purchases of domains stand that the same rows had paid for before.
PURCHASES = "purchases"


class Home(Protocol):
    """The database that a model is stored in, as far as a model has to know it."""

    @property
    def engine(self) -> Engine:
        """What runs SQL there."""
        ...

    @property
    def book(self) -> Ledger:
        """The ledger, which knows the private tables."""
        ...

    def update(self, model: Any, batch: str, *, epsilon: object | None = None, name: str | None = None) -> Any:
        """Count one more batch under a charged budget."""
        ...


@dataclass(frozen=True, eq=False)
class ReleasedModel:
    """A released forest. `certificate` has the plan, the neighbours, the unit, epsilon, versions and ledger hash."""

    name: str
    method: str
    table: str
    schema: Schema
    released: VotingForest
    certificate: Mapping[str, Any]
    model_id: int | None = None
    database: Home | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        forest = self.released.forest
        delta = f", delta {self.certificate['delta']}" if "delta" in self.certificate else ""
        return (
            f'<Model "{self.name}": {self.method}, {forest_count_text(forest)}, {forest.leaves} leaves, '
            f"epsilon {self.certificate['epsilon']}{delta}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how a pickle or a deep copy makes the model again: of its JSON text, and in no database."""
        return type(self).from_json, (self.to_json(),)

    def _repr_html_(self) -> str:
        """Return what the certificate promises, as a table for a notebook."""
        return html_heading(f'Model "{self.name}"') + html_table(("", ""), self._facts())

    def _facts(self) -> list[tuple[str, object]]:
        card, forest = self.certificate, self.released.forest
        facts: list[tuple[str, object]] = [
            ("table", self.table),
            ("method", f"{self.method}: {forest.trees} trees, {forest.leaves} leaves"),
            ("label", f"{self.schema.label}: {', '.join(self.classes) or self.schema.target}"),
            ("features", ", ".join(feature.name for feature in self.schema.features)),
            *((name, card[name]) for name in ("epsilon", "delta", "neighbours", "unit", "created_at") if name in card),
        ]
        notes = [lookup_note(card), purchase_note(card), *card.get("warnings", ())]
        private = [] if card.get("private", True) else ["NOT differentially private"]
        return facts + [("note", note) for note in [*private, *notes] if note]

    @property
    def classes(self) -> tuple[str, ...]:
        """The class labels, in the schema's order; none where the model predicts a number."""
        return self.schema.classes

    def with_number(self, model_id: int) -> Self:
        """Return the model with its number in the database."""
        return replace(self, model_id=model_id)

    def within(self, database: Home) -> Self:
        """Return the model tied to a database, so that it can score its tables."""
        return replace(self, database=database)

    def rank_classes(self, shares: NDArray[np.float64], best: NDArray[np.int64], top: int) -> dict[str, NDArray[Any]]:
        """Return columns with the most probable classes and their probabilities, from all probabilities."""
        order = most_probable(shares, best, top)
        probabilities = np.take_along_axis(shares, order, axis=1)
        names = np.array(self.classes, dtype=object)[order]
        columns: dict[str, NDArray[Any]] = {}
        for place in range(top):
            columns |= {f"class_{place + 1}": names[:, place], f"probability_{place + 1}": probabilities[:, place]}
        return columns

    def check_classes(self) -> None:
        """Raise UsageError where the model predicts a number: it has no classes, so no probabilities."""
        if self.schema.target is not None:
            raise UsageError(f'model "{self.name}" predicts a number: it has no classes to share votes.')

    def labels(self, frame: pd.DataFrame, *, decision: Decision | None = None) -> NDArray[Any]:
        """Return the predicted label of each row of a DataFrame: texts, or floats where the target is a number."""
        scores = self.scores(frame)
        if decision is None:
            return self._label_names(scores)
        classes = decide(decision, scores, self.released.shares(scores))
        return np.array(self.classes, dtype=object)[classes]

    def decision(
        self, *, threshold: Mapping[str, float] | None = None, class_weight: Mapping[str, float] | None = None
    ) -> Decision | None:
        """Return how labels follow from probabilities, from the words of `predict`; None for the usual way."""
        if threshold is None and class_weight is None:
            return None
        self.check_classes()
        return read_decision(self.classes, threshold, class_weight)

    def label(self, columns: Mapping[str, Any]) -> str:
        """Return the label of a single row, given as columns of one value, as text."""
        return str(self._label_names(self.released.scores(grid.grid_cells(self.schema, columns)))[0])

    def probabilities(self, columns: Mapping[str, Any]) -> dict[str, float]:
        """Return the probability of each class for a single row, given as columns of one value."""
        self.check_classes()
        shares = self.released.shares(self.released.scores(grid.grid_cells(self.schema, columns)))
        return dict(zip(self.classes, shares[0].tolist(), strict=True))

    def _label_names(self, scores: NDArray[np.int64]) -> NDArray[Any]:
        if self.schema.target is not None:
            return predicted_numbers(self.schema.target, scores)
        return np.array(self.classes, dtype=object)[np.argmax(scores, axis=1)]

    def shares(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return each class's probability for each row of a DataFrame, a column per class."""
        shares = self.released.shares(self.scores(frame))
        return pd.DataFrame(shares, index=frame.index, columns=list(self.classes))

    def scores(self, frame: pd.DataFrame) -> NDArray[np.int64]:
        """Return each row's whole-number score for each class."""
        return self.released.scores(self.cells(frame))

    def cells(self, frame: pd.DataFrame) -> Cells:
        """Return the cells of each row on the axes of the model's public grid."""
        columns = {}
        for feature in self.schema.features:
            if feature.name not in frame.columns:
                raise UnknownName("column in the data called", feature.name, (str(name) for name in frame.columns))
            columns[feature.name] = _plain_column(feature, frame[feature.name])
            if isinstance(feature, Categorical):
                check_booleans(feature, columns[feature.name])
        return grid.grid_cells(self.schema, columns)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the model as JSON text, and write it to `path` if one is given."""
        stored = {
            **formats.stamp(FORMAT),
            "name": self.name,
            "method": self.method,
            "table": self.table,
            "schema": self.schema.to_dict(),
            "certificate": dict(self.certificate),
            "forest": to_json(self.released),
        }
        text = json.dumps(stored, ensure_ascii=False)
        if path is not None:
            json_text.write_file(Path(path), text)
        return text

    @classmethod
    def from_json(cls, source: str | Path, *, name: str | None = None) -> Self:
        """Read a model from JSON text or a file; a damaged one or one whose digest differs is refused."""
        stored = _parse_source(source)
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            raise SchemaError("this is not a dpsql model.", hint="dpsql export --model NAME --to FILE writes one")
        try:
            formats.check_document(stored, FORMAT)
            schema = Schema.from_dict(stored["schema"])
            released = from_json(schema, stored["forest"])
            certificate = dict(stored["certificate"])
            check_certificate(certificate)
            own_name, method, table = (_text(stored[key]) for key in ("name", "method", "table"))
            digest, _, _ = (_text(certificate[key]) for key in ("digest", "epsilon", "created_at"))
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError):
            raise SchemaError("the model file is damaged: a part of it is missing or makes no sense.") from None
        if digest != released.digest():
            raise SchemaError("the model file was changed: its digest does not match its certificate.")
        return cls(name or own_name, method, table, schema, released, certificate)


def lookup_note(certificate: Mapping[str, Any]) -> str:
    """Return a sentence on the columns whose values the owner looked up in the rows; "" where there are none.

    >>> lookup_note({"looked_up": ["job"]})
    'the values of "job" were looked up in the private rows by the owner, outside the guarantee'
    """
    names = ", ".join(f'"{name}"' for name in certificate.get(LOOKED_UP, ()))
    return (
        f"the values of {names} were looked up in the private rows by the owner, outside the guarantee" if names else ""
    )


def purchase_note(certificate: Mapping[str, Any]) -> str:
    """Return a sentence on what the domains of a model's rows cost beside the model; "" where none were bought.

    >>> purchase_note({"purchases": [{"ledger_entry": 2, "epsilon": "0.1"}]})
    'bought before for epsilon 0.1 (entry 2), which the epsilon of the model does not include'
    """
    bought = [purchase for purchase in certificate.get(PURCHASES, ()) if isinstance(purchase, Mapping)]
    prices = [
        f"epsilon {purchase.get('epsilon')}"
        + (f", delta {purchase['delta']}" if "delta" in purchase else "")
        + f" (entry {purchase.get('ledger_entry')})"
        for purchase in bought
    ]
    return (
        f"bought before for {' and '.join(prices)}, which the epsilon of the model does not include" if prices else ""
    )


def check_certificate(certificate: Mapping[str, Any]) -> None:
    """Raise TypeError where a value in a certificate has another type than in those that dpsql writes.

    Values may be missing. Raises NewerFormat where a newer dpsql wrote it, and ValueError where its format number
    makes no sense.
    """
    formats.check_document(certificate, CERTIFICATE)
    for kind, names in _CERTIFICATE_TYPES.items():
        for name in names:
            if name in certificate and not isinstance(certificate[name], kind):
                raise TypeError(name)


#: The entries of a certificate by their type. An imported model may leave out all but digest, epsilon and created_at.
_CERTIFICATE_TYPES: dict[Any, tuple[str, ...]] = {
    str: (
        "kind", "delta", "rho", "neighbours", "unit", "dataset", "table", "method", "ledger_hash", "created_at",
        "digest", "composition", "updated_from", "request_id", "account",
    ),
    bool: ("private",),
    dict: ("plan", "versions", "size", "monotone"),
    list: ("batches", "updates", "parties", "warnings", "evaluations", LOOKED_UP, PURCHASES),
    int | None: ("ledger_entry",),
}  # fmt: skip


def _plain_column(feature: Feature, column: pd.Series) -> pd.Series:
    """Return a column with one kind of missing value; a number's column holds numbers, or is refused."""
    if isinstance(feature, Numeric) and getattr(column.dtype, "kind", "") in "iufb":
        return column
    if isinstance(feature, Dated):
        return pd.Series(moment_numbers(feature, column), index=column.index)
    values = column.astype(object)
    values = values.mask(values.isna(), None)
    if not isinstance(feature, Numeric):
        return values
    try:
        return values.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise SchemaError(
            f'column "{feature.name}" of the data must hold numbers: the model splits it by size.'
        ) from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value


def _parse_source(source: str | Path) -> Any:
    text = str(source)
    if isinstance(source, Path) or not text.lstrip().startswith("{"):
        text = _read(Path(source))
    try:
        return json_text.parse(text)
    except ValueError:
        raise SchemaError("the model file is not JSON, or is nested too deeply.") from None


def _read(path: Path) -> str:
    try:
        if path.is_file():
            return json_text.read_file(path)
    except (OSError, ValueError):
        raise SchemaError(f'"{str(path)[:80]}" cannot be read as a text file.') from None
    raise SchemaError(
        f'there is no model file "{str(path)[:80]}".', hint="dpsql export --model NAME --to FILE writes one"
    )
