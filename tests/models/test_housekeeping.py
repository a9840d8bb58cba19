"""Stored models in order: tags, new names, dropped models, whose charges and numbers stay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import DpsqlError, ParameterError, UnknownName, UsageError
from tests import tables


@pytest.fixture
def db() -> Iterator[Database]:
    """Open a database with a registered table, public rows, and a model "m" that request "first" paid for."""
    with connect(":memory:", who="ann") as opened:
        tables.fill(opened.engine, "people", tables.some_rows())
        tables.fill(opened.engine, "fresh", tables.some_rows(12))
        opened.register("people", tables.SCHEMA, cap=10)
        _train(opened)
        yield opened


def _train(db: Database, *, request_id: str | None = "first", name: str = "m") -> object:
    return db.train("people", name=name, method="rosnam", request_id=request_id, **tables.SMALL)


def _names(db: Database, tag: str | None = None) -> list[str]:
    return list(db.models(tag=tag)["name"])


def test_a_dropped_model_leaves_its_charge_and_entry(db: Database) -> None:
    """The budget, the entries and the soundness of the ledger are as before."""
    spent, entries = db.budget("people").spent_text, db.ledger().to_dict("records")
    db.drop_model("m")
    assert _names(db) == []
    assert db.budget("people").spent_text == spent
    assert db.ledger().to_dict("records") == entries
    assert db.verify() == []


def test_a_repeated_request_of_a_dropped_model_says_who_dropped_it_and_charges_nothing(db: Database) -> None:
    """It neither trains again for nothing nor fails oddly."""
    db.drop_model("m")
    with pytest.raises(DpsqlError, match='released the model "m", which ann dropped at 20.* stays charged'):
        _train(db)
    assert db.budget("people").spent_text == "1"
    assert _train(db, request_id="second") is not None
    assert db.budget("people").spent_text == "2"


def test_a_number_is_never_given_twice(db: Database) -> None:
    """A view of a dropped model never shows the predictions of another."""
    assert db.model("m").model_id == 1
    db.model("m").create_view("fresh")
    db.drop_model("m", force=True)
    _train(db, request_id=None)
    assert db.model("m").model_id == 2


def test_a_model_that_views_or_macros_read_is_dropped_by_force_alone(db: Database) -> None:
    """All of them are named, and nothing is changed without --force."""
    db.model("m").create_view("fresh")
    db.model("m").create_macro()
    with pytest.raises(UsageError, match='model "m" is read by macro "m_predict", view "m_scored"'):
        db.drop_model("m")
    assert _names(db) == ["m"]
    db.drop_model("m", force=True)
    assert _names(db) == []


def test_what_reads_another_model_is_not_named(db: Database) -> None:
    """Model 1 is not read by what reads model 10 or 2."""
    for number in range(9):
        _train(db, request_id=None, name=f"n{number}")
    assert db.model("n8").model_id == 10
    db.model("n8").create_view("fresh")
    db.drop_model("m")
    with pytest.raises(UsageError, match='read by view "n8_scored"'):
        db.drop_model("n8")


def test_a_renamed_model_is_the_same_model(db: Database) -> None:
    """Number, forest and certificate stay, and a repeated request finds it under its new name."""
    before = db.model("m")
    renamed = db.rename_model("m", "n")
    assert (renamed.name, renamed.model_id, renamed.certificate) == ("n", before.model_id, before.certificate)
    assert _train(db).name == "n"  # type: ignore[attr-defined]
    assert db.budget("people").spent_text == "1"
    with pytest.raises(UnknownName, match='no model "m"'):
        db.model("m")


@pytest.mark.parametrize("new", ["other", "", " ", "m", "x" * 201, "a\x00b"])
def test_a_model_is_not_renamed_to_what_is_taken_or_no_name(db: Database, new: str) -> None:
    """Nothing is changed."""
    _train(db, request_id=None, name="other")
    with pytest.raises(ParameterError, match="name must be"):
        db.rename_model("m", new)
    assert _names(db) == ["m", "other"]


def test_models_are_found_by_their_tags(db: Database) -> None:
    """By a word, by a name whatever its value, and by a name and a value; a new value replaces the old."""
    _train(db, request_id=None, name="other")
    assert db.tag_model("m", "stage=test", "good") == ["good", "stage=test"]
    assert db.tag_model("m", "stage=live") == ["good", "stage=live"]
    db.tag_model("other", "stage=test")
    assert _names(db, "stage") == ["m", "other"]
    assert _names(db, "stage=live") == ["m"]
    assert _names(db, "good") == ["m"]
    assert _names(db, "bad") == []
    assert db.models()["tags"].tolist() == [["good", "stage=live"], ["stage=test"]]


def test_tags_are_taken_off_and_go_with_their_model(db: Database) -> None:
    """A model that gets the name later has none of them."""
    db.tag_model("m", "stage=live", "good")
    assert db.tag_model("m", "stage", remove=True) == ["good"]
    db.drop_model("m")
    _train(db, request_id=None)
    assert db.models()["tags"].tolist() == [[]]


@pytest.mark.parametrize("tag", ["", " ", "=x", "a,b", "a\nb", "x" * 201, "\x1b[31m"])
def test_a_tag_is_a_word_or_a_name_with_a_value(db: Database, tag: str) -> None:
    """Anything else is refused, and nothing is written."""
    with pytest.raises(ParameterError, match="tag must be"):
        db.tag_model("m", "fine", tag)
    assert db.models()["tags"].tolist() == [[]]


def test_a_model_that_is_not_there_is_named_with_the_nearest(db: Database) -> None:
    """By each of the three acts."""
    for act in (lambda: db.drop_model("n"), lambda: db.rename_model("n", "x"), lambda: db.tag_model("n", "x")):
        with pytest.raises(UnknownName, match="Known: m|mean"):
            act()
