"""Several parties with different columns of the same people: all trees are asked, and the epsilons add up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import SchemaError, UsageError
from dpsql.models.usable_model import Model
from dpsql.runs.parties import unite
from dpsql.schema import Boolean, Categorical, Numeric, Schema, Unit
from tests.tables import memory, rows_of, run

BANK = Schema("y", ("no", "yes"), (Numeric("income", 0, 64), Categorical("job", ("a", "b", "c"))))
CLINIC = Schema("y", ("no", "yes"), (Boolean("smokes"), Numeric("age", 0, 128), Numeric("weight", 40, 140)))
PEOPLE = """
CREATE TABLE {name} AS SELECT
    k AS person, (k * 7 % 70)::DOUBLE AS income, chr((97 + k % 5)::INTEGER) AS job,
    CASE WHEN k % 11 = 0 THEN NULL ELSE k % 3 = 0 END AS smokes, (k * 13 % 130)::DOUBLE AS age,
    CASE WHEN k % 7 = 0 THEN NULL ELSE 40 + k * 3 % 110 END AS weight,
    CASE WHEN k % 2 = 0 THEN 'no' ELSE 'yes' END AS y
FROM range(80) AS numbers (k)
"""


@dataclass(frozen=True)
class Held:
    """A bank's and a clinic's model, and a third database with the joined rows of the same people."""

    bank: Model
    clinic: Model
    joined: Database

    @property
    def rows(self) -> pd.DataFrame:
        """The joined rows as a DataFrame."""
        return pd.DataFrame(rows_of(self.joined.engine, "FROM fresh ORDER BY person")).astype(object)


def trained(schema: Schema, *, epsilon: str = "1", **parameters: Any) -> Model:
    """Return a model of a party that has its own columns of everyone."""
    with connect(":memory:", who="ann") as opened:
        run(opened.engine, PEOPLE.format(name="everyone"))
        names = ", ".join(["person", *(feature.name for feature in schema.features), schema.label])
        run(opened.engine, f"CREATE TABLE people AS SELECT {names} FROM everyone")
        opened.register("people", schema, cap=10)
        return opened.train("people", method="rdt", epsilon=epsilon, **parameters)


@pytest.fixture(scope="module")
def held() -> Iterator[Held]:
    """Train both parties once, with other numbers of trees and other depths; tests only look or add models."""
    with memory() as joined:
        run(joined.engine, PEOPLE.format(name="fresh"))
        bank = trained(BANK, epsilon="0.75", trees=3, depth=2)
        yield Held(bank, trained(CLINIC, epsilon="0.5", trees=2, depth=4), joined)


def test_scores_are_the_sums_of_both(held: Held) -> None:
    """On joined rows the united model's scores are the bank's plus the clinic's, in either order."""
    expected = held.bank.scores(held.rows) + held.clinic.scores(held.rows)
    for models in ([held.bank, held.clinic], [held.clinic, held.bank]):
        assert (unite(models).scores(held.rows) == expected).all()
    assert len(np.unique(expected)) > 2


def test_sql_predicts_what_python_predicts(held: Held) -> None:
    """Stored in a database that has the joined rows, the united model gives them the same classes and shares."""
    united = held.joined.add(unite([held.bank, held.clinic], name="both"))
    assert united.predict("fresh")["prediction"].tolist() == united.labels(held.rows).tolist()
    shares = united.predict_proba("fresh", key="person")
    assert np.allclose(shares[["p_no", "p_yes"]].to_numpy(float), united.predict_proba(held.rows).to_numpy(), atol=1e-9)


def test_the_epsilons_add_up(held: Held) -> None:
    """Everyone is in both tables, so the certificate has the sum and says why."""
    card = unite([held.bank, held.clinic]).certificate
    assert card["epsilon"] == "1.25"
    assert card["composition"].startswith("sequential")
    assert [one["epsilon"] for one in card["parties"]] == ["0.75", "0.5"]


def test_the_united_schema_has_the_features_of_both(held: Held) -> None:
    """Features come in the order of the models; the file brings everything back."""
    united = unite([held.bank, held.clinic])
    assert united.schema == replace(BANK, features=BANK.features + CLINIC.features)
    assert Model.from_json(united.to_json()).to_json() == united.to_json()


def test_a_third_party_can_join(held: Held) -> None:
    """Three models at once are the same as two and then one more."""
    third = trained(Schema("y", ("no", "yes"), (Numeric("person", 0, 80),)), trees=1, depth=1)
    at_once = unite([held.bank, held.clinic, third])
    later = unite([unite([held.bank, held.clinic]), third])
    assert at_once.released.digest() == later.released.digest()
    assert at_once.certificate["epsilon"] == later.certificate["epsilon"] == "2.25"


@pytest.mark.parametrize("name", ["income", "INCOME"])
def test_a_feature_of_both_is_refused(held: Held, name: str) -> None:
    """A column that both have, in whatever letter case, is a SchemaError."""
    other = trained(Schema("y", ("no", "yes"), (Numeric(name, 0, 64),)), trees=1, depth=1)
    with pytest.raises(SchemaError, match="listed twice"):
        unite([held.bank, other])


@pytest.mark.parametrize(
    "schema",
    [
        replace(CLINIC, classes=("yes", "no")),
        replace(CLINIC, classes=("no", "yes", "maybe")),
        Schema("smokes", ("false", "true"), CLINIC.features[1:]),
    ],
    ids=["class order", "classes", "label"],
)
def test_other_labels_are_refused(held: Held, schema: Schema) -> None:
    """Models that predict something else, or name the classes in another order, are a SchemaError."""
    with pytest.raises(SchemaError, match="different labels"):
        unite([held.bank, trained(schema, trees=1, depth=1)])


def test_other_units_are_refused(held: Held) -> None:
    """The epsilon of a row and the epsilon of a person do not add up."""
    with pytest.raises(SchemaError, match="privacy units"):
        unite([held.bank, trained(replace(CLINIC, unit=Unit("person", 2)), trees=1, depth=1)])


def test_the_same_model_twice_is_refused(held: Held) -> None:
    """A model cannot join itself."""
    with pytest.raises(UsageError, match="twice"):
        unite([held.bank, held.bank])
