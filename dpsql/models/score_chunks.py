"""Scores new rows chunk by chunk, so that a table or file of any length takes the memory of one chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import pandas as pd

from dpsql.engines.files.read_rows import read_chunks
from dpsql.engines.files.write_rows import check_ending, write_rows
from dpsql.errors import ParameterError
from dpsql.models.boolean_columns import BooleanParts
from dpsql.models.model import ReleasedModel
from dpsql.models.score import (
    home_of,
    most_probable_classes,
    names_file,
    number_columns,
    public_file,
    public_table,
    score_rows,
    scoring_query,
)
from dpsql.trees.estimate.decisions import Decision

#: The rows of one chunk; with a dozen columns some 10 MB.
ROWS = 100_000
#: What DuckDB may take of memory while the command scores: with Python and the writing of a file it stays below 512 MB.
SCORING_MEMORY = "192MB"


def predict_chunks(
    model: ReleasedModel,
    data: str | Path,
    *,
    key: str | None = None,
    probabilities: bool = False,
    decision: Decision | None = None,
    top: int = 0,
    rows: int = ROWS,
) -> Iterator[pd.DataFrame]:
    """Return an iterator of what `predict_table` returns, about `rows` rows at a time and in the same order.

    The first chunk is computed at once, so that whatever is refused is refused before anything is written.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise ParameterError("rows", allowed="a whole number from 1", given=rows)
    shown = probabilities or top > 0
    if names_file(model, data):
        chunks = _chunks_of_file(model, Path(data), rows, key=key, probabilities=shown, decision=decision)
    else:
        engine, info = home_of(model).engine, public_table(home_of(model), str(data))
        # Where rows are scored one by one they keep the table's order; elsewhere they are joined, and sorted again.
        ordered = engine.vocabulary.lists is None
        query = scoring_query(model, info, key=key, probabilities=shown, decision=decision, ordered=ordered)
        chunks = engine.chunks(query, rows)
    if top:
        chunks = map(partial(most_probable_classes, model, top=top), chunks)
    first = next(chunks)
    return chain([first], chunks)


def write_predictions(
    model: ReleasedModel,
    data: str | Path,
    to: str | Path,
    *,
    key: str | None = None,
    probabilities: bool = False,
    decision: Decision | None = None,
    top: int = 0,
    on_rows: Callable[[int], object] | None = None,
) -> int:
    """Score a table or file into a new CSV or Parquet file, by its ending, and return the number of rows."""
    check_ending(to)
    chunks = predict_chunks(model, data, key=key, probabilities=probabilities, decision=decision, top=top)
    return write_rows(to, chunks, on_rows=on_rows)


def _chunks_of_file(
    model: ReleasedModel,
    path: Path,
    rows: int,
    *,
    key: str | None,
    probabilities: bool,
    decision: Decision | None,
) -> Iterator[pd.DataFrame]:
    before, booleans, scorer = 0, BooleanParts(model.schema), replace(model, sees_all_rows=False)
    for chunk in read_chunks(public_file(model.database, path), number_columns(model.schema), rows):
        scored = score_rows(
            scorer, chunk, path, into=None, key=key, probabilities=probabilities, decision=decision, before=before
        )
        assert scored is not None
        before += len(chunk)
        booleans.add(chunk)
        yield scored
    booleans.check()
