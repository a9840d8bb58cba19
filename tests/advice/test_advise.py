"""Advice before anything is spent: free, the plan's own figures, plain where epsilon is not worth spending."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpsql.advice.advise import SIZES, advise_schema
from dpsql.advice.outlook import AMPLE, DOUBTFUL, HELPS, WASTE
from dpsql.advice.reference_problem import VISIBLE
from dpsql.api.database import Database, connect
from dpsql.errors import (
    BudgetExceeded,
    NotRegistered,
    ParameterError,
    UnknownName,
    UsageError,
)
from dpsql.methods.auto.epsilon_shares import ALONE
from dpsql.schema import Numeric, Schema, Unit
from tests.tables import SCHEMA, TARGET, UNITS, fill, memory, on_disk, rows_of, run, shape, some_rows, stored

WIDE = Schema("y", ("no", "yes"), tuple(Numeric(f"x{place}", 0, 1) for place in range(12)))
ROWS = some_rows(400)


@pytest.fixture
def db() -> Iterator[Database]:
    """Open a database with the private table "people", whose size is not declared, and a cap of 3."""
    with memory(ROWS, cap=3) as opened:
        yield opened


def declared(rows: int, schema: Schema = WIDE) -> Schema:
    """Return a schema that declares its size."""
    return replace(schema, rows=rows)


_LEVELS = (WASTE, DOUBTFUL, HELPS, AMPLE)


# What it says.


@pytest.mark.parametrize("schema", [WIDE, replace(WIDE, unit=Unit("person", 4)), SCHEMA], ids=["row", "unit", "small"])
@pytest.mark.parametrize(("rows", "epsilon"), [(50, 0.1), (2000, 0.5), (300_000, 2)])
def test_figures_are_those_of_the_plan(schema: Schema, rows: int, epsilon: float) -> None:
    """Trees, depth, noise and steps equal what the plan that training prints says."""
    with memory((), schema=declared(rows, SCHEMA)) as opened:
        known = declared(rows, schema)
        fill(opened.engine, "rows", (), {"person": "BIGINT", "y": "VARCHAR", "c": "VARCHAR"} | _numbers(schema))
        opened.register("rows", known, cap=9)
        plan = opened.plan("rows", epsilon=epsilon, method="auto")
        found = opened.advise("rows", epsilon=epsilon)
    now = found.now
    assert now is not None
    assert now.plan == plan
    leaves = "marginals" if plan.parameters["regime"] == ALONE else "counts"
    asked = {step.name: step.trees for step in plan.steps if step.name in ("marginals", "counts")}
    assert (now.trees, now.depth) == (sum(asked.values()), plan.parameters["planned_depth"])
    assert now.of_one_feature == asked.get("marginals", 0)
    counts = next(step for step in plan.to_dict()["steps"] if step["name"] == leaves)
    assert now.leaf_deviation == pytest.approx(math.sqrt(2) * counts["noise_scale"])
    assert counts["expected_error"] == f"standard deviation {now.leaf_deviation:.3g} rows per count"
    assert found.to_dict()["steps"] == plan.to_dict()["steps"]
    assert now.rows_per_leaf == rows / 2**now.depth


def _numbers(schema: Schema) -> dict[str, str]:
    return {feature.name: "DOUBLE" for feature in schema.numeric}


def test_a_size_that_is_not_declared_costs_its_share() -> None:
    """Training would buy it first, so the other steps get what is left; together they are epsilon."""
    known, guessed = advise_schema(declared(5000)).now, advise_schema(WIDE, rows=5000).now
    assert known is not None
    assert guessed is not None
    assert known.plan.nano_epsilon == 10**9
    assert guessed.plan.nano_epsilon == 970_000_000
    assert "size 0.03, " in advise_schema(WIDE, rows=5000).text(details=True)
    assert "size 0.03" not in advise_schema(declared(5000)).text(details=True)


def test_a_tiny_table_is_not_worth_the_budget() -> None:
    """It says so, with the epsilon and the rows that it would take; these make it likely."""
    found = advise_schema(declared(100), epsilon=0.1)
    assert found.verdict == WASTE
    now = found.now
    assert now is not None
    assert now.break_even is not None
    assert now.rows_needed is not None
    assert "Not worth the budget: at epsilon 0.1" in str(found)
    assert advise_schema(declared(100), epsilon=1.01 * now.break_even).verdict == HELPS
    assert advise_schema(declared(math.ceil(1.01 * now.rows_needed)), epsilon=0.1).verdict == HELPS
    assert advise_schema(declared(100), epsilon=0.98 * now.break_even, majority=found.problem.majority).verdict == WASTE


def test_in_between_it_is_doubtful() -> None:
    """Where it would help if classes were equally frequent, and nobody told whether they are, it says just that."""
    even = dict(advise_schema(declared(100)).by_majority)[0.5]
    assert even is not None
    assert advise_schema(declared(100), epsilon=0.98 * even).verdict == WASTE
    found = advise_schema(declared(100), epsilon=1.02 * even)
    assert found.verdict == DOUBTFUL
    assert "only if classes are about equally frequent" in str(found)
    assert advise_schema(declared(100), epsilon=1.02 * even, majority=0.5).verdict == HELPS
    assert advise_schema(declared(100), epsilon=1.02 * even, majority=0.6).verdict == WASTE


def test_a_large_table_is_worth_it_and_a_huge_epsilon_is_not_needed() -> None:
    """A middling epsilon helps; far beyond, a smaller one is told, which does as well."""
    found = advise_schema(declared(30_000), epsilon=0.2)
    assert found.verdict == HELPS
    assert "Not worth" not in str(found)
    assert "Worth it" in str(found)
    much = advise_schema(declared(30_000), epsilon=20)
    assert much.verdict == AMPLE
    assert much.now is not None
    assert much.smaller_epsilon is not None
    assert much.smaller_epsilon.verdict == AMPLE
    assert much.now.gain - much.smaller_epsilon.gain < VISIBLE / 3
    assert f"Epsilon {much.smaller_epsilon.epsilon:.3g} would do" in str(much)


@pytest.mark.parametrize(
    "schema", [WIDE, SCHEMA, TARGET, replace(WIDE, unit=Unit("person", 5))], ids=lambda s: str(s.unit)
)
def test_more_rows_or_epsilon_never_make_it_worse(schema: Schema) -> None:
    """The signal kept and the gain only grow, the smallest epsilon only falls, and what is worth it stays so."""
    sizes, epsilons = (50, 400, 3000, 20_000, 150_000), ("0.01", "0.1", "1", "10")
    found = {(rows, e): advise_schema(schema, rows=rows, epsilon=e).now for rows in sizes for e in epsilons}
    for (rows, epsilon), now in found.items():
        more = [found.get((sizes[min(4, sizes.index(rows) + 1)], epsilon))]
        more += [found.get((rows, epsilons[min(3, epsilons.index(epsilon) + 1)]))]
        for then in more:
            assert now is not None
            assert then is not None
            assert (then.signal_kept, then.gain) >= (now.signal_kept, now.gain)
            assert (then.break_even or math.inf) <= (now.break_even or math.inf)
            assert min(2, _LEVELS.index(then.verdict)) >= min(2, _LEVELS.index(now.verdict))


def test_twice_the_rows_brings_a_little_more_than_twice_the_epsilon() -> None:
    """Both double what outweighs noise; rows halve sampling error too."""
    found = advise_schema(declared(200), epsilon=1)
    assert found.now is not None
    assert found.twice_rows is not None
    assert found.twice_epsilon is not None
    assert (found.twice_rows.rows, found.twice_epsilon.epsilon) == (400, 2)
    assert found.now.signal_kept < found.twice_epsilon.signal_kept < found.twice_rows.signal_kept
    assert found.twice_epsilon.plan.nano_epsilon == 2 * found.now.plan.nano_epsilon


def test_rows_of_a_unit_cost_noise() -> None:
    """With max_rows c the noise is c times that of rows; half of them is what if."""
    rows, units = advise_schema(WIDE, rows=10**6), advise_schema(replace(WIDE, unit=Unit("person", 4)), rows=10**6)
    assert rows.fewer_rows is None
    assert rows.now is not None
    assert units.now is not None
    assert units.fewer_rows is not None
    assert units.now.leaf_deviation == pytest.approx(4 * rows.now.leaf_deviation)
    assert units.fewer_rows.leaf_deviation == pytest.approx(2 * rows.now.leaf_deviation)
    assert (units.now.break_even or 0) == pytest.approx(4 * (rows.now.break_even or 0), rel=1e-3)
    assert "max_rows 4 makes all noise 4 times that of one row. With max_rows 2" in units.text(details=True)
    assert "max_rows 2  " in str(units)


def test_a_number_gets_another_method_and_another_yardstick() -> None:
    """For a numeric target the method predicts numbers, noise is in ranges of the target, the rival is the mean."""
    found = advise_schema(declared(50_000, TARGET), epsilon=1)
    now = found.now
    assert now is not None
    assert (found.method, now.plan.method) == ("rdt", "rdt")
    assert now.leaf_deviation == pytest.approx(math.sqrt(2) * now.trees)
    assert "beat the mean" in str(found)
    assert "majority" not in str(found)
    assert found.to_dict()["assumed_majority"] is None


def test_without_a_size_it_is_a_list_over_sizes(db: Database) -> None:
    """No error: one outlook for each of several sizes, and how to narrow it."""
    found = db.advise("people")
    assert found.now is None
    assert found.verdict is None
    assert tuple(one.rows for one in found.by_size) == SIZES
    assert "--rows N" in str(found)
    assert "--buy 0.01" in str(found)


def test_a_guess_goes_before_the_declared_size() -> None:
    """What if the table had more rows: the guess counts, and is marked as one."""
    found = advise_schema(declared(100), rows=70_000)
    assert found.now is not None
    assert (found.now.rows, found.source) == (70_000, "guessed")
    assert "(your own guess)" in str(found)
    assert "(declared)" in str(advise_schema(declared(100)))


def test_a_guess_of_the_largest_class_moves_the_smallest_epsilon() -> None:
    """A larger class is harder to beat; the list by shares has the same figures."""
    found = advise_schema(declared(2000), majority=0.6).now
    harder = advise_schema(declared(2000), majority=0.8).now
    assert found is not None
    assert harder is not None
    assert (found.break_even or 0) < (harder.break_even or math.inf)
    assert dict(advise_schema(declared(2000)).by_majority)[0.8] == harder.break_even


@pytest.mark.parametrize("details", [True, False])
def test_a_share_that_was_told_is_not_asked_for(*, details: bool) -> None:
    """Advice names the share that it counts on; it asks for it only where nobody told it."""
    asked, told = advise_schema(declared(2000)), advise_schema(declared(2000), majority=0.88)
    assert "--majority SHARE" in asked.text(details=details)
    assert "67 % of the rows (assumed" in asked.text(details=details)
    assert "--majority" not in told.text(details=details)
    assert "It depends on the largest class" not in told.text(details=details)
    assert "88 % of the rows (as you say)" in told.text(details=details)


def test_the_verdict_comes_first_and_the_rest_is_short() -> None:
    """The first line is the verdict, then a table with a line for each case; what is assumed comes with details."""
    advice = advise_schema(declared(5000))
    lines = str(advice).splitlines()
    assert lines[0].startswith("Worth it: ")
    assert [line[:17].strip() for line in lines[4:7]] == ["epsilon 1", "twice the epsilon", "twice the rows"]
    assert max(map(len, lines[3:7])) <= 100
    assert "Likely: by 3 points in a reference problem" not in str(advice)
    assert advice.text(details=True).startswith(str(advice))
    assert "Likely: by 3 points in a reference problem" in advice.text(details=True)


def test_it_is_plain_values_of_one_shape(db: Database) -> None:
    """`to_dict` is JSON, and has the same keys whatever is known."""
    known, unknown = db.advise("people", rows=1000).to_dict(), db.advise("people").to_dict()
    assert known.keys() == unknown.keys()
    assert json.loads(json.dumps(known)) == known
    assert shape(known["now"]) == shape(unknown["by_size"][3])


# What it costs.


def test_it_is_free_and_reads_no_row(db: Database) -> None:
    """Nothing is stored or charged, and a table without rows gets the same advice to the letter."""
    before = stored(db)
    told = [str(db.advise("people")), str(db.advise("people", rows=300, epsilon=2, majority=0.7))]
    assert stored(db) == before
    run(db.engine, "DELETE FROM people")
    assert [str(db.advise("people")), str(db.advise("people", rows=300, epsilon=2, majority=0.7))] == told


def test_a_bought_size_is_charged_exactly_and_kept(db: Database) -> None:
    """One entry of method "advise" with one step "size"; later advice has the size for free."""
    found = db.advise("people", buy="0.05", epsilon=0.5)
    [entry] = [entry for entry in db.book.entries() if entry.method == "advise"]
    assert (entry.amount_text, entry.state, db.budget("people").spent_text) == ("0.05", "released", "0.05")
    assert [step["operation"] for step in entry.plan["steps"]] == ["size"]
    assert found.bought is not None
    assert (found.bought.epsilon, found.bought.entry, found.source) == ("0.05", entry.entry_id, "bought")
    before = stored(db)
    again = db.advise("people", epsilon=0.5)
    assert str(again) == str(found)
    assert stored(db) == before
    assert db.verify() == []


def test_a_guess_goes_before_a_bought_size(db: Database) -> None:
    """Whoever gives a size gets advice for that one."""
    db.advise("people", buy=1)
    found = db.advise("people", rows=12_345).now
    assert found is not None
    assert found.rows == 12_345


@pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])
def test_a_bought_size_has_the_noise_that_it_says(schema: Schema) -> None:
    """The scale is max_rows over epsilon: a huge epsilon tells the size, a tiny one drowns it."""
    with memory(ROWS, schema=schema, cap=10**7, least_epsilon="0.000001") as opened:
        known = opened.advise("people", buy=10**6)
        drowned = opened.advise("people", buy="0.000001")
        sizes = [row["noisy_rows"] for row in rows_of(opened.engine, "FROM dpsql.size ORDER BY entry_id")]
    assert known.bought is not None
    assert drowned.bought is not None
    assert known.bought.deviation == pytest.approx(math.sqrt(2) * schema.unit.max_rows / 10**6)
    assert drowned.bought.deviation == pytest.approx(math.sqrt(2) * schema.unit.max_rows * 10**6)
    assert known.bought.rows == sizes[0]
    assert 200 < sizes[0] <= len(ROWS)
    assert abs(sizes[1] - sizes[0]) > 100  # closer than that once in ten thousand times


def test_one_request_is_one_size(db: Database) -> None:
    """The same request id gives the same size and charges nothing more; for another epsilon it is refused."""
    first = db.advise("people", buy="0.1", request_id="r1")
    before = stored(db)
    assert str(db.advise("people", buy="0.1", request_id="r1")) == str(first)
    assert stored(db) == before
    with pytest.raises(ParameterError, match="request_id"):
        db.advise("people", buy="0.2", request_id="r1")


def test_a_refused_charge_leaves_no_trace(db: Database) -> None:
    """More than is left is refused before any row is read, and advice stays free."""
    before = stored(db)
    with pytest.raises(BudgetExceeded):
        db.advise("people", buy=4)
    assert stored(db) == before
    assert db.advise("people").source == "unknown"


def test_a_plan_of_the_purchase_is_free(db: Database) -> None:
    """`plan_advice` says what buying would cost and touches nothing."""
    before = stored(db)
    plan = db.plan_advice("people", buy="0.01")
    assert (plan.nano_epsilon, plan.steps[0].operation.name) == (10**7, "size")
    assert stored(db) == before


def test_a_bought_size_survives_closing_the_file(tmp_path: Path) -> None:
    """What was paid for is there when the file is opened again, read-only too."""
    with on_disk(tmp_path / "data.duckdb", ROWS) as opened:
        first = str(opened.advise("people", buy="0.5"))
    with connect(tmp_path / "data.duckdb", read_only=True, who="ann") as opened:
        assert str(opened.advise("people")) == first


# The budget.


def test_it_says_what_is_left_and_whether_the_run_fits(db: Database) -> None:
    """What is left of the table's cap, under the analyst's own cap where there is one."""
    assert db.advise("people", epsilon=3).fits
    refused = db.advise("people", epsilon=4)
    assert not refused.fits
    assert "3 left of 3; a run at epsilon 4 would be refused" in str(refused)
    db.set_cap("people", "0.5", analyst="ann")
    assert not db.advise("people", epsilon=1).fits
    assert db.advise("people", epsilon="0.5").fits


def test_a_table_without_a_cap_always_fits() -> None:
    """There is nothing that could refuse it."""
    with memory(ROWS, cap=None) as opened:
        found = opened.advise("people", epsilon=1000)
    assert found.fits
    assert "no cap; a run" in str(found)


# What is refused.


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"epsilon": 0}, ParameterError),
        ({"epsilon": "x"}, ParameterError),
        ({"rows": 0}, ParameterError),
        ({"rows": 2.5}, ParameterError),
        ({"rows": True}, ParameterError),
        ({"majority": 1.0}, ParameterError),
        ({"majority": 0.2}, ParameterError),
        ({"majority": math.nan}, ParameterError),
        ({"buy": -1}, ParameterError),
        ({"rows": 5, "buy": 1}, UsageError),
        ({"request_id": "r"}, ParameterError),
        ({"buy": 1, "request_id": ""}, ParameterError),
    ],
)
def test_bad_words_are_refused_before_a_charge(db: Database, asked: dict[str, Any], error: type[Exception]) -> None:
    """A wrong epsilon, size, share or combination is named, and nothing is charged."""
    before = stored(db)
    with pytest.raises(error):
        db.advise("people", **asked)
    assert stored(db) == before


def test_a_bad_word_beside_a_purchase_costs_nothing(db: Database) -> None:
    """Everything is checked before the charge."""
    for wrong in ({"epsilon": 0}, {"majority": 2}):
        with pytest.raises(ParameterError):
            db.advise("people", buy=1, **wrong)
    assert db.budget("people").spent_text == "0"


def test_tables_that_cannot_be_advised_on_are_refused(db: Database) -> None:
    """Unknown, not registered, or without a label."""
    with pytest.raises(UnknownName):
        db.advise("poeple")
    fill(db.engine, "others", ROWS)
    with pytest.raises(NotRegistered):
        db.advise("others")
    db.register("others", Schema("", (), SCHEMA.features), cap=1)
    with pytest.raises(UsageError, match="no label"):
        db.advise("others", buy=1)
    with pytest.raises(UsageError, match="no label"):
        db.plan_advice("others", buy=1)


def test_the_largest_class_of_a_number_is_refused() -> None:
    """A numeric target has no classes."""
    with pytest.raises(ParameterError, match="majority"):
        advise_schema(TARGET, rows=100, majority=0.6)
