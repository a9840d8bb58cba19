"""Tree in, SQL out: each file in `cases/` is rendered and compared, letter by letter.

To write the SQL anew after a change that is meant, then read the difference:

    DPSQL_WRITE_CASES=1 python -m pytest tests/compile/test_cases.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import sqlglot

from tests.compile.drawn import VOCABULARIES, parts, rendered

CASES = Path(__file__).with_name("cases")


def case_text(name: str, dialect: str) -> str:
    """Return a case's text, with this dialect's SQL written anew when the environment asks for it."""
    path = CASES / f"{name}.txt"
    text = path.read_text(encoding="utf-8")
    if os.environ.get("DPSQL_WRITE_CASES"):
        kept = {title: body for title, body in parts(text).items() if title != dialect}
        kept[dialect] = rendered(text, dialect)
        text = "\n\n".join(f"=== {title}\n{body}" for title, body in kept.items()) + "\n"
        path.write_text(text, encoding="utf-8")
    return text


@pytest.mark.parametrize("dialect", sorted(VOCABULARIES))
@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.txt")))
def test_the_tree_gives_this_sql(name: str, dialect: str) -> None:
    """The SQL of the case is the one written in its file."""
    text = case_text(name, dialect)
    assert rendered(text, dialect) == parts(text).get(dialect)


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.txt")))
def test_the_sql_of_a_case_can_be_read_back(name: str) -> None:
    """The SQL in the file parses, and renders to the same text again."""
    sql = parts((CASES / f"{name}.txt").read_text(encoding="utf-8"))["duckdb"].split("\n\nlevel_")[0]
    assert sqlglot.parse_one(sql, dialect="duckdb").sql("duckdb", pretty=True) == sql


def test_the_cases_cover_what_they_must() -> None:
    """There is a case for each kind of split, and for one leaf, a unit, two words, shared trees, a target, a pick."""
    wanted = {
        "numeric_split",
        "category_split",
        "group_split",
        "null_branch",
        "two_words",
        "unit",
        "one_leaf",
        "shared",
        "target",
        "right_rows",
    }
    assert wanted <= {path.stem for path in CASES.glob("*.txt")}
