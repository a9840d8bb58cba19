"""Several parties with different people: shared trees, own ledgers, noisy counts that add up to one model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, reduce
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from dpsql.api.database import Database
from dpsql.errors import NewerFormat, SchemaError, UsageError
from dpsql.models.usable_model import Model
from dpsql.runs.parties import merge, read_shared_trees
from dpsql.schema import Schema, Unit
from tests.tables import SCHEMA, fill, frame_of, memory, on_disk, plain, some_rows, stored

ROWS = some_rows(90)
#: At this epsilon the noise is 0.
EXACT = 10**5


@dataclass(frozen=True)
class Parties:
    """Three open files, the structure that the first one published, and their contributions."""

    databases: list[Database]
    structure: str
    models: list[Model]


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parties]:
    """Open three files with a third of the rows each; they contribute at epsilon 0.5, 0.25 and 1. Tests only look."""
    folder = tmp_path_factory.mktemp("parties")
    opened = [on_disk(folder / f"{k}.duckdb", ROWS[k::3], cap=2) for k in range(3)]
    structure = opened[0].export_structure("people", trees=3, depth=3)
    amounts = zip(opened, ("0.5", "0.25", "1"), strict=True)
    yield Parties(opened, structure, [db.contribute("people", structure, epsilon=amount) for db, amount in amounts])
    for db in opened:
        db.close()


def contributed(schema: Schema = SCHEMA, *, trees: int = 2, **changes: Any) -> Model:
    """Return the contribution of a party of its own, to a structure of its own."""
    with memory(schema=schema) as opened:
        return opened.contribute("people", opened.export_structure("people", trees=trees, depth=2, **changes))


@cache
def usual() -> Model:
    """Return one such contribution, made once."""
    return contributed()


def test_each_ledger_has_one_registration_and_one_charge(parties: Parties) -> None:
    """Contributing writes one entry to the party's own ledger, at its own epsilon."""
    entries = [[(e.event, e.amount_text) for e in db.book.entries() if e.event != "cap"] for db in parties.databases]
    assert [[event for event, _ in one] for one in entries] == [["register", "reserve"]] * 3
    assert [one[1][1] for one in entries] == ["0.5", "0.25", "1"]
    assert [db.budget("people").spent_text for db in parties.databases] == ["0.5", "0.25", "1"]


def test_exporting_a_structure_costs_nothing() -> None:
    """It reads no row and leaves no trace, and the same words give the same text."""
    with memory(some_rows()) as opened:
        before = stored(opened)
        texts = {opened.export_structure("people", trees=3, depth=2, seed=5) for _ in range(2)}
        assert stored(opened) == before
    assert len(texts) == 1


def test_a_structure_holds_no_weight(parties: Parties) -> None:
    """What the parties share before counting says nothing of any row: all weights are 0."""
    assert set(plain(parties.structure)["forest"]["leaves"]["weight"]) == {0}


def test_a_structure_may_be_read_from_a_file(parties: Parties, tmp_path: Path) -> None:
    """A path gives the same trees as the text."""
    (tmp_path / "s.json").write_text(parties.structure, encoding="utf-8")
    assert read_shared_trees(tmp_path / "s.json")[2] == read_shared_trees(parties.structure)[2]


def test_merged_weights_are_sums(parties: Parties) -> None:
    """The merged model has the shared trees and, leaf by leaf, the sums of all counts."""
    merged = merge(parties.models).released
    assert (merged.weights == sum(model.released.weights for model in parties.models)).all()
    assert merged.forest.leaves == read_shared_trees(parties.structure)[1].leaves


def test_three_parties_count_what_one_would() -> None:
    """With almost no noise, the merged counts are those of one table with everyone in it."""
    with memory(ROWS, cap=10**8) as everyone:
        structure = everyone.export_structure("people", trees=3, depth=3)
        whole = everyone.contribute("people", structure, epsilon=EXACT)
    models = []
    for k in range(3):
        with memory(ROWS[k::3], cap=10**8) as opened:
            models.append(opened.contribute("people", structure, epsilon=EXACT))
    assert (merge(models).released.weights == whole.released.weights).all()
    assert whole.released.weights.sum() == 3 * 94


def test_any_subset_can_be_merged(parties: Parties) -> None:
    """Two of three make a model of their own, at the larger of their epsilons."""
    first, second, _ = parties.models
    merged = merge([first, second])
    assert (merged.released.weights == first.released.weights + second.released.weights).all()
    assert merged.certificate["epsilon"] == "0.5"


def test_the_order_does_not_matter(parties: Parties) -> None:
    """Whoever comes first, the counts, the tables and the epsilon are the same."""
    merged = [merge(list(order)) for order in permutations(parties.models)]
    assert len({model.released.digest() for model in merged}) == 1
    assert {(model.certificate["epsilon"], model.table) for model in merged} == {("1", "people")}


def test_the_certificate_says_parallel_and_the_largest_epsilon(parties: Parties) -> None:
    """It has each party's own certificate, no ledger entry, and survives the file."""
    merged = merge(parties.models, name="all")
    card = merged.certificate
    assert (card["epsilon"], card["private"], card["ledger_entry"]) == ("1", True, None)
    assert card["composition"].startswith("parallel")
    assert [one["ledger_hash"] for one in card["parties"]] == [m.certificate["ledger_hash"] for m in parties.models]
    assert Model.from_json(merged.to_json()).to_json() == merged.to_json()


def test_a_merged_model_predicts_in_sql_as_in_python(parties: Parties) -> None:
    """Imported into a database, it gives each row the same class as in Python."""
    merged = merge(parties.models, name="all")
    with memory() as opened:
        fill(opened.engine, "fresh", ROWS)
        found = opened.add(merged).predict("fresh")["prediction"].tolist()
    assert found == merged.labels(frame_of(ROWS)).tolist()


def test_a_merged_model_can_be_merged_again(parties: Parties) -> None:
    """(a + b) + c is a + b + c."""
    nested = reduce(lambda one, other: merge([one, other]), parties.models)
    assert nested.released.digest() == merge(parties.models).released.digest()


@pytest.mark.parametrize("pick", [lambda m: [], lambda m: m[:1]], ids=["none", "one"])
def test_at_least_two_are_needed(parties: Parties, pick: Callable[[list[Model]], list[Model]]) -> None:
    """There is nothing to merge in fewer than two models."""
    with pytest.raises(UsageError, match="at least two"):
        merge(pick(parties.models))


def test_a_contribution_is_added_once(parties: Parties) -> None:
    """The same counts twice would count each person twice."""
    with pytest.raises(UsageError, match="given twice"):
        merge([parties.models[0], parties.models[1], parties.models[0]])


def test_a_table_is_counted_once(parties: Parties) -> None:
    """Two contributions of one table cost its people twice, also when one is hidden in a merged model."""
    first, second, _ = parties.models
    with memory(ROWS[:5]) as opened:
        again = [opened.contribute("people", parties.structure) for _ in range(2)]
    with pytest.raises(UsageError, match="same table"):
        merge(again)
    with pytest.raises(UsageError, match="same table"):
        merge([merge([again[0], first]), merge([again[1], second])])


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (lambda: contributed(seed=9), "different structures"),
        (lambda: contributed(trees=3), "different structures"),
        (lambda: contributed(replace(SCHEMA, classes=("yes", "no", "maybe"))), "different schemas"),
        (lambda: contributed(replace(SCHEMA, features=SCHEMA.features[::-1])), "different schemas"),
        (lambda: contributed(replace(SCHEMA, unit=Unit("person", 3))), "different privacy units"),
    ],
    ids=["structure", "trees", "classes", "schema", "unit"],
)
def test_what_does_not_fit_is_not_merged(other: Callable[[], Model], said: str) -> None:
    """Counts of other trees, columns or classes, or under another unit, are a SchemaError."""
    with pytest.raises(SchemaError, match=said):
        merge([usual(), other()])


def test_a_party_with_another_schema_cannot_contribute(parties: Parties) -> None:
    """The structure's schema must be the table's own; a party that does not fit is not charged."""
    with memory(schema=replace(SCHEMA, classes=("no", "yes"))) as opened:
        before = stored(opened)
        with pytest.raises(SchemaError, match="another schema"):
            opened.contribute("people", parties.structure)
        assert stored(opened) == before


def test_sizes_and_batches_are_each_partys_own(parties: Parties) -> None:
    """A party may declare its own size and batch column."""
    with memory(schema=replace(SCHEMA, rows=77, batch="person")) as opened:
        other = opened.contribute("people", parties.structure)
    assert merge([parties.models[0], other]).schema == SCHEMA


def test_a_repeated_request_counts_once(parties: Parties) -> None:
    """The same request id gives the same contribution and one charge."""
    with memory(some_rows()) as opened:
        once = opened.contribute("people", parties.structure, request_id="r")
        before = stored(opened)
        assert opened.contribute("people", parties.structure, request_id="r").to_json() == once.to_json()
        assert stored(opened) == before


def test_a_structure_needs_a_depth() -> None:
    """Where neither rows nor depth are known, the size would have to be bought first."""
    with memory() as opened:
        with pytest.raises(UsageError, match="before any row is read"):
            opened.export_structure("people")
        opened.register("people", replace(SCHEMA, rows=500), cap=1, replace=True)
        assert plain(opened.export_structure("people"))["forest"]["trees"] == 5


def edited(*path: Any, to: Any) -> Callable[[dict[str, Any]], object]:
    """Return an edit that sets the value at a path; `to` None takes it out."""

    def edit(stored_text: dict[str, Any]) -> object:
        place: Any = stored_text
        for key in path[:-1]:
            place = place[key]
        return place.pop(path[-1]) if to is None else place.__setitem__(path[-1], to)

    return edit


EDITS = {
    "format": edited("format", to="other"),
    "version": edited("version", to=99),
    "no version": edited("version", to=None),
    "no schema": edited("schema", to=None),
    "schema": edited("schema", to=[]),
    "no forest": edited("forest", to=None),
    "trees": edited("forest", "trees", to=10**9),
    "levels": edited("forest", "levels", 0, "axis", 0, to=77),
    "planes": edited("forest", "levels", 0, "planes", 0, 0, to="zz"),
    "bits": edited("forest", "levels", 0, "planes", 0, 0, to="1"),
    "arity": edited("forest", "levels", 1, "arity", 0, to=300),
    "weight": edited("forest", "leaves", "weight", 0, to=12345),
}


@pytest.mark.parametrize("name", [*EDITS, "no digest", "digest", "cut", "list", "empty", "deep"])
def test_a_damaged_structure_is_a_schema_error(parties: Parties, tmp_path: Path, name: str) -> None:
    """A structure that was edited or cut is refused as such, and nobody is charged."""
    kept = json.loads(parties.structure)
    edits = EDITS | {"no digest": edited("digest", to=None), "digest": edited("digest", to="0" * 64)}
    edits.get(name, lambda _: None)(kept)
    texts = {"cut": parties.structure[:-40], "list": "[]", "empty": "", "deep": "[" * 100_000}
    file = tmp_path / "structure.json"
    file.write_text(texts.get(name, json.dumps(kept)), encoding="utf-8")
    before = parties.databases[0].budget("people")
    with pytest.raises(NewerFormat if name == "version" else SchemaError):
        parties.databases[0].contribute("people", file)
    assert parties.databases[0].budget("people") == before


def test_a_missing_structure_is_a_schema_error(parties: Parties, tmp_path: Path) -> None:
    """The message names the file."""
    with pytest.raises(SchemaError, match="no structure file"):
        parties.databases[0].contribute("people", tmp_path / "nope.json")


@pytest.mark.parametrize("name", EDITS)
def test_a_damaged_contribution_is_a_schema_error(parties: Parties, name: str) -> None:
    """A contribution that was edited does not become a model."""
    kept = json.loads(parties.models[0].to_json())
    EDITS[name](kept)
    with pytest.raises(NewerFormat if name == "version" else SchemaError):
        Model.from_json(json.dumps(kept))


DAMAGES = [
    (key, to) for key in ("private", "epsilon", "neighbours", "unit", "dataset") for to in (None, {"a": 1}, [7], -5)
]
DAMAGES += [("epsilon", "nonsense"), ("epsilon", "-1"), ("parties", {"a": 1}), ("parties", [7]), ("parties", [{}])]


@pytest.mark.parametrize(("key", "to"), DAMAGES, ids=str)
def test_a_damaged_certificate_is_a_schema_error(parties: Parties, key: str, to: Any) -> None:
    """A certificate with a part missing, or of another kind, is not repeated in a merged one."""
    kept = json.loads(parties.models[0].to_json())
    edited("certificate", key, to=to)(kept)
    with pytest.raises(SchemaError):
        merge([Model.from_json(json.dumps(kept)), parties.models[1]])


def test_only_counts_add_up() -> None:
    """Votes are no counts: models of another method are refused."""
    with memory(some_rows()) as one, memory(some_rows()) as other:
        models = [opened.train("people", trees=2, depth=1, name=name) for opened, name in ((one, "a"), (other, "b"))]
    with pytest.raises(UsageError, match="counts"):
        merge(models)
