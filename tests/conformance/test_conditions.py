"""Random conditions on hostile rows: every engine says of every row what plain Python says, and none ever fails."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.engines.base import Engine
from dpsql.kernel.datasets.dataset import source
from dpsql.kernel.datasets.row_conditions import row_test
from dpsql.schema import Categorical, Numeric, Schema
from tests.conformance.tables import put
from tests.rows import Table
from tests.tables import dataset_of, quote

Row = dict[str, Any]
#: What a row is to a condition: true, false, or as in SQL neither.
Held = Callable[[Row], bool | None]
BATCH = 25
_SEEN: Counter[str] = Counter()
_MOST = {"spark": 2, "clickhouse": 8, "postgres": 8}
WHOLES = [0, 1, -1, 2, 40, 127, -128]
BIG = [*WHOLES, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)]
DOUBLES = [
    0.0, -0.0, 0.5, -1.5, 0.1, 1e300, -1e300, 1.7976931348623157e308, 2.2250738585072014e-308, 5e-324, math.nan,
    math.inf, -math.inf, 40.0,
]  # fmt: skip
TEXTS = [
    "", " ", "a", "A", "a ", "b", "it's", '"', "\\", "\\'", "x\\", "%", "_", "NULL", "null", "1", "😀", "é", "e\u0301",
    "ß", "ss", "-- ", "/*", "a\nb", "{}", "$1", "?", "\u202e", "x" * 5000,
]  # fmt: skip
DAYS = [datetime.date(*day) for day in ((1900, 1, 1), (1969, 12, 31), (1970, 1, 1), (2020, 2, 29), (2299, 12, 31))]
FAR = [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]
TYPES = {
    "tiny": "TINYINT", "n": "INTEGER", "big": "BIGINT", "huge": "HUGEINT", "ubig": "UBIGINT", "uhuge": "UHUGEINT",
    "x": "DOUBLE", "f": "FLOAT", "d": "DECIMAL(18,3)", "c": "VARCHAR", "mood": "ENUM('a', 'it''s', 'B')",
    "flag": "BOOLEAN", "day": "DATE", 'odd "Name': "INTEGER",
}  # fmt: skip


def pools(dialect: str) -> dict[str, list[Any]]:
    """Return the hostile values of each column, as far as an engine can store them."""
    texts = TEXTS if dialect == "postgres" else [*TEXTS, "a\0b", "a\0"]
    found: dict[str, list[Any]] = {
        "tiny": WHOLES, "n": BIG[:9], "big": BIG, "huge": [*BIG, 2**100, -(2**100), 10**38 - 1],
        "ubig": [0, 1, 40, 2**63, 2**64 - 1], "uhuge": [0, 1, 40, 2**64, 2**100, 10**38], "x": DOUBLES,
        "f": [0.0, 0.5, float(np.float32(0.1)), 1.0 * 2**127, math.nan, math.inf, -math.inf, 2.0**-149],
        "d": [0, 1, -1, "0.5", "-0.125", "999999999999999", "0.1"], "c": texts, "mood": ["a", "it's", "B"],
        "flag": [True, False], "day": DAYS if dialect == "clickhouse" else DAYS + FAR, 'odd "Name': WHOLES,
    }  # fmt: skip
    return found if dialect != "spark" else {name: pool for name, pool in found.items() if not name.startswith("u")}


def table(dialect: str, chance: Random) -> tuple[Table, list[Row]]:
    """Return a table in which every hostile value of every column stands once or more, and NULLs between them."""
    columns: dict[str, list[Any]] = {}
    drawn = pools(dialect)
    count = max(map(len, drawn.values())) + 5
    for name, pool in drawn.items():
        cells = [*pool, *(None if chance.random() < 0.4 else chance.choice(pool) for _ in range(count - len(pool)))]
        columns[name] = chance.sample(cells, len(cells))
    made = Table({"place": "INTEGER"} | {name: TYPES[name] for name in drawn}, {"place": list(range(count))} | columns)
    return made, [{name: values[k] for name, values in columns.items()} for k in range(count)]


class Drawn:
    """Draws conditions: their text, and what they say of a row in SQL's own logic of three values."""

    def __init__(self, chance: Random, families: dict[str, str], drawn: dict[str, list[Any]]) -> None:
        self.chance, self.families, self.pools = chance, families, drawn

    def condition(self, depth: int) -> tuple[str, Held]:
        """Return a condition that is at most so deep."""
        kind = self.chance.randrange(4) if depth else 0
        if kind == 0:
            return self.atom()
        text, held = self.condition(depth - 1)
        if kind == 1:
            return f"NOT ({text})", lambda row: None if held(row) is None else not held(row)
        other, also = self.condition(depth - 1)
        word = ("AND", "or")[kind - 2]
        join = _all if kind == 2 else _any
        return f"({text}) {word} ({other})", lambda row: join([held(row), also(row)])

    def atom(self) -> tuple[str, Held]:
        """Return a test on one column."""
        name = self.chance.choice(list(self.families))
        family = self.families[name]
        if self.chance.random() < 0.15:
            return f"{self.named(name)} IS NULL", lambda row: row[name] is None
        words = {"text": ["=", "!=", "IN", "NOT IN"], "boolean": ["=", "<>"]}.get(
            family, ["=", "!=", "<>", "<", "<=", ">", ">=", "IN", "NOT IN", "BETWEEN", "NOT BETWEEN"]
        )
        word = self.chance.choice(words)
        count = self.chance.randrange(1, 5) if "IN" in word else 2 if "BETWEEN" in word else 1
        values = [self.value(name, family) for _ in range(count)]
        texts = [text for text, _ in values]
        shown = f"({', '.join(texts)})" if "IN" in word else " AND ".join(texts)
        return f"{self.named(name)} {word} {shown}", _held(name, family, word, [value for _, value in values])

    def named(self, name: str) -> str:
        """Return a column's name as a condition may write it."""
        plain = name.isidentifier() and self.chance.random() < 0.5
        return (name.upper() if self.chance.random() < 0.3 else name) if plain else quote(name)

    def value(self, name: str, family: str) -> tuple[str, Any]:
        """Return a value as it is written, and as Python has it; one that a column holds, where it can be written."""
        if family == "integer":
            whole = self.chance.choice([*BIG, 7, 255, 2**32, *(k for k in self.pools[name] if abs(k) < 2**63)])
            return str(whole), whole
        if family == "real":
            pool = [*DOUBLES, *(float(number) for number in self.pools[name])]
            usable = [k for k in pool if math.isfinite(k) and (k == 0 or abs(k) >= 2.2250738585072014e-308)]
            number = self.chance.choice([*usable, 0.3])
            return repr(number), number
        if family == "boolean":
            held = self.chance.random() < 0.5
            return str(held), held
        if family == "date":
            day = self.chance.choice(DAYS)
            return f"'{day}'", day
        text = self.chance.choice([text for text in TEXTS if len(text) < 100])
        return "'" + text.replace("'", "''") + "'", text


def _held(name: str, family: str, word: str, values: list[Any]) -> Held:
    tests: dict[str, Callable[[Any], bool]] = {
        "=": lambda cell: cell == values[0],
        "!=": lambda cell: cell != values[0],
        "<>": lambda cell: cell != values[0],
        "<": lambda cell: cell < values[0],
        "<=": lambda cell: cell <= values[0],
        ">": lambda cell: cell > values[0],
        ">=": lambda cell: cell >= values[0],
        "IN": lambda cell: cell in values,
        "NOT IN": lambda cell: cell not in values,
        "BETWEEN": lambda cell: values[0] <= cell <= values[1],
        "NOT BETWEEN": lambda cell: not values[0] <= cell <= values[1],
    }

    def held(row: Row) -> bool | None:
        cell = row[name]
        if cell is None:
            return None
        cell = float(cell) if family == "real" else cell
        return None if family == "real" and math.isnan(cell) else tests[word](cell)

    return held


def _all(values: list[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def _any(values: list[bool | None]) -> bool | None:
    return True if True in values else None if None in values else False


@given(seed=st.integers(0, 2**30))
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
def test_every_engine_holds_with_plain_python(engine: Engine, seed: int) -> None:
    """A condition is true or false for every row, the same everywhere, whatever cells hold: NULL, NaN, extremes."""
    _SEEN[engine.dialect] += 1
    if _SEEN[engine.dialect] > _MOST.get(engine.dialect, 10**9):
        return
    chance = Random(seed)
    made, rows = table(engine.dialect, chance)
    put(engine, "hostile", made)
    info = engine.table("hostile")
    assert info is not None
    families = {column.name: column.family for column in info.columns if column.name in rows[0]}
    drawn = Drawn(chance, families, pools(engine.dialect))
    conditions = [drawn.condition(3) for _ in range(BATCH)]
    features = (Numeric("x", 0, 1), Categorical("mood", ("a", "B")))
    declared = tuple((f"number_{k}", text) for k, (text, _) in enumerate(conditions) if len(text) <= 2000)
    schema = Schema("c", ("a", "b"), features, conditions=declared)
    dataset = dataset_of(engine, "hostile", schema)
    where = source(engine, dataset)
    columns = [
        exp.alias_(exp.paren(row_test(engine, dataset, where, name, labels=False)), name) for name, _ in declared
    ]
    query = exp.select(exp.alias_(exp.column("place"), "place"), *columns).from_(where.table.copy())
    found = engine.frame(query).sort_values("place")
    for (name, text), (_, held) in zip(declared, conditions, strict=False):
        said = found[name].tolist()
        assert all(isinstance(value, bool | np.bool_) or value in (0, 1) for value in said), text
        assert [bool(value) for value in said] == [held(row) is True for row in rows], text
