"""Scripts for other databases as texts: each parses in its dialect, names and values come back, what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import sqlglot
from sqlglot import exp

from dpsql.compile.predict.dialects import DIALECTS
from dpsql.errors import ParameterError, UnknownName, UsageError
from dpsql.models.export_sql import export_statements
from dpsql.models.usable_model import Model
from dpsql.schema import Boolean, Categorical, Hashed, Numeric, Schema, Target
from dpsql.trees.grid import axes
from tests.hostile import HOSTILE
from tests.rows import any_forest
from tests.tables import model_of, voting

TEXTS = tuple(text for text in HOSTILE[::4] if len(text) < 100)
HOSTILE_SCHEMA = Schema(
    "y",
    TEXTS[:40],
    (Categorical(TEXTS[0], TEXTS), Numeric(TEXTS[20], 0.1, 0.7), Boolean("flag"), Numeric("tiny", 1e-300, 3e-300)),
)


@cache
def model(schema: Schema = HOSTILE_SCHEMA) -> Model:
    """Return a model that reads every feature."""
    forest = any_forest(axes(schema), trees=9, depth=3, seed=1, wide=200)
    return model_of(voting(forest, schema.leaf_values, seed=1), schema, "my model")


@cache
def texts(dialect: str, *, form: str = "select", table: str = "new_rows", name: str | None = None) -> list[str]:
    """Return the statements of the script for a dialect, with probabilities."""
    return export_statements(model(), dialect=dialect, table=table, form=form, name=name, probabilities=True)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_script_parses_in_its_dialect(dialect: str) -> None:
    """The script is as many statements as were made; names and texts come back from it as they were."""
    parsed = sqlglot.parse(model().export_sql(dialect, probabilities=True), read=dialect)
    found = [one for one in parsed if one is not None]
    assert len(found) == len(texts(dialect))
    assert not [one for one in found if isinstance(one, exp.Command)]
    query = found[-1]
    literals = [one for one in query.find_all(exp.Literal, exp.National) if not one.is_number]
    assert set(TEXTS) <= {one.this for one in literals} | {one.this.removesuffix(".") for one in literals}
    assert {TEXTS[0], TEXTS[20]} <= {one.name for one in query.find_all(exp.Column)}


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "tsql"])
def test_a_view_parses_in_its_dialect(dialect: str) -> None:
    """The form "view" ends with a CREATE VIEW."""
    last = sqlglot.parse_one(texts(dialect, form="view")[-1], read=dialect)
    assert isinstance(last, exp.Create)
    assert last.kind == "VIEW"


def test_a_view_of_sql_server_is_created_from_a_text() -> None:
    """CREATE VIEW must stand alone there: EXEC runs it from a text, and that text parses."""
    last = texts("tsql", form="view")[-1]
    assert last.startswith("EXEC (N'CREATE VIEW [my_model_scored]")
    inner = last.removeprefix("EXEC (N'").removesuffix("')").replace("''", "'")
    assert isinstance(sqlglot.parse_one(inner, read="tsql"), exp.Create)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_only_plain_operations_are_used(dialect: str) -> None:
    """No bit operation, no row number, no outer join: nothing that means different things elsewhere."""
    query = sqlglot.parse_one(texts(dialect)[-1], read=dialect)
    banned = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseRightShift, exp.BitwiseLeftShift, exp.Window, exp.Floor)
    assert not list(query.find_all(*banned))
    assert {join.side for join in query.find_all(exp.Join)} == {""}


@pytest.mark.parametrize(
    ("dialect", "wanted"),
    [
        ("bigquery", "IS_NAN(CAST(scored.`tiny` AS FLOAT64))"),
        ("clickhouse", "isNaN(CAST(scored.\"tiny\" AS Nullable(Float64)))"),
        ("databricks", "ISNAN(CAST(scored.`tiny` AS DOUBLE))"),
        ("mysql", "AS CHAR CHARACTER SET utf8mb4) AS BINARY)"),
        ("postgres", "= CAST('NaN' AS DOUBLE PRECISION)"),
        ("redshift", "AS VARCHAR(MAX)) || '.'"),
        ("redshift", "WHEN scored.\"flag\" THEN"),
        ("snowflake", 'scored."TINY" IS NULL OR CAST(scored."TINY" AS DOUBLE) = CAST(\'NaN\' AS DOUBLE)'),
        ("sqlite", "AS TEXT) COLLATE BINARY"),
        ("sqlite", "WHEN 'false' THEN '00' WHEN 'true' THEN '01' WHEN '1' THEN '01' WHEN '0' THEN '00'"),
        ("trino", 'IS_NAN(CAST(scored."tiny" AS DOUBLE))'),
        ("tsql", "AS NVARCHAR(MAX)) + N'.' ) COLLATE Latin1_General_BIN2"),
    ],
)  # fmt: skip
def test_each_dialect_says_it_its_own_way(dialect: str, wanted: str) -> None:
    """NaN, exact texts and booleans, as each database has them."""
    assert wanted in " ".join(texts(dialect)[-1].split())


#: The hash of each dialect, without blanks.
HASHED = {
    "bigquery": "MOD(CAST(CONCAT('0x',SUBSTRING(TO_HEX(MD5(CAST(scored.`job`ASSTRING))),1,8))ASINT64),63)",
    "clickhouse": 'reinterpretAsUInt32(reverse(SUBSTRING(MD5(CAST(scored."job"ASNullable(String))),1,4)))%63',
    "databricks": "CAST(CONV(SUBSTRING(MD5(CAST(scored.`job`ASSTRING)),1,8),16,10)ASBIGINT)%63",
    "duckdb": "CAST(('0x'||SUBSTRING(MD5(CAST(scored.\"job\"ASTEXT)),1,8))ASBIGINT)%63",
    "mysql": "CONV(SUBSTRING(MD5(CAST(CAST(scored.`job`ASCHARCHARACTERSETutf8mb4)ASBINARY)),1,8),16,10)ASSIGNED)%63",
    "postgres": "MD5(CONVERT_TO(CAST(scored.\"job\"ASTEXT),'UTF8'))FROM1FOR8))ASBIT(32))ASBIGINT)%63",
    "redshift": 'STRTOL(SUBSTRING(MD5(CAST(scored."job"ASVARCHAR(MAX)))FROM1FOR8),16)%63',
    "snowflake": "TO_NUMBER(SUBSTRING(MD5(CAST(scored.\"JOB\"ASVARCHAR)),1,8),'XXXXXXXX')%63",
    "spark": "CAST(CONV(SUBSTRING(MD5(CAST(scored.`job`ASSTRING)),1,8),16,10)ASBIGINT)%63",
    "sqlite": 'SELECTCAST(CAST(scored."job"ASTEXT)ASBLOB)ASbytes',
    "trino": 'FROM_BASE(SUBSTR(TO_HEX(MD5(TO_UTF8(CAST(scored."job"ASVARCHAR)))),1,8),16)%63',
    "tsql": "'MD5',CAST(CAST(scored.[job]ASNVARCHAR(MAX))COLLATELatin1_General_100_BIN2_UTF8ASVARCHAR(MAX))),1,4)",
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_dialect_hashes_the_bytes_of_utf_8(dialect: str) -> None:
    """One MD5 of the text's bytes in UTF-8 for each row, cut to 32 bits, in the words of the database."""
    schema = Schema("y", ("a", "b"), (Hashed("job"),))
    made = export_statements(model(schema), dialect=dialect, table="t", form="select", name=None, probabilities=False)
    text = "".join(made[-1].split())
    assert HASHED[dialect] in text
    assert text.count("RECURSIVE" if dialect == "sqlite" else "MD5") == 2  # the distinct cells, and the join


def test_tables_stand_beside_the_table_to_score() -> None:
    """A qualified table takes the model's tables and view along; parts with dots of their own are quoted."""
    made = texts("postgres", table='lab."odd.one"."new "" rows"', name="mine", form="view")
    assert 'CREATE TABLE "lab"."odd.one"."mine_node"' in made[0]
    assert 'CREATE VIEW "lab"."odd.one"."mine_scored"' in made[-1]
    assert 'FROM "lab"."odd.one"."new "" rows" AS scored' in made[-1]


@pytest.mark.parametrize(("name", "prefix"), [("a b;c", "a_b_c"), ("7up", "m_7up"), ("é" * 80, "_" * 50)])
def test_any_model_has_a_plain_name_elsewhere(name: str, prefix: str) -> None:
    """What a table's name cannot have everywhere is replaced."""
    assert replace(model(), name=name).export_sql("trino").startswith(f"-- dpsql model {prefix} for trino")


def test_the_text_is_the_same_every_time() -> None:
    """A script depends on the model alone, so that it can be reviewed and compared."""
    assert model().export_sql("snowflake") == model().export_sql("snowflake")


def test_inserts_are_small_enough() -> None:
    """No INSERT has more rows than the strictest database takes."""
    schema = Schema("y", tuple(map(str, range(64))), (Numeric("x", 0, 1),))
    made = export_statements(model(schema), dialect="tsql", table="t", form="select", name=None, probabilities=False)
    sizes = [len(sqlglot.parse_one(text, read="tsql").expression.expressions) for text in made if "INSERT" in text]
    assert max(sizes) <= 1000


@pytest.mark.parametrize("dialect", ["oracle", "", "Snowflake", None])
def test_an_unknown_dialect_is_refused(dialect: object) -> None:
    """Only the known dialects are taken, and the error lists them."""
    with pytest.raises(UnknownName, match="snowflake"):
        model().export_sql(dialect)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"form": "macro"}, "form must be one of select, view"),
        ({"name": "no spaces"}, "name must be up to 50 letters"),
        ({"name": ""}, "name must be"),
        ({"table": ""}, "table must be a name"),
        ({"table": "a.b.c.d"}, "table must be a name"),
        ({"table": "a..b"}, "table must be a name"),
        ({"table": 'a"b'}, "table must be a name"),
    ],
)
def test_bad_words_are_refused(given: dict[str, str], message: str) -> None:
    """A form, a name or a table that cannot be written is refused by name."""
    with pytest.raises(ParameterError, match=message):
        model().export_sql("duckdb", **given)  # type: ignore[arg-type]


def test_a_number_has_no_probabilities() -> None:
    """Probabilities of a model that predicts a number are refused."""
    number = model(replace(HOSTILE_SCHEMA, classes=(), target=Target(0, 1)))
    with pytest.raises(UsageError, match="predicts a number"):
        number.export_sql("duckdb", probabilities=True)
