"""A model as people use it: predict, explain, draw, export, each by one call. All are free of charge but `update`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, overload

import numpy as np
import pandas as pd

from dpsql.errors import ParameterError
from dpsql.models import export_onnx, export_sql, scoring_sql
from dpsql.models.explain import Learned, RowExplanation, explain_model, explain_one_row
from dpsql.models.model import ReleasedModel
from dpsql.models.rows_in_memory import Rows, rows_frame
from dpsql.models.score import predict_table, public_feature_rows
from dpsql.models.score_chunks import ROWS, predict_chunks, write_predictions
from dpsql.trees.drawing import draw_tree

#: A number for each class that is named: the probability from which it is predicted, or its weight.
ClassNumbers: TypeAlias = Mapping[str, float]


class Model(ReleasedModel):
    """A released forest. `certificate` has the plan, the neighbours, the unit, epsilon, versions and ledger hash."""

    @overload
    def predict(
        self,
        data: str | Path,
        *,
        into: None = None,
        to: None = None,
        key: str | None = None,
        threshold: ClassNumbers | None = None,
        class_weight: ClassNumbers | None = None,
        limit: int | None = None,
    ) -> pd.DataFrame: ...

    @overload
    def predict(
        self,
        data: str | Path,
        *,
        into: str,
        to: None = None,
        key: str | None = None,
        threshold: ClassNumbers | None = None,
        class_weight: ClassNumbers | None = None,
    ) -> None: ...

    @overload
    def predict(
        self,
        data: str | Path,
        *,
        into: None = None,
        to: str | Path,
        key: str | None = None,
        threshold: ClassNumbers | None = None,
        class_weight: ClassNumbers | None = None,
    ) -> None: ...

    @overload
    def predict(
        self,
        data: Rows,
        *,
        into: None = None,
        to: None = None,
        key: None = None,
        threshold: ClassNumbers | None = None,
        class_weight: ClassNumbers | None = None,
    ) -> pd.Series: ...

    def predict(
        self,
        data: Rows | str | Path,
        *,
        into: str | None = None,
        to: str | Path | None = None,
        key: str | None = None,
        threshold: ClassNumbers | None = None,
        class_weight: ClassNumbers | None = None,
        limit: int | None = None,
    ) -> pd.Series | pd.DataFrame | None:
        """Return labels (or numbers) for rows in memory, or for a table or file of new rows.

        A DataFrame gives a Series of labels with the same index; so does an array, whose columns are the features in
        the schema's order, and a list of dicts. A table's name gives a DataFrame of key and label; `into` leaves the
        scored rows in the database as a new table and returns None, and so does `to` with a new CSV or Parquet file,
        which takes the memory of one chunk. With a `limit` only the first so many rows are scored.

        With `threshold={"yes": 0.3}` that class is named where its probability is at least 0.3, else the most probable
        of the others. With `class_weight={"yes": 5}` the class is named whose weight (1 unless given) times probability
        is the largest.
        """
        _check_places(data, into=into, to=to, key=key, limit=limit)
        decision = self.decision(threshold=threshold, class_weight=class_weight)
        if not isinstance(data, str | Path):
            kind = object if self.schema.target is None else float
            frame = self._frame(data)
            labels = self.labels(frame, decision=decision)
            return pd.Series(labels, index=frame.index, name=self.schema.label, dtype=kind)
        if to is not None:
            write_predictions(self, data, to, key=key, decision=decision)
            return None
        return predict_table(self, data, into=into, key=key, decision=decision, limit=limit)

    def predict_chunks(
        self,
        data: str | Path,
        *,
        key: str | None = None,
        probabilities: bool = False,
        threshold: ClassNumbers | None = None,
        class_weight: ClassNumbers | None = None,
        rows: int = ROWS,
    ) -> Iterator[pd.DataFrame]:
        """Yield what `predict` returns for a table or file, about `rows` rows at a time: for more than fits in memory.

        With `probabilities` each class's follows the label, as `p_<class>`.
        """
        if probabilities:
            self.check_classes()
        decision = self.decision(threshold=threshold, class_weight=class_weight)
        return predict_chunks(self, data, key=key, probabilities=probabilities, decision=decision, rows=rows)

    def predict_proba(
        self, data: Rows | str | Path, *, key: str | None = None, limit: int | None = None
    ) -> pd.DataFrame:
        """Return each class's probability: a DataFrame with one column per class (`p_<class>` for a table or file).

        They are shares of the votes, or the probabilities that log-scores stand for, as the method has it. With a
        `limit` only the first so many rows of a table or file are scored.
        """
        self.check_classes()
        _check_places(data, limit=limit)
        if isinstance(data, str | Path):
            return _frame(predict_table(self, data, into=None, key=key, probabilities=True, limit=limit), data)
        return self.shares(self._frame(data))

    def predict_top(
        self, data: Rows | str | Path, top: int, *, key: str | None = None, limit: int | None = None
    ) -> pd.DataFrame:
        """Return the `top` most probable classes of each row: `class_1`, `probability_1`, `class_2`, …"""
        self.check_top(top)
        _check_places(data, limit=limit)
        if isinstance(data, str | Path):
            return _frame(predict_table(self, data, into=None, key=key, top=top, limit=limit), data)
        frame = self._frame(data)
        scores = self.scores(frame)
        ranked = self.rank_classes(self.released.shares(scores), np.argmax(scores, axis=1), top)
        return pd.DataFrame(ranked, index=frame.index)

    def _frame(self, rows: Rows) -> pd.DataFrame:
        """Return rows in memory as a DataFrame; an array's columns are the features in the schema's order."""
        return rows_frame(rows, [feature.name for feature in self.schema.features])

    def sql(
        self, form: str = "select", *, table: str = "new_rows", name: str | None = None, probabilities: bool = False
    ) -> str:
        """Return SQL that predicts: "select", "view", "table_macro" or "macro" (see `dpsql/models/scoring_sql.py`).

        With `probabilities` each class's follows the label, as `p_<class>`; a scalar macro has no place for them.
        """
        return scoring_sql.render_scoring(self, form, table=table, name=name, probabilities=probabilities)

    def create_view(self, table: str = "new_rows", *, name: str | None = None, probabilities: bool = False) -> str:
        """Create a view that predicts for a public table, and return its SQL. A table is never replaced by it."""
        return scoring_sql.create(self, "view", table=table, name=name, probabilities=probabilities)

    def create_macro(self, *, name: str | None = None, whole_table: bool = False, probabilities: bool = False) -> str:
        """Create a macro (elsewhere a function) that predicts for a row, or with `whole_table` for a table.

        Returns its SQL. A function that SQL itself relies on is never replaced by it.
        """
        form = "table_macro" if whole_table else "macro"
        return scoring_sql.create(self, form, table="new_rows", name=name, probabilities=probabilities)

    def export_sql(
        self,
        dialect: str,
        *,
        table: str = "new_rows",
        form: str = "select",
        name: str | None = None,
        probabilities: bool = False,
    ) -> str:
        """Return a SQL script that takes the model to another database: its tables, and a SELECT or view that predicts.

        `dialect` is one of `dpsql.models.export_sql.DIALECTS`, such as "snowflake". Predictions there equal those here.
        """
        return export_sql.export_script(
            self, dialect=dialect, table=table, form=form, name=name, probabilities=probabilities
        )

    def export_onnx(self, path: str | Path) -> None:
        """Write the model to a new ONNX file: features in, label and probabilities (or a number) out."""
        export_onnx.write_onnx(self, path)

    def update(self, batch: str, *, epsilon: object | None = None, name: str | None = None) -> Model:
        """Return a new model that has counted one more batch, charged on that batch alone."""
        if self.database is None:
            raise ParameterError("model", allowed="stored in a database", given=self.name, hint="db.model(NAME)")
        updated: Model = self.database.update(self, batch, epsilon=epsilon, name=name)
        return updated

    def show(self, tree: int = 0, *, depth: int | None = None) -> str:
        """Return one tree drawn as text."""
        trees = self.released.forest.trees
        if isinstance(tree, bool) or not isinstance(tree, int) or not 0 <= tree < trees:
            raise ParameterError("tree", allowed=f"a whole number from 0 to {trees - 1}", given=tree)
        if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int) or depth < 1):
            raise ParameterError("depth", allowed="a whole number from 1", given=depth)
        # `auto` votes with shares, and has its counts in `facts`; votes and shares are never below 0, noisy counts are.
        counts = "classes" not in self.certificate.get("facts", {}) and int(self.released.weights.min(initial=0)) < 0
        return draw_tree(self.schema, self.released, tree, depth=depth, counts=counts)

    def explain(self, background: pd.DataFrame | str | None = None) -> Learned:
        """Return what the model learned: feature importance and class profiles, from released values alone. Free.

        A `background` of public rows, a DataFrame or a table of the model's database, says how often values occur.
        Without one noisy counts do, as far as the model has some.
        """
        return explain_model(self, self._public_rows(background))

    def explain_row(
        self, row: Mapping[str, Any] | pd.Series, background: pd.DataFrame | str | None = None
    ) -> RowExplanation:
        """Return why a row of yours gets its label: what each of its values adds to the score, which adds up. Free.

        Features that the row leaves out count as NULL. A `background` is as in `explain`.
        """
        return explain_one_row(self, row, self._public_rows(background))

    def _public_rows(self, background: pd.DataFrame | str | None) -> pd.DataFrame | None:
        return public_feature_rows(self, background) if isinstance(background, str) else background


def _check_places(
    data: object,
    *,
    into: str | None = None,
    to: str | Path | None = None,
    key: str | None = None,
    limit: int | None = None,
) -> None:
    """Raise ParameterError where results cannot go to one place, or rows in memory are given with what is a table's."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise ParameterError("limit", allowed="a whole number from 0", given=limit)
    places = {name: value for name, value in (("into", into), ("to", to), ("limit", limit)) if value is not None}
    of_tables = places if key is None else {**places, "key": key}
    if of_tables and not isinstance(data, str | Path):
        name, value = next(iter(of_tables.items()))
        raise ParameterError(name, allowed="given only with a table or file to score", given=value)
    if len(places) > 1:
        (first, _), (second, value), *_ = places.items()
        raise ParameterError(second, allowed=f"given without {first}", given=value)


def _frame(scored: pd.DataFrame | None, data: object) -> pd.DataFrame:
    if scored is None:
        raise ParameterError("data", allowed="a DataFrame, table or file", given=data)
    return scored
