"""The next step of an error, written in SQL."""

from __future__ import annotations

import shlex

import pytest

from dpsql.api.sql_hints import DUCKDB_FORM, POSTGRES_FORM, sql_hint

DUCKDB = {
    "dpsql register --table people … --replace   (what is spent stays spent), or --share-budget": "FROM dpsql_register("
    "'people', …, replace := true)   (what is spent stays spent), or share_budget := true",
    "dpsql train --method rdt --batch VALUE": "FROM dpsql_train('TABLE', method := 'rdt', batch := 'VALUE')",
    "dpsql ledger --table 'my t'": "FROM dpsql_ledger()",
    "dpsql ledger verify": "FROM dpsql_verify()",
    "dpsql structure --table TABLE --to FILE.json": "FROM dpsql_structure('TABLE')",
    "as owner: dpsql budget … --kind approximate --delta D": "as owner: FROM dpsql_set_cap('TABLE', …, "
    "kind := 'approximate', delta := 'D')",
    "--kind approximate --delta 1e-6": "kind := 'approximate', delta := '1e-6'",
    "leave out --schema or the flags": "leave out schema or the flags",
    "dpsql export --model NAME --to FILE writes one": "dpsql export --model NAME --to FILE writes one",
    "check --db": "check --db",
}


@pytest.mark.parametrize("hint", DUCKDB)
def test_commands_and_options_become_calls_and_arguments(hint: str) -> None:
    """What has a form in SQL is written in it, and all else stays."""
    assert sql_hint(hint, DUCKDB_FORM) == DUCKDB[hint]


@pytest.mark.parametrize("name", ["it's", 'a"b', "x; DROP TABLE y", "a b"])
def test_names_are_quoted_for_sql(name: str) -> None:
    """A name that was quoted for a shell is quoted for SQL."""
    quoted = name.replace("'", "''")
    hint = f"dpsql register --table {shlex.quote(name)} --schema FILE --replace"
    assert sql_hint(hint, DUCKDB_FORM) == f"FROM dpsql_register('{quoted}', schema := 'FILE', replace := true)"


def test_postgres_has_its_own_form_and_fewer_functions() -> None:
    """A command without a function there stays a command."""
    assert sql_hint("dpsql register --table t … --replace", POSTGRES_FORM) == (
        "SELECT * FROM dpsql.register('t', …, replace => true)"
    )
    assert sql_hint("dpsql schema draft --table t", POSTGRES_FORM) == "dpsql schema draft --table t"
    assert sql_hint(None, POSTGRES_FORM) is None


def test_a_mapping_of_classes_is_a_map() -> None:
    """What a BOOLEAN label needs is one argument that DuckDB takes, and nothing of the command line is left."""
    hint = 'classes: {"false": no, "true": yes}   (on the command line: --class true=yes --class false=no)'
    written = sql_hint(hint, DUCKDB_FORM)
    assert written is not None
    assert written.endswith("(in SQL: classes := MAP {'true': 'yes', 'false': 'no'})")
