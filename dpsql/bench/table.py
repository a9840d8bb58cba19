"""The table that counting is measured on: ten numbers, four texts and a label of two classes, all random."""

from __future__ import annotations

from functools import cache

from sqlglot import exp

from dpsql.compile.rows import Source, table_reference
from dpsql.engines.base import Engine
from dpsql.schema import Categorical, Numeric, Schema

NAME = "bench"
NUMBERS = 10
#: How many values each text feature has; `CREATE` says the same.
TEXTS = (5, 8, 16, 40)
CREATE = """
CREATE TABLE bench AS SELECT
    random() AS number_0, random() AS number_1, random() AS number_2, random() AS number_3, random() AS number_4,
    random() AS number_5, random() AS number_6, random() AS number_7, random() AS number_8, random() AS number_9,
    concat('value ', floor(5 * random())::INT) AS text_0,
    concat('value ', floor(8 * random())::INT) AS text_1,
    concat('value ', floor(16 * random())::INT) AS text_2,
    concat('value ', floor(40 * random())::INT) AS text_3,
    if(random() < 0.3, 'yes', 'no') AS label
FROM range(?)
"""


def bench_schema() -> Schema:
    """Return the table's public schema."""
    numbers = [Numeric(f"number_{place}", 0, 1) for place in range(NUMBERS)]
    texts = [
        Categorical(f"text_{place}", tuple(f"value {value}" for value in range(count)))
        for place, count in enumerate(TEXTS)
    ]
    return Schema("label", ("no", "yes"), (*numbers, *texts))


def create_bench_table(engine: Engine, rows: int) -> Source:
    """Create the table with that many rows and return it as a source."""
    with engine.transaction() as transaction:
        transaction.run(CREATE, (rows,))
    return Source(bench_schema(), table_reference(NAME, engine.home), {})


@cache
def scan() -> str:
    """Return the scan whose CPU time is the unit S: it reads every column and does little else.

    It is rendered once, so that S is the time of the scan alone.

    >>> scan()[:50]
    'SELECT label, COUNT(*) AS rows, BIT_XOR(HASH(numbe'
    """
    mixed = exp.func("BIT_XOR", exp.func("HASH", *(exp.column(feature.name) for feature in bench_schema().features)))
    query = exp.select("label", exp.Count(this=exp.Star()).as_("rows"), mixed.as_("mixed"))
    return query.from_(NAME).group_by("label").sql("duckdb")
