"""A bought size is charged by itself, before the rest; where it says that about no row counts, the run stops there."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import BudgetExceeded, NoRowsCounted, NoRowsWarning, NotPrivate, ParameterError
from dpsql.kernel.datasets.dataset import find_dataset
from dpsql.methods.shared import row_evidence
from dpsql.schema import Schema
from tests.tables import run

#: Where noise hides that there are no rows, a run goes on, and warns in the end.
pytestmark = pytest.mark.filterwarnings("ignore::dpsql.errors.NoRowsWarning")
#: Rows that are enough for any size to be told from zero at epsilon 1.
ROWS = 3000
GOOD: dict[str, Any] = {
    "label": "y",
    "classes": ["No", "Yes"],
    "features": {"age": {"type": "numeric", "lower": 0, "upper": 100}},
    "batch": "era",
}
#: No row has one of these classes.
WRONG = {**GOOD, "classes": ["no", "yes"]}


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """Open a database with rows, and with the limit of the stop as users have it."""
    monkeypatch.setattr(row_evidence, "FEW_ROWS", 30)
    monkeypatch.setattr(row_evidence, "DECLARED_SHARE", 0.5)
    with connect(":memory:", who="ann") as opened:
        run(
            opened.engine,
            "CREATE TABLE t AS SELECT CASE WHEN i % 3 = 0 THEN 'Yes' ELSE 'No' END AS y, (i % 100)::DOUBLE AS age, "
            f"CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END AS era FROM range({ROWS}) AS r(i)",
        )
        yield opened


def amounts(database: Database) -> list[tuple[str, str, str]]:
    """Return the charges of a ledger: request, epsilon and how each ended."""
    entries = database.book.entries(event="reserve")
    return [(entry.request_id, entry.amount_text, entry.state) for entry in entries]


def stop(database: Database, **asked: Any) -> NoRowsCounted:
    """Return the error of a run that stops; noise may hide that there are no rows, so it is asked up to 20 times."""
    for attempt in range(20):
        try:
            database.train("t", **{"epsilon": 1, "request_id": f"r{attempt}", **asked})
        except NoRowsCounted as error:
            return error
        # The size that noise made large would be used again under this registration.
        schema = find_dataset(database.engine, database.book, "t").schema
        database.register("t", schema, cap=database.budget("t").cap_text, replace=True)
    raise AssertionError("no run stopped")


def test_two_charges_add_up_to_what_was_asked(database: Database) -> None:
    """The size is an entry of its own, the certificate names both, and the model's schema declares no size."""
    database.register("t", GOOD, cap=3)
    model = database.train("t", epsilon=1, request_id="r")
    assert amounts(database) == [("r/size", "0.03", "released"), ("r", "0.97", "released")]
    entries = database.book.entries(event="reserve")
    assert model.certificate["epsilon"] == "1"
    assert model.certificate["size"]["ledger_entry"] == entries[0].entry_id
    assert model.certificate["ledger_entry"] == entries[1].entry_id
    assert abs(model.certificate["size"]["noisy_rows"] - ROWS) < 2000
    assert model.schema.rows is None
    assert database.budget("t").spent_text == "1"


@pytest.mark.parametrize("method", ["rdt", "snr", "spe"])
def test_every_method_that_buys_a_size_is_charged_in_two_steps(database: Database, method: str) -> None:
    """Not `auto` alone: whatever plan starts with a bought size."""
    database.register("t", GOOD, cap=3)
    database.train("t", epsilon=1, method=method, request_id="r")
    assert [amount for _, amount, _ in amounts(database)] == ["0.03", "0.97"]


def test_a_repeated_request_charges_nothing(database: Database) -> None:
    """The same id gives the same model, also after a better size was bought meanwhile."""
    database.register("t", GOOD, cap=1000)
    model = database.train("t", epsilon=1, request_id="r")
    database.advise("t", buy=100)
    assert database.train("t", epsilon=1, request_id="r").name == model.name
    assert len(amounts(database)) == 3


def test_an_earlier_size_is_used_for_nothing(database: Database) -> None:
    """A second run finds the first one's size, spends all of epsilon on training, and repeats under its id too."""
    database.register("t", GOOD, cap=3)
    database.train("t", epsilon=1, request_id="r")
    second = database.train("t", epsilon=1, request_id="s")
    assert amounts(database)[2:] == [("s", "1", "released")]
    assert second.certificate["size"]["bought"] == "earlier"
    assert database.train("t", epsilon=1, request_id="s").name == second.name
    assert database.budget("t").spent_text == "2"


def test_a_size_that_advice_bought_is_not_bought_again(database: Database) -> None:
    """Training after `advise(buy=…)` is one charge of all its epsilon, as its plan says, and names the entry."""
    database.register("t", GOOD, cap=3)
    bought = database.advise("t", buy="0.5").bought
    assert bought is not None
    assert "size" not in {step.name for step in database.plan("t", epsilon=1).steps}
    model = database.train("t", epsilon=1, request_id="r")
    assert amounts(database)[1:] == [("r", "1", "released")]
    assert model.certificate["size"]["ledger_entry"] == bought.entry
    assert database.budget("t").spent_text == "1.5"


def test_a_size_under_another_schema_is_not_used(database: Database) -> None:
    """What was counted under other classes says nothing of these."""
    database.register("t", GOOD, cap=1000)
    database.train("t", epsilon=1)
    database.register("t", WRONG, cap=1000, replace=True)
    assert stop(database).spent == "0.03"


def test_a_run_on_no_rows_stops_after_its_size(database: Database) -> None:
    """Only the size is spent; the error says so, and why it may be; asking again under the id charges nothing."""
    database.register("t", WRONG, cap=1000)
    error = stop(database)
    request_id = amounts(database)[-1][0].removesuffix("/size")
    assert amounts(database)[-1] == (f"{request_id}/size", "0.03", "released")
    assert error.unspent == "0.97"
    assert error.noisy_rows < 30
    for words in ("letter case", "the label is NULL", "the table has no rows", f"entry {error.entry}"):
        assert words in str(error)
    for words in ("BOOLEAN", "unit", "batch"):  # the label is VARCHAR, a unit is a row, and no batch was asked for
        assert words not in str(error)
    before = amounts(database)
    with pytest.raises(NoRowsCounted):
        database.train("t", epsilon=1, request_id=request_id)
    assert amounts(database) == before


def test_a_stopped_run_is_no_lost_run(database: Database) -> None:
    """The owner has nothing to accept: the size was released."""
    database.register("t", WRONG, cap=1000)
    stop(database)
    assert database.budget("t").standing.unfinished_runs == 0


def test_the_size_of_a_batch_is_charged_on_that_batch(database: Database) -> None:
    """A batch has a size of its own, which is never taken for that of the table or of another batch."""
    database.register("t", GOOD, cap=3)
    database.train("t", epsilon=1, method="rdt", batch="a", request_id="a")
    assert [entry.scope for entry in database.book.entries(event="reserve")] == ["era=a", "era=a"]
    assert database.budget("t").spent_text == "1"
    database.train("t", epsilon=1, method="rdt", batch="b", request_id="b")
    assert [entry.scope for entry in database.book.entries(event="reserve")][2:] == ["era=b", "era=b"]
    assert database.budget("t").spent_text == "1"
    assert database.advise("t").bought is None
    error = stop(database, epsilon="0.9", method="rdt", batch="none")
    assert 'batch "none"' in str(error)


def test_both_charges_must_fit_before_the_first(database: Database) -> None:
    """Neither a cap nor an analyst's cap that the whole would pass is touched."""
    database.register("t", GOOD, cap=1)
    database.set_cap("t", "0.5", analyst="ann")
    with pytest.raises(BudgetExceeded, match='analyst "ann"'):
        database.train("t", epsilon="0.9")
    with pytest.raises(BudgetExceeded, match='table "t"'):
        database.train("t", epsilon=2)
    assert amounts(database) == []


def test_a_run_that_was_interrupted_goes_on_where_it_stopped(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the two charges, with a cap that holds both once: the same id finds its size, and fits."""
    from dpsql.runs import train as training

    database.register("t", GOOD, cap=1)
    with monkeypatch.context() as patch:
        patch.setattr(training, "release_model", interrupt)
        with pytest.raises(KeyboardInterrupt):
            database.train("t", epsilon=1, request_id="r")
    assert amounts(database) == [("r/size", "0.03", "released")]
    database.train("t", epsilon=1, request_id="r")
    assert amounts(database) == [("r/size", "0.03", "released"), ("r", "0.97", "released")]


def interrupt(*given: object, **named: object) -> None:
    """End a run, as a key on the keyboard does."""
    raise KeyboardInterrupt


def test_nothing_is_charged_where_the_run_would_be_refused(database: Database) -> None:
    """A taken name and an unproven variant are refused before the size is bought."""
    database.register("t", GOOD, cap=5)
    database.train("t", epsilon=1, name="taken", method="maxtree")
    before = amounts(database)
    with pytest.raises(ParameterError, match="name"):
        database.train("t", epsilon=1, name="taken")
    with pytest.raises(NotPrivate):
        database.train("t", epsilon=1, method="rosnam", as_published=True)
    assert amounts(database) == before


def test_public_data_is_charged_whole(database: Database) -> None:
    """Without a cap there is no budget to save, and comparisons on tiny tables must go on."""
    database.register("t", WRONG, cap=None)
    for number in range(5):
        database.train("t", epsilon=1, request_id=f"r{number}")
    assert [amount for _, amount, _ in amounts(database)] == ["1"] * 5


def test_a_small_run_is_one_charge(database: Database) -> None:
    """Three hundredths of it would be less than the least charge that the owner allows."""
    database.register("t", GOOD, cap=1, least_epsilon="0.01")
    database.train("t", epsilon="0.1", request_id="r")
    assert [amount for _, amount, _ in amounts(database)] == ["0.1"]


def test_the_plan_shows_both_charges(database: Database) -> None:
    """A dry run says that the size is charged first; once one was bought, that the plan is made for it."""
    database.register("t", GOOD, cap=3)
    steps = database.plan("t", epsilon=1).to_dict()["steps"]
    assert [(step["name"], step["epsilon"]) for step in steps] == [("size", "0.03"), ("rest", "0.97")]
    assert "charged first, by itself" in steps[0]["note"]
    database.train("t", epsilon=1)
    again = database.plan("t", epsilon=1)
    assert again.parameters["size_entry"] == 2
    assert again.nano_epsilon == 10**9


def test_with_a_delta_the_run_stops_and_the_whole_charge_stays(database: Database) -> None:
    """All steps share one rho: the error says that nothing comes back."""
    database.register("t", WRONG, cap=10)
    database.set_cap("t", 100, kind="approximate", delta="1e-6")
    error = stop(database, delta="1e-7", epsilon=5)
    assert "the whole charge stays" in str(error)
    assert amounts(database)[-1][2] == "lost"


SENTENCES: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "texts": ({}, "VARCHAR", ["letter case", "the label is NULL"]),
    "codes": ({"classes": ["0", "1"]}, "INTEGER", ["other codes", "the label is NULL"]),
    "values": ({}, "ENUM('No', 'Yes', 'no', 'yes')", ["other values of the label's ENUM", "the label is NULL"]),
    "booleans": ({"classes": ["false", "true"]}, "BOOLEAN", ["the label is NULL"]),
    "words on booleans": ({}, "BOOLEAN", ["classes are words", "the label is NULL"]),
    "days": ({"classes": ["2020-01-01", "2020-01-02"]}, "DATE", ["other days", "the label is NULL"]),
    "a unit": ({"privacy_unit": {"column": "p", "max_rows": 1}}, "VARCHAR", ["letter case", "NULL", 'column "p"']),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_only_reasons_that_the_catalog_leaves_possible_are_named(case: str) -> None:
    """The label's type and the unit decide what may be wrong; that there are no rows is always possible."""
    changes, label_type, words = SENTENCES[case]
    schema = Schema.from_dict({**WRONG, **changes})
    sentence = row_evidence.likely_reasons(schema, label_type=label_type, rows='batch "a"')
    reasons = sentence.removeprefix("Likely reasons: ").split("; ")
    assert len(reasons) == len(words) + 1
    assert all(word in reason for word, reason in zip([*words, 'the batch "a" has no rows'], reasons, strict=True))


def test_a_declared_size_and_wrong_classes_warn_at_little_epsilon(database: Database) -> None:
    """Noise that hides a few hundred rows hides no 3,000: every run warns, and none with the right classes does."""
    for schema, warned in ((WRONG, True), (GOOD, False)):
        database.register("t", {**schema, "rows": ROWS}, cap=20, replace=not warned)
        for _ in range(6):
            certificate = database.train("t", epsilon=0.5).certificate
            assert ("warnings" in certificate) == warned


def test_a_size_that_is_declared_says_nothing_of_a_batch(database: Database) -> None:
    """A batch with a tenth of the declared rows is not said to have none."""
    run(database.engine, "UPDATE t SET era = CASE WHEN age < 10 THEN 'a' ELSE 'b' END")
    database.register("t", {**GOOD, "rows": ROWS}, cap=20)
    for _ in range(4):
        model = database.train("t", epsilon=0.04, method="rdt", batch="a")
        assert "warnings" not in model.certificate


@pytest.mark.parametrize("method", ["auto", "rdt"])
def test_a_model_of_no_rows_carries_a_warning(database: Database, method: str) -> None:
    """Where the size is declared, none is bought: the released counts tell, in the certificate and as a warning."""
    database.register("t", {**WRONG, "rows": 45_000}, cap=10_000)
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        models = [database.train("t", epsilon=10, method=method) for _ in range(20)]  # noise hides it now and then
    sentences = [sentence for model in models for sentence in model.certificate.get("warnings", ())]
    assert [str(note.message) for note in issued if note.category is NoRowsWarning] == sentences
    assert "Likely reasons" in sentences[0]


@pytest.mark.parametrize("method", ["auto", "rdt", "maxtree"])
def test_a_model_of_many_rows_carries_no_warning(database: Database, method: str) -> None:
    """A warning that comes without need is not read."""
    database.register("t", {**GOOD, "rows": ROWS}, cap=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "warnings" not in database.train("t", epsilon=1, method=method).certificate


def test_votes_are_not_shown_as_counts(database: Database) -> None:
    """A tree of `auto` that votes with shares shows shares: 4096 votes on no rows read like counts (fault B14)."""
    database.register("t", {**GOOD, "rows": 5}, cap=10)
    model = database.train("t", epsilon=1, trees=1, depth=1)
    assert model.certificate["plan"]["parameters"]["regime"] == "public"
    assert "%" in model.show(0)
