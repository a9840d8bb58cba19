"""Datasets that share a budget: views and tables over the rows of the same people pay from one account.

An account is the budget of the dataset that was registered first. A dataset that shares rows with it, and is registered
with `share_budget`, has no budget of its own: in the ledger its cap is 0, and its runs are charged to the account. So
whatever a run reads, one budget holds all that a person has lost. Two accounts never become one.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence

from dpsql.engines.base import Engine, TableInfo
from dpsql.errors import ParameterError, UsageError
from dpsql.kernel.datasets.dataset import Dataset
from dpsql.kernel.datasets.identity import has_other_ledger
from dpsql.ledger import Block, format_epsilon


def earlier_dataset(
    sharing: Sequence[Dataset], info: TableInfo, bases: Iterable[TableInfo], *, replace: bool, share: bool
) -> tuple[Dataset | None, str]:
    """Return the dataset that a registration changes (None for a new one), and the account that it pays from ("": own).

    `sharing` are the registered datasets that share rows, or the place, with what is registered now.
    """
    place = (info.schema, info.table)
    check_no_other_ledger(sharing, bases)
    if not sharing:
        _check_new(info, replace=replace, share=share)
        return None, ""
    if not replace and not (share and all(dataset.place != place for dataset in sharing)):
        raise UsageError(
            f'table "{info.name}" is already registered as "{sharing[0].table}"; its rows have one budget, not two.'
            if any(dataset.place == place for dataset in sharing)
            else f'"{info.name}" has rows of "{sharing[0].table}", which is registered; they have one budget, not two.',
            hint=f"dpsql register --table {shlex.quote(info.name)} … --replace   (what is spent stays spent), "
            "or --share-budget",
        )
    accounts = {dataset.payer: dataset for dataset in sharing}
    if len(accounts) > 1:
        first, second, *_ = accounts.values()
        raise UsageError(
            f'"{info.name}" shares rows with "{first.table}" and "{second.table}", which have two budgets.',
            hint="keep them apart: two budgets cannot become one",
        )
    if not replace:
        return None, next(iter(accounts))
    return _dataset_to_replace(sharing, info, share=share)


def _dataset_to_replace(sharing: Sequence[Dataset], info: TableInfo, *, share: bool) -> tuple[Dataset, str]:
    """Return which of the datasets of one account a registration replaces, and the account that it pays from."""
    own = [dataset for dataset in sharing if dataset.place == (info.schema, info.table)] or list(sharing)
    if len(own) > 1:
        names = " and ".join(f'"{dataset.table}"' for dataset in own[:2])
        raise UsageError(f'"{info.name}" could replace {names}.', hint="--share-budget, without --replace")
    if share and not own[0].account:
        raise UsageError(f'"{own[0].table}" has a budget of its own.', hint="--cap, without --share-budget")
    if own[0].account and not share:
        raise UsageError(f'"{own[0].table}" pays from another dataset\'s budget.', hint="--share-budget, without --cap")
    return own[0], own[0].account


def check_no_other_ledger(sharing: Iterable[Dataset], bases: Iterable[TableInfo]) -> None:
    """Refuse rows that another ledger has: alone, beside rows that have a budget here, or under the name of such rows.

    Of a view over several tables each table is asked: that one has a budget here says nothing of the others.
    """
    known = frozenset[str]().union(*(dataset.base.rows for dataset in sharing))
    for base in bases:
        if has_other_ledger(base) and base.identity not in known:
            raise UsageError(
                f'table "{base.name}" was registered in another ledger; its rows have one budget, not two.',
                hint="use that ledger (--attach, --ledger), or restore it; if these are other rows, take the [dpsql …] "
                "out of the table's comment",
            )


def _check_new(info: TableInfo, *, replace: bool, share: bool) -> None:
    """Refuse what makes no sense for rows that no dataset has."""
    if replace:
        raise ParameterError("replace", allowed="given only for a registered table", given=info.name)
    if share:
        raise UsageError(
            f'"{info.name}" shares no rows with a registered table, so there is no budget to share.',
            hint="--cap EPSILON, without --share-budget",
        )


def check_same_person(
    members: Iterable[Dataset], dataset: Dataset, unit_expression: Callable[[Dataset], str | None]
) -> None:
    """Refuse an account whose datasets do not all protect the same unit: their losses would not add up."""
    own = unit_expression(dataset)
    for member in members:
        if own is None or unit_expression(member) != own:
            raise UsageError(
                f'"{member.table}" protects {member.schema.unit}, and "{dataset.table}" {dataset.schema.unit}: '
                "one budget holds the losses of one kind of unit.",
                hint="the same unit's column in both",
            )


def check_no_public_features(members: Sequence[Dataset]) -> None:
    """Refuse an account of several datasets one of which declares its features public.

    Its runs of kind "label" read features without noise, from a budget of that kind. The certificates of the other
    datasets say that all rows of a unit are protected, the same columns among them, and count no loss of that kind.
    """
    open_features = next((dataset.table for dataset in members if dataset.schema.public_features), None)
    if open_features is not None and len(members) > 1:
        raise UsageError(
            f'"{open_features}" declares its features public, so its budget cannot be shared: runs on it that protect '
            "labels alone would show columns which another dataset of the budget protects.",
            hint="share a budget without public_features in any of its schemas, or keep to one dataset",
        )


def check_undivided(members: Sequence[Dataset]) -> None:
    """Refuse an account of several datasets one of which has a hold-out.

    The units of a hold-out pay from a budget of their own, because no other dataset reads them. A second dataset of the
    account would read them all the same, and then their losses in both budgets would have to be added up.
    """
    divided = next((dataset.table for dataset in members if dataset.hold_out is not None), None)
    if divided is not None and len(members) > 1:
        raise UsageError(
            f'"{divided}" has a hold-out, so its budget cannot be shared: another dataset would read its units too.',
            hint="share a budget, or have a hold-out",
        )


def check_account_cap(into: Block, account: str, cap_nano: int | None) -> None:
    """Refuse another cap than the account has, and an account of public data."""
    rows = into.rows("SELECT cap FROM dpsql.budget WHERE dataset = ? AND kind = 'pure'", (account,))
    cap = rows[0]["cap"] if rows else None
    if cap is None:
        raise UsageError("the budget to share has no cap: its rows are public.", hint="register them with a cap first")
    if cap_nano is not None and cap_nano != cap:
        raise ParameterError(
            "cap",
            allowed=f"left out, or {format_epsilon(cap)}, the cap of the shared budget",
            given=format_epsilon(cap_nano),
        )


def check_not_public(engine: Engine, others: Iterable[Dataset], bases: Sequence[TableInfo]) -> None:
    """Refuse a private table that another dataset takes for public: its rows would be read there without a budget."""
    for other in others:
        for name in other.schema.public_tables:
            table = engine.table(name)
            for base in bases:
                if table is not None and (table.schema, table.table) == (base.schema, base.table):
                    raise UsageError(
                        f'"{base.name}" is declared a public table of "{other.table}", so it cannot be private.',
                        hint=f"dpsql register --table {shlex.quote(other.table)} … --replace, without that table",
                    )
