"""A model as people use it: predict, explain, draw, export, each by one call. All are free of charge but `update`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from dpsql.errors import ParameterError
from dpsql.models import export_onnx, export_sql, scoring_sql
from dpsql.models.explain import Learned, explain_model
from dpsql.models.model import ReleasedModel
from dpsql.models.score import predict_table, public_feature_rows
from dpsql.models.score_chunks import ROWS, predict_chunks, write_predictions
from dpsql.trees.drawing import draw_tree


class Model(ReleasedModel):
    """A released forest. `certificate` has the plan, the neighbours, the unit, epsilon, versions and ledger hash."""

    def predict(
        self,
        data: pd.DataFrame | str | Path,
        *,
        into: str | None = None,
        to: str | Path | None = None,
        key: str | None = None,
        threshold: Mapping[str, float] | None = None,
        limit: int | None = None,
    ) -> pd.Series | pd.DataFrame | None:
        """Return labels (or numbers) for a DataFrame, or for a table or file of new rows.

        A DataFrame gives a Series of labels with the same index. A table's name gives a DataFrame of key and label;
        `into` leaves the scored rows in the database as a new table and returns None, and so does `to` with a new CSV
        or Parquet file, which takes the memory of one chunk. With a `limit` only the first so many rows are scored.
        With `threshold={"yes": 0.3}` that class is named where its probability is at least 0.3, else the most probable
        of the others.
        """
        _check_places(data, into=into, to=to, limit=limit)
        if to is not None and not isinstance(data, pd.DataFrame):
            write_predictions(self, data, to, key=key, threshold=threshold)
            return None
        if isinstance(data, pd.DataFrame):
            kind = object if self.schema.target is None else float
            labels = self.labels(data, threshold=threshold)
            return pd.Series(labels, index=data.index, name=self.schema.label, dtype=kind)
        return predict_table(self, data, into=into, key=key, threshold=threshold, limit=limit)

    def predict_chunks(
        self,
        data: str | Path,
        *,
        key: str | None = None,
        probabilities: bool = False,
        threshold: Mapping[str, float] | None = None,
        rows: int = ROWS,
    ) -> Iterator[pd.DataFrame]:
        """Yield what `predict` returns for a table or file, about `rows` rows at a time: for more than fits in memory.

        With `probabilities` each class's follows the label, as `p_<class>`.
        """
        if probabilities:
            self.check_classes()
        return predict_chunks(self, data, key=key, probabilities=probabilities, threshold=threshold, rows=rows)

    def predict_proba(
        self, data: pd.DataFrame | str | Path, *, key: str | None = None, limit: int | None = None
    ) -> pd.DataFrame:
        """Return each class's probability: a DataFrame with one column per class (`p_<class>` for a table or file).

        They are shares of the votes, or the probabilities that log-scores stand for, as the method has it. With a
        `limit` only the first so many rows of a table or file are scored.
        """
        self.check_classes()
        _check_places(data, limit=limit)
        if not isinstance(data, pd.DataFrame):
            return _frame(predict_table(self, data, into=None, key=key, probabilities=True, limit=limit), data)
        return self.shares(data)

    def predict_top(
        self, data: pd.DataFrame | str | Path, top: int, *, key: str | None = None, limit: int | None = None
    ) -> pd.DataFrame:
        """Return the `top` most probable classes of each row: `class_1`, `probability_1`, `class_2`, …"""
        self.check_top(top)
        _check_places(data, limit=limit)
        if not isinstance(data, pd.DataFrame):
            return _frame(predict_table(self, data, into=None, key=key, top=top, limit=limit), data)
        scores = self.scores(data)
        ranked = self.rank_classes(self.released.shares(scores), np.argmax(scores, axis=1), top)
        return pd.DataFrame(ranked, index=data.index)

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
        counts = "classes" not in self.certificate.get("facts", {})  # `auto` votes with shares, and has counts there
        return draw_tree(self.schema, self.released, tree, depth=depth, counts=counts)

    def explain(self, background: pd.DataFrame | str | None = None) -> Learned:
        """Return what the model learned: feature importance and class profiles, from released values alone. Free.

        A `background` of public rows, a DataFrame or a table of the model's database, says how often values occur.
        Without one noisy counts do, as far as the model has some.
        """
        return explain_model(self, public_feature_rows(self, background) if isinstance(background, str) else background)


def _check_places(
    data: object, *, into: str | None = None, to: str | Path | None = None, limit: int | None = None
) -> None:
    """Raise ParameterError where results cannot go to one place, or a DataFrame is given with a place of its own."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise ParameterError("limit", allowed="a whole number from 0", given=limit)
    given = [(name, value) for name, value in (("into", into), ("to", to), ("limit", limit)) if value is not None]
    if given and isinstance(data, pd.DataFrame):
        raise ParameterError(given[0][0], allowed="given only with a table or file to score", given=given[0][1])
    if len(given) > 1:
        raise ParameterError(given[1][0], allowed=f"given without {given[0][0]}", given=given[1][1])


def _frame(scored: pd.DataFrame | None, data: object) -> pd.DataFrame:
    if scored is None:
        raise ParameterError("data", allowed="a DataFrame, table or file", given=data)
    return scored
