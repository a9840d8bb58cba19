"""Views over several tables: random ones over random tiny warehouses, with and without one person."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.compile.check import NotAggregate, check_statement
from dpsql.compile.views.unit_relations import UNIT_ROWS, as_rows
from dpsql.compile.views.unit_rows_check import NotUnitLocal, check_unit_rows
from dpsql.engines.base import Engine
from dpsql.engines.open_engine import open_engine
from tests.servers import OPEN_EMPTY
from tests.warehouse import FEATURES, HOME, create_warehouse, prove

Rows = list[tuple[Any, ...]]
_PEOPLE = st.sampled_from([None, 1, 2, 3])
_DAYS = st.sampled_from([None, date(2020, 1, 1), date(2020, 1, 2), date(2021, 5, 5)])
_CODES = st.sampled_from([None, "a", "b", "B", "", "é"])
_SMALL = st.sampled_from([None, -(2**31), -1, 0, 1, 2, 2**31 - 1])
_REAL = st.sampled_from([None, 0.0, -0.0, 0.1, 0.3, 2.5, -7.0, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan])
_PRICE = st.sampled_from([None, "0.00", "0.10", "-3.33", "99999999.99"])
DATABASES = st.fixed_dictionaries(
    {
        "persons": st.dictionaries(
            st.sampled_from([1, 2, 3]),
            st.tuples(_SMALL, _CODES, st.sampled_from(["no", "yes", None]), _REAL),
            max_size=3,
        ).map(lambda people: [(person, *values) for person, values in people.items()]),
        "visits": st.lists(st.tuples(_PEOPLE, _DAYS, _REAL, _CODES, _SMALL, _PRICE), max_size=8),
        "drugs": st.lists(st.tuples(_PEOPLE, _DAYS, _SMALL, _CODES), max_size=5),
    }
)
PUBLIC = {
    "codes": [("a", "A", 1, 0.5, 1), ("b", "B", 2, -1.5, 2), ("é", "A", None, None, None)],
    "calendar": [(date(2020, 1, 1), 1, True), (date(2020, 1, 2), 1, False), (date(2020, 1, 1), 2, None)],
}

#: Conditions on a row of visits `v`, of `drugs` under the same name of columns, of both.
TESTS = ["{s}.code = 'a'", "{s}.day >= DATE '2020-01-02'", "{s}.code IS NULL",
         "{s}.code IN ('a', 'b') OR {s}.day IS NULL",
         "NOT {s}.code LIKE 'b%'", "LOWER({s}.code) = 'b'", "CASE WHEN {s}.code = 'a' THEN FALSE END"]  # fmt: skip
VISIT_AGGREGATES = [
    "COUNT(*)", "COUNT({s}.cost)", "COUNT(DISTINCT {s}.code)", "COUNT(DISTINCT {s}.cost)", "SUM({s}.ward)",
    "AVG({s}.ward)",
    "SUM(LEAST(GREATEST({s}.cost, -1), 10.5))", "AVG(GREATEST(0, LEAST({s}.cost, 3)))",
    "SUM(CASE WHEN {s}.ward = 1 THEN 1 ELSE 0 END)",
    "AVG(CASE WHEN {s}.code = 'a' THEN 0.25 WHEN {s}.code = 'b' THEN -2 END)",
    "SUM(LEAST(GREATEST({s}.price, 0), 100))", "MIN({s}.cost)", "MAX({s}.cost)", "MIN({s}.day)", "MAX({s}.ward)",
    "MAX({s}.price)", "COALESCE(SUM({s}.ward), 0)", "CASE WHEN COUNT(*) > 2 THEN 'many' ELSE 'few' END",
    "ARG_MAX({s}.code, {s}.day)", "ARG_MAX({s}.cost, {s}.day)", "ARG_MIN({s}.ward, {s}.cost)",
    "ARG_MAX({s}.day, {s}.price)",
]  # fmt: skip
DRUG_AGGREGATES = ["COUNT(*)", "SUM({s}.dose)", "MAX({s}.day)", "ARG_MAX({s}.dose, {s}.day)", "COUNT(DISTINCT {s}.day)"]
JOINS = ["", " LEFT JOIN codes c ON {s}.code = c.code", " JOIN codes c ON c.code = {s}.code AND c.points > 0"]


@st.composite
def grouped(draw: st.DrawFn) -> tuple[str, int]:
    """Return a query with groups over visits or drugs, and how many columns n0, n1, … it has."""
    table, aggregates = draw(st.sampled_from([("visits", VISIT_AGGREGATES), ("drugs", DRUG_AGGREGATES)]))
    chosen = draw(st.lists(st.sampled_from(aggregates), min_size=1, max_size=3))
    filters = draw(st.lists(st.sampled_from([None, *TESTS]), min_size=len(chosen), max_size=len(chosen)))
    items = []
    for number, (aggregate, test) in enumerate(zip(chosen, filters, strict=True)):
        simple = not aggregate.startswith(("COALESCE", "CASE"))
        ending = f" FILTER (WHERE {test})" if test and simple else ""
        items.append(f"{aggregate}{ending} AS n{number}")
    where = draw(st.sampled_from(["", *(f" WHERE {test}" for test in TESTS)]))
    join = draw(st.sampled_from(JOINS))
    more = draw(st.sampled_from(["", ", {s}.code", ", {s}.day"]))
    text = f"SELECT {{s}}.person_id, {', '.join(items)} FROM {table} {{s}}{join}{where} GROUP BY {{s}}.person_id{more}"
    return text.format(s="v"), len(items)


@st.composite
def grouped_by_joined(draw: st.DrawFn) -> str:
    """Return a view with groups whose keys are columns of tables with one row for each person, joined in many ways."""
    kinds = st.sampled_from(["JOIN", "LEFT JOIN"])
    more = st.sampled_from(["", "", *(f" AND ({test.format(s='v')})" for test in TESTS)])
    partner = draw(st.sampled_from(["v", "p"]))
    key = draw(st.sampled_from(["p.age", "q.age", "q.person_id"]))
    where = draw(st.sampled_from(["", " WHERE p.age IS NULL", " WHERE v.code = 'a'"]))
    return (
        f"SELECT v.person_id, {key} AS known, COUNT(*) AS visits FROM visits v "
        f"{draw(kinds)} persons p ON p.person_id = v.person_id{draw(more)} "
        f"{draw(kinds)} persons q ON q.person_id = {partner}.person_id{draw(more)}{where} GROUP BY v.person_id, {key}"
    )


@st.composite
def views(draw: st.DrawFn) -> str:
    """Return a view over one to three private tables: groups, joins of groups, joins of rows, parts in WITH."""
    first, count = draw(grouped())
    form = draw(st.integers(0, 6))
    if form == 0:
        return first
    if form >= 5:
        return draw(grouped_by_joined())
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN"]))
    items = ", ".join(f"g.n{number} AS a{number}" for number in range(count))
    if form == 1:
        return f"SELECT p.person_id, p.age, {items} FROM persons p {kind} ({first}) g ON p.person_id = g.person_id"
    second, more = draw(grouped())
    others = ", ".join(f"h.n{number} AS b{number}" for number in range(more))
    if form == 2:
        return (
            f"WITH g AS ({first}), h AS ({second}) SELECT p.person_id, {items}, {others} FROM persons p "
            f"{kind} g ON g.person_id = p.person_id LEFT JOIN h ON h.person_id = p.person_id "
            "WHERE p.sex = 'a' OR p.age IS NULL"
        )
    if form == 3:
        test = draw(st.sampled_from(TESTS)).format(s="v")
        return (
            f"SELECT v.person_id, v.code, v.cost, d.dose, d.day AS given FROM visits v {kind} drugs d "
            f"ON v.person_id = d.person_id AND ({test}) AND v.code = d.code"
        )
    return (
        f"SELECT g.person_id, COUNT(*) AS rows_of_it, MAX(p.age) AS oldest FROM ({first}) g {kind} persons p "
        "ON g.person_id = p.person_id GROUP BY g.person_id"
    )


def fill(engine: Engine, tables: dict[str, Rows]) -> None:
    """Replace the rows of the warehouse's tables."""
    home = HOME[engine.dialect]
    with engine.transaction() as transaction:
        for name, rows in tables.items():
            transaction.run(f"DELETE FROM {home}.{name}")
            if rows:
                marks = ", ".join(f"({', '.join('?' for _ in row)})" for row in rows)
                transaction.run(f"INSERT INTO {home}.{name} VALUES {marks}", [value for row in rows for value in row])


def selected(engine: Engine, query: exp.Expr | str) -> list[dict[str, Any]]:
    """Return the rows of a query as Python values."""
    with engine.transaction() as transaction:
        return transaction.rows(query)


def output(engine: Engine, text: str) -> dict[Any, Counter[str]]:
    """Return the rows that the translation of a view gives, for each person."""
    view = prove(engine, text)
    rows = as_rows(view.proof.relation)
    check_unit_rows(rows)
    people: dict[Any, Counter[str]] = {}
    for values in selected(engine, exp.select("*").from_(rows)):
        person = values.pop("unit")
        people.setdefault(person, Counter())[repr(sorted(values.items()))] += 1
    if view.single:
        assert all(sum(counter.values()) == 1 for counter in people.values())
    return people


@pytest.fixture(scope="module")
def duck() -> Iterator[Engine]:
    """Open an empty warehouse in DuckDB."""
    engine = open_engine(":memory:")
    create_warehouse(engine)
    fill(engine, PUBLIC)
    yield engine
    engine.close()


@settings(deadline=None)
@given(text=views(), tables=DATABASES, person=st.sampled_from([1, 2, 3]))
def test_one_person_changes_only_the_rows_of_that_person(
    duck: Engine, text: str, tables: dict[str, Rows], person: int
) -> None:
    """Without a person's rows in all private tables, all other people's rows of a view are the same, one by one."""
    fill(duck, tables)
    everybody = output(duck, text)
    fill(duck, {name: [row for row in rows if row[0] != person] for name, rows in tables.items()})
    others = output(duck, text)
    assert None not in everybody
    assert person not in others
    assert {key: rows for key, rows in everybody.items() if key != person} == others


@settings(deadline=None)
@given(text=grouped_by_joined(), tables=DATABASES)
def test_groups_by_columns_of_joined_persons_have_the_rows_that_are_claimed(
    duck: Engine, text: str, tables: dict[str, Rows]
) -> None:
    """A view that is said to give one row for each person does so, whatever its joins drop or leave NULL."""
    fill(duck, tables)
    output(duck, text)


@pytest.mark.parametrize(
    ("joins", "single"),
    [
        ("LEFT JOIN persons p ON p.person_id = v.person_id", True),
        ("LEFT JOIN persons p ON p.person_id = v.person_id AND v.ward = 1", False),
        ("LEFT JOIN persons p ON p.person_id = v.person_id AND p.age > 3", False),
        ("JOIN persons p ON p.person_id = v.person_id AND v.ward = 1", True),
        ("LEFT JOIN persons q ON q.person_id = v.person_id LEFT JOIN persons p ON p.person_id = q.person_id", True),
        ("LEFT JOIN persons q ON q.person_id = v.person_id AND v.ward = 1"
         " LEFT JOIN persons p ON p.person_id = q.person_id", False),
        ("LEFT JOIN persons q ON q.person_id = v.person_id AND v.ward = 1"
         " LEFT JOIN persons p ON p.person_id = v.person_id", True),
    ],
)  # fmt: skip
def test_a_key_has_one_value_for_each_person_only_if_all_rows_find_the_same_partner(
    duck: Engine, joins: str, single: bool
) -> None:
    """Where a LEFT JOIN asks for more than the unit, a person's rows have the key or NULL, and `max_rows` counts."""
    fill(duck, {"persons": [(1, 30, "f", "no", 1.0)], "visits": [(1, None, 1.0, "a", ward, None) for ward in (1, 2)]})
    text = f"SELECT v.person_id, p.age, COUNT(*) AS visits FROM visits v {joins} GROUP BY v.person_id, p.age"
    assert prove(duck, text).single is single
    assert single == (sum(output(duck, text)[1].values()) == 1) or "p.age" in joins


@settings(deadline=None)
@given(text=views(), tables=DATABASES)
def test_the_order_of_rows_does_not_count(duck: Engine, text: str, tables: dict[str, Rows]) -> None:
    """With the rows of every table in reverse order, a view gives the same rows, to the last bit."""
    fill(duck, tables)
    before = output(duck, text)
    fill(duck, {name: rows[::-1] for name, rows in tables.items()})
    assert output(duck, text) == before


@settings(deadline=None)
@given(text=views().filter(lambda text: "ARG_M" not in text), tables=DATABASES)
def test_the_translation_means_what_the_text_says(duck: Engine, text: str, tables: dict[str, Rows]) -> None:
    """The translation gives what DuckDB gives for the text itself, but for the last digits of sums of doubles."""
    fill(duck, tables)
    view = prove(duck, text)
    names = ["unit", *(f"c{place}" for place in range(len(view.proof.names)))]
    own = selected(duck, exp.select(*names).from_(as_rows(view.proof.relation)))
    plain = f"SELECT person_id, {', '.join(view.proof.names)} FROM ({text}) WHERE person_id IS NOT NULL"
    assert _texts(own) == _texts(selected(duck, plain))


def _texts(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr([_plain(value) for value in row.values()]) for row in rows)


def _plain(value: Any) -> Any:
    """Return a value to compare: dates as texts, numbers to six digits and six places."""
    if value is None or isinstance(value, date):
        return None if value is None else value.isoformat()
    return value if isinstance(value, str | bool) else f"{round(float(value), 6) + 0.0:.6g}"


REFERENCE = """
WITH v AS (
  SELECT v.person_id, COUNT(*) AS n, SUM(LEAST(GREATEST(v.cost, 0), 100)) AS total,
    AVG(LEAST(GREATEST(v.price, -5), 5)) AS mean, COUNT(DISTINCT v.code) AS codes, MIN(v.cost) AS least,
    MAX(v.day) AS last_day, ARG_MAX(v.code, v.day) AS last_code, ARG_MIN(v.cost, v.ward) AS lowest,
    COUNT(*) FILTER (WHERE c.chapter = 'A') AS of_a, SUM(c.points) AS points, SUM(v.ward) AS wards
  FROM visits v LEFT JOIN codes c ON v.code = c.code
  GROUP BY v.person_id
)
SELECT p.person_id, p.age, COALESCE(v.n, 0) AS n, v.total, v.mean, v.codes, v.least, v.last_day, v.last_code, v.lowest,
  v.of_a, v.points, v.wards, UPPER(p.sex) AS sex
FROM persons p LEFT JOIN v ON v.person_id = p.person_id
WHERE p.ill IS NOT NULL
"""


def reference(tables: dict[str, Rows]) -> Rows:
    """Return in plain Python what the view REFERENCE gives."""
    chapters = {code: (chapter, points) for code, chapter, points, *_ in PUBLIC["codes"]}
    result = []
    for person, age, sex, ill, _ in tables["persons"]:
        if ill is None:
            continue
        own = [row for row in tables["visits"] if row[0] == person]
        costs, codes = [row[2] for row in own], [row[3] for row in own]
        total = sum(0.0 if cost is None else min(max(_order(cost), 0.0), 100.0) for cost in costs) if own else None
        prices = [-5.0 if row[5] is None else min(max(float(row[5]), -5.0), 5.0) for row in own]
        known = [_order(cost) for cost in costs if cost is not None]
        days = [row[1] for row in own if row[1] is not None]
        dated = [(row[1], row[3]) for row in own if row[1] is not None and row[3] is not None]
        wards = [(row[4], row[2]) for row in own if row[4] is not None and row[2] is not None]
        low = [_order(cost) for ward, cost in wards if ward == min(wards)[0]] if wards else []
        last = [code for day, code in dated if day == max(dated)[0]]
        joined = [chapters[code] for code in codes if code in chapters]
        points = [point for _, point in joined if point is not None]
        places = [row[4] for row in own if row[4] is not None]
        result.append((
            person, age, len(own), total, sum(prices) / len(prices) if own else None,
            len({code for code in codes if code is not None}) if own else None, _back(min(known)) if known else None,
            max(days) if days else None, max(last, key=str.encode) if last else None, _back(max(low)) if low else None,
            sum(chapter == "A" for chapter, _ in joined) if own else None, sum(points) if points else None,
            sum(places) if places else None, None if sex is None else sex.upper(),
        ))  # fmt: skip
    return result


def _order(number: float) -> float:
    """Return a number that is ordered as databases order: NaN above all others."""
    return 1.7e308 * 2 if number == math.inf else (1.79e308 if number != number else number)


def _back(number: float) -> float:
    return math.nan if number == 1.79e308 else number


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_views_give_what_plain_python_gives(kind: str) -> None:
    """A view with every aggregate gives on both databases what a few lines of Python give, hostile cells and all."""
    engine = OPEN_EMPTY[kind]()
    create_warehouse(engine)
    fill(engine, PUBLIC)

    @settings(deadline=None, max_examples=15)
    @given(tables=DATABASES)
    def compare(tables: dict[str, Rows]) -> None:
        # NaN and infinity in one group have an order that Python spells only with care; one of them is enough.
        tables["visits"] = [row if row[2] != math.inf else (*row[:2], 1e300, *row[3:]) for row in tables["visits"]]
        fill(engine, tables)
        view = prove(engine, REFERENCE)
        names = ["unit", *(f"c{place}" for place in range(len(view.proof.names)))]
        shown = selected(engine, exp.select(*names).from_(as_rows(view.proof.relation)))
        assert _texts(shown) == sorted(repr([_plain(value) for value in row]) for row in reference(tables))

    compare()
    engine.close()


def test_the_second_lock_refuses_what_the_proof_would_never_build(duck: Engine) -> None:
    """Each way to take the unit out of the translated query is refused by the check on the statement."""
    rows = as_rows(prove(duck, FEATURES).proof.relation)
    count = exp.select(exp.alias_(exp.Count(this=exp.Star()), "rows")).from_(rows)
    check_statement(count, duck.vocabulary)
    for change in (_without_null_test, _other_join, _other_group, _outer_join, _with_limit, _with_subquery):
        broken = rows.copy()
        change(broken)
        with pytest.raises(NotUnitLocal):
            check_unit_rows(broken)
        with pytest.raises(NotAggregate):
            check_statement(exp.select(exp.alias_(exp.Count(this=exp.Star()), "rows")).from_(broken), duck.vocabulary)
    assert rows.alias == UNIT_ROWS


def _without_null_test(rows: exp.Subquery) -> None:
    rows.find(exp.Table).parent_select.set("where", None)


def _other_join(rows: exp.Subquery) -> None:
    rows.find(exp.Join).set("on", exp.true())


def _other_group(rows: exp.Subquery) -> None:
    rows.find(exp.Group).set("expressions", [exp.column("c0", "rows_0")])


def _outer_join(rows: exp.Subquery) -> None:
    rows.find(exp.Join).set("side", "FULL")


def _with_limit(rows: exp.Subquery) -> None:
    rows.this.set("limit", exp.Limit(expression=exp.Literal.number(1)))


def _with_subquery(rows: exp.Subquery) -> None:
    rows.this.expressions[1].set("this", exp.select("1").from_("persons").subquery())


def test_the_statement_may_not_read_another_table_beside_a_view(duck: Engine) -> None:
    """A view's rows count as one private table: nothing private may be joined with them."""
    rows = as_rows(prove(duck, FEATURES).proof.relation)
    other = exp.table_("persons", db="main", quoted=True)
    with pytest.raises(NotAggregate, match="read once"):
        check_statement(exp.select("COUNT(*)").from_(rows).join(other, on="TRUE"), duck.vocabulary)
