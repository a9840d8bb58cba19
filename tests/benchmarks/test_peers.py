"""Tests of the peers: what they are given, how they are asked, and, where they are installed, that they learn."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dpsql.api import census
from dpsql.errors import DpsqlError, UnknownName, UsageError
from dpsql.schema import Schema
from examples.benchmarks import peer_runner, peers
from examples.benchmarks.__main__ import main
from examples.benchmarks.peers import Environment, Worker, encode_rows, run_peer
from examples.benchmarks.splits import Table, declare_schema, halves

SCHEMA: dict[str, Any] = {
    "label": "y",
    "classes": ["no", "yes"],
    "features": {
        "x": {"type": "numeric", "lower": 0, "upper": 10},
        "color": {"type": "categorical", "values": ["red", "green"]},
        "always": {"type": "categorical", "values": ["one"]},
    },
}
FRAME = pd.DataFrame(
    {"x": [5.0, None, 20.0], "color": ["green", None, "blue"], "always": ["one"] * 3, "y": ["yes", "no", "yes"]}
)
FOLDER = Path(os.environ.get("DPSQL_PEERS", "dpsql-peers"))
installed = pytest.mark.skipif(
    not Environment(FOLDER).is_installed, reason=f"the peers are not installed in {FOLDER} (DPSQL_PEERS)"
)


def given(frame: pd.DataFrame = FRAME) -> dict[str, Any]:
    """Return what a peer is given about a frame."""
    return encode_rows(Schema.from_dict(declare_schema(SCHEMA, null_columns=("color",))), frame, frame)


def test_a_peer_gets_codes_and_public_facts() -> None:
    """NULL is a category of its own where it is known to occur, and the lower bound of a number."""
    found = given()
    assert found["train"].tolist() == [[5, 1, 0], [0, 2, 0], [20, 3, 0]]
    assert (found["labels"].tolist(), found["classes"]) == ([1, 0, 1], 2)
    assert found["categories"].tolist() == [0, 3, 1]
    assert (found["lower"].tolist(), found["upper"].tolist()) == ([0, 0, 0], [10, 2, 1])


def test_what_a_peer_is_told_does_not_depend_on_rows() -> None:
    """Bounds, categories and classes are the schema's, whatever rows there are."""
    one, other = given(FRAME[:1]), given(FRAME[1:])
    assert all((one[name] == other[name]).all() for name in ("lower", "upper", "categories", "classes"))


def test_rows_are_scaled_and_one_hot_for_a_linear_model() -> None:
    """A feature adds at most 1 to a row's squared norm, so that the declared norm holds; an unknown category adds 0."""
    rows = peer_runner.one_hot(given()["train"], given())
    assert rows.tolist() == [[0.5, 0, 1, 0, 1], [0, 0, 0, 1, 1], [1, 0, 0, 0, 1]]
    assert (np.linalg.norm(rows, axis=1) <= np.sqrt(3)).all()


def test_categories_are_text_for_boosting() -> None:
    """Numbers stay numbers within their bounds."""
    assert peer_runner.texts(given()["train"], given()).tolist() == [[5, "1", "0"], [0, "2", "0"], [10, "3", "0"]]


def test_a_peer_is_asked_for_the_rows_of_the_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """It trains on the same nine tenths as a method, in another order, and is measured on the same tenth."""
    table = Table("people", census.SCHEMA, census.rows(400, seed=2))
    asked: list[dict[str, Any]] = []

    class Perfect:
        def train(self, _peer: str, _epsilon: object, data: dict[str, Any]) -> tuple[Any, float]:
            asked.append(data)
            return np.eye(2)[peers.class_numbers(halves(table, 3)[1]["income"], census.SCHEMA["classes"])], 0.1

    monkeypatch.setattr(peers, "worker", lambda _folder: Perfect())
    found = run_peer(table, 3, peer="dpebm", epsilon="1", folder=Path("unused"))
    train, test = halves(table, 3)
    schema = Schema.from_dict(declare_schema(census.SCHEMA))
    wanted = encode_rows(schema, train, test)
    assert (asked[0]["test"] == wanted["test"]).all()
    assert not (asked[0]["train"] == wanted["train"]).all()
    assert sorted(map(tuple, asked[0]["train"])) == sorted(map(tuple, wanted["train"]))
    assert (found.accuracy, found.rows, found.auc, found.spent) == (1.0, 40, 1.0, "1 (delta 1e-06)")


def test_a_peer_gets_null_as_a_category_and_wider_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a method does with --declare-nulls and --widen."""
    asked: list[dict[str, Any]] = []

    class Even:
        def train(self, _peer: str, _epsilon: object, data: dict[str, Any]) -> tuple[Any, float]:
            asked.append(data)
            return np.full((len(data["test"]), 2), 0.5), 0.1

    monkeypatch.setattr(peers, "worker", lambda _folder: Even())
    table = Table("colors", SCHEMA, pd.concat([FRAME] * 10, ignore_index=True), ("color",))
    run_peer(table, 0, peer="diffprivlib-nb", epsilon="1", folder=Path("unused"), widen=5)
    assert asked[0]["categories"].tolist() == [0, 3, 1]
    assert (asked[0]["lower"][0], asked[0]["upper"][0]) == (-20, 30)


def test_boosting_is_not_asked_about_three_classes() -> None:
    """It knows two."""
    three = Table("three", SCHEMA | {"classes": ["a", "b", "c"]}, FRAME)
    assert [bool(peers.unfit(name, three)) for name in peers.NAMES] == [False, False, False, True]
    assert not any(peers.unfit(name, Table("two", SCHEMA, FRAME)) for name in peers.NAMES)


def test_unknown_peers_are_refused() -> None:
    """The nearest name is offered; `all` is everybody."""
    assert peers.find_peers("all") == list(peers.NAMES)
    with pytest.raises(UnknownName, match="diffprivlib-nb"):
        peers.find_peers("diffprivlib-bn")


def test_a_missing_environment_is_refused(tmp_path: Path) -> None:
    """With the command that makes one."""
    with pytest.raises(UsageError, match=f"python -m examples.benchmarks peers --install {tmp_path}"):
        Worker(Environment(tmp_path))


@pytest.mark.skipif(importlib.util.find_spec("diffprivlib") is not None, reason="diffprivlib is installed here")
def test_a_peer_that_fails_is_named() -> None:
    """In this test's own environment, which has no peers, the process says so and goes on to the next request."""
    worker = Worker(Environment(Path(sys.prefix)))
    try:
        for _ in range(2):
            with pytest.raises(DpsqlError, match="diffprivlib-nb failed: ModuleNotFoundError"):
                worker.train("diffprivlib-nb", "1", given())
    finally:
        worker.close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a program that ends at once")
def test_a_process_that_dies_is_told(tmp_path: Path) -> None:
    """Whether it ends before or after the request was written."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("/bin/true")
    worker = Worker(Environment(tmp_path))
    for _ in range(2):
        with pytest.raises(DpsqlError, match="ended without an answer"):
            worker.train("diffprivlib-nb", "1", given())
    worker.close()


def test_the_runner_answers_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request has one answer; a warning about privacy is an error."""

    class Leaky:
        def __init__(self, warning: str) -> None:
            self.warning, self.classes_ = warning, np.array([0, 1])

        def fit(self, _rows: Any, _labels: Any) -> None:
            import warnings

            warnings.warn(self.warning, stacklevel=1)

        def predict_proba(self, rows: Any) -> Any:
            return np.full((len(rows), 2), 0.5)

    np.savez(tmp_path / "data.npz", **given())
    words = {"fine": "it did not converge", "leaky": "Possible privacy violation: bounds read from data"}
    known = {
        name: (lambda _data, _epsilon, text=text: (Leaky(text), peer_runner.ordinal)) for name, text in words.items()
    }
    monkeypatch.setattr(peer_runner, "PEERS", known)
    lines = [json.dumps({"peer": peer, "epsilon": 1.0, "folder": str(tmp_path)}) + "\n" for peer in words]
    answers = io.StringIO()
    peer_runner.serve(io.StringIO("".join(lines)), answers)
    fine, leaky = map(json.loads, answers.getvalue().splitlines())
    assert fine["seconds"] >= 0
    assert "privacy violation" in leaky["error"]
    assert np.load(tmp_path / "probabilities.npy").shape == (3, 2)


def test_the_command_says_what_is_missing(tmp_path: Path) -> None:
    """And how to install it; as JSON too."""
    words = ["peers", "--peer-folder", str(tmp_path)]
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert f"python -m examples.benchmarks peers --install {tmp_path}" in done.stdout
    told = json.loads(CliRunner().invoke(main, [*words, "--json"], catch_exceptions=False).stdout)
    assert (told["installed"], told["peers"]) == (None, list(peers.NAMES))


@installed
@pytest.mark.parametrize("peer", peers.NAMES)
def test_an_installed_peer_learns(peer: str) -> None:
    """At a large epsilon it beats the largest class by its AUC."""
    table = Table("people", census.SCHEMA, census.rows(3000, seed=3))
    found = run_peer(table, 0, peer=peer, epsilon="100", folder=FOLDER)
    assert found.rows == 300
    assert found.auc is not None
    assert found.auc > 0.6


@installed
def test_installed_versions_are_those_asked_for() -> None:
    """So that recorded figures can be measured again."""
    found = Environment(FOLDER).versions()
    assert all(found[name] == version for name, _, version in (one.partition("==") for one in peers.REQUIREMENTS))
