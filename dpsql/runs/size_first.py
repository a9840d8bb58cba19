"""Charges the size of a table first, by itself, where a method would buy it, and the rest of epsilon afterwards.

    size: charge 3 % ──▶ noisy number of rows ──▶ about none? stop: the other 97 % stay unspent
                                               └▶ plan for that many rows ──▶ charge the rest ──▶ train

The two charges are two entries of the ledger, `<request id>/size` and `<request id>`, which add up to the epsilon that
was asked for. Before the first one it is checked that both fit. A size that was bought earlier, and is exact enough, is
used for nothing, and all of epsilon goes into training. A repeated request finds both entries and charges nothing.

Proof: buying the size is a run like any other (`operations.Size`), and so is what follows. Whether the second run takes
place, how it is planned and what an error says are functions of the first one's released number and of public values,
so that sequential composition holds: the two lose at most the sum of their epsilons, and the first alone where the run
stops.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dpsql.engines.base import Engine
from dpsql.errors import BudgetExceeded, NoRowsCounted
from dpsql.kernel.datasets.dataset import Dataset, scope
from dpsql.kernel.operations import Size
from dpsql.kernel.plan import Plan, Sequential, Step
from dpsql.kernel.run import refuse_unproven
from dpsql.ledger import Entry, Ledger, format_epsilon
from dpsql.methods.shared.row_evidence import about_no_rows, likely_reasons
from dpsql.runs.buy_size import BoughtSize, buy_size, sizes_of

#: The parameter of a plan that names the ledger entry of the size it was made for.
SIZE_ENTRY = "size_entry"
#: What a certificate says of a size that was bought for its own run.
FOR_THIS_RUN = "for this run"
#: An earlier size is exact enough where the deviation of its noise is at most this share of it, in hundredths; or at
#: most the deviation that the share of epsilon would buy now.
_EXACT_PERCENT = 5


@dataclass(frozen=True)
class KnownSize:
    """A size to plan for: the dataset as if it were declared, the epsilon left, what plan and certificate say of it."""

    dataset: Dataset
    nano_epsilon: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)


def size_step(plan: Plan, *, least: int | None) -> Step | None:
    """Return the first step of a plan, if it buys the size of the table and is charged by itself.

    Under approximate privacy the steps share one rho, and where labels alone are private sizes are public: such plans
    are charged whole. So are those whose size would cost less than `least`, the least charge of a run, and all runs on
    public data (`least` is None), where there is no budget to save.
    """
    if least is None or plan.kind != "pure" or plan.unlabelled or not isinstance(plan.composition, Sequential):
        return None
    first = plan.composition.parts[0]
    if not isinstance(first, Step) or not isinstance(first.operation, Size):
        return None
    return first if first.nano_epsilon >= max(1, least) else None


def earlier_size(
    engine: Engine, ledger: Ledger, dataset: Dataset, step: Step, *, batch: str | None, unit_scale: float
) -> BoughtSize | None:
    """Return the least noisy size that was bought before, if it is exact enough to plan with; or None.

    It must have been bought under the schema that holds now: another one may count other rows. One that says "about no
    rows" is not used, because rows may have come since. `unit_scale` is the deviation of the noise that the step would
    buy.
    """
    sizes = [
        size
        for size in sizes_of(engine, ledger, dataset, batch=batch)
        if size.entry > dataset.registration and not about_no_rows(size.rows, size.deviation)
    ]
    size = min(sizes, key=lambda size: (size.deviation, -size.entry), default=None)
    exact = size is not None and size.deviation <= max(unit_scale, size.rows * _EXACT_PERCENT / 100)
    return size if exact else None


def with_two_charges(plan: Plan, step: Step) -> Plan:
    """Return a plan whose first step says that it is charged by itself: what `--dry-run` shows."""
    assert isinstance(plan.composition, Sequential)
    note = f"charged first, by itself (the rest only if rows are there); {step.note}"
    return replace(plan, composition=Sequential((replace(step, note=note), *plan.composition.parts[1:])))


def find_size(
    engine: Engine, ledger: Ledger, dataset: Dataset, plan: Plan, *, request_id: str, who: str, batch: str | None
) -> KnownSize | None:
    """Return the size that a run is planned for, bought here if need be; None for a plan that is charged whole.

    Raises NoRowsCounted where a size that was bought for this run says that about no row counts.
    """
    step, earlier = size_step(plan, least=least_charge(ledger, dataset)), ledger.find_request(request_id)
    if step is None or (earlier is not None and SIZE_ENTRY not in earlier.plan["parameters"]):
        return None
    deviation = 2**0.5 * float(step.scale(plan.promise))
    if earlier is not None:
        return _size_of_request(engine, ledger, dataset, plan, earlier, batch=batch)
    own_id = size_request(request_id)
    if ledger.find_request(own_id) is None:
        known = earlier_size(engine, ledger, dataset, step, batch=batch, unit_scale=deviation)
        if known is not None:
            return known_size(dataset, plan.nano_epsilon, known, bought=False)
        refuse_unproven(ledger, dataset, plan)
        check_both_charges(ledger, dataset, plan.nano_epsilon, who=who, part=scope(dataset, batch))
    epsilon = format_epsilon(step.nano_epsilon)
    size = buy_size(
        engine, ledger, dataset, epsilon=epsilon, who=who, request_id=own_id, method=plan.method, batch=batch
    )
    left = plan.nano_epsilon - step.nano_epsilon
    if about_no_rows(size.rows, size.deviation):
        raise stopped_run(dataset, size, left, batch=batch)
    return known_size(dataset, left, size, bought=True)


def _size_of_request(
    engine: Engine, ledger: Ledger, dataset: Dataset, plan: Plan, earlier: Entry, *, batch: str | None
) -> KnownSize | None:
    """Return the size that an earlier request of the same id was planned for, so that the same plan is made again."""
    number = earlier.plan["parameters"][SIZE_ENTRY]
    size = next((size for size in sizes_of(engine, ledger, dataset, batch=batch) if size.entry == number), None)
    if size is None:
        return None
    own = ledger.find_request(size_request(str(earlier.request_id)))
    bought = own is not None and own.entry_id == number
    return known_size(dataset, plan.nano_epsilon - (own.amount if own and bought else 0), size, bought=bought)


def known_size(dataset: Dataset, nano_epsilon: int, size: BoughtSize, *, bought: bool) -> KnownSize:
    """Return a size with what is left of epsilon; `bought` says that it was bought for this very run."""
    sized = replace(dataset, schema=replace(dataset.schema, rows=size.rows))
    when = FOR_THIS_RUN if bought else "earlier"
    notes = {"size": {"ledger_entry": size.entry, "epsilon": size.epsilon, "noisy_rows": size.rows, "bought": when}}
    return KnownSize(sized, nano_epsilon, {SIZE_ENTRY: size.entry}, notes)


def size_request(request_id: str) -> str:
    """Return the request id under which the size of a run is charged.

    >>> size_request("monday")
    'monday/size'
    """
    return f"{request_id}/size"


def least_charge(ledger: Ledger, dataset: Dataset) -> int | None:
    """Return the least charge of a run on a dataset, in nano-epsilon; None where its data is public."""
    budget = ledger.budget(dataset.payer)
    return None if budget.cap is None else budget.least_charge


def check_both_charges(ledger: Ledger, dataset: Dataset, nano_epsilon: int, *, who: str, part: str) -> None:
    """Raise BudgetExceeded where both charges together pass the dataset's cap or the analyst's, before the first."""
    budget = ledger.budget(dataset.payer)
    where = f'table "{dataset.table}"' + (f' in scope "{part}"' if part else "")
    places = [(where, budget.left_in(part), budget.cap_text)]
    own = budget.share_of(who)
    places.append((f'analyst "{who}" on table "{dataset.table}"', own.left, own.cap_text))
    for place, left, cap in places:
        if left is not None and left < nano_epsilon:
            hint = f"dpsql ledger --table {shlex.quote(dataset.table)}"
            raise BudgetExceeded(place, needed=format_epsilon(nano_epsilon), left=budget.text(left), cap=cap, hint=hint)


def stopped_run(dataset: Dataset, size: BoughtSize, left: int, *, batch: str | None) -> NoRowsCounted:
    """Return the error of a run that stops after its size: what was spent, what was not, and why it may be."""
    rows = f'batch "{batch}" of "{dataset.table}"' if batch is not None else f'table "{dataset.table}"'
    counted = f'batch "{batch}"' if batch is not None else "view" if dataset.definition else "table"
    reasons = likely_reasons(dataset.schema, label_type=dataset.columns.get(dataset.schema.label, ""), rows=counted)
    unspent = format_epsilon(left)
    message = (
        f"about no row of {rows} can be counted: its noisy number of rows with a declared label is {size.rows} "
        f"(standard deviation {size.deviation:.3g}). Epsilon {size.epsilon} is spent (entry {size.entry}), "
        f"and {unspent} is not. {reasons}"
    )
    return NoRowsCounted(
        message,
        noisy_rows=size.rows,
        deviation=size.deviation,
        table=dataset.table,
        entry=size.entry,
        spent=size.epsilon,
        unspent=unspent,
    )
