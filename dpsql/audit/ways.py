"""Every way to spend a budget, each as a case to replay: two neighbouring databases, an act, and who pays for it.

    for name in WAYS: random_case(name, seed).replay()

The ways are all methods, with and without a delta, on rows and on units, for classes and for numbers, for labels alone,
and with unlabelled rows in a table of their own; and the other acts that are charged: a bought size, an evaluation on
private rows, an update by a new batch, a label request for public rows, a party's contribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql import methods
from dpsql.api.database import Database, connect
from dpsql.audit.claims import Outcome, count_sessions, model_outcome
from dpsql.audit.many_table_neighbours import random_warehouses
from dpsql.audit.neighbours import (
    BATCH,
    ERAS,
    PERSON,
    Chance,
    MadeUpTable,
    Pair,
    random_pair,
    random_public_table,
    random_schema,
    swap_roles,
)
from dpsql.audit.replay import Act, Replay, replay
from dpsql.kernel.datasets.dataset import find_dataset
from dpsql.ledger import Entry
from dpsql.methods.base import Choice, Flag
from dpsql.runs.buy_domains import Wishes, buy_domains
from dpsql.runs.label_rows import TREES_SEE
from dpsql.schema import Categorical, Numeric, Schema

#: The delta of runs and budgets of kind "approximate".
DELTA = "1e-6"
#: The cap of all other budgets, in epsilon: more than any case spends.
_CAP = 1000
#: The cap of a budget with a delta, in epsilon.
_DELTA_CAP = 30
#: What a run may cost: little, as much as usual, and a lot.
_EPSILONS = ("0.2", "1", "3.7", "12")
#: The groups of one statement in every second case: less than almost any forest has.
_FEW_GROUPS = 8
#: How often tables of two sides are crowded: a unit that stands on both shows only where choices lose much as well.
_CROWDED = 0.5
#: Bounds the cells of a release, so that noisy sizes do not lead to deep trees.
_CELLS = 2000


@dataclass(frozen=True)
class AuditCase:
    """One act on two neighbouring databases.

    `pays` says for each charge whether the unit in which the databases differ pays it; `groups` is the most groups that
    one statement may count.
    """

    name: str
    first: tuple[MadeUpTable, ...]
    second: tuple[MadeUpTable, ...]
    act: Act
    kind: str = "pure"
    pays: Callable[[Entry], bool] = lambda entry: True
    groups: int | None = None

    def replay(self, opened: Callable[[Sequence[MadeUpTable]], Database] | None = None) -> Replay:
        """Return what the act loses between the two: in databases in memory, or in those that `opened` fills."""
        open_database = opened or database_in_memory

        def ready(tables: Sequence[MadeUpTable]) -> Database:
            return _register(open_database(tables), tables, self.kind)

        databases = (lambda: ready(self.first)), (lambda: ready(self.second))
        return replay(*databases, self.act, pays=self.pays, groups=self.groups)


def random_case(name: str, seed: int) -> AuditCase:
    """Return a case of one of the `WAYS`: the same for the same seed, hostile rows and all.

    Every second one counts in statements so small that its forests need several.
    """
    case = WAYS[name](name, np.random.default_rng([seed, *name.encode()]))
    return replace(case, groups=_FEW_GROUPS) if seed % 2 else case


def replay_report(replays: Sequence[Replay]) -> str:
    """Return what many replays came to: how many, the largest loss over its promise, and each that does not hold.

    >>> print(replay_report([]))
    0 replays, 0 do not hold
    """
    broken = [each for each in replays if not each.holds]
    lines = [f"{len(replays)} replays, {len(broken)} do not hold"]
    if replays:
        lines.append(f"largest loss over promise: {max(each.ratio for each in replays):.6f}")
        lines.append(f"releases: {sum(each.releases for each in replays)}")
    return "\n".join(lines + [str(each) for each in broken])


def database_in_memory(tables: Sequence[MadeUpTable]) -> Database:
    """Return a DuckDB database in memory that holds the tables."""
    database = connect(":memory:", who="audit")
    for table in tables:
        table.create(database.engine)
    return database


def _register(database: Database, tables: Sequence[MadeUpTable], kind: str) -> Database:
    """Return the database with its private tables registered, and a budget of the kind that will be charged."""
    for table in tables:
        if table.schema is not None:
            database.register(table.name, table.schema, cap=_CAP, view=table.view or None, allow_large=True)
        if table.schema is not None and kind == "approximate":
            database.set_cap(table.name, _DELTA_CAP, kind=kind, delta=DELTA, allow_large=True)
        elif table.schema is not None and kind == "label" and table.schema.has_label:
            database.set_cap(table.name, _CAP, kind=kind, allow_large=True)
    return database


def _case_of_pair(
    name: str,
    pair: Pair,
    act: Act,
    *,
    chance: Chance,
    beside: tuple[MadeUpTable, ...] = (),
    kind: str = "pure",
    pays: Callable[[Entry], bool] = lambda entry: True,
) -> AuditCase:
    """Return a case in which one table differs, in either direction; rows that belong to nobody pay nothing."""
    if chance.random() < 0.5:
        pair = swap_roles(pair)
    paid = pair.has_unit
    return AuditCase(
        name, (pair.first, *beside), (pair.second, *beside), act, kind, pays=lambda entry: paid and pays(entry)
    )


def _parameters(method: str, chance: Chance) -> dict[str, Any]:
    """Return parameters of a method that keep a run small; never a published form."""
    declared = methods.get(method).parameters
    small: dict[str, Any] = {
        "trees": int(chance.integers(1, 5)),
        "more_trees": int(chance.integers(1, 3)),
        "depth": None if chance.random() < 0.3 else int(chance.integers(1, 4)),
        "branches": int(chance.choice([2, 8])),
        "bins": int(chance.choice([2, 5])),
        "limit": _CELLS,
        "cells": _CELLS,
        "seed": int(chance.integers(0, 1000)),
    }
    for name, parameter in declared.items():
        if isinstance(parameter, Choice) and name != "privacy":
            small[name] = parameter.values[chance.integers(len(parameter.values))]
        elif isinstance(parameter, Flag) and name != "as_published":
            small[name] = bool(chance.random() < 0.5)
    return {name: value for name, value in small.items() if name in declared and value is not None}


def _epsilon(chance: Chance) -> str:
    return _EPSILONS[chance.integers(len(_EPSILONS))]


def _training_act(method: str, chance: Chance, **arguments: Any) -> Act:
    """Return the act that trains one model."""
    given = {"epsilon": _epsilon(chance), **_parameters(method, chance), **arguments}
    return lambda database: [
        model_outcome(database.train("people", method=method, request_id="r", allow_large=True, **given))
    ]


def _rows_or_units(chance: Chance, **options: bool) -> Schema:
    return random_schema(chance, unit=bool(chance.random() < 0.6), **options)


def _training_case(method: str, *, target: bool = False, delta: bool = False) -> Callable[[str, Chance], AuditCase]:
    def case(name: str, chance: Chance) -> AuditCase:
        schema = _rows_or_units(chance, target=target, numeric=method == "mrf")
        arguments = {"delta": DELTA} if delta else {}
        kind = "approximate" if delta else "pure"
        pair = random_pair(chance, schema)
        return _case_of_pair(name, pair, _training_act(method, chance, **arguments), chance=chance, kind=kind)

    return case


def _two_sides_case(name: str, chance: Chance) -> AuditCase:
    """`sspe` within one table: its rows without a label on one side; at unit level the unit's own column says which."""
    schema = _rows_or_units(chance)
    pair = random_pair(chance, schema, crowded=_CROWDED)
    arguments = {} if schema.unit.column is None else {"unlabelled": _on_person(pair.first, chance)}
    return _case_of_pair(name, pair, _training_act("sspe", chance, **arguments), chance=chance)


def _on_person(table: MadeUpTable, chance: Chance) -> str:
    """Return a condition on the unit's column that is true of some units, among them perhaps the unit that differs."""
    some, all_but_some = {
        "BIGINT": (f"{PERSON} < 2", f"{PERSON} >= 2"),
        "DOUBLE": (f"{PERSON} < 2", f"{PERSON} >= 2"),
        "VARCHAR": (f"{PERSON} IN ('p0', 'p1')", f"{PERSON} != 'p0'"),
    }[table.types[PERSON]]
    return some if chance.random() < 0.5 else all_but_some


def _two_tables_case(*, apart: bool) -> Callable[[str, Chance], AuditCase]:
    """`sspe` with unlabelled rows in another table: a unit is in one of them, or in both if not declared `apart`."""

    def case(name: str, chance: Chance) -> AuditCase:
        schema = _rows_or_units(chance)
        bare = Schema("", (), schema.features, schema.unit)
        people = replace(schema, disjoint_from=("others",)) if apart else schema
        pair = random_pair(chance, people, crowded=_CROWDED)
        other = random_pair(chance, schema, name="others", crowded=_CROWDED)
        other = Pair(replace(other.first, schema=bare), replace(other.second, schema=bare), other.differing)
        act = _training_act("sspe", chance, unlabelled="others")
        if not apart:
            return AuditCase(name, (pair.first, other.first), (pair.second, other.second), act)
        if chance.random() < 0.5:
            tables = (pair.first, other.first), (pair.second, other.first)
            return AuditCase(name, *tables, act, pays=lambda entry: entry.table == "people")
        tables = (pair.first, other.first), (pair.first, other.second)
        return AuditCase(name, *tables, act, pays=lambda entry: entry.table == "others")

    return case


def _labels_case(method: str, *, beside: bool = False) -> Callable[[str, Chance], AuditCase]:
    """A method that protects labels alone: the unlabelled rows in the same table, or in a public one beside it."""

    def case(name: str, chance: Chance) -> AuditCase:
        schema = _rows_or_units(chance, labels=True)
        pair = random_pair(chance, schema, labels=True)
        arguments: dict[str, Any] = {"privacy": "labels"} if method == "sspe" else {}
        others: tuple[MadeUpTable, ...] = ()
        if beside:
            bare = Schema("", (), schema.features, schema.unit, public_features=True)
            others = (replace(random_pair(chance, schema, name="others").second, schema=bare),)
            arguments["unlabelled"] = "others"
        return _case_of_pair(
            name, pair, _training_act(method, chance, **arguments), chance=chance, beside=others, kind="label"
        )

    return case


def _size_case(name: str, chance: Chance) -> AuditCase:
    pair, epsilon = random_pair(chance, _rows_or_units(chance, target=bool(chance.random() < 0.5))), _epsilon(chance)

    def act(database: Database) -> Sequence[Outcome]:
        return [Outcome(str(database.advise("people", buy=epsilon, request_id="r")))]

    return _case_of_pair(name, pair, act, chance=chance)


def _domains_case(*, delta: bool) -> Callable[[str, Chance], AuditCase]:
    """Domains are bought: of all numbers and texts, which are hashed without a delta; then words are the label."""

    def case(name: str, chance: Chance) -> AuditCase:
        schema = _rows_or_units(chance)
        pair, epsilon = random_pair(chance, schema, crowded=_CROWDED), _epsilon(chance)
        numbers = tuple(feature.name for feature in schema.features if type(feature) is Numeric)
        texts = tuple(feature.name for feature in schema.features if type(feature) is Categorical)
        listed, hashed = ((*texts, schema.label), ()) if delta else ((), texts)
        wishes = Wishes(numbers, listed, None if delta else schema.label, hashed=hashed)
        bare = wishes.schema(schema.unit)
        pair = Pair(replace(pair.first, schema=bare), replace(pair.second, schema=bare), pair.differing)

        def act(database: Database) -> Sequence[Outcome]:
            if delta:
                half = str(Decimal(DELTA) / 2)
                database.set_cap(
                    "people", _DELTA_CAP, kind="approximate", delta=DELTA, selection_delta=half, allow_large=True
                )
            dataset = find_dataset(database.engine, database.book, "people")
            bought = buy_domains(
                database.engine,
                database.book,
                dataset,
                wishes,
                epsilon=epsilon,
                delta=DELTA if delta else None,
                who=database.who,
                request_id="r",
            )
            return [Outcome(str(bought))]

        kind = "approximate" if delta else "pure"
        return _case_of_pair(name, pair, act, chance=chance, kind=kind)

    return case


def _evaluation_case(name: str, chance: Chance) -> AuditCase:
    """A model is trained and then measured on the same private rows: both are paid."""
    pair, method = random_pair(chance, _rows_or_units(chance)), str(chance.choice(["rdt", "rosnam", "auto"]))
    given, epsilon = {"epsilon": _epsilon(chance), **_parameters(method, chance)}, _epsilon(chance)

    def act(database: Database) -> Sequence[Outcome]:
        model = database.train("people", method=method, request_id="r", allow_large=True, **given)
        figures = database.evaluate(model, "people", epsilon=epsilon, request_id="e")
        last = count_sessions(model)
        measured = Outcome(str(figures.to_dict()), Fraction(str(figures.epsilon)), range(last, last + 1))
        return [model_outcome(model), measured]

    return _case_of_pair(name, pair, act, chance=chance)


def _update_case(name: str, chance: Chance) -> AuditCase:
    """A model of one batch is updated by the next: a row pays for its own batch, a unit of many rows for both."""
    schema = _rows_or_units(chance)
    pair = random_pair(chance, schema)
    given = {"epsilon": _epsilon(chance), **_parameters("rdt", chance)}

    def act(database: Database) -> Sequence[Outcome]:
        model = database.train("people", method="rdt", request_id="r", batch=ERAS[0], allow_large=True, **given)
        updated = database.update(model, ERAS[1], request_id="u")
        return [model_outcome(model), model_outcome(updated, sessions=range(count_sessions(model) + 1))]

    eras = {row[list(pair.first.types).index(BATCH)] for row in pair.differing}
    scopes = {"", *(f"{BATCH}={era}" for era in eras)}
    return _case_of_pair(name, pair, act, chance=chance, pays=lambda entry: entry.scope in scopes)


def _label_request_case(trees_see: str) -> Callable[[str, Chance], AuditCase]:
    """A label request: public rows are labelled straight from the private ones."""

    def case(name: str, chance: Chance) -> AuditCase:
        schema = _rows_or_units(chance, numeric=True)
        pair, fresh = random_pair(chance, schema), random_public_table(chance, schema, name="fresh")
        given, epsilon = _parameters("mrf", chance), _epsilon(chance)

        def act(database: Database) -> Sequence[Outcome]:
            label_request = database.structure("people", **given)
            model = database.predict_private(
                label_request, "fresh", epsilon=epsilon, trees_see=trees_see, request_id="r"
            )
            return [model_outcome(model), Outcome(str(model.predict("fresh")))]

        return _case_of_pair(name, pair, act, chance=chance, beside=(fresh,))

    return case


def _contribution_case(name: str, chance: Chance) -> AuditCase:
    """A party counts its rows in trees that all parties share."""
    pair = random_pair(chance, _rows_or_units(chance))
    given, epsilon = {"depth": 2, **_parameters("rdt", chance)}, _epsilon(chance)

    def act(database: Database) -> Sequence[Outcome]:
        shared_trees = database.export_structure("people", **given)
        contribution = database.contribute("people", shared_trees, epsilon=epsilon, request_id="r")
        return [Outcome(shared_trees), model_outcome(contribution)]

    return _case_of_pair(name, pair, act, chance=chance)


def _view_case(name: str, chance: Chance) -> AuditCase:
    """A model on a view over two private tables, measured there too: neighbours differ in a person in both tables."""
    first, second = random_warehouses(chance)
    if chance.random() < 0.5:
        first, second = second, first
    method = str(chance.choice(["rdt", "id3", "snr", "auto", "rosnam"]))
    given, epsilon = {"epsilon": _epsilon(chance), **_parameters(method, chance)}, _epsilon(chance)

    def act(database: Database) -> Sequence[Outcome]:
        model = database.train("people", method=method, request_id="r", **given)
        figures = database.evaluate(model, "people", epsilon=epsilon, request_id="e")
        last = count_sessions(model)
        measured = Outcome(str(figures.to_dict()), Fraction(str(figures.epsilon)), range(last, last + 1))
        return [model_outcome(model), measured]

    return AuditCase(name, first, second, act)


#: Methods that read rows without labels have ways of their own; all others are trained as they are.
_SEMI = [name for name, method in methods.METHODS.items() if "unlabelled" in method.parameters]
_PLAIN = [name for name in methods.METHODS if name not in _SEMI]
_NUMBERS = [name for name in _PLAIN if methods.get(name).regression]
WAYS: dict[str, Callable[[str, Chance], AuditCase]] = {
    **{name: _training_case(name) for name in _PLAIN},
    **{f"{name} with a delta": _training_case(name, delta=True) for name in _PLAIN},
    **{f"{name} of numbers": _training_case(name, target=True) for name in _NUMBERS},
    **{f"{name} of numbers with a delta": _training_case(name, target=True, delta=True) for name in _NUMBERS},
    "sspe": _two_sides_case,
    "sspe with another table": _two_tables_case(apart=True),
    "sspe with another table of the same people": _two_tables_case(apart=False),
    **{f"{name} of labels": _labels_case(name) for name in _SEMI},
    **{f"{name} of labels with another table": _labels_case(name, beside=True) for name in _SEMI},
    "size": _size_case,
    "domains": _domains_case(delta=False),
    "domains with a delta": _domains_case(delta=True),
    "evaluation": _evaluation_case,
    "update": _update_case,
    **{f"{way} of new rows": _label_request_case(trees_see) for trees_see, way in TREES_SEE.items()},
    "contribution": _contribution_case,
    "view over several tables": _view_case,
}
