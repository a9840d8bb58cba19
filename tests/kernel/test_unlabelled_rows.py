"""Two sides of a run: nobody is on both without paying for both, and no row is asked on which side its unit stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpsql.api.database import Database, connect
from dpsql.compile.count.leaves import Part
from dpsql.errors import (
    BudgetExceeded,
    DpsqlError,
    NotPrivate,
    NotRegistered,
    ParameterError,
    SchemaError,
    UnknownName,
    UsageError,
)
from dpsql.kernel.datasets.dataset import find_dataset, source
from dpsql.kernel.operations import OPERATIONS, LeafCounts, Size
from dpsql.kernel.plan import FEATURES, LABELLED, UNLABELLED, Parallel, Plan, Sequential, Sides, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.run import Job, run
from dpsql.kernel.session import Session
from dpsql.kernel.unlabelled_rows import are_disjoint, partner, sources, with_sides
from dpsql.schema import Categorical, Numeric, Schema, Unit
from tests.releases import releasing
from tests.tables import SCHEMA, UNITS, fill, some_rows, stored
from tests.tables import run as execute

LABELLED_ROWS = [(k, float(k % 64), "ab"[k % 2], ("no", "yes", "maybe")[k % 3]) for k in range(300)]
BARE_ROWS = [(1000 + k, float(k % 64), "ab"[k % 2], None) for k in range(700)]
PUBLIC = replace(SCHEMA, public_features=True)
BARE = Schema("", (), SCHEMA.features)
SMALL = {"trees": 3, "depth": 2}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a file with "people" (labelled) and "others" (not labelled), not yet registered."""
    with connect(tmp_path / "data.duckdb", create=True, who="ann") as opened:
        fill(opened.engine, "people", [*LABELLED_ROWS, *BARE_ROWS[:50]])
        fill(opened.engine, "others", BARE_ROWS)
        yield opened


def registered(database: Database, people: Schema = SCHEMA, others: Schema = BARE, cap: object = 5) -> None:
    """Register both tables."""
    database.register("people", people, cap=cap)
    database.register("others", others, cap=cap)


def session_of(database: Database, plan: Plan, table: str) -> Session:
    """Return a session with both sides, as the kernel opens it after a charge."""
    dataset = find_dataset(database.engine, database.book, table)
    rows = source(database.engine, dataset)
    return Session(database.engine, rows, plan, sources(database.engine, dataset, None, plan, rows))


def two_sizes(unlabelled: str = "") -> Plan:
    """Return a plan that asks for the size of each side."""
    composition = Sides(Step("u", Size(), 10**9), Step("l", Size(), 10**9), disjoint=True)
    return Plan("test", composition, Promise(SCHEMA.unit), unlabelled=unlabelled)


def sizes(database: Database, unlabelled: str = "", table: str = "people") -> dict[str, int]:
    """Return the exact number of rows on each side."""
    rows = session_of(database, two_sizes(unlabelled), table)._rows
    return {side: rows.size(Part(side=side)) for side in (UNLABELLED, LABELLED, FEATURES)}


def test_rows_without_a_label_are_one_side(database: Database) -> None:
    """By default a row is unlabelled when its label is NULL; one that is none of the classes counts on neither side."""
    execute(database.engine, "INSERT INTO people VALUES (5000, 1, 'a', '??')")
    database.register("people", SCHEMA, cap=1)
    assert sizes(database) == {UNLABELLED: 50, LABELLED: 300, FEATURES: 300}


@pytest.mark.parametrize(
    ("condition", "unlabelled"),
    [
        ("y IS NULL", 50),
        ("x < 10", None),
        ("c = 'a' OR y IS NULL", None),
        ("C <> 'a' AND \"x\" BETWEEN 3 AND 40", None),
        ("c IN ('b') AND x >= 3.5", None),
        ("NOT c = 'a'", None),
    ],
)
def test_a_condition_parts_the_rows(database: Database, condition: str, unlabelled: int | None) -> None:
    """Whatever the condition, NULL included, each labelled row is on one side, and the others on the other or none."""
    database.register("people", SCHEMA, cap=1)
    execute(database.engine, "INSERT INTO people VALUES (5000, NULL, NULL, 'yes')")
    found = sizes(database, condition)
    with database.engine.transaction() as transaction:
        held = transaction.rows(f"SELECT count(*) AS n FROM people WHERE {condition}")[0]["n"]
        rest = transaction.rows(f"SELECT count(*) AS n FROM people WHERE y IS NOT NULL AND ({condition}) IS NOT TRUE")
    assert found[UNLABELLED] == held
    assert found[LABELLED] == found[FEATURES] == rest[0]["n"]
    assert unlabelled in (None, held)


def test_a_view_is_unfolded_under_a_condition(database: Database) -> None:
    """A condition on a view's column is a condition on what it is made of."""
    execute(database.engine, "CREATE VIEW shown AS SELECT person, x, upper(c) AS c, y FROM people WHERE x < 32")
    upper = replace(SCHEMA, features=(Categorical("c", ("A", "B")), SCHEMA.features[1]))
    database.register("shown", upper, cap=1)
    with database.engine.transaction() as transaction:
        expected = transaction.rows("SELECT count(*) AS n FROM people WHERE x < 32 AND c = 'a'")[0]["n"]
    assert sizes(database, "c = 'A'", "shown")[UNLABELLED] == expected
    assert database.train("shown", method="sspe", unlabelled="c IN ('A', 'Z')", **SMALL).released.forest.trees == 3


@pytest.mark.parametrize(
    "condition",
    ["1/0 > 0", "CAST(y AS INTEGER) = 1", "x > (SELECT max(x) FROM people)", "x +", "y = 'no'",
     "y = 'a'; DROP TABLE people", "random() < 0.5", "c LIKE 'x\\'", ""],
)  # fmt: skip
def test_a_condition_that_could_fail_is_refused(database: Database, condition: str) -> None:
    """Only conditions that are true or false for every row, on declared columns, are taken; nothing is charged."""
    database.register("people", SCHEMA, cap=1)
    before = stored(database)
    with pytest.raises(ParameterError) as caught:
        database.train("people", method="sspe", unlabelled=condition, **SMALL)
    assert caught.value.name == "unlabelled"
    assert stored(database) == before


@pytest.mark.parametrize(
    ("given", "nearest"), [("rowid < 5", []), ("cc = 'a'", ["c"]), ("person = 3", []), ("young_ones", ["young_one"])]
)
def test_an_unknown_name_is_told_with_the_nearest(database: Database, given: str, nearest: list[str]) -> None:
    """A column that analysts may not name, or a condition that nobody declared, is unknown; the nearest are offered."""
    database.register("people", replace(SCHEMA, conditions=(("young_one", "x < 20"),)), cap=1)
    before = stored(database)
    with pytest.raises(UnknownName) as caught:
        database.train("people", method="sspe", unlabelled=given, **SMALL)
    assert caught.value.nearest == nearest
    assert stored(database) == before


@pytest.mark.parametrize("unlabelled", [None, "y IS NULL", "x < 5", "person < 5 OR x < 5"])
def test_a_unit_cannot_be_on_both_sides(database: Database, unlabelled: str | None) -> None:
    """Where a unit has several rows the side must follow from the unit's column alone."""
    database.register("people", UNITS, cap=1)
    before = stored(database)
    with pytest.raises(ParameterError, match="person"):
        database.train("people", method="sspe", **SMALL, **({} if unlabelled is None else {"unlabelled": unlabelled}))
    assert stored(database) == before


def test_a_condition_on_the_unit_is_taken(database: Database) -> None:
    """All rows of a unit are then on one side."""
    database.register("people", UNITS, cap=1)
    model = database.train("people", method="sspe", unlabelled="person >= 100", **SMALL)
    assert model.certificate["epsilon"] == "1"
    assert database.budget("people").spent == 10**9


def test_a_declared_condition_is_used_by_its_name(database: Database) -> None:
    """The owner's condition may read any column of the table; analysts name it, in any letter case."""
    declared = (("bare", "y IS NULL"), ("early", "person < 1010 AND y != 'no'"))
    database.register("people", replace(SCHEMA, conditions=declared), cap=1)
    with database.engine.transaction() as transaction:
        held = transaction.rows("SELECT count(*) AS n FROM people WHERE person < 1010 AND y <> 'no'")[0]["n"]
    assert sizes(database, "bare")[UNLABELLED] == 50
    assert sizes(database, "Early")[UNLABELLED] == held
    model = database.train("people", method="sspe", unlabelled="early", **SMALL)
    assert model.certificate["plan"]["unlabelled"] == "early"


@pytest.mark.parametrize("text", ["nobody = 1", "x LIKE 'a'", "c > 'a'", "x = 1e400", ""])
def test_a_declared_condition_is_checked_when_it_is_registered(database: Database, text: str) -> None:
    """A condition that cannot be read, or does not fit the table, is refused with nothing written."""
    database.register("others", BARE, cap=1)
    before = stored(database)
    with pytest.raises(UsageError):
        database.register("people", replace(SCHEMA, conditions=(("mine", text),)), cap=1)
    assert stored(database) == before


def test_a_declared_condition_cannot_part_a_unit_or_tell_a_label(database: Database) -> None:
    """The rules for units and for private labels hold for the owner's conditions too."""
    declared = (("young", "x < 20"), ("no", "y = 'no'"))
    database.register("people", replace(UNITS, conditions=declared), cap=1)
    with pytest.raises(ParameterError, match="all rows of a unit"):
        database.train("people", method="sspe", unlabelled="young", **SMALL)
    database.register("people", replace(UNITS, conditions=declared, public_features=True), cap=1, replace=True)
    database.set_cap("people", 1, kind="label")
    with pytest.raises(ParameterError, match="labels are private"):
        database.train("people", method="pte", unlabelled="no", **SMALL)


def test_a_name_that_is_a_table_and_a_condition_is_refused(database: Database) -> None:
    """Nobody can tell which of them is meant."""
    registered(database, people=replace(SCHEMA, conditions=(("Others", "x < 20"),)))
    with pytest.raises(ParameterError, match="both"):
        database.train("people", method="sspe", unlabelled="others", **SMALL)


def test_within_one_table_the_larger_side_is_charged(database: Database) -> None:
    """Both sides work with the whole epsilon, and the table pays once."""
    database.register("people", SCHEMA, cap=1)
    plan = database.plan("people", method="sspe", epsilon=1)
    assert plan.nano_epsilon == plan.cost_of(UNLABELLED) == plan.cost_of(LABELLED) == 10**9
    model = database.train("people", method="sspe", epsilon=1)
    assert model.certificate["epsilon"] == "1"
    assert database.budget("people").left == 0


def test_two_tables_declared_disjoint_pay_epsilon_each(database: Database) -> None:
    """Each dataset is charged for its own side, in one step, and the model is good for epsilon."""
    registered(database, others=replace(BARE, disjoint_from=("PEOPLE",)))
    model = database.train("people", method="sspe", epsilon=1, unlabelled="others", request_id="r", **SMALL)
    assert model.certificate["epsilon"] == "1"
    assert (model.certificate["unlabelled_table"], model.certificate["plan"]["unlabelled"]) == ("others", "others")
    assert (database.budget("people").spent, database.budget("others").spent) == (10**9, 10**9)
    charges = database.book.entries(event="reserve")
    assert [(one.table, one.state) for one in charges] == [("people", "released"), ("others", "released")]
    assert database.book.verify() == []


def test_two_tables_that_may_share_people_add_up(database: Database) -> None:
    """Where nobody declared them disjoint each side gets half, and the halves add up to what was asked for."""
    registered(database)
    model = database.train("people", method="sspe", epsilon=1, unlabelled="others", **SMALL)
    assert model.certificate["epsilon"] == "1"
    assert (database.budget("people").spent, database.budget("others").spent) == (5 * 10**8, 5 * 10**8)
    assert "sides, not apart" in model.certificate["plan"]["composition"]


def test_a_repeated_request_charges_neither_table(database: Database) -> None:
    """Asking again under the same id returns the stored model."""
    registered(database)
    first, second = (
        database.train("people", method="sspe", unlabelled="others", request_id="same", **SMALL) for _ in range(2)
    )
    assert first.certificate["digest"] == second.certificate["digest"]
    assert len(database.book.entries(event="reserve")) == 2


@pytest.mark.parametrize("poor", ["people", "others"])
def test_both_are_charged_or_neither(database: Database, poor: str) -> None:
    """When one of the two cannot pay, the other is not charged either, and nothing is left behind."""
    registered(database, people=replace(SCHEMA, disjoint_from=("others",)))
    database.set_cap(poor, "0.5")
    before = stored(database)
    with pytest.raises(BudgetExceeded):
        database.train("people", method="sspe", epsilon=1, unlabelled="others", **SMALL)
    assert stored(database) == before


def test_a_failed_run_loses_both_charges(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure can depend on data, so neither table gets its epsilon back."""
    registered(database, people=replace(SCHEMA, disjoint_from=("others",)))

    def fail(*_: object, **__: object) -> None:
        raise ArithmeticError("secret 4711")

    monkeypatch.setattr(Session, "leaf_counts", fail)
    with pytest.raises(DpsqlError) as caught:
        database.train("people", method="sspe", unlabelled="others", **SMALL)
    assert "4711" not in str(caught.value)
    assert [one.state for one in database.book.entries(event="reserve")] == ["lost", "lost"]
    assert (database.budget("people").spent, database.budget("others").spent) == (10**9, 10**9)


def test_the_kernel_does_not_take_a_plans_word(database: Database) -> None:
    """A plan that claims that two tables share nobody is refused by the kernel unless an owner declared it."""
    registered(database)
    dataset, other = (find_dataset(database.engine, database.book, name) for name in ("people", "others"))
    claimed = with_sides(database.plan("people", method="sspe", unlabelled="others", **SMALL), disjoint=True)
    job = Job.of(dataset, claimed, who="ann", request_id="r", other=other)
    before = stored(database)
    with pytest.raises(NotPrivate, match="nobody declared"):
        run(database.engine, database.book, job, releasing(lambda s: s))
    assert stored(database) == before
    assert not are_disjoint(dataset, other)


@pytest.mark.parametrize("unit", [Unit(), Unit("person", 1), Unit("x", 3)])
def test_a_plan_cannot_protect_less_than_was_registered(database: Database, unit: Unit) -> None:
    """A method that plans for another unit, and so for less noise, is refused by the kernel and charges nothing."""
    database.register("people", UNITS, cap=1)
    dataset = find_dataset(database.engine, database.book, "people")
    plan = Plan("mine", Step("counts", LeafCounts(), 10**9, cells=3, classes=3), Promise(unit))
    job = Job.of(dataset, plan, who="ann", request_id="r")
    before = stored(database)
    with pytest.raises(NotPrivate, match="registered to protect"):
        run(database.engine, database.book, job, releasing(lambda s: s))
    assert stored(database) == before


def test_a_step_cannot_choose_its_side(database: Database) -> None:
    """The side of a step follows from the composition that pays for it, whatever the step says of itself."""
    step = Step("counts", LeafCounts(), 10**9, cells=3, classes=3, side=UNLABELLED)
    plan = Plan("mine", step, Promise(SCHEMA.unit), unlabelled="others")
    assert [one.side for one in plan.steps] == [""]
    sides = Sides(replace(step, name="a", side=LABELLED), replace(step, name="b"), disjoint=True)
    assert [one.side for one in Plan("mine", sides, Promise(SCHEMA.unit)).steps] == [UNLABELLED, LABELLED]


def test_two_sides_stand_at_the_top_alone() -> None:
    """Inside another composition nobody would charge them apart, so such a plan cannot be made."""
    step = Step("a", Size(), 10**9)
    inner = Sides(step, replace(step, name="b"), disjoint=True)
    nested = (
        Sequential((inner, replace(step, name="c"))),
        Parallel((inner, replace(step, name="c"))),
        Sides(Sequential((inner,)), replace(step, name="c"), disjoint=True),
    )
    for composition in nested:
        with pytest.raises(ParameterError):
            Plan("mine", composition, Promise(SCHEMA.unit))


@pytest.mark.parametrize("definition", [
    "SELECT person, x, CASE WHEN y = 'yes' THEN 'a' ELSE 'b' END AS c, y FROM people",
    "SELECT person, x, c, y FROM people WHERE y <> 'maybe'",
    "SELECT person, x, c, lower(y) AS y FROM people WHERE y LIKE 'm%'",
])  # fmt: skip
def test_a_view_that_tells_its_label_has_no_public_features(database: Database, definition: str) -> None:
    """Features and rows that follow from the label's column change with a label, so they are not read for free."""
    execute(database.engine, f"CREATE VIEW shown AS {definition}")
    database.register("shown", PUBLIC, cap=1)
    database.set_cap("shown", 1, kind="label")
    before = stored(database)
    with pytest.raises(NotPrivate, match="from its label"):
        database.train("shown", method="pte", **SMALL)
    assert stored(database) == before
    execute(database.engine, "CREATE VIEW plain AS SELECT person, x, upper(c) AS c, y FROM others WHERE x < 32")
    database.register("plain", PUBLIC, cap=1)
    database.set_cap("plain", 1, kind="label")
    assert database.train("plain", method="pte", **SMALL).certificate["kind"] == "label"


DIFFERENT = {
    "a feature is missing": (replace(BARE, features=BARE.features[:1]), '"x" is missing'),
    "a feature too many": (None, '"person" is one too many'),
    "another domain": (replace(BARE, features=(BARE.features[0], Numeric("x", 0, 65))), '"x" has another'),
    "another order": (replace(BARE, features=BARE.features[::-1]), "their order differs"),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_another_schema_is_refused_with_the_difference(database: Database, name: str) -> None:
    """Unlabelled rows must have the same features with the same domains."""
    others, words = DIFFERENT[name]
    if others is None:
        declared = BARE.to_dict()
        declared["features"]["person"] = {"type": "numeric", "lower": 0, "upper": 9}
        others = Schema.from_dict(declared)
    registered(database, others=others)
    with pytest.raises(SchemaError) as caught:
        database.train("people", method="sspe", unlabelled="others", **SMALL)
    assert words in caught.value.message


def test_another_unit_is_refused(database: Database) -> None:
    """Both tables must protect the same kind of unit."""
    registered(database, others=replace(BARE, unit=Unit("person", 3)))
    with pytest.raises(SchemaError):
        database.train("people", method="sspe", unlabelled="others", **SMALL)


def test_an_unregistered_table_is_refused(database: Database) -> None:
    """A table without a budget cannot shape trees: its rows would pay nothing."""
    database.register("people", SCHEMA, cap=1)
    with pytest.raises(NotRegistered):
        database.train("people", method="sspe", unlabelled="others", **SMALL)


def test_a_table_is_not_its_own_other_side(database: Database) -> None:
    """The labelled table cannot be named as the unlabelled one, not even through a view."""
    database.register("people", SCHEMA, cap=1)
    with pytest.raises(ParameterError):
        database.train("people", method="sspe", unlabelled="people", **SMALL)
    dataset = find_dataset(database.engine, database.book, "people")
    with pytest.raises(ParameterError):
        partner(database.engine, database.book, dataset, "People")


def test_a_table_without_labels_cannot_be_trained_on(database: Database) -> None:
    """It is registered with `label: null`, and only shapes trees for others."""
    registered(database)
    with pytest.raises(UsageError, match="no label"):
        database.train("others", method="rdt")


# Labels alone.


def test_label_privacy_needs_public_features(database: Database) -> None:
    """On a dataset whose features are private it is refused with the reason, by plan, cap and kernel alike."""
    database.register("people", SCHEMA, cap=1)
    before = stored(database)
    for method, options in (("sspe", {"privacy": "labels"}), ("pte", {}), ("ssrdt", {})):
        with pytest.raises(NotPrivate, match="features"):
            database.train("people", method=method, **options)
    with pytest.raises(NotPrivate, match="features"):
        database.set_cap("people", 1, kind="label")
    dataset = find_dataset(database.engine, database.book, "people")
    promise = Promise(SCHEMA.unit, labels_only=True)
    plan = Plan("mine", Step("counts", LeafCounts(), 10**9, cells=3, classes=3), promise)
    job = Job.of(dataset, plan, who="ann", request_id="r")
    with pytest.raises(NotPrivate, match="features"):
        run(database.engine, database.book, job, releasing(lambda s: s))
    assert stored(database) == before


def test_the_other_tables_features_must_be_public_too(database: Database) -> None:
    """Exact medians of private features would be free: refused."""
    registered(database, people=PUBLIC)
    database.set_cap("people", 1, kind="label")
    with pytest.raises(NotPrivate, match="others"):
        database.train("people", method="pte", unlabelled="others", **SMALL)


def test_label_budgets_never_mix_with_row_budgets(database: Database) -> None:
    """A label run is charged as kind "label" alone, and a row run as "pure" alone."""
    database.register("people", PUBLIC, cap=2)
    with pytest.raises(BudgetExceeded) as caught:
        database.train("people", method="pte", **SMALL)
    assert "--kind label" in str(caught.value.hint)
    database.set_cap("people", 1, kind="label")
    model = database.train("people", method="pte", epsilon=1, **SMALL)
    database.train("people", method="spe", epsilon="0.5", **SMALL)
    assert (database.budget("people").spent, database.budget("people", "label").spent) == (5 * 10**8, 10**9)
    assert model.certificate["kind"] == "label"
    assert model.certificate["neighbours"] == "change the label of one row"
    assert [entry.kind for entry in database.book.entries(event="reserve")] == ["label", "pure"]
    with pytest.raises(BudgetExceeded):
        database.train("people", method="ssrdt", epsilon="0.1", **SMALL)


@pytest.mark.parametrize("condition", ["y = 'yes'", "y IN ('no')", "y IS NULL OR y != 'maybe'"])
@pytest.mark.parametrize("method", ["pte", "ssrdt"])
def test_a_side_must_not_tell_a_private_label(database: Database, method: str, condition: str) -> None:
    """What is read on the unlabelled side gets no noise, so it must not follow from the value of a label."""
    database.register("people", PUBLIC, cap=2)
    database.set_cap("people", 1, kind="label")
    before = stored(database)
    with pytest.raises(ParameterError, match="labels are private"):
        database.train("people", method=method, unlabelled=condition, **SMALL)
    assert stored(database) == before
    assert database.train("people", method=method, unlabelled="y IS NULL AND x < 60", **SMALL).certificate["private"]


def test_a_plan_is_refused_where_the_run_would_be(database: Database) -> None:
    """`plan` looks at the sides too, so that a dry run does not promise what training refuses."""
    database.register("people", UNITS, cap=1)
    for options in ({}, {"unlabelled": "nobody = 1"}, {"unlabelled": "1/0 = 1"}):
        with pytest.raises(UsageError):
            database.plan("people", method="sspe", **SMALL, **options)


def test_free_steps_are_for_label_plans_alone() -> None:
    """A plan that protects rows cannot read features for nothing."""
    free = [kind() for kind in OPERATIONS.values() if kind.free]
    assert {operation.name for operation in free} == {"public_size", "public_splits", "pseudo_counts"}
    for operation in free:
        with pytest.raises(ParameterError, match="labels alone"):
            Plan("mine", Step("free", operation, 0), Promise(SCHEMA.unit))


def test_unlabelled_rows_of_two_public_tables_count_together(database: Database) -> None:
    """True medians are taken over the labelled rows and the other table's together."""
    registered(database, people=PUBLIC, others=replace(BARE, public_features=True))
    database.set_cap("people", 1, kind="label")
    model = database.train("people", method="sspe", privacy="labels", unlabelled="others", **SMALL)
    assert database.budget("others").spent == 0
    assert model.certificate["epsilon"] == "1"
    right = model.released.forest.levels[0]
    assert set(right.axis.tolist()) <= {0, 1}


def test_more_rows_make_sspe_no_dearer() -> None:
    """A label's change moves two counts: the noise of a label plan is twice that of a row plan."""
    promise = Promise(SCHEMA.unit, labels_only=True)
    step = Step("counts", LeafCounts(), 10**9, cells=3, classes=3)
    assert step.scale(promise) == 2 * step.scale(Promise(SCHEMA.unit))
    assert Promise(UNITS.unit, labels_only=True).change == 6
    assert np.isclose(float(step.row_epsilon(promise)), 0.5)


def test_some_rows_train_whatever_they_hold(database: Database) -> None:
    """NULL, NaN, unknown values and labels on either side are no error."""
    execute(database.engine, "DELETE FROM people")
    fill(database.engine, "people", some_rows())
    database.register("people", PUBLIC, cap=3)
    database.set_cap("people", 3, kind="label")
    for method, options in (("sspe", {}), ("sspe", {"privacy": "labels"}), ("pte", {}), ("ssrdt", {})):
        assert database.train("people", method=method, epsilon=1, **options, **SMALL).released.forest.trees >= 3
