"""Keeps the stored models in order: lists them with their tags, renames, tags, drops. The ledger stays as it is.

A dropped model's charge stays, and so does its entry; a row of `dpsql.dropped_model` says who dropped it and when. Its
number is given to no other model, because views and macros know a model by its number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from dpsql.engines.base import Engine, Transaction
from dpsql.errors import ParameterError, UnknownName, UsageError
from dpsql.ledger.formats import has_part
from dpsql.ledger.waiting import wait_in_turn
from dpsql.models.release_store import DROPPED, create_part
from dpsql.models.store import check_free, list_models, name_taken

#: The table of tags.
TAGS = "model_tag"
#: The most characters of a tag.
_LONGEST_TAG = 200
#: What a tag can look like: a word, or a name and a value.
_FORM = re.compile(r"[^\s=,][^=,]*(?:=.+)?")
#: The columns of the list of models, before the tags.
_COLUMNS = ("name", "method", "table_name", "trees", "depth", "leaves", "epsilon", "created_at", "digest")


def model_table(engine: Engine, *, tag: str | None = None) -> pd.DataFrame:
    """Return the models as a table for people to read; with `tag`, such as "stage=live" or "stage", those that have it.

    The column `tags` has a list for each model, of words and of texts NAME=VALUE.
    """
    tags = _tags_by_model(engine)
    rows = [
        {name: row[name] for name in _COLUMNS} | {"tags": tags.get(row["model_id"], [])} for row in list_models(engine)
    ]
    if tag is not None:
        rows = [row for row in rows if any(tag in (text, text.partition("=")[0]) for text in row["tags"])]
    return pd.DataFrame(rows, columns=[*_COLUMNS, "tags"]).rename(columns={"table_name": "table"})


def drop_model(engine: Engine, name: str, *, who: str, force: bool = False) -> None:
    """Drop a stored model. What it cost stays charged.

    Where views or macros read it the drop is refused, unless `force` says that they may be left without it.
    """
    number = _row_of(engine, name)["model_id"]
    readers = readers_of(engine, number)
    if readers and not force:
        raise UsageError(
            f'model "{name}" is read by {", ".join(readers)}, which would then give no predictions or wrong ones.',
            hint=f"drop {'it' if len(readers) == 1 else 'them'} first; --force drops the model all the same",
        )
    create_part(engine, DROPPED)

    def attempt() -> None:
        with engine.transaction() as transaction:
            row = _locked_row(transaction, name)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            gone = (row["model_id"], name, row["digest"], row["entry_id"], now, who)
            transaction.run("INSERT INTO dpsql.dropped_model VALUES (?, ?, ?, ?, ?, ?)", gone)
            tables = [*_OF_MODEL, *([_DELETE_TAGS] if has_part(transaction, TAGS) else [])]
            for statement in tables:
                transaction.run(statement, (row["model_id"],))

    wait_in_turn(attempt)


def rename_model(engine: Engine, name: str, new: str) -> None:
    """Give a stored model another name, which must be free. Its number, and so what views of it show, stays."""
    _row_of(engine, name)
    check_free(engine, new)

    def attempt() -> None:
        with engine.transaction() as transaction:
            number = _locked_row(transaction, name)["model_id"]
            if transaction.rows(_BY_NAME, (new,)):
                raise name_taken(new)
            transaction.run("UPDATE dpsql.model SET name = ? WHERE model_id = ?", (new, number))

    wait_in_turn(attempt)


def tag_model(engine: Engine, name: str, tags: Sequence[str], *, remove: bool = False) -> list[str]:
    """Write tags on a stored model, or take them off it; return those that it has then.

    A tag is a word or NAME=VALUE; a name has one value, and a new one replaces the old.
    """
    number = int(_row_of(engine, name)["model_id"])
    pairs = [_parse_tag(tag) for tag in tags]
    if not pairs:
        raise ParameterError("tag", allowed="a word or NAME=VALUE", given="")
    create_part(engine, TAGS)

    def attempt() -> None:
        with engine.transaction() as transaction:
            _locked_row(transaction, name)
            for tag, value in pairs:
                transaction.run("DELETE FROM dpsql.model_tag WHERE model_id = ? AND tag = ?", (number, tag))
                if not remove:
                    transaction.run("INSERT INTO dpsql.model_tag VALUES (?, ?, ?)", (number, tag, value))

    wait_in_turn(attempt)
    return _tags_by_model(engine).get(number, [])


def readers_of(engine: Engine, number: int) -> list[str]:
    """Return the views, macros and functions of this database whose text reads the model of a number."""
    if engine.own_dialect != engine.dialect:
        return []  # what lies with a ledger elsewhere cannot be read by SQL here
    texts = {f'view "{name}"': info.definition for name in engine.tables() if (info := engine.table(name)) is not None}
    texts |= {f'macro "{name}"': text for name, text in engine.macros().items()}
    read = re.compile(rf"\bmodel_id\W{{1,6}}{number}\b")
    return sorted(name for name, text in texts.items() if "model_leaf" in text and read.search(text))


def _row_of(engine: Engine, name: str) -> dict[str, Any]:
    """Return a model's row, or raise UnknownName with the nearest names."""
    rows = {row["name"]: row for row in list_models(engine)}
    if name not in rows:
        raise UnknownName("model", str(name), rows, hint="dpsql models")
    return rows[name]


def _locked_row(transaction: Transaction, name: str) -> dict[str, Any]:
    """Return a model's row inside the transaction that changes it; another session may have been faster."""
    rows = transaction.rows(_BY_NAME, (name,))
    if not rows:
        raise UnknownName("model", name, hint="dpsql models")
    return rows[0]


def _tags_by_model(engine: Engine) -> dict[int, list[str]]:
    """Return the tags of each model by its number, in the order of the alphabet."""
    tags: dict[int, list[str]] = {}
    with engine.snapshot() as transaction:
        rows = transaction.rows(_TAGS) if has_part(transaction, TAGS) else []
    for row in rows:
        tags.setdefault(row["model_id"], []).append(f"{row['tag']}={row['value']}" if row["value"] else row["tag"])
    return tags


def _parse_tag(tag: str) -> tuple[str, str]:
    """Return a tag's name and its value, "" for a word.

    >>> _parse_tag("stage=live"), _parse_tag("approved")
    (('stage', 'live'), ('approved', ''))
    """
    text = tag.strip() if isinstance(tag, str) else ""
    if not _FORM.fullmatch(text) or len(text) > _LONGEST_TAG or not text.isprintable():
        allowed = f"a word or NAME=VALUE of at most {_LONGEST_TAG} characters, the name without commas"
        raise ParameterError("tag", allowed=allowed, given=ascii(tag))
    name, _, value = text.partition("=")
    return name.strip(), value.strip()


_BY_NAME = "SELECT model_id, digest, entry_id FROM dpsql.model WHERE name = ?"
_TAGS = "SELECT model_id, tag, value FROM dpsql.model_tag ORDER BY model_id, tag"
_OF_MODEL = (
    "DELETE FROM dpsql.model_leaf WHERE model_id = ?",
    "DELETE FROM dpsql.model_node WHERE model_id = ?",
    "DELETE FROM dpsql.model WHERE model_id = ?",
)
_DELETE_TAGS = "DELETE FROM dpsql.model_tag WHERE model_id = ?"
