"""Declarations that a column's type makes impossible are refused from the catalog alone; all others are accepted."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from dpsql.api.database import connect
from dpsql.engines.base import Column, TableInfo
from dpsql.errors import SchemaError
from dpsql.kernel.datasets.possible_values import impossible_declarations, unreadable_features
from dpsql.schema import Schema
from tests.tables import run

AGE = {"age": {"type": "numeric", "lower": 0, "upper": 99}}


def problems(kind: str, family: str, details: dict[str, Any], *, values: tuple[str, ...] = ()) -> list[str]:
    """Return what is wrong with one feature on a column of a type."""
    info = TableInfo("t", "main", "t", (Column("f", kind, family, values),), "table")
    schema = Schema.from_dict({"label": "y", "classes": ["a", "b"], "features": {"f": details}})
    return [str(problem.error) for problem in impossible_declarations(info, schema)]


def words(*values: object) -> dict[str, Any]:
    """Return a category of these values."""
    return {"type": "categorical", "values": list(values)}


def bounds(lower: float, upper: float) -> dict[str, Any]:
    """Return a number between these bounds."""
    return {"type": "numeric", "lower": lower, "upper": upper}


@pytest.mark.parametrize(
    ("kind", "family", "details"),
    [
        ("BOOLEAN", "boolean", words("no", "yes")),
        ("BOOLEAN", "boolean", words("true", "maybe")),
        ("BOOLEAN", "boolean", words("True", "False")),
        ("INTEGER", "integer", words("low", "high")),
        ("INTEGER", "integer", words("1", "02")),
        ("INTEGER", "integer", words("1.5", "2")),
        ("TINYINT", "integer", words(1, 128)),
        ("Nullable(UInt8)", "integer", words(1, -1)),
        ("smallint", "integer", words(1, 32768)),
        ("character varying(3)", "text", words("no", "perhaps")),
        ("varchar(2)", "text", words("no", "yes")),
        ("DATE", "date", words("2020-01-31", "31.1.2020")),
        ("DATE", "date", words("2020-02-30")),
        ("UTINYINT", "integer", bounds(1000, 2000)),
        ("UTINYINT", "integer", bounds(-10, -1)),
        ("BIGINT", "integer", bounds(0.2, 0.8)),
        ("decimal(3,2)", "real", bounds(50, 100)),
    ],
)
def test_what_a_type_can_never_hold_is_refused(kind: str, family: str, details: dict[str, Any]) -> None:
    """One impossible value among possible ones is a mistake too, and so are bounds that no value reaches."""
    assert len(problems(kind, family, details)) == 1


@pytest.mark.parametrize(
    ("kind", "family", "details"),
    [
        ("BOOLEAN", "boolean", {"type": "boolean"}),
        ("BOOLEAN", "boolean", words("true")),
        ("BOOLEAN", "boolean", {"type": "categorical", "values": {"false": "no", "0": "no", "true": "yes"}}),
        ("INTEGER", "integer", words(-7, 0, 2147483647)),
        ("INTEGER", "integer", {"type": "categorical", "values": {1: "male", 2: "female"}}),
        ("numbers", "integer", words(10**30)),
        ("VARCHAR", "text", words("no", "yes" * 99)),
        ("character varying(3)", "text", words("no", "yes")),
        ("VARCHAR", "untyped", words("no")),
        ("DATE", "date", words("2020-01-31", "infinity", "12020-01-31", "0044-03-15 (BC)")),
        ("UTINYINT", "integer", bounds(-1000, 1000)),
        ("UTINYINT", "integer", bounds(200, 2000)),
        ("BIGINT", "integer", bounds(0, 1)),
        ("decimal(3,2)", "real", bounds(-50, 5)),
        ("DOUBLE", "real", bounds(1e300, 1.1e300)),
        ("numeric", "real", bounds(1e300, 1.1e300)),
    ],
)
def test_what_a_type_may_hold_is_accepted(kind: str, family: str, details: dict[str, Any]) -> None:
    """A type that is not known refuses nothing, and bounds may be wider than the type."""
    assert problems(kind, family, details) == []


def test_the_case_of_an_enum_is_corrected() -> None:
    """The values of an ENUM are known, so the error spells them."""
    (problem,) = problems("ENUM('no', 'yes')", "text", words("No", "yes"), values=("no", "yes"))
    assert 'letter case counts: values: ["no", "yes"]' in problem


def test_a_table_to_score_needs_one_possible_value_alone() -> None:
    """An ENUM of new rows may lack a value that the model knows; it must not lack all of them."""
    schema = Schema.from_dict({"label": "y", "classes": ["a", "b"], "features": {"f": words("no", "yes", "maybe")}})
    columns = {values: Column("f", "ENUM", "text", values) for values in (("no",), ("No", "Yes"))}
    left = [
        list(unreadable_features(TableInfo("t", "main", "t", (column,), "table"), schema))
        for column in columns.values()
    ]
    assert [len(found_problems) for found_problems in left] == [0, 1]


def test_words_on_a_boolean_label_are_answered_with_the_mapping_to_paste() -> None:
    """Row 1 of the trials: the error offers the line for the file and the flags for the command line."""
    with connect(":memory:") as database:
        run(database.engine, "CREATE TABLE t (y BOOLEAN, age BIGINT)")
        with pytest.raises(SchemaError) as refused:
            database.register("t", {"label": "y", "classes": ["yes", "no"], "features": AGE}, cap=1)
        assert 'classes: {"false": no, "true": yes}' in str(refused.value)
        assert "--class true=yes --class false=no" in str(refused.value)
        assert database.budgets() == []
        database.register("t", {"label": "y", "classes": {"false": "no", "true": "yes"}, "features": AGE}, cap=1)


@pytest.mark.parametrize("kind", ["VARCHAR", "BIGINT"])
def test_real_booleans_from_yaml_are_refused_on_a_column_of_texts(kind: str) -> None:
    """`yaml.safe_load` turns [no, yes] into booleans, whose texts match no row (fault B1)."""
    declared = yaml.safe_load("{label: y, classes: [no, yes], features: {age: {type: numeric, lower: 0, upper: 9}}}")
    with connect(":memory:") as database:
        run(database.engine, f"CREATE TABLE t (y {kind}, age BIGINT)", "CREATE TABLE b (y BOOLEAN, age BIGINT)")
        with pytest.raises(SchemaError, match="YAML 1.1" if kind == "VARCHAR" else "can never hold"):
            database.register("t", declared, cap=1)
        assert database.register("b", declared, cap=1).schema.classes == ("false", "true")


def test_the_way_out_of_a_mapping_of_real_booleans_is_taken_by_the_column() -> None:
    """On a BOOLEAN column a quoted list of words would be refused next; the mapping that is proposed is registered."""
    declared = yaml.safe_load(
        "{label: y, classes: {true: yes, false: no}, features: {a: {type: numeric, lower: 0, upper: 9}}}"
    )
    with connect(":memory:") as database:
        run(database.engine, "CREATE TABLE t (y BOOLEAN, a BIGINT)")
        with pytest.raises(SchemaError, match="YAML 1.1") as refused:
            database.register("t", declared, cap=1)
        quoted = yaml.safe_load(str(refused.value.hint).rpartition("quote them: ")[2])
        assert database.register("t", {**declared, **quoted}, cap=1).schema.classes == ("yes", "no")


def test_real_booleans_in_a_mapping_are_refused() -> None:
    """The words of a mapping are lost on any column, its stored texts on a column of texts."""
    texts = yaml.safe_load(
        "{label: y, classes: {0: no, 1: yes}, features: {f: {type: categorical, values: {no: a, yes: b}}}}"
    )
    with connect(":memory:") as database:
        run(database.engine, "CREATE TABLE t (y BIGINT, f VARCHAR)")
        with pytest.raises(SchemaError) as refused:
            database.register("t", texts, cap=1)
        assert len(refused.value.problems) == 2
