"""A size that is charged by itself: both charges are replayed, and whether a run stops follows from its releases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpsql.api.database import Database
from dpsql.audit.claims import Outcome, count_sessions, model_outcome
from dpsql.audit.neighbours import MadeUpTable
from dpsql.audit.replay import Replay
from dpsql.audit.ways import AuditCase
from dpsql.methods.shared import row_evidence
from tests.audit.pairs import AGAINST, NEWCOMER, SCHEMA, TYPES, trained

#: Where noise hides that there are no rows, a run goes on, and warns in the end.
pytestmark = pytest.mark.filterwarnings("ignore::dpsql.errors.NoRowsWarning")


@pytest.fixture(autouse=True)
def users_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the limit of the stop as users have it."""
    monkeypatch.setattr(row_evidence, "FEW_ROWS", 30)
    monkeypatch.setattr(row_evidence, "DECLARED_SHARE", 0.5)


@pytest.mark.parametrize("method", ["auto", "rdt", "snr", "spe"])
def test_two_charges_keep_their_promise(method: str) -> None:
    """Size and rest together lose no more than charges, budget and certificate say, with a whole person more."""
    replayed = trained(people=AGAINST, method=method, epsilon=40)
    assert str(replayed).startswith("holds")
    assert not replayed.failed
    assert "size" in [step.step for step in replayed.steps]
    assert len(replayed.claims) == 3


def test_a_run_that_stops_keeps_its_promise() -> None:
    """Both tables stop with the same words, since these follow from the released size; it alone is charged."""
    stopped = []
    for _ in range(20):
        replayed = trained(method="auto", epsilon=1)
        assert replayed.holds
        stopped += [replayed] if replayed.failed.startswith("NoRowsCounted") else []
    assert stopped
    assert float(stopped[0].promise) == pytest.approx(0.03)


def test_a_certificate_that_forgets_the_size_is_caught() -> None:
    """The model follows from the size too: a certificate of the second charge alone would promise too much."""
    assert _with_certificate({}).holds
    forgetful = _with_certificate({"epsilon": "0.97"})
    assert not forgetful.holds


def _with_certificate(changed: dict[str, Any]) -> Replay:
    """Return the replay of a training whose certificate was changed; its person loses all that it may."""
    first = MadeUpTable("people", TYPES, AGAINST, SCHEMA)

    def act(database: Database) -> list[Outcome]:
        model = database.train("people", method="rdt", epsilon=40, trees=1, request_id="r")
        assert count_sessions(model) == 2
        scaled = {name: str(float(value) * 40) for name, value in changed.items()}
        return [model_outcome(replace(model, certificate={**model.certificate, **scaled}))]

    return AuditCase("", (first,), (replace(first, rows=AGAINST + NEWCOMER),), act).replay()
