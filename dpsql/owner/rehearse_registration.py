"""Says what registering a table would refuse, before anything is charged: from the catalog and the ledger alone."""

from __future__ import annotations

from dpsql.engines.base import Engine
from dpsql.errors import BudgetExceeded
from dpsql.kernel.datasets.dataset import Dataset, registered_datasets
from dpsql.kernel.datasets.hold_out import HoldOut, parse_share
from dpsql.kernel.datasets.looked_up_columns import LOOKUP, identities_given
from dpsql.ledger import Ledger, format_epsilon, limit_details, parse_epsilon
from dpsql.ledger.odds import note_large
from dpsql.owner.register import sharing_datasets
from dpsql.owner.register_hold_out import check_free_name
from dpsql.owner.resolve_table import Resolved, resolve_table
from dpsql.owner.shared_budget import earlier_dataset
from dpsql.schema import Schema


def rehearse_registration(
    engine: Engine,
    ledger: Ledger,
    table: str,
    schema: Schema,
    *,
    cap: object,
    replace: bool = False,
    lost_runs: object | None = None,
    least_epsilon: object | None = None,
    holdout: object | None = None,
    holdout_cap: object | None = None,
    allow_large: bool = False,
) -> Dataset | None:
    """Raise what `register_table` would refuse; return the dataset that would be registered anew, None for a new one.

    Reads no row and writes nothing. A large cap is warned of here, once.
    """
    limit_details(lost_runs, least_epsilon)
    share = None if holdout is None else parse_share(holdout)
    own_cap = None if holdout_cap is None else parse_epsilon(holdout_cap, "holdout_cap")
    note_large("cap", parse_epsilon(cap, "cap"), allow_large=allow_large, table=table)
    note_large("holdout_cap", own_cap, allow_large=allow_large, table=table)
    resolved = resolve_table(engine, table, schema)
    earlier = _earlier(ledger, resolved, replace=replace)
    if share is not None:
        check_free_name(engine, resolved.info.name)
        if earlier is None or earlier.hold_out is None:
            HoldOut.draw(share, resolved.info, resolved.schema)
    return earlier


def _earlier(ledger: Ledger, resolved: Resolved, *, replace: bool) -> Dataset | None:
    """Return the dataset that a table has already, or raise where it may not be registered."""
    datasets = [dataset for dataset in registered_datasets(ledger).values() if not dataset.is_hold_out]
    marks = identities_given(ledger.entries(event=LOOKUP))
    strangers = [base for base in resolved.bases if base.identity not in marks]
    sharing = sharing_datasets(datasets, resolved)
    return earlier_dataset(sharing, resolved.info, strangers, replace=replace, share=False)[0]


def check_purchase_fits(ledger: Ledger, table: str, earlier: Dataset | None, *, cap: object, costs: int) -> None:
    """Raise BudgetExceeded if a purchase costs more nano-epsilon than the cap leaves, once the table has that cap."""
    limit = parse_epsilon(cap, "cap")
    left = limit - (ledger.budget(earlier.payer).spent if earlier else 0)
    if costs > left:
        raise BudgetExceeded(
            f'table "{table}"',
            needed=format_epsilon(costs),
            left=format_epsilon(max(0, left)),
            cap=format_epsilon(limit),
            hint="a larger --cap, or a smaller --buy",
        )
