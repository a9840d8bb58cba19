"""Scores new rows where they live: tables by SQL in the database, files through a DataFrame.

New rows belong to the caller. A registered private table is refused: a label for each of its rows would say
something about that row, and no budget pays for that.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sqlglot import exp

from dpsql.compile.predict.votes import OWN_COLUMNS, ROW, predictions, stored_parts
from dpsql.compile.rows import Source, table_reference
from dpsql.compile.vocabulary import Vocabulary
from dpsql.engines.base import TableInfo
from dpsql.engines.files import file_parts
from dpsql.engines.files.read_rows import is_file, read_rows
from dpsql.engines.files.table_files import file_identities
from dpsql.engines.identity_texts import PATH, share_rows
from dpsql.errors import BudgetError, ParameterError, UnknownName, UsageError
from dpsql.kernel.datasets.dataset import fit_features, private_tables, why_not_free
from dpsql.kernel.datasets.untyped_columns import typed_expressions, types_read
from dpsql.ledger.formats import has_part
from dpsql.models.model import Home, ReleasedModel
from dpsql.schema import Categorical, Dated, Schema
from dpsql.trees.estimate.decisions import Decision
from dpsql.trees.moment_columns import moment_numbers

#: The name of the column with the predicted label.
PREDICTION = "prediction"
#: The most public rows that are read to see how often values occur.
_MOST_ROWS = 10_000


def predict_table(
    model: ReleasedModel,
    data: str | Path,
    *,
    into: str | None,
    key: str | None,
    probabilities: bool = False,
    decision: Decision | None = None,
    top: int = 0,
) -> pd.DataFrame | None:
    """Score a table of the model's database, or a CSV or Parquet file; `into` stores the result in the database.

    `decision` says how labels follow from probabilities; with `top` the most probable classes stand in their place.
    """
    shown = probabilities or top > 0
    if is_file(data) and not _is_table(model, data):
        scored_file = _score_file(model, Path(data), into=into, key=key, probabilities=shown, decision=decision)
        return scored_file if scored_file is None or not top else _top(model, scored_file, top)
    database = _database(model)
    info = public_table(database, str(data))
    query = scoring_query(model, info, key=key, into=into, probabilities=shown, decision=decision)
    if into is None:
        scored = database.engine.frame(query)
        return _top(model, scored, top) if top else scored
    check_new_table(database, into)
    database.engine.create(into, query)
    return None


def _top(model: ReleasedModel, scored: pd.DataFrame, top: int) -> pd.DataFrame:
    """Return the most probable classes in place of the label and all probabilities, which are the last columns."""
    count = len(model.classes)
    shares = scored.iloc[:, -count:].to_numpy(float)
    best = scored[PREDICTION].map(list(model.classes).index).to_numpy(np.int64)
    keys = scored.iloc[:, : -count - 1]
    return keys.join(pd.DataFrame(model.rank_classes(shares, best, top), index=scored.index))


def scoring_query(
    model: ReleasedModel,
    info: TableInfo,
    *,
    key: str | None,
    into: str | None = None,
    probabilities: bool = False,
    decision: Decision | None = None,
    ordered: bool = True,
) -> exp.Select:
    """Return the query that scores a table: the key (all columns with `into`), the label, any probabilities."""
    database = _database(model)
    _check_stored(model, database)
    fit_features(info, model.schema)
    taken = [name for name in (PREDICTION, *OWN_COLUMNS) if info.column(name) is not None]
    if taken:
        raise ParameterError("table", allowed=f'without a column named "{taken[0]}"', given=info.name)
    forest, read = model.released.forest, typed_expressions(info, model.schema)
    place = table_reference(info.table, info.schema)
    return predictions(
        Source(
            model.schema,
            place,
            read,
            integers=info.integers,
            decimals=info.decimals,
            types=types_read(info, model.schema),
        ),
        forest,
        stored_parts(int(model.model_id or 0), model.released),
        database.engine.vocabulary,
        keys=_all_columns(info, database.engine.vocabulary) if into is not None else _keys(model, info, key),
        result=PREDICTION,
        nat=model.released.nat,
        probabilities=probabilities,
        decision=decision,
        ordered=ordered and into is None,
    )


def _all_columns(info: TableInfo, vocabulary: Vocabulary) -> list[str] | None:
    """Return the names of all columns where `SELECT *` would bring in columns of our own too, else None."""
    return None if vocabulary.star_except else [column.name for column in info.columns]


def public_table(database: Home, name: str, *, hint: str = "score or evaluate a table of new rows") -> TableInfo:
    """Return a table's catalog entry; raise an error where it is unknown or shows rows of a registered table.

    `hint` is the next step that the error offers.
    """
    info = database.engine.table(name)
    if info is None:
        raise UnknownName("table", name, database.engine.tables())
    private = why_not_free(database.engine, database.book, info)
    if private is not None:
        raise BudgetError(
            f'"{info.name}" {private}: they cannot be read for free.',
            hint=hint,
        )
    return info


def public_file(database: Home | None, path: Path) -> Path:
    """Return the path of a file of new rows; raise BudgetError where it holds rows of a registered table.

    The file is known by what it is, not by its name. A model that is stored in no database knows no registered tables.
    """
    if database is None:
        return path
    real = path.resolve()
    with database.engine.snapshot() as transaction:
        identities = file_parts.read_as(transaction, file_parts.stamps_of([real]))
    identities |= {PATH + str(real)} | file_identities([real, *real.parents])
    for table, base in private_tables(database.book):
        if share_rows(base.rows, identities):
            raise BudgetError(
                f'"{path.name}" holds rows of the registered private table "{table}": they cannot be read for free.',
                hint="name a file of new rows",
            )
    return path


def public_feature_rows(model: ReleasedModel, name: str) -> pd.DataFrame:
    """Return the model's features of the first rows of a public table."""
    return feature_rows(_database(model), model.schema, name, most=_MOST_ROWS)


def feature_rows(database: Home, schema: Schema, name: str, *, most: int) -> pd.DataFrame:
    """Return a schema's features of the first rows of a public table of the database."""
    info = public_table(database, name)
    fit_features(info, schema)
    columns, read = [], typed_expressions(info, schema)
    source = Source(schema, table_reference(info.table, info.schema), read, types=types_read(info, schema))
    for feature in schema.features:
        column = info.column(feature.name)
        assert column is not None
        value = read.get(feature.name) or exp.column(exp.to_identifier(column.name, quoted=True))
        if isinstance(feature, Categorical):
            value = exp.cast(value, exp.DataType.Type.TEXT)
        elif isinstance(feature, Dated):
            value = source.number(feature.name, database.engine.vocabulary)
        columns.append(value.as_(feature.name, quoted=True))
    return database.engine.frame(exp.select(*columns).from_(table_reference(info.table, info.schema)).limit(most))


def number_columns(schema: Schema) -> list[str]:
    """Return the features whose cells of CSV are read as numbers."""
    return [feature.name for feature in schema.numeric if not isinstance(feature, Dated)]


def with_moments(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Return rows of a file with dates and times as numbers of units; a text that is no date goes where NULL goes."""
    dated = [feature for feature in schema.features if isinstance(feature, Dated) and feature.name in frame.columns]
    return frame.assign(
        **{feature.name: moment_numbers(feature, frame[feature.name], forgive=True) for feature in dated}
    )


def _score_file(
    model: ReleasedModel,
    path: Path,
    *,
    into: str | None,
    key: str | None,
    probabilities: bool,
    decision: Decision | None,
) -> pd.DataFrame | None:
    frame = read_rows(public_file(model.database, path), number_columns(model.schema))
    read = with_moments(frame, model.schema)
    keys = [key] if key else [name for name in frame.columns if model.schema.feature(str(name)) is None]
    if key is not None and key not in frame.columns:
        raise UnknownName("column in the file called", key, (str(name) for name in frame.columns))
    if PREDICTION in (str(name).lower() for name in frame.columns):
        raise ParameterError("file", allowed=f'without a column named "{PREDICTION}"', given=path.name)
    if into is not None:
        database = _database(model)
        check_new_table(database, into)
        scored = frame.assign(**{PREDICTION: model.labels(read, decision=decision)})
        database.engine.create(into, exp.select("*").from_("dpsql_scored"), {"dpsql_scored": scored})
        return None
    result = frame[keys].copy() if keys else pd.DataFrame({"row": range(1, len(frame) + 1)})
    result[PREDICTION] = model.labels(read, decision=decision)
    if probabilities:
        result = result.join(model.shares(read).add_prefix("p_"))
    return result


def _keys(model: ReleasedModel, info: TableInfo, key: str | None) -> list[str]:
    if key is not None:
        column = info.column(key)
        if column is None:
            raise UnknownName(f'column in table "{info.name}" called', key, (other.name for other in info.columns))
        return [column.name]
    features = {feature.name.lower() for feature in model.schema.features}
    return [column.name for column in info.columns if column.name.lower() not in features] or [ROW]


def _is_table(model: ReleasedModel, data: str | Path) -> bool:
    """Whether a text that looks like a file's name is that of a table in the model's database."""
    return isinstance(data, str) and model.database is not None and model.database.engine.table(data) is not None


def check_new_table(database: Home, into: str) -> None:
    """Raise ParameterError unless a table of that name can be created."""
    if not into.strip() or "\x00" in into:
        raise ParameterError("into", allowed="the name of a new table", given=into)
    if database.engine.table(into) is not None:
        raise UsageError(
            f'table "{into}" exists, and tables are never overwritten.',
            hint="another name behind --into, or drop it first",
        )


def _check_stored(model: ReleasedModel, database: Home) -> None:
    """Raise UsageError unless the database has this very model under its number; another model may have the number."""
    with database.engine.snapshot() as transaction:
        there = has_part(transaction, "model")
        stored = (
            transaction.rows("SELECT digest FROM dpsql.model WHERE model_id = ?", (model.model_id,)) if there else []
        )
    if not stored or stored[0]["digest"] != model.certificate["digest"]:
        raise UsageError(
            f'model "{model.name}" is not stored in this database.', hint="db.add(model), or score a DataFrame"
        )


def _database(model: ReleasedModel) -> Home:
    if model.database is None or model.model_id is None:
        raise ParameterError(
            "model", allowed="stored in the database that holds the table", given=model.name, hint="db.add(model)"
        )
    return model.database
