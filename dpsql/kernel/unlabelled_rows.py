"""The two sides of a semi-supervised run: rows that shape the trees without their labels, and rows that are counted.

Right only because no unit is on both sides, or because the plan adds up what both cost. Whether a unit stands on both
sides is never asked of the data:

- Within one table a condition on a row tells the side, so a row is on one side whatever the others are. Where a unit
  has several rows the condition may read the unit's column alone; then all its rows are on one side. Conditions are
  the owner's, declared in the schema, or an analyst's in a closed language of ours
  (`kernel/datasets/row_conditions.py`).
- For two tables the owner declares at registration (`disjoint_from`) that no unit of one is in the other. Where nobody
  did, the costs of both sides add up.

Where labels alone are private (`public_features`), features may be read as they are, and only labels are paid for.
Neighbours have the same rows, and the same rows of both have a label: which cells of the label are NULL is public. What
a label says is private, so no row is on a side, or counted at all, because of that: a label that is none of the classes
counts as the first of them, a target that is no number as its lower bound (`compile/rows.py`). Another label then
moves one row from one class to another in each tree, two counts by one each (`Promise.change`), and changes nothing
that is read without noise.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpsql.compile.rows import Source, has_label, known_label
from dpsql.engines.base import Engine
from dpsql.errors import NotPrivate, NotRegistered, ParameterError, SchemaError, UnknownName
from dpsql.kernel.datasets.dataset import Dataset, find_dataset, registered_datasets, source
from dpsql.kernel.datasets.row_conditions import is_condition, row_test
from dpsql.kernel.plan import FEATURES, LABELLED, UNLABELLED, Plan, Sides
from dpsql.ledger import Ledger
from dpsql.schema import Schema


def partner(engine: Engine, ledger: Ledger, dataset: Dataset, unlabelled: str) -> Dataset | None:
    """Return the other table that holds the unlabelled rows; None where they are told apart by a condition."""
    known = registered_datasets(ledger)
    declared = dataset.schema.condition(unlabelled) is not None
    if unlabelled.lower() not in known:
        if not declared and not is_condition(unlabelled):
            _refuse_unknown(engine, dataset, [one.table for one in known.values()], unlabelled)
        return None
    if declared:
        raise ParameterError(
            "unlabelled",
            allowed="a name that is not both a registered table and a declared condition",
            given=unlabelled,
        )
    other = find_dataset(engine, ledger, unlabelled)
    if other.id == dataset.id:
        raise ParameterError("unlabelled", allowed="another table, or a condition on rows", given=unlabelled)
    if other.schema.features != dataset.schema.features:
        raise SchemaError(
            f'the features of "{other.table}" are not those of "{dataset.table}": '
            f"{_difference(dataset.schema, other.schema)}.",
            hint="register both with the same features and domains",
        )
    if _unit(other.schema) != _unit(dataset.schema):
        raise SchemaError(f'"{other.table}" protects {other.schema.unit}, "{dataset.table}" {dataset.schema.unit}.')
    return other


def _refuse_unknown(engine: Engine, dataset: Dataset, tables: list[str], unlabelled: str) -> None:
    """Say what a name is that is neither a registered table nor a declared condition; other texts are for later."""
    if unlabelled and engine.table(unlabelled) is not None:
        raise NotRegistered(unlabelled, tables)
    if unlabelled.isidentifier():
        known = [*tables, *(name for name, _ in dataset.schema.conditions)]
        raise UnknownName("registered table or declared condition", unlabelled, known)


def are_disjoint(dataset: Dataset, other: Dataset | None) -> bool:
    """Whether no unit is on both sides: by a condition never, in two tables when an owner declared so."""
    if other is None:
        return True
    return _declares(dataset, other) or _declares(other, dataset)


def with_sides_settled(plan: Plan, *, apart: bool) -> Plan:
    """Return the plan with its two sides taken as apart, or as adding up."""
    if not isinstance(plan.composition, Sides):
        return plan
    return replace(plan, composition=replace(plan.composition, apart=apart))


def check_sides(dataset: Dataset, other: Dataset | None, plan: Plan) -> None:
    """Raise NotPrivate when a plan claims more than the owner declared. The kernel's own check, whoever planned."""
    if plan.promise.unit != dataset.schema.unit:
        raise NotPrivate(
            f'the plan protects {plan.promise}, and "{dataset.table}" was registered to protect {dataset.schema.unit}.'
        )
    if isinstance(plan.composition, Sides) and plan.composition.apart and not are_disjoint(dataset, other):
        raise NotPrivate(
            f'the plan takes "{dataset.table}" and its unlabelled rows for different people, which nobody declared.',
            hint="disjoint_from in the schema of one of them",
        )
    for one in (dataset, other):
        if plan.promise.labels_only and one is not None and not one.schema.public_features:
            raise NotPrivate(
                f'method "{plan.method}" protects labels alone here, and the features of "{one.table}" are private.',
                hint="declare public_features: true in its schema, if they are public",
            )


def rows_to_read(
    engine: Engine, dataset: Dataset, other: Dataset | None, plan: Plan, batch: str | None = None
) -> tuple[Source, dict[str, Source]]:
    """Return where the rows of a run are, all of them and by side, or raise what forbids the plan. Reads no row.

    A dry run and a run ask the same function; it is the run's own call, before its charge, that decides.
    """
    check_sides(dataset, other, plan)
    rows = source(engine, dataset, batch)
    return rows, sources(engine, dataset, other, plan, rows)


def sources(engine: Engine, dataset: Dataset, other: Dataset | None, plan: Plan, rows: Source) -> dict[str, Source]:
    """Return the rows of each side; none for a plan that has no sides."""
    if not plan.unlabelled and not isinstance(plan.composition, Sides) and not plan.promise.labels_only:
        return {}
    if plan.promise.labels_only:
        _check_features_apart(dataset, rows)
        rows = replace(rows, every_label=True)
    if other is not None:
        labelled, unlabelled = rows, source(engine, other)
        if plan.promise.labels_only:
            _check_features_apart(other, unlabelled)
    else:
        condition = _condition(engine, dataset, rows, plan)
        unlabelled = rows.where_also(condition)
        labelled = rows.where_also(exp.not_(exp.paren(condition.copy())))
    bare = labelled.where_also(known_label(labelled, engine.vocabulary))
    return {
        UNLABELLED: replace(unlabelled, labelled=False),
        LABELLED: labelled,
        FEATURES: replace(bare, labelled=False),
    }


def _condition(engine: Engine, dataset: Dataset, rows: Source, plan: Plan) -> exp.Expr:
    """Return the test for unlabelled rows, true or false for every row."""
    schema = dataset.schema
    if not plan.unlabelled:
        if schema.unit.column is not None and not plan.promise.labels_only:
            raise ParameterError(
                "unlabelled",
                allowed=f'a condition on "{schema.unit.column}", as labels may be missing on some rows of a unit only',
                given=None,
            )
        return exp.not_(exp.paren(has_label(rows)))
    return row_test(engine, dataset, rows, plan.unlabelled, labels=plan.promise.labels_only)


def _check_features_apart(dataset: Dataset, rows: Source) -> None:
    """Refuse a view whose features, units or rows follow from what its label is made of: they would tell a label."""
    schema = dataset.schema
    if not schema.has_label:
        return
    label = {column.name.lower() for column in rows.column(schema.label).find_all(exp.Column)}
    names = [*(feature.name for feature in schema.features), schema.unit.column, schema.partition, schema.batch]
    read = [rows.column(name) for name in names if name is not None]
    read += [] if rows.where is None else [rows.where]
    if any(column.name.lower() in label for one in read for column in one.find_all(exp.Column)):
        raise NotPrivate(
            f'view "{dataset.table}" takes features or rows from its label, so they are not public.',
            hint="a view whose features and filter leave the label alone",
        )


def _declares(one: Dataset, other: Dataset) -> bool:
    return other.table.lower() in (name.lower() for name in one.schema.disjoint_from)


def _unit(schema: Schema) -> tuple[bool, int]:
    return schema.unit.column is None, schema.unit.max_rows


def _difference(one: Schema, other: Schema) -> str:
    for mine in one.features:
        theirs = other.feature(mine.name)
        if theirs is None:
            return f'"{mine.name}" is missing'
        if theirs != mine:
            return f'"{mine.name}" has another type or domain'
    extra = next((feature.name for feature in other.features if one.feature(feature.name) is None), None)
    return "their order differs" if extra is None else f'"{extra}" is one too many'
