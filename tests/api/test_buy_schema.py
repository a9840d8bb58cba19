"""A table without a schema file: what is bought, hashed or left out, what it costs, and what a failure leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import BudgetExceeded, DpsqlError, ParameterError, SchemaError, UnknownName, UsageError
from dpsql.runs.noisy_domains import CODES, MISTAKE, WORDS, NoisyDomains, Reach, bounds_of, stands_out
from dpsql.schema import Boolean, Categorical, Dated, Hashed, Numeric, hashed_cell
from dpsql.trees.magnitude_grid import MAGNITUDES, MISSING, magnitude

pytestmark = pytest.mark.usefixtures("steady_bounds")

ROWS = 20_000
JOBS = ("nurse", "clerk", "cook")
COLUMNS = """
    (17 + random() * 70)::BIGINT AS age,
    round(-300 + random() * 5000, 2) AS balance,
    ['nurse', 'clerk', 'cook'][1 + (random() * 2.99)::INT] AS job,
    DATE '2015-01-01' + (random() * 3000)::INT AS joined,
    random() < 0.3 AS loan,
    'p' || range AS email,
    range AS client_id,
    0.0 AS nothing
"""


def plain(label: str = "if(age > 50, 'yes', 'no')", *, rows: int = ROWS) -> Database:
    """Return a database with a plain table of many types and no constraint, and a label "y"."""
    connection = duckdb.connect(":memory:")
    connection.execute(f"CREATE TABLE t AS SELECT *, {label} AS y FROM (SELECT {COLUMNS} FROM range({rows}))")
    return connect(connection, who="owner")


def feature(database: Database, name: str) -> Any:
    """Return a registered feature of the table."""
    from dpsql.kernel.datasets.dataset import find_dataset

    return find_dataset(database.engine, database.book, "t").schema.feature(name)


def test_a_plain_table_is_registered_with_a_label_a_cap_and_an_epsilon() -> None:
    """Numbers and dates get bounds around their rows, texts are hashed, identifiers are left out."""
    database = plain()
    bought = database.buy_schema("t", label="y", cap=3, buy=1)
    schema = bought.dataset.schema
    assert schema.classes == ("no", "yes")
    age = schema.feature("age")
    assert isinstance(age, Numeric)
    assert age.lower in (8, 16)
    assert age.upper in (128, 256)
    balance = schema.feature("balance")
    assert isinstance(balance, Numeric)
    assert balance.lower in (-512, -1024)
    assert balance.upper in (8192, 16384)
    assert isinstance(schema.feature("joined"), Dated)
    assert schema.feature("job") == Hashed("job", 4096, tuple(sorted(hashed_cell(word, 4096) for word in JOBS)))
    assert isinstance(schema.feature("loan"), Boolean)
    assert schema.feature("email") is schema.feature("client_id") is schema.feature("nothing") is None
    assert abs((schema.rows or 0) - ROWS) < 200
    assert database.budget("t").spent_text == "1"
    assert database.verify() == []


def test_the_file_says_where_each_domain_comes_from_and_loads_back() -> None:
    """Its text is a schema file of the same schema."""
    from dpsql.schema.schema_file import loads

    bought = plain().buy_schema("t", label="y", cap=3, buy=1)
    age = bought.dataset.schema.feature("age")
    line = f"age: {{type: numeric, lower: {age.lower:g}, upper: {age.upper:g}}}  # bought, entry {bought.domains.entry}"
    assert line in str(bought)
    assert '# "email": left out' in str(bought)
    assert "No row of it was read" not in str(bought)
    assert loads(str(bought)).features == bought.dataset.schema.features


def test_the_file_has_the_unit_that_was_declared() -> None:
    """Whoever registers the file elsewhere protects the same persons, not single rows."""
    from dpsql.schema import Unit
    from dpsql.schema.schema_file import loads

    bought = plain().buy_schema("t", label="y", unit=Unit("client_id", 2), cap=3, buy=1)
    assert loads(str(bought)).unit == bought.dataset.schema.unit == Unit("client_id", 2)


def test_a_purchase_that_bought_no_bounds_is_not_called_a_draft_without_rows() -> None:
    """Where noise hides every number, the file still says that noisy counts of the rows were bought."""
    bought = plain(label="age > 50").buy_schema("t", label="y", cap=3, buy="0.001")
    assert "# bought, entry" not in str(bought)
    assert "No row of it was read" not in str(bought)


def test_with_a_delta_lists_of_texts_are_bought() -> None:
    """Texts that many rows have become values; the pure budget pays nothing."""
    database = plain()
    schema = database.buy_schema("t", label="y", cap=3, buy=1, delta="1e-6").dataset.schema
    job = schema.feature("job")
    assert type(job) is Categorical
    assert set(job.values) == {"nurse", "clerk", "cook"}
    assert set(schema.classes) == {"no", "yes"}
    assert database.budget("t").spent == 0
    paid = database.budget("t", "approximate")
    assert paid.left == 0
    assert paid.selection_delta * 2 == paid.delta


def test_an_open_budget_with_a_delta_keeps_its_cap() -> None:
    """A purchase pays from it, and is refused where no part of its delta is set aside; it is never set anew."""
    database = plain("if(age > 50, 'over fifty', 'under fifty')")
    with pytest.raises(SchemaError):
        database.buy_schema("t", label="y", cap=3, buy="0.1")
    database.set_cap("t", 2, kind="approximate", delta="1e-5")
    before = database.budget("t", "approximate")
    with pytest.raises(BudgetExceeded, match="selection delta"):
        database.buy_schema("t", label="y", cap=3, buy=1, delta="1e-6", replace=True)
    assert database.budget("t", "approximate") == before
    database.set_cap("t", 2, kind="approximate", delta="1e-5", selection_delta="5e-6")
    database.buy_schema("t", label="y", cap=3, buy=1, delta="1e-6", replace=True)
    after = database.budget("t", "approximate")
    assert (after.declared, after.spent > 0) == (2 * 10**9, True)


@pytest.mark.parametrize(
    ("label", "classes"),
    [
        ("if(age > 50, 1, 0)", ("0", "1")),
        ("age > 50", ("false", "true")),
        ("if(age > 50, 'TRUE', 'FALSE')", ("FALSE", "TRUE")),
    ],
)
def test_the_classes_of_a_label_are_found(label: str, classes: tuple[str, ...]) -> None:
    """Among public words and codes, or from the catalog."""
    assert plain(label).buy_schema("t", label="y", cap=3, buy=1).dataset.schema.classes == classes


def test_a_real_label_is_a_target_with_bought_bounds() -> None:
    """Numbers with a fraction are predicted as numbers."""
    target = plain("balance / 7").buy_schema("t", label="y", cap=3, buy=1).dataset.schema.target
    assert target is not None
    assert target.lower <= -42
    assert target.upper >= 671


def test_words_that_are_not_in_the_list_leave_the_label_open_and_the_purchase_is_kept() -> None:
    """The next step names the classes, and buys nothing twice."""
    database = plain("if(age > 50, 'over fifty', 'under fifty')")
    with pytest.raises(SchemaError, match=r"fewer than two of its values stand out.*Epsilon 1 is spent \(entry \d+\)"):
        database.buy_schema("t", label="y", cap=3, buy=1)
    spent = database.budget("t").spent
    schema = database.buy_schema(
        "t", label="y", cap=3, buy=1, classes=["over fifty", "under fifty"], replace=True
    ).dataset.schema
    assert schema.classes == ("over fifty", "under fifty")
    assert database.budget("t").spent == spent


def test_until_its_domains_are_bought_a_table_cannot_be_trained_on() -> None:
    """It has no label yet."""
    database = plain("if(age > 50, 'over fifty', 'under fifty')")
    with pytest.raises(SchemaError):
        database.buy_schema("t", label="y", cap=3, buy=1)
    with pytest.raises(DpsqlError, match="label"):
        database.train("t", epsilon=1)


def test_what_the_owner_declares_is_not_bought() -> None:
    """Flags win over purchases, and a purchase of fewer columns has less noise."""
    database = plain()
    declared = {
        "age": {"type": "numeric", "lower": 0, "upper": 100},
        "job": {"type": "categorical", "values": ["nurse"]},
    }
    everything = database.plan_purchase("t", label="y", buy=1)
    less = database.plan_purchase("t", label="y", buy=1, features=declared)
    assert everything.plan is not None
    assert less.plan is not None
    assert less.plan.noise_scale("magnitudes") < everything.plan.noise_scale("magnitudes")
    schema = database.buy_schema("t", label="y", cap=3, buy=1, features=declared).dataset.schema
    assert schema.feature("job") == Categorical("job", ("nurse",))
    assert schema.feature("age") == Numeric("age", 0, 100)


def test_a_plan_charges_nothing_and_says_what_becomes_of_each_column() -> None:
    """Nothing is registered either."""
    database = plain()
    purchase = database.plan_purchase("t", label="y", buy="0.1")
    assert purchase.purposes["age"] == purchase.purposes["joined"] == "bounds are bought"
    assert purchase.purposes["job"] == "hashed, and the cells in use are bought"
    assert "e-mail" in purchase.purposes["email"]
    assert purchase.plan is not None
    assert purchase.plan.nano_epsilon == 10**8
    assert database.budgets() == []


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"label": None}, UsageError),
        ({"classes": ["no", "maybe"], "label": "loan"}, SchemaError),
        ({"classes": ["no", "yes"], "label": "age"}, SchemaError),
        ({"classes": {"true": "no"}, "label": "loan"}, SchemaError),
        ({"classes": ["no"]}, SchemaError),
        ({"classes": ["a", "b"], "label": "balance"}, SchemaError),
        ({"target": (5, 1), "label": "balance"}, SchemaError),
        ({"target": (0, 1), "label": "loan"}, SchemaError),
        ({"label": "joined"}, SchemaError),
        ({"features": {"y": {"type": "boolean"}}}, SchemaError),
        ({"features": {"age": {"type": "categorical", "values": ["old", "young"]}}}, SchemaError),
        ({"cap": "0.5"}, BudgetExceeded),
        ({"cap": "25"}, UsageError),
        ({"holdout": "80%"}, ParameterError),
        ({"holdout": "10%", "label": "balance"}, SchemaError),
        ({"holdout_cap": "x"}, ParameterError),
        ({"least_epsilon": "0"}, ParameterError),
        ({"replace": True}, UsageError),
        ({"label": "no such"}, UnknownName),
        ({"label": "y", "features": {"nope": {"type": "boolean"}}}, UnknownName),
        ({"label": "y", "buy": "5", "cap": "3"}, BudgetExceeded),
        ({"label": "y", "buy": "0"}, ParameterError),
        ({"label": "y", "delta": "2"}, ParameterError),
    ],
)
def test_mistakes_charge_nothing(caps_in_words: None, given: dict[str, Any], error: type[Exception]) -> None:
    """The label and what is declared of it, unknown columns, too little budget, numbers that are none.

    The plan says the same, and a mistake leaves no table half registered.
    """
    database = plain()
    arguments = {"cap": "3", "buy": "1", "label": "y", **given}
    with pytest.raises(error):
        database.plan_purchase("t", **arguments)
    with pytest.raises(error):
        database.buy_schema("t", **arguments)
    assert database.budgets() == []


def test_a_registered_table_is_refused_by_the_plan_too() -> None:
    """Registering it again must be meant, and a purchase that is kept costs nothing again."""
    database = plain()
    assert not database.plan_purchase("t", label="y", buy=1, cap=3).is_bought_already
    database.buy_schema("t", label="y", cap=3, buy=1)
    with pytest.raises(UsageError, match="already registered"):
        database.plan_purchase("t", label="y", buy=1, cap=3)
    assert database.plan_purchase("t", label="y", buy=1, cap=3, replace=True).is_bought_already
    with pytest.raises(BudgetExceeded):
        database.plan_purchase("t", label="job", buy=1, cap="1.5", replace=True)


def test_classes_that_were_bought_of_one_label_are_not_those_of_another() -> None:
    """The words of the first label say nothing of the second, which is bought anew."""
    database = plain()
    database.engine.connection.execute("ALTER TABLE t ADD COLUMN z VARCHAR")  # type: ignore[attr-defined]
    database.engine.connection.execute("UPDATE t SET z = if(age > 30, 'low', 'high')")  # type: ignore[attr-defined]
    assert set(database.buy_schema("t", label="y", cap=3, buy=1).dataset.schema.classes) == {"no", "yes"}
    again = database.buy_schema("t", label="z", cap=3, buy=1, replace=True, left_out=["y"])
    assert set(again.dataset.schema.classes) == {"low", "high"}
    assert database.budget("t").spent_text == "2"


@pytest.mark.parametrize("kind", ["UTINYINT", "UBIGINT", "VARCHAR(2)"])
def test_only_words_that_the_type_can_hold_are_looked_for(kind: str) -> None:
    """An unsigned label has no -1, and a short text no long word."""
    database = plain(f"CAST(if(age > 50, '1', '0') AS {kind})")
    assert database.buy_schema("t", label="y", cap=3, buy=1).dataset.schema.classes == ("0", "1")


def test_further_keys_stand_in_the_file() -> None:
    """Public features and a declared size are the owner's word, and whoever reads the file sees them."""
    bought = plain().buy_schema("t", label="y", cap=3, buy=1, more={"public_features": True, "rows": 77})
    assert "public_features: true  # declared" in str(bought)
    assert (bought.dataset.schema.rows, bought.dataset.schema.public_features) == (77, True)
    assert _file(str(bought)).rows == 77


def test_a_table_where_nothing_has_to_be_bought_is_registered_for_nothing() -> None:
    """Booleans, and what was declared, need no epsilon."""
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE t AS SELECT range % 5 = 0 AS flag, range % 2 = 0 AS y FROM range(100)")
    database = connect(connection, who="owner")
    bought = database.buy_schema("t", label="y", cap=1, buy="0.1")
    assert bought.domains is None
    assert database.budget("t").spent == 0
    with pytest.raises(ParameterError, match="left out"):
        plain().plan_purchase(
            "t", label="y", buy=1, delta="1e-6", classes=["no", "yes"], features={"job": {"type": "hashed"}}
        )


def test_texts_in_cells_that_noise_hides_are_hashed_without_a_list() -> None:
    """A column of many values, each in few rows, and any column of a small table: no cell stands out of the noise."""
    connection = duckdb.connect(":memory:")
    columns = "'w' || (range % 997) AS word, ['red', 'green', 'blue'][1 + range % 3] AS colour, range % 2 = 0 AS y"
    connection.execute(f"CREATE TABLE t AS SELECT {columns} FROM range(6000)")
    schema = connect(connection, who="owner").buy_schema("t", label="y", cap=1, buy=1).dataset.schema
    assert schema.feature("word") == Hashed("word")
    assert schema.feature("colour") == Hashed(
        "colour", 4096, tuple(sorted(hashed_cell(word, 4096) for word in ("red", "green", "blue")))
    )
    connection.execute(f"CREATE TABLE few AS SELECT {columns} FROM range(60)")
    schema = connect(connection, who="owner").buy_schema("few", label="y", cap=1, buy="0.1").dataset.schema
    assert schema.feature("colour") == Hashed("colour")


def test_a_value_outside_the_bought_cells_counts_as_missing_and_trains() -> None:
    """New values come after the purchase; they share the cell of NULL."""
    database = plain("if(job = 'nurse', 'yes', 'no')")
    database.buy_schema("t", label="y", cap=10, buy=1)
    model = database.train("t", epsilon=5)
    rows = pd.DataFrame({"age": 30, "balance": 1.0, "joined": None, "loan": False, "job": ["nurse", "pilot", None]})
    labels = model.predict(rows)
    assert labels[0] == "yes"
    assert labels[1] == labels[2]


def test_a_hold_out_is_divided_before_anything_is_bought(tmp_path: Path) -> None:
    """The purchase counts the rows of the training part alone, and the hold-out pays nothing for it."""
    database = plain()
    bought = database.buy_schema("t", label="y", cap=3, buy=1, holdout="25%")
    assert abs((bought.dataset.schema.rows or 0) - 0.75 * ROWS) < 600
    assert database.budget("t:holdout").spent == 0
    before = bought.dataset.hold_out
    assert before is not None
    assert {"age", "job", "loan"} <= set(before.columns)


def test_a_draft_can_buy_too() -> None:
    """It registers the table for the charge, and its text has no gaps."""
    database = plain()
    draft = database.draft("t", label="y", buy=1, cap=3)
    assert draft.gaps == ()
    assert database.budget("t").spent_text == "1"
    database.register("t", _file(draft.text), cap=3, replace=True)
    assert feature(database, "age") == Numeric("age", 16, 128)
    with pytest.raises(ParameterError, match="cap"):
        plain().draft("t", label="y", buy=1)
    with pytest.raises(ParameterError, match="only with buy"):
        plain().draft("t", label="y", cap=1)


def _file(text: str) -> Any:
    from dpsql.schema.schema_file import loads

    return loads(text)


def test_a_model_on_a_bought_schema_is_as_good_as_one_on_a_declared_schema() -> None:
    """Both find the one rule that the label follows."""
    database = plain()
    database.buy_schema("t", label="y", cap=10, buy="0.1")
    model = database.train("t", epsilon=1)
    rows = plain().engine.connection.execute("SELECT * FROM t").df()  # type: ignore[attr-defined]
    assert database.evaluate(model, rows).accuracy > 0.97


# Reading noisy counts.


def hashed_domains(counts: list[tuple[int, int]], *, rows: int, deviation: float) -> NoisyDomains:
    """Return what a purchase of one hashed column released: (cell, noisy rows), the last one that of NULL."""
    return NoisyDomains(rows, {}, {}, {"job": counts}, {}, (), {"hashes": deviation}, False, "0.1", 2)


def test_cells_are_listed_where_they_hold_nearly_all_rows_and_noise_is_small() -> None:
    """NULL counts as held; a cell among much noise does not, however many rows it seems to have."""
    seen = [(7, 600), (99, 250), (4000, 3), (4096, 100)]
    assert hashed_domains(seen, rows=1000, deviation=3).hash_cells("job") == (7, 99)
    assert hashed_domains(seen, rows=1100, deviation=3).hash_cells("job") == ()
    assert hashed_domains([(7, 1000), (4096, 0)], rows=1000, deviation=100).hash_cells("job") == ()
    assert hashed_domains([(number, 90) for number in range(70)], rows=6000, deviation=5).hash_cells("job") == ()


def test_bounds_are_rounded_outwards_and_never_cut_occupied_cells() -> None:
    """Every number of an occupied cell lies within."""
    cells = [0] * MAGNITUDES
    for number in (-700.0, 3.0, 900.0):
        cells[magnitude(number)] = 1000
    lower, upper = bounds_of(cells, 100) or (0.0, 0.0)
    assert lower <= -700
    assert upper >= 900
    cells[MISSING] = 10**6
    assert bounds_of(cells, 100) == (lower, upper)


def test_a_cell_beside_occupied_ones_needs_fewer_rows_than_a_lonely_one() -> None:
    """Cells are taken in one after the other while they have enough rows; one behind a gap is not."""
    cells = [0] * MAGNITUDES
    cells[magnitude(10.0)] = 1000
    for number in (5.0, 20.0, 40.0, 1000.0):
        cells[magnitude(number)] = 60
    assert bounds_of(cells, 100) == (8, 16)
    assert bounds_of(cells, 100, near=50) == (4, 64)
    assert bounds_of(cells, 100, near=70) == (8, 16)


def test_noise_in_cells_that_a_type_cannot_reach_is_no_bound() -> None:
    """Whole numbers have no fractions, a byte no thousands, and the last cell ends where the type ends."""
    cells = [0] * MAGNITUDES
    for number in (-3.0, 0.25, 200.0, 5000.0):
        cells[magnitude(number)] = 1000
    assert bounds_of(cells, 100) == (-4, 8192)
    assert bounds_of(cells, 100, reach=Reach(0, 255, is_whole=True)) == (128, 255)
    cells[magnitude(200.0)] = 0
    assert bounds_of(cells, 100, reach=Reach(0, 255, is_whole=True)) is None


def test_minus_one_is_a_whole_number() -> None:
    """The cell from -1 to -0.5 is one that whole numbers have."""
    cells = [0] * MAGNITUDES
    cells[magnitude(-1.0)] = cells[magnitude(3.0)] = 1000
    assert bounds_of(cells, 100, reach=Reach(is_whole=True)) == (-1, 4)


def test_the_end_of_time_can_be_bought() -> None:
    """A column of dates with 9999-12-31 for "still open" gets bounds within the years that dates have."""
    database = plain()
    database.engine.connection.execute("ALTER TABLE t ADD COLUMN until DATE DEFAULT DATE '9999-12-31'")
    until = database.buy_schema("t", label="y", cap=3, buy=1).dataset.schema.feature("until")
    assert isinstance(until, Dated)
    assert until.text(until.upper).startswith("9999-12-3")


@pytest.mark.parametrize("gaussian", [False, True])
def test_noise_alone_seldom_stands_out(gaussian: bool) -> None:
    """In empty cells it passes the limit in about one purchase of twenty, and not in most."""
    import numpy as np

    chance, cells = np.random.default_rng(1), 1000
    limit = stands_out(1.0, cells, gaussian=gaussian, mistake=MISTAKE)
    noise = chance.normal(0, 1, (400, cells)) if gaussian else chance.laplace(0, 2**-0.5, (400, cells))
    share = (noise.max(axis=1) > limit).mean()
    assert share < 0.1
    assert (noise.max(axis=1) > 0.7 * limit).mean() > 0.3


def test_the_public_words_fill_one_axis() -> None:
    """Both lists have 63 different words: one cell of 64 is left for all others."""
    assert len(set(WORDS)) == len(WORDS) == len(set(CODES)) == len(CODES) == 63


def test_the_label_must_be_named_where_no_column_is_called_so() -> None:
    """A column called y, label, class or target is taken; otherwise the owner says which."""
    database = plain()
    database.engine.connection.execute("ALTER TABLE t RENAME y TO outcome")  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="label"):
        database.plan_purchase("t", buy=1)


@pytest.mark.parametrize("label", ["y", "job"])
def test_a_plan_looks_no_values_up(label: str) -> None:
    """A column that is declared public is checked by the catalog, and the plan says that its rows will be read."""
    database = plain()
    plan = database.plan_purchase("t", label=label, buy=1, cap=3, values_are_public=["job"])
    assert "its values will be looked up" in plan.purposes["job"]
    assert plan.draft.looked_up == ()
    assert database.book.entries() == []
    with pytest.raises(UsageError, match="looks like an e-mail address"):
        database.plan_purchase("t", label="y", buy=1, values_are_public=["email"])


def test_what_can_be_refused_is_refused_before_values_are_looked_up() -> None:
    """A cap below the price leaves no lookup in the ledger; afterwards the same is looked up and bought."""
    database = plain()
    with pytest.raises(BudgetExceeded):
        database.buy_schema("t", label="y", cap="0.5", buy=1, values_are_public=["job"])
    assert database.book.entries() == []
    bought = database.buy_schema("t", label="y", cap=3, buy=1, values_are_public=["job"])
    assert bought.dataset.schema.feature("job") == Categorical("job", ("clerk", "cook", "nurse"))
    assert next(entry.event for entry in database.book.entries()) == "lookup"
