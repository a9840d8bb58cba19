"""The default method: exact shares of epsilon, every regime and odd schema, one prediction, and accuracy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.api import census
from dpsql.api.database import Database, connect
from dpsql.errors import ParameterError
from dpsql.kernel.plan import Plan, Sample, Sequential, steps_with_parts
from dpsql.kernel.promise import Promise
from dpsql.methods.auto.auto import Auto
from dpsql.methods.auto.auto_steps import ZOOMS, auto_steps
from dpsql.methods.auto.epsilon_shares import ALONE, GUIDED, PUBLIC, split_epsilon, zoom_shares
from dpsql.models.explain import facts
from dpsql.models.usable_model import Model
from dpsql.schema import Boolean, Categorical, Feature, Numeric, Schema, Unit
from dpsql.trees.grid import axes
from dpsql.trees.serialize import check_forest
from tests.rows import schemas

AUTO = Auto()
NANO = 10**9
ONE_CELL = Categorical("c", ("only",), null="only", unknown="only")


def opened(schema: Schema, frame: pd.DataFrame, **more: pd.DataFrame) -> Database:
    """Return a database in memory with the table "people" registered, and others beside it."""
    database = connect(":memory:", who="ann")
    for name, one in {"people": frame, **more}.items():
        typed = [exp.cast(exp.column(column, quoted=True), _type(schema, column)).as_(column) for column in one]
        database.engine.create(name, exp.select(*typed).from_("made"), {"made": one})
    database.register("people", schema, cap=None)
    return database


def _type(schema: Schema, column: str) -> str:
    feature = schema.feature(column)
    if feature is None:
        return "TEXT" if column == schema.label else "BIGINT"
    return "DOUBLE" if isinstance(feature, Numeric) else "BOOLEAN" if isinstance(feature, Boolean) else "TEXT"


# Plans


@settings(max_examples=60)
@given(
    schema=schemas(most=10, unit=True) | schemas(most=40),
    rows=st.sampled_from([None, 1, 30, 500, 20_000, 10**7]),
    nano=st.integers(1000, 10**6) | st.integers(10**6, 10**11),
)
def test_steps_add_up_to_epsilon_exactly(schema: Schema, rows: int | None, nano: int) -> None:
    """Whatever the schema, size and epsilon: the plan costs what was asked to the last nano-epsilon, each step some."""
    plan = AUTO.plan(replace(schema, rows=rows), nano, {})
    assert plan.nano_epsilon == nano == sum(step.nano_epsilon for step in plan.steps)
    assert all(step.nano_epsilon > 0 for step in plan.steps)


@settings(max_examples=60)
@given(
    schema=schemas(most=10),
    rows=st.sampled_from([1.0, 30, 500, 20_000, 10**7]),
    nano=st.integers(970, 10**6) | st.integers(10**6, 10**11),
)
def test_later_steps_fit_into_what_is_left(schema: Schema, rows: float, nano: int) -> None:
    """Where the size is bought, the steps planned from it cost the rest exactly, and make a plan of their own."""
    advice = split_epsilon(schema, rows, nano / NANO)
    found = auto_steps(schema, Promise(schema.unit), advice, nano, rows)
    assert found.cost == nano
    names = [step.name for step in steps_with_parts(found)]
    looks = len(zoom_shares(schema, advice.strength)) if advice.zoom else 0
    assert names == (["counts"] if advice.regime == PUBLIC else ["marginals"] if advice.regime == ALONE else
                     list(ZOOMS[: looks]) + ["marginals", "splits", "counts"] + ["pick"] * advice.pick
                     + ["calibration"] * advice.calibration)  # fmt: skip
    assert Plan("auto", found, Promise(schema.unit)).nano_epsilon == nano


def mixed(rows: int | None = None, unit: Unit | None = None, classes: int = 2) -> Schema:
    """Return a schema of all kinds."""
    features: tuple[Feature, ...] = (Numeric("x", 0, 64), Categorical("c", tuple("abcd")), Boolean("b"))
    return Schema("y", tuple(f"k{k}" for k in range(classes)), features, unit or Unit(), rows=rows)


def test_a_declared_size_plans_every_step() -> None:
    """With a size the plan has every step, and says regime, trees and depth."""
    plan = AUTO.plan(mixed(50_000), NANO, {})
    assert [step.name for step in plan.steps] == [*ZOOMS, "marginals", "splits", "counts", "pick", "calibration"]
    shares = {step.name: step.nano_epsilon * 100 // NANO for step in plan.steps}
    assert (shares["zoom"], shares["pick"], shares["calibration"]) == (5, 8, 3)
    assert (plan.parameters["regime"], plan.parameters["trees"]) == (GUIDED, 5)
    assert plan.step("marginals").trees == 3
    assert plan.step("counts").trees == 5


def test_a_bought_size_plans_an_allowance() -> None:
    """Without a size 3 % buy it, and the rest waits for the answer."""
    plan = AUTO.plan(mixed(), NANO, {})
    assert [(step.name, step.operation.name, step.nano_epsilon) for step in plan.steps] == [
        ("size", "size", NANO * 3 // 100), ("rest", "later", NANO * 97 // 100),
    ]  # fmt: skip


def test_large_tables_are_sampled_where_a_sample_is_enough() -> None:
    """Every step but the counts looks at a part of the units; in the counts each row is in one tree."""
    plan = AUTO.plan(mixed(10**7), NANO, {})
    composition = plan.composition
    assert isinstance(composition, Sequential)
    assert [isinstance(part, Sample) for part in composition.parts] == [True] * 6 + [False, True, True]
    assert not plan.step("counts").shared
    seen = {step.name: 10**7 / step.parts for step in plan.steps}
    assert seen["marginals"] >= 2**17
    assert min(seen[name] for name in ("zoom", "splits", "pick", "calibration")) >= 2**12
    scales = {step.name: step.scale(Promise(mixed().unit)) for step in AUTO.plan(mixed(10**7), NANO // 20, {}).steps}
    faint = {step.name: 10**7 / step.parts for step in AUTO.plan(mixed(10**7), NANO // 20, {}).steps}
    assert faint["pick"] >= 300 * scales["pick"]
    small = AUTO.plan(mixed(20_000), NANO, {})
    assert all(step.parts == 1 for step in small.steps)


@pytest.mark.parametrize("rows", [None, 10**6])
def test_too_little_epsilon_is_refused(rows: int | None) -> None:
    """Below a millionth there is nothing to share; at it there is."""
    with pytest.raises(ParameterError) as caught:
        AUTO.plan(mixed(rows), 999, {})
    assert caught.value.name == "epsilon"
    assert AUTO.plan(mixed(rows), 1000, {}).nano_epsilon == 1000


def test_the_structure_that_explain_shows_is_that_of_the_features() -> None:
    """The one-feature trees are known before any row is read."""
    plan = AUTO.plan(mixed(), NANO, {})
    assert AUTO.public_trees(mixed(), plan).trees == 3


# Runs: every odd schema


def table_of(schema: Schema, count: int, seed: int = 1) -> pd.DataFrame:
    """Return rows whose class follows from the first feature in nine cases of ten, with NULLs among them."""
    generator, classes = np.random.default_rng(seed), len(schema.classes)
    columns: dict[str, Any] = {}
    truth = generator.integers(0, classes, count)
    for place, feature in enumerate(schema.features):
        known = 64 if isinstance(feature, Numeric) else len(feature.values)
        cell = generator.integers(0, known, count)
        truth = np.where((generator.random(count) < 0.9) & (place == 0), cell * classes // known, truth)
        columns[feature.name] = np.where(generator.random(count) < 0.02, None, _values(feature, cell))
    columns[schema.label] = np.where(generator.random(count) < 0.02, None, np.array(schema.classes, object)[truth])
    if schema.unit.column is not None:
        columns[schema.unit.column] = generator.integers(0, max(1, count // 7), count)
    return pd.DataFrame(columns).astype({feature.name: float for feature in schema.numeric})


def _values(feature: Feature, cell: Any) -> Any:
    if isinstance(feature, Numeric):
        return (feature.lower + (cell + 0.5) * (feature.upper - feature.lower) / 64).astype(object)
    if isinstance(feature, Boolean):
        return cell.astype(bool).astype(object)
    return np.array(feature.values, object)[cell]


def features(*, numbers: int = 0, flags: int = 0, categories: int = 0, values: int = 5) -> tuple[Feature, ...]:
    """Return features of each kind."""
    found: list[Feature] = [Numeric(f"x{k}", -1, 3) for k in range(numbers)]
    found += [Categorical(f"c{k}", tuple(f"v{v}" for v in range(values))) for k in range(categories)]
    return tuple(found + [Boolean(f"b{k}") for k in range(flags)])


TWO = ("no", "yes")
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
#: Schema, rows, epsilon. A declared size makes sure of the regime.
CASES: dict[str, tuple[Schema, int, float]] = {
    "no rows": (mixed(), 0, 1),
    "three rows": (mixed(classes=3), 3, 1),
    "few rows said to be many": (mixed(10_000), 3, 1),
    "public": (mixed(60), 60, 1),
    "mixed with NULL": (mixed(2000), 2000, 2),
    "wide": (Schema("y", TWO, features(flags=150), rows=1500), 1500, 5),
    "26 classes": (Schema("y", LETTERS, features(numbers=3), rows=3000), 3000, 10),
    "numbers": (Schema("y", TWO, features(numbers=6), rows=2000), 2000, 3),
    "categories": (Schema("y", TWO, features(categories=5, values=14), rows=2000), 2000, 2),
    "300 values": (Schema("y", TWO, features(numbers=1, categories=1, values=300), rows=2000), 2000, 2),
    # 128 bins each, of which 63 are beyond the last cell: under this noise they must not make groups of their own.
    "64 values under much noise": (Schema("y", TWO, features(categories=16, values=64), rows=80), 80, 1),
    "units of five": (mixed(3000, Unit("who", 5)), 3000, 5),
    "a single cell": (Schema("y", TWO, (ONE_CELL,), rows=2000), 2000, 2),
    "a single flag": (Schema("y", TWO, (Boolean("b"),), rows=2000), 2000, 2),
    "hardly any epsilon": (mixed(2000), 2000, 0.000001),
}


@pytest.fixture(scope="module", params=CASES)
def run(request: pytest.FixtureRequest) -> Any:
    """Return a case's schema, database and trained model; the same for all tests that only look."""
    schema, count, epsilon = CASES[request.param]
    fresh = table_of(schema, 60, seed=2).copy().assign(number=np.arange(60))
    with opened(schema, table_of(schema, count), fresh=fresh) as database:
        yield schema, fresh, database.train("people", method="auto", epsilon=epsilon, name="m"), database


def test_sql_and_python_agree(run: Any) -> None:
    """The stored model names the same labels in the database and in Python, on rows with NULLs."""
    schema, fresh, model, database = run
    stored = database.model("m")
    in_sql = stored.predict("fresh", key="number").sort_values("number")["prediction"].tolist()
    assert in_sql == model.predict(fresh).tolist() == stored.predict(fresh).tolist()
    assert set(in_sql) <= set(schema.classes)
    shares = model.predict_proba(fresh)[[*schema.classes]].to_numpy()
    assert shares.sum(axis=1) == pytest.approx(1)


def test_the_forest_is_sound_and_the_charge_exact(run: Any) -> None:
    """The released forest passes the check of stored ones; the certificate and the ledger have the plan's epsilon."""
    _, _, model, database = run
    check_forest(model.released.forest)
    assert model.released.forest.axes == axes(model.schema)
    charged = sum(entry.amount for entry in database.book.entries(event="reserve"))
    assert charged == round(float(model.certificate["epsilon"]) * NANO)


def test_facts_have_the_documented_shape(run: Any) -> None:
    """What was released along the way is read by `models/explain/facts.py`: classes always, features where guided."""
    schema, _, model, _ = run
    found = facts.read_facts(model.schema, model.certificate)
    assert found.noisy_classes is not None
    assert len(found.noisy_classes) == len(schema.classes)
    # Where the size is bought, noise decides the regime: it is not in the plan, but the facts tell it.
    planned = model.certificate["plan"]["parameters"].get("regime")
    regime = planned or (GUIDED if "features" in model.certificate["facts"] else PUBLIC)
    assert set(found.features) == (set() if regime == PUBLIC else {one.name for one in schema.features})
    for feature in () if regime == PUBLIC else schema.features:
        groups = found.features[feature.name].groups
        listed = sorted(cell for group in groups for cell in group)
        # Every cell of the public grid is in one group; a category whose unknown values have a way has none for them.
        assert listed == list(range(len(listed)))
        assert len(listed) >= feature.cells - isinstance(feature, Categorical)


def test_an_auto_model_explains_itself(run: Any) -> None:
    """`explain` names all features, whatever the regime."""
    schema, _, model, _ = run
    learned = model.explain()
    assert {effect.feature for effect in learned.effects} == {feature.name for feature in schema.features}


def test_a_table_of_one_class_names_it() -> None:
    """Where every row has one class the model names it, guided or not."""
    for rows, epsilon in ((30, 3.0), (2000, 2.0)):
        schema = mixed(rows, classes=3)
        frame = table_of(schema, rows).assign(y="k1")
        with opened(schema, frame) as database:
            model = database.train("people", method="auto", epsilon=epsilon)
            assert (model.predict(frame.head(50)) == "k1").mean() > 0.9


def test_depth_and_seed_are_taken() -> None:
    """The depth bounds the trees; another seed gives other trees."""
    schema = mixed(5000)
    plan = AUTO.plan(schema, NANO, {"depth": 2, "seed": 7})
    assert (plan.parameters["planned_depth"], plan.parameters["seed"]) == (2, 7)
    with opened(schema, table_of(schema, 2000)) as database:
        model = database.train("people", method="auto", epsilon=5, depth=2)
        assert model.released.forest.depth <= 2


def test_a_bought_size_leads_to_the_same_steps() -> None:
    """Without a declared size the run buys it and goes on as planned from it; both charges are what was asked for."""
    schema = mixed()
    frame = table_of(schema, 4000)
    with opened(schema, frame) as database:
        model = database.train("people", method="auto", epsilon=2)
        assert set(model.certificate["facts"]) == {
            "classes",
            "classes_deviation",
            "features",
            "objective",
            "reader",
            "calibration",
            "temperature",
            "zoom",
        }
        assert sum(entry.amount for entry in database.book.entries(event="reserve")) == 2 * NANO
        assert (model.predict(frame) == frame["y"]).mean() > 0.6


# What comes out


def test_a_wide_range_is_narrowed() -> None:
    """Numbers in a fiftieth of their declared range: the model reads the part where they are, and learns."""
    schema = Schema("y", TWO, (Numeric("x", 0, 10_000), Numeric("z", 0, 10_000)), rows=3000)
    generator = np.random.default_rng(3)
    frame = pd.DataFrame({"x": generator.uniform(4000, 4200, 3000), "z": generator.uniform(0, 10_000, 3000)})
    frame["y"] = np.where(frame["x"] < 4100, "no", "yes")
    with opened(schema, frame) as database:
        model = database.train("people", method="auto", epsilon=20)
    x, z = model.schema.numeric
    assert 3000 < x.lower <= 4000 < 4200 <= x.upper < 5000
    assert (z.lower, z.upper) == (0, 10_000)
    assert (model.predict(frame) == frame["y"]).mean() > 0.8


@pytest.fixture(scope="module")
def census_model() -> tuple[Model, pd.DataFrame]:
    """Return a model of 12,000 invented people at epsilon 1, and 5,000 others."""
    with opened(Schema.from_dict(census.SCHEMA), census.rows(12_000, seed=1)) as database:
        return database.train("people", method="auto", epsilon=1), census.rows(5_000, seed=2)


def test_accuracy_is_well_above_the_majority(census_model: tuple[Model, pd.DataFrame]) -> None:
    """On the synthetic census at epsilon 1 the model is right where guessing the larger class is not.

    The larger class has 75.9 % of these people; fourteen runs were right for 83.9 to 84.7 %.
    """
    model, others = census_model
    right = (model.predict(others) == others["income"]).mean()
    majority = others["income"].value_counts(normalize=True).max()
    assert majority < 0.78
    assert right > majority + 0.05


def test_the_facts_tell_what_matters(census_model: tuple[Model, pd.DataFrame]) -> None:
    """The noisy classes are near the truth, and every feature was counted."""
    model, others = census_model
    found = facts.read_facts(model.schema, model.certificate)
    assert found.noisy_classes is not None
    share = found.noisy_classes[1] / found.noisy_classes.sum()
    assert share == pytest.approx((others["income"] == ">50K").mean(), abs=0.05)
    assert set(found.features) == {feature.name for feature in model.schema.features}
