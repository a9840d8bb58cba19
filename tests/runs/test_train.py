"""Training: request ids, names, what the certificate says, and races for a name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpsql import methods
from dpsql.api.database import Database
from dpsql.errors import DpsqlError, ParameterError, QueryFailed
from dpsql.methods.rosnam import Rosnam
from tests.tables import (
    SCHEMA,
    SMALL,
    Row,
    frame_of,
    memory,
    model_of,
    on_disk,
    plain,
    rows_of,
    small_forest,
    some_rows,
    stored,
    voting,
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a file with "people" registered at cap 10."""
    with on_disk(tmp_path / "data.duckdb", some_rows(), cap=10) as opened:
        yield opened


def test_a_repeated_request_returns_the_stored_model(database: Database) -> None:
    """The same request id gives the same bytes and charges nothing, also after the file was closed."""
    first = database.train("people", request_id="r", name="one", **SMALL)
    before = stored(database)
    again = database.train("people", request_id="r", name="one", **SMALL)
    assert again.to_json() == first.to_json()
    assert stored(database) == before


@pytest.mark.parametrize("changes", [{"epsilon": 2}, {"trees": 4}, {"seed": 1}])
def test_another_request_under_a_used_id_is_refused(database: Database, changes: dict[str, Any]) -> None:
    """A request id stands for one plan on one table; anything else under it leaves no trace."""
    database.train("people", request_id="r", **SMALL)
    before = stored(database)
    with pytest.raises(ParameterError) as caught:
        database.train("people", request_id="r", **{**SMALL, **changes})
    assert caught.value.name == "request_id"
    assert stored(database) == before


def test_a_lost_request_says_so(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking again for a run that failed charges nothing and says that nothing was released."""
    with monkeypatch.context() as patch:
        patch.setattr(methods.get("rosnam"), "train", lambda session: 1 // 0)
        with pytest.raises(QueryFailed):
            database.train("people", request_id="r", method="rosnam", **SMALL)
    before = stored(database)
    with pytest.raises(DpsqlError, match="released no model"):
        database.train("people", request_id="r", method="rosnam", **SMALL)
    assert stored(database) == before


class Slow(Rosnam):
    """A method during whose training someone else stores a model."""

    def __init__(self, database: Database, taken: str) -> None:
        self.database, self.taken = database, taken

    def train(self, session: Any) -> Any:
        """Store a model, then train."""
        self.database.add(model_of(voting(small_forest(), 3), SCHEMA, self.taken))
        return super().train(session)


def test_a_name_taken_meanwhile_is_passed_over(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """When another run takes `people_1` in the meantime, this one becomes `people_2`; its charge is not lost."""
    monkeypatch.setitem(methods.METHODS, "rosnam", Slow(database, "people_1"))
    assert database.train("people", method="rosnam", **SMALL).name == "people_2"


def test_a_wanted_name_taken_meanwhile_gets_a_number(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """When another run takes the name that was asked for, the model that was paid for is kept under the next one."""
    monkeypatch.setitem(methods.METHODS, "rosnam", Slow(database, "mine"))
    assert database.train("people", name="mine", method="rosnam", **SMALL).name == "mine_1"
    assert database.book.entries(event="reserve")[-1].state == "released"


def test_the_certificate_is_plain_and_complete(database: Database) -> None:
    """A certificate survives JSON and says cost, neighbours, unit, plan, ledger place, digest and versions.

    The default method may add what it released along the way (`facts`), how its scores read (`nat`), and the size that
    it bought (`size`).
    """
    import json

    always = {
        "private", "epsilon", "neighbours", "unit", "dataset", "table", "method", "plan", "request_id",
        "kind", "ledger_entry", "ledger_hash", "created_at", "digest", "versions", "format", "version",
    }  # fmt: skip
    for method, more in (("rosnam", set()), (methods.DEFAULT, {"facts", "nat", "size"})):
        model = database.train("people", method=method, **SMALL)
        kept = dict(model.certificate)
        assert plain(json.dumps(kept)) == kept
        assert always <= set(kept) <= always | more
        assert kept["digest"] == model.released.digest()


def test_the_model_and_its_entry_name_each_other(database: Database) -> None:
    """The stored model has its entry's number, the entry has the model's digest."""
    model = database.train("people", **SMALL)
    (row,) = rows_of(database.engine, "SELECT entry_id, digest FROM dpsql.model")
    entry = database.book.entries(event="reserve")[-1]
    assert (row["entry_id"], row["digest"], entry.state) == (entry.entry_id, entry.digest, "released")
    assert entry.digest == model.released.digest()


def test_two_runs_draw_different_noise() -> None:
    """A seed shapes the trees and never the noise: two runs with one seed have one structure and different labels."""
    with memory() as opened:
        first, second = (opened.train("people", method="rosnam", trees=30, depth=3, seed=4).released for _ in range(2))
    assert all(
        (one.planes == other.planes).all() for one, other in zip(first.forest.levels, second.forest.levels, strict=True)
    )
    assert (first.weights != second.weights).any()


def test_the_default_trains_with_any_number_of_trees() -> None:
    """A forest of one tree has no guided tree beside the one that rows chose; of more it has."""
    rows: list[Row] = [(k, float(k % 64), "a", ("no", "yes", "maybe")[k % 64 // 22]) for k in range(2000)]
    with memory(rows) as opened:
        for trees in (1, 2, 5):
            model = opened.train("people", epsilon=20, trees=trees)
            assert opened.evaluate(model, frame_of(rows)).accuracy > 0.8


def test_training_shows_nothing(database: Database, capfd: pytest.CaptureFixture[str]) -> None:
    """Training in Python prints and logs nothing, whatever the rows hold."""
    database.train("people", **SMALL)
    assert capfd.readouterr() == ("", "")
