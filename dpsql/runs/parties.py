"""Several parties, one model: no rows and no exact counts pass between them (Jagannathan et al. 2012, section 5.3).

Horizontal: each party holds other people. One party publishes trees without counts, which JSON files and commands call
a structure. Each party counts its own rows in these shared trees, under its own ledger, and publishes the noisy counts;
any subset of them adds up to a model. No person is in two tables, so the parts compose in parallel: the model's epsilon
is the largest.

Vertical: each party holds other columns of the same people. Each trains on its own columns, and the ensembles are
united at prediction (Algorithm 6). The paper calls the union "also private" without saying at which epsilon; since
every person is in all tables, the epsilons **add up**, and the certificate says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dpsql import methods
from dpsql.engines.base import Engine
from dpsql.errors import ParameterError, SchemaError, UsageError
from dpsql.kernel.datasets.dataset import find_dataset, look_at_dataset
from dpsql.kernel.run import Job
from dpsql.kernel.session import Session
from dpsql.ledger import Ledger, format_epsilon, formats, json_text, parse_epsilon
from dpsql.methods.base import Trained
from dpsql.methods.rdt import Rdt, count, counting_plan, refuse_target
from dpsql.models.model import CERTIFICATE, LOOKED_UP
from dpsql.models.usable_model import Model
from dpsql.runs.release_model import ModelLabel, release_model
from dpsql.schema import Schema, Unit
from dpsql.schema.synonyms import with_synonyms_of, without_synonyms
from dpsql.trees.forest import Forest
from dpsql.trees.join import join_over_different_features
from dpsql.trees.serialize import from_json, to_json
from dpsql.trees.voting import VotingForest

FORMAT = "dpsql-structure"
#: Why a numeric target is refused.
_NO_MEANS = "parties that hold different people add up counts of classes, not means of a numeric target."
#: What a model's certificate must say as text before the model can be joined with others.
_NEEDED = ("epsilon", "neighbours", "unit", "dataset", "digest")


def export_shared_trees(engine: Engine, ledger: Ledger, table: str, *, parameters: Mapping[str, Any]) -> str:
    """Return the public trees that all parties count in, as JSON text. Reads no row, charges nothing."""
    dataset = look_at_dataset(engine, ledger, table)
    refuse_target(dataset.schema, _NO_MEANS)
    method = methods.get(Rdt.name)
    plan = method.plan(dataset.schema, parse_epsilon(1), parameters)
    if "wanted_depth" not in plan.parameters:
        raise UsageError("a structure must be known before any row is read.", hint="give --depth, or declare rows")
    empty = _without_counts(method.public_trees(dataset.schema, plan), len(dataset.schema.classes))
    return json.dumps(
        {
            **formats.stamp(FORMAT),
            "method": Rdt.name,
            "schema": _shared_schema(dataset.schema).to_dict(),
            "forest": to_json(empty),
            "digest": empty.digest(),
        },
        ensure_ascii=False,
    )


def contribute(
    engine: Engine,
    ledger: Ledger,
    table: str,
    shared_trees: str | Path,
    *,
    epsilon: object,
    name: str | None,
    who: str,
    request_id: str | None = None,
) -> Model:
    """Count this party's rows in shared trees, under its own ledger, and return the noisy counts as a model."""
    schema, forest, digest = read_shared_trees(shared_trees)
    refuse_target(schema, _NO_MEANS)
    dataset = find_dataset(engine, ledger, table)
    if _shared_schema(dataset.schema) != schema:
        raise SchemaError(f'the structure was made for another schema than that of "{dataset.table}".')
    plan = counting_plan(dataset.schema, forest, parse_epsilon(epsilon), {"structure": digest})
    job = Job.of(dataset, plan, who=who, request_id=request_id)
    label = ModelLabel(dataset.table, name, {"structure": digest})

    def ask(session: Session) -> Trained:
        return Trained(count(session, forest))

    return release_model(engine, ledger, job, label, ask=ask)


def read_shared_trees(source: str | Path) -> tuple[Schema, Forest, str]:
    """Return the schema, the forest and the digest of shared trees, given as JSON text or as a file."""
    text = str(source)
    if not text.lstrip().startswith("{"):
        path = Path(source)
        if not path.is_file():
            raise SchemaError(f'there is no structure file "{path}".', hint="dpsql party export-structure writes one")
        text = _read_text(path)
    try:
        stored = json_text.parse(text)
        if stored["format"] != FORMAT:
            raise SchemaError("this is not a dpsql structure.", hint="dpsql party export-structure writes one")
        formats.check_document(stored, FORMAT)
        schema = Schema.from_dict(stored["schema"])
        empty = from_json(schema, stored["forest"])
        if empty.digest() != stored["digest"]:
            raise SchemaError("the structure was changed: its digest does not match.")
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
        raise SchemaError("the structure file is damaged.") from None
    return schema, empty.forest, str(stored["digest"])


def _read_text(path: Path) -> str:
    try:
        return json_text.read_file(path)
    except (OSError, ValueError):
        raise SchemaError(f'"{str(path)[:80]}" cannot be read as a text file.') from None


def merge(models: Sequence[Model], *, name: str = "merged") -> Model:
    """Return the model whose counts are the sums of the parties' counts, for parties that hold different people."""
    first = _check_several(models)
    if first.method != Rdt.name:
        raise UsageError(f"only models of noisy counts add up ({Rdt.name}), not {first.method}.")
    refuse_target(first.schema, _NO_MEANS)
    tables = [table for model in models for table in _datasets_of(model.certificate)]
    if len(set(tables)) < len(tables):
        raise UsageError("two of the contributions count the same table, so its people would pay twice.")
    for model in models[1:]:
        if _shared_schema(model.schema) != _shared_schema(first.schema):
            raise SchemaError("the contributions have different schemas.")
        if _without_counts(model.released.forest, len(model.classes)).digest() != _trees_digest(first):
            raise SchemaError("the contributions were counted in different structures.")
    released = first.released
    for model in models[1:]:
        released = released.plus(model.released)
    costs = [parse_epsilon(model.certificate["epsilon"]) for model in models]
    why = "parallel: the parties hold different people, so each is protected by its own party's epsilon"
    schema = _shared_schema(first.schema)
    for model in models:
        schema = with_synonyms_of(schema, model.schema)
    return _join(models, schema, released, max(costs), why, name)


def unite(models: Sequence[Model], *, name: str = "united") -> Model:
    """Return the model that asks all parties' trees, for parties that hold different columns of the same people."""
    first = _check_several(models)
    schema, released = with_synonyms_of(_shared_schema(first.schema), first.schema), first.released
    for model in models[1:]:
        if _label_of(model.schema) != _label_of(first.schema):
            raise SchemaError("the models predict different labels.")
        schema = with_synonyms_of(replace(schema, features=schema.features + model.schema.features), model.schema)
        released = join_over_different_features(schema, released, model.released)
    total = sum(parse_epsilon(model.certificate["epsilon"]) for model in models)
    why = "sequential: every person is in all parties' tables, so the epsilons add up"
    return _join(models, schema, released, total, why, name)


def _label_of(schema: Schema) -> tuple[object, ...]:
    return schema.label, schema.classes, schema.target


def _join(
    models: Sequence[Model], schema: Schema, released: VotingForest, nano_epsilon: int, why: str, name: str
) -> Model:
    card = models[0].certificate
    certificate = {
        **formats.stamp(CERTIFICATE),
        "private": all(model.certificate["private"] for model in models),
        "epsilon": format_epsilon(nano_epsilon),
        "neighbours": card["neighbours"],
        "unit": card["unit"],
        "dataset": "several",
        "table": ", ".join(sorted({model.table for model in models})),
        "method": models[0].method,
        "composition": why,
        "parties": [dict(model.certificate) for model in models],
        "ledger_entry": None,
        "ledger_hash": "",
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "digest": released.digest(),
        "versions": {"dpsql": version("dpsql")},
    }
    looked_up = sorted({str(column) for model in models for column in model.certificate.get(LOOKED_UP, ())})
    if looked_up:
        certificate[LOOKED_UP] = looked_up
    return Model(name, models[0].method, certificate["table"], schema, released, certificate)


def _check_several(models: Sequence[Model]) -> Model:
    """Return the first of several models, after checking that their certificates allow them to be joined."""
    if len(models) < 2:
        raise UsageError("at least two models are needed.", hint="--from A.json --from B.json")
    for model in models:
        if not _is_sound(model.certificate):
            raise SchemaError(f'the certificate of model "{model.name}" is damaged: it does not say what it must.')
        if model.certificate.get("kind") == "approximate":
            raise UsageError(
                f'model "{model.name}" has a delta, and joined models add up epsilon alone.',
                hint="train without --delta",
            )
    if len({model.certificate["digest"] for model in models}) < len(models):
        raise UsageError("the same contribution is given twice.")
    if len({(model.certificate["unit"], model.method) for model in models}) > 1:
        raise SchemaError("the models have different privacy units or methods.")
    return models[0]


def _is_sound(certificate: object) -> bool:
    """Whether a certificate, which may come from an edited file, says all that a joined one repeats."""
    if not isinstance(certificate, Mapping) or not isinstance(certificate.get("private"), bool):
        return False
    if not all(isinstance(certificate.get(key), str) for key in _NEEDED):
        return False
    try:
        parse_epsilon(certificate["epsilon"])
    except ParameterError:
        return False
    parties = certificate.get("parties", [])
    return isinstance(parties, list) and all(map(_is_sound, parties))


def _datasets_of(certificate: Mapping[str, Any]) -> list[str]:
    """Return the datasets whose people a model is about, those of each party for a joined one.

    Datasets that pay from one budget hold the same people, and so go by the one whose budget it is.
    """
    parties = certificate.get("parties")
    if not parties:
        return [str(certificate.get("account") or certificate["dataset"])]
    return [dataset for party in parties for dataset in _datasets_of(party)]


def _trees_digest(model: Model) -> str:
    return _without_counts(model.released.forest, len(model.classes)).digest()


def _without_counts(forest: Forest, classes: int) -> VotingForest:
    return VotingForest(forest, np.zeros((forest.leaves, classes), np.int64))


def _shared_schema(schema: Schema) -> Schema:
    """Return what parties must agree on: label, classes and features. Each has its own unit, size and columns."""
    own = replace(schema, unit=Unit(), rows=None, partition=None, parts=None, batch=None, looked_up=())
    return without_synonyms(own)
