"""Hold-outs: a part of a table's units that no model is trained on, told by a keyed hash that lasts.

One table then has two datasets with a budget each: the table's own, whose rows are all but those of the hold-out, and
`TABLE:holdout`, which may be asked for evaluations alone. Both read the table through one test on the unit.

Claim: what is spent on one of the two costs the units of the other nothing; one unit's loss is what is spent on its own
dataset, and so at most the larger of the two budgets.
Proof: the test reads the unit's column (of all rows of a unit it says the same), or where a unit is a row some of
the row's own cells, and constants that were stored at registration; which cells these are follows from the schema and
the types of the columns when it was registered. It reads no other row, so a unit that joins or leaves moves no
other unit, and it is in exactly one of the two datasets. Every statement on a dataset reads the rows that pass its
test and nothing else of the table (`kernel/datasets/dataset.py`), and `max_rows` is counted among those. Two tables
that differ in one unit therefore give the other dataset the same rows, and each of its runs, whatever was released
before, the same distribution of answers. What remains are the runs on the unit's own dataset, whose losses add up to
what its budget says is spent. Where labels alone are private, no label is among the cells that the test reads.

The constants are the key, the share and the columns. They are stored in the ledger and shown by `dpsql explain`: who
knows them and a unit's value can tell in which dataset the unit would be, which does not tell whether it is there.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from dpsql.compile.rows import Source
from dpsql.compile.vocabulary import Vocabulary, column
from dpsql.engines.base import Column, TableInfo
from dpsql.errors import ParameterError, SchemaError
from dpsql.kernel.datasets.untyped_columns import UNTYPED
from dpsql.schema import Schema

#: How the name and the id of a hold-out end, after those of its table's own dataset.
SUFFIX = ":holdout"
#: A share is a whole number of ten-thousandths of the units.
_PARTS = 10_000
#: The largest share: more than half of the units would be taken from training.
_MOST = _PARTS // 2
#: The families of types whose equal values have one text or one hash, in every session and under every setting.
_LASTING_FAMILIES = ("integer", "real", "text", "boolean", "date", UNTYPED)


@dataclass(frozen=True)
class HoldOut:
    """How a table's units are divided: by a keyed hash of `columns`, `share` ten-thousandths of them into the hold-out.

    `for_evaluation` says which of the two datasets has it: the hold-out, or the rest, which models are trained on.
    """

    key: str
    share: int
    columns: tuple[str, ...]
    for_evaluation: bool = False

    @staticmethod
    def draw(share: int, info: TableInfo, schema: Schema) -> HoldOut:
        """Return a division of a table's units under a new random key, or raise SchemaError where there can be none.

        A table whose label is not declared yet may be divided: its domains are bought before it is registered anew.
        """
        if schema.target is not None:
            raise SchemaError(
                f'"{info.name}" has no classes, and on private rows only models of classes are evaluated.',
                hint="leave out the hold-out",
            )
        return HoldOut(secrets.token_hex(16), share, _lasting_columns(info, schema))

    @staticmethod
    def read(stored: Mapping[str, Any] | None) -> HoldOut | None:
        """Return the division that a registration stores, or None."""
        if stored is None:
            return None
        return HoldOut(stored["key"], stored["share"], tuple(stored["columns"]), stored["for_evaluation"])

    def stored_values(self) -> dict[str, Any]:
        """Return the division as values for a ledger entry."""
        rule = {"key": self.key, "share": self.share, "columns": list(self.columns)}
        return {**rule, "for_evaluation": self.for_evaluation}

    @property
    def share_text(self) -> str:
        """Return the share in percent.

        >>> HoldOut("", 1000, ()).share_text, HoldOut("", 125, ()).share_text
        ('10 %', '1.25 %')
        """
        return f"{Decimal(self.share) / 100:f} %"

    def test(self, info: TableInfo, rows: Source, vocabulary: Vocabulary) -> exp.Expr:
        """Return the test that a row is of the dataset that has this division: true or false for every row."""
        values = [_value(info, rows, name) for name in self.columns]
        inside = vocabulary.share_test(values, self.key, self.share, _PARTS)
        return inside if self.for_evaluation else exp.not_(exp.paren(inside))


def dealing_columns(schema: Schema) -> tuple[str, ...]:
    """Return the columns that can say in which dataset a unit is: its own, or all that the schema names of a row.

    The label is one of them, unless labels alone are private: another label must not move a row.
    """
    if schema.unit.column is not None:
        return (schema.unit.column,)
    names = [] if schema.public_features or not schema.has_label else [schema.label]
    names += [feature.name for feature in schema.features]
    names += [name for name in (schema.partition, schema.batch) if name is not None]
    return tuple(dict.fromkeys(names))


def parse_share(given: object) -> int:
    """Return a share in ten-thousandths: from a text such as "10%", or a number such as 0.1.

    >>> parse_share("10%"), parse_share(0.1), parse_share("0.25 %")
    (1000, 1000, 25)
    """
    text = str(given).strip()
    percent = text.endswith("%")
    try:
        number = Decimal(text.removesuffix("%").strip()) * (_PARTS // 100 if percent else _PARTS)
    except InvalidOperation:
        number = Decimal(0)
    if isinstance(given, bool) or not number.is_finite() or number != int(number) or not 1 <= number <= _MOST:
        allowed = "a share such as 10% or 0.1, from 0.01 % to 50 % in steps of 0.01 %"
        raise ParameterError("holdout", allowed=allowed, given=given)
    return int(number)


def _lasting_columns(info: TableInfo, schema: Schema) -> tuple[str, ...]:
    """Return the columns that a table's units are divided by, or raise SchemaError where their types do not last.

    Where a unit is a row, columns whose types do not last are left out: rows that are equal in all others go together.
    The label alone would put all rows of a class on one side.
    """
    columns = dealing_columns(schema)
    lasting = tuple(name for name in columns if _lasts(info, name))
    passing = next((name for name in columns if name not in lasting), None)
    if passing is None or (schema.unit.column is None and any(name != schema.label for name in lasting)):
        return lasting
    kind = info.column(passing)
    assert kind is not None
    refused = f'column "{passing}" of "{info.name}" is {kind.type}, by which units cannot be dealt to a hold-out'
    if schema.unit.column is not None:
        raise SchemaError(f"{refused}.", hint="a unit column of type integer, text, date or UUID")
    raise SchemaError(
        f"{refused}, and there is no other feature.",
        hint=f"dpsql add-ids --table {shlex.quote(info.name)}, and name the id as partition; or add a feature of type "
        "integer, real, text or date",
    )


def _lasts(info: TableInfo, name: str) -> bool:
    """Whether equal values of a column have one text, under every setting: else a unit could change sides."""
    kind = info.column(name)
    assert kind is not None  # the schema was compared with the catalog before
    return kind.family in _LASTING_FAMILIES or "UUID" in kind.type.upper()


def _value(info: TableInfo, rows: Source, name: str) -> exp.Expr:
    """Return what is hashed of a column: the column of a table as it is stored, or what a view makes of it.

    An ENUM is hashed by its texts; a database may hash it by numbers that change when it is restored elsewhere.
    """
    value = column(name) if info.kind == "table" else rows.column(name)
    entry: Column | None = info.column(name)
    return exp.cast(value, exp.DataType.Type.TEXT) if entry is not None and entry.values else value


def hold_out_name(table: str) -> str:
    """Return the name, or the id, of the hold-out of a dataset with that name or id."""
    return f"{table}{SUFFIX}"


def without_suffix(name: str) -> str:
    """Return the name of the table that a hold-out belongs to.

    >>> without_suffix("clients:holdout"), without_suffix("clients")
    ('clients', 'clients')
    """
    return name.removesuffix(SUFFIX)


def same_units(earlier: HoldOut | None, now: HoldOut | None) -> bool:
    """Whether two divisions put every unit into the same dataset."""
    return _rule(earlier) == _rule(now)


def _rule(hold_out: HoldOut | None) -> Sequence[object] | None:
    return None if hold_out is None else (hold_out.key, hold_out.share, hold_out.columns)
