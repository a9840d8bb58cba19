"""The two sides of a semi-supervised run: unlabelled rows, which shape the trees, and labelled rows, which are counted.

The cost of a run is right because no unit is on both sides, or because the plan adds up the costs of both sides. The
kernel never looks into the data to find out whether a unit is on both sides:

- Within one table, a condition on a row says on which side it is, so the side of a row does not depend on other rows.
  Where a unit has several rows, the condition may read the unit's column alone; then all rows of the unit are on one
  side. Conditions are declared by the owner in the schema, or written by an analyst in a small language of dpsql's own
  (`kernel/datasets/row_conditions.py`).
- For two tables, the owner declares at registration (`disjoint_from`) that no unit of one is in the other. Where no
  owner did, the costs of both sides add up.

Where labels alone are private (`public_features`), features may be read without noise, and only labels are paid for.
Neighbours have the same rows, and the same of these rows have a label: which cells of the label column are NULL is
public. What a label says is private, so it decides neither on which side a row is nor whether the row is counted: a
label that is none of the classes counts as the first class, and a target that is no number counts as the lower bound
(`compile/rows.py`). Another label then moves one row from one class to another in each tree, which changes two counts
by 1 each (`Promise.change`). It changes nothing that is read without noise.
"""

from __future__ import annotations

import shlex
from dataclasses import replace

from sqlglot import exp

from dpsql.compile.rows import Source, has_label, known_label
from dpsql.engines.base import Engine
from dpsql.errors import NotPrivate, NotRegistered, ParameterError, SchemaError, UnknownName, UsageError
from dpsql.kernel.datasets.dataset import Dataset, look_at_dataset, registered_datasets, source
from dpsql.kernel.datasets.hold_out import without_suffix
from dpsql.kernel.datasets.row_conditions import is_condition, row_test
from dpsql.kernel.operations import ScoreCounts
from dpsql.kernel.plan import FEATURES, LABELLED, UNLABELLED, Plan, Sides
from dpsql.ledger import Ledger
from dpsql.schema import Schema


def partner(engine: Engine, ledger: Ledger, dataset: Dataset, unlabelled: str) -> Dataset | None:
    """Return the other dataset that holds the unlabelled rows; None where a condition selects them."""
    registered = registered_datasets(ledger)
    declared = dataset.schema.condition(unlabelled) is not None
    if unlabelled.lower() not in registered:
        if not declared and not is_condition(unlabelled):
            _refuse_unknown(engine, dataset, [entry.table for entry in registered.values()], unlabelled)
        return None
    if declared:
        raise ParameterError(
            "unlabelled",
            allowed="a name that is not both a registered table and a declared condition",
            given=unlabelled,
        )
    other = look_at_dataset(engine, ledger, unlabelled)
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
    """Raise what fits a name that is neither a registered table nor a declared condition.

    Any other text passes here; `row_test` refuses it later, with the reason why it is no condition.
    """
    if unlabelled and engine.table(unlabelled) is not None:
        raise NotRegistered(unlabelled, tables)
    if unlabelled.isidentifier():
        names = [*tables, *(name for name, _ in dataset.schema.conditions)]
        raise UnknownName("registered table or declared condition", unlabelled, names)


def are_disjoint(dataset: Dataset, other: Dataset | None) -> bool:
    """Whether no unit can be on both sides.

    With a condition in one table this always holds; with two tables, if the owner of one of them declared it.
    """
    if other is None:
        return True
    return _declares(dataset, other) or _declares(other, dataset)


def with_sides(plan: Plan, *, disjoint: bool) -> Plan:
    """Return the plan with its two sides taken as disjoint, or with their costs added up; unchanged without sides."""
    if not isinstance(plan.composition, Sides):
        return plan
    return replace(plan, composition=replace(plan.composition, disjoint=disjoint))


def refuse_hold_out(dataset: Dataset | None) -> None:
    """Raise UsageError where a dataset is a hold-out: its rows measure models, and no model is made from them."""
    if dataset is not None and dataset.is_hold_out:
        named = shlex.quote(without_suffix(dataset.table))
        raise UsageError(
            f'"{dataset.table}" is a hold-out: it is for evaluations alone, and no model is trained on it.',
            hint=f"dpsql train --table {named}; then dpsql evaluate --table {named} --epsilon E",
        )


def check_sides(dataset: Dataset, other: Dataset | None, plan: Plan) -> None:
    """Raise NotPrivate if a plan assumes more than the owner declared. The kernel makes this check for every plan."""
    refuse_hold_out(other)
    if any(type(step.operation) is not ScoreCounts for step in plan.steps):
        refuse_hold_out(dataset)
    if plan.promise.unit != dataset.schema.unit:
        raise NotPrivate(
            f'the plan protects {plan.promise}, and "{dataset.table}" was registered to protect {dataset.schema.unit}.'
        )
    if isinstance(plan.composition, Sides) and plan.composition.disjoint and not are_disjoint(dataset, other):
        raise NotPrivate(
            f'the plan takes "{dataset.table}" and its unlabelled rows for different people, which nobody declared.',
            hint="disjoint_from in the schema of one of them",
        )
    for side in (dataset, other):
        if plan.promise.labels_only and side is not None and not side.schema.public_features:
            raise NotPrivate(
                f'method "{plan.method}" protects labels alone here, and the features of "{side.table}" are private.',
                hint="declare public_features: true in its schema, if they are public",
            )


def rows_to_read(
    engine: Engine, dataset: Dataset, other: Dataset | None, plan: Plan, batch: str | None = None
) -> tuple[Source, dict[str, Source]]:
    """Return where the rows of a run are, all of them and by side, or raise an error that forbids the plan.

    No row is read. A dry run calls this function too, but the run's own call, before its charge, is what decides.
    """
    check_sides(dataset, other, plan)
    _check_parts(dataset, plan)
    rows = source(engine, dataset, batch)
    return rows, sources(engine, dataset, other, plan, rows)


def _check_parts(dataset: Dataset, plan: Plan) -> None:
    """Refuse a plan with more disjoint trees than the stored partition column has parts: some would have no rows."""
    schema = dataset.schema
    if schema.parts is None:
        return
    most = max((step.trees for step in plan.steps if not step.shared), default=1)
    if most > schema.parts:
        raise ParameterError(
            "trees",
            allowed=f'at most {schema.parts}, the declared parts of column "{schema.partition}" (trees are disjoint)',
            given=most,
        )


def sources(engine: Engine, dataset: Dataset, other: Dataset | None, plan: Plan, rows: Source) -> dict[str, Source]:
    """Return where the rows of each side are; an empty dictionary for a plan that has no sides."""
    if not plan.unlabelled and not isinstance(plan.composition, Sides) and not plan.promise.labels_only:
        return {}
    if plan.promise.labels_only:
        _check_features_without_label(dataset, rows)
        rows = replace(rows, every_label=True)
    if other is not None:
        labelled, unlabelled = rows, source(engine, other)
        if plan.promise.labels_only:
            _check_features_without_label(other, unlabelled)
    else:
        condition = _condition(engine, dataset, rows, plan)
        unlabelled = rows.where_also(condition)
        labelled = rows.where_also(exp.not_(exp.paren(condition.copy())))
    with_known_label = labelled.where_also(known_label(labelled, engine.vocabulary))
    return {
        UNLABELLED: replace(unlabelled, labelled=False),
        LABELLED: labelled,
        FEATURES: replace(with_known_label, labelled=False),
    }


def _condition(engine: Engine, dataset: Dataset, rows: Source, plan: Plan) -> exp.Expr:
    """Return the test for unlabelled rows, which is true or false, and never NULL, for every row."""
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


def _check_features_without_label(dataset: Dataset, rows: Source) -> None:
    """Refuse a view that computes features, units or its filter from columns of its label: they would reveal labels."""
    schema = dataset.schema
    if not schema.has_label:
        return
    label = {column.name.lower() for column in rows.column(schema.label).find_all(exp.Column)}
    names = [*(feature.name for feature in schema.features), schema.unit.column, schema.partition, schema.batch]
    expressions = [rows.column(name) for name in names if name is not None]
    if rows.where is not None:
        expressions.append(rows.where)
    if any(column.name.lower() in label for expression in expressions for column in expression.find_all(exp.Column)):
        raise NotPrivate(
            f'view "{dataset.table}" takes features or rows from its label, so they are not public.',
            hint="a view whose features and filter leave the label alone",
        )


def _declares(dataset: Dataset, other: Dataset) -> bool:
    """Whether the schema of a dataset declares that it shares no unit with the other one."""
    return other.table.lower() in (name.lower() for name in dataset.schema.disjoint_from)


def _unit(schema: Schema) -> tuple[bool, int]:
    """Return what units of two tables must have in common; the names of their columns may differ."""
    return schema.unit.column is None, schema.unit.max_rows


def _difference(schema: Schema, other: Schema) -> str:
    """Return in words the first difference between the features of two schemas."""
    for mine in schema.features:
        theirs = other.feature(mine.name)
        if theirs is None:
            return f'"{mine.name}" is missing'
        if theirs != mine:
            return f'"{mine.name}" has another type or domain'
    extra = next((feature.name for feature in other.features if schema.feature(feature.name) is None), None)
    return "their order differs" if extra is None else f'"{extra}" is one too many'
