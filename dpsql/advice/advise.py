"""Advises before anything is spent: which method, what its noise will be, which epsilon is worth spending.

Advice follows from public facts alone: the schema, epsilon, and a size that is declared, bought, or guessed by whoever
asks. It reads no row; only buying a size is charged (`dpsql/runs/buy_size.py`). The figures are those of the plan that
training would make; what training is likely to bring follows from a reference problem
(`dpsql/advice/reference_problem.py`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from dpsql import methods
from dpsql.advice.advice_text import advice_as_text
from dpsql.advice.earlier_models import known_crowded_ranges
from dpsql.advice.outlook import AMPLE, Outlook, outlook, recommended_method
from dpsql.advice.reference_problem import Problem
from dpsql.engines.base import Engine
from dpsql.errors import ParameterError, UsageError
from dpsql.kernel.datasets.dataset import Dataset, find_dataset, look_at_dataset
from dpsql.kernel.plan import Plan
from dpsql.ledger import Budget, Ledger, format_epsilon, parse_epsilon
from dpsql.ledger.budget import amount_text
from dpsql.models.explain.crowded import CrowdedRange
from dpsql.notebook_html import Readable, html_heading, html_text
from dpsql.runs.buy_size import BoughtSize, best_size, buy_size, plan_size
from dpsql.schema import Schema

#: The numbers of rows that advice is given for where the size is unknown.
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
#: Shares of the largest class for which advice says what epsilon it takes.
_MAJORITY_SHARES = (0.6, 0.8)
#: Where the size comes from: the schema, the caller, a charged noisy count, or nowhere.
DECLARED = "declared"
GUESSED = "guessed"
BOUGHT = "bought"
UNKNOWN = "unknown"
#: The largest number of rows: up to 2^53, all whole numbers are exact as doubles.
_MOST_ROWS = 2**53 - 1
#: Epsilons below this, in nano-epsilon (1e-4), are not halved any further when a smaller one is looked for.
_LEAST_HALVED = 10**5


@dataclass(frozen=True, repr=False)
class Recommendation(Readable):
    """What to do with one epsilon, and whether it is worth it.

    `now` is the outlook at the known size; where no size is known it is None, and `by_size` has an outlook for each of
    several sizes. The others say what would happen if: `twice_rows` with twice the rows, `twice_epsilon` with twice the
    epsilon, `fewer_rows` with half of `max_rows` (where a unit has several rows), and `smaller_epsilon` with the
    smallest epsilon of those tried at which a larger one still brings nothing visible (where epsilon is more than
    needed). `crowded` has the ranges that an earlier model found far too wide.
    """

    schema: Schema
    nano_epsilon: int
    problem: Problem
    source: str = UNKNOWN
    table: str | None = None
    now: Outlook | None = None
    twice_rows: Outlook | None = None
    twice_epsilon: Outlook | None = None
    fewer_rows: Outlook | None = None
    smaller_epsilon: Outlook | None = None
    by_size: tuple[Outlook, ...] = ()
    bought: BoughtSize | None = None
    budget: Budget | None = None
    left: int | None = None
    crowded: tuple[CrowdedRange, ...] = ()

    @property
    def method(self) -> str:
        """The name of the recommended method."""
        return recommended_method(self.schema)

    @property
    def epsilon(self) -> str:
        """The epsilon that advice was asked for, as exact decimal text."""
        return format_epsilon(self.nano_epsilon)

    @property
    def fits(self) -> bool | None:
        """Whether the budget allows the run; None where there is no budget to look at."""
        return None if self.budget is None else self.left is None or self.nano_epsilon <= self.left

    @property
    def verdict(self) -> str | None:
        """Whether a model is worth its epsilon, in words; None where the size is not known."""
        return None if self.now is None else self.now.verdict

    @property
    def by_majority(self) -> tuple[tuple[float, float | None], ...]:
        """The smallest epsilon that is likely to help, by the largest class's share: an equal one, 60 %, 80 %."""
        classes = self.problem.classes
        if self.now is None or not classes:
            return ()
        shares = [share for share in _MAJORITY_SHARES if share > 1 / classes]
        rows = self.now.rows
        return tuple(
            (share, replace(self.problem, majority=share).break_even(rows)) for share in [1 / classes, *shares]
        )

    def __str__(self) -> str:
        return advice_as_text(self)

    def _repr_html_(self) -> str:
        title, *lines = str(self).splitlines()
        return html_heading(title) + "".join(html_text(line) for line in lines)

    def text(self, *, details: bool = False) -> str:
        """Return the advice as text; with `details` the epsilon of each step, the noise, and what is assumed."""
        return advice_as_text(self, details=details)

    def to_dict(self) -> dict[str, Any]:
        """Return the advice as plain values: what `--json` prints."""
        what_if = {
            "twice_rows": self.twice_rows,
            "twice_epsilon": self.twice_epsilon,
            "fewer_rows": self.fewer_rows,
            "smaller_epsilon": self.smaller_epsilon,
        }
        bought, budget = self.bought, self.budget
        return {
            "table": self.table,
            "epsilon": self.epsilon,
            "method": self.method,
            "verdict": self.verdict,
            "rows": None if self.now is None else self.now.rows,
            "rows_are": self.source,
            "features": len(self.schema.features),
            "classes": len(self.schema.classes),
            "unit": str(self.schema.unit),
            "assumed_majority": self.problem.majority if self.problem.classes else None,
            "by_majority": [{"majority": share, "smallest_epsilon": least} for share, least in self.by_majority],
            "steps": [] if self.now is None else self.now.plan.to_dict()["steps"],
            "now": None if self.now is None else self.now.to_dict(),
            **{
                name: None if outlook_then is None else outlook_then.to_dict() for name, outlook_then in what_if.items()
            },
            "by_size": [outlook_then.to_dict() for outlook_then in self.by_size],
            "crowded": [asdict(crowded) for crowded in self.crowded],
            "bought": None if bought is None else {"epsilon": bought.epsilon, "ledger_entry": bought.entry},
            "budget": None
            if budget is None
            else {
                "cap": budget.cap_text,
                "spent": budget.spent_text,
                "left": amount_text(self.left),
                "fits": self.fits,
            },
        }


def advise_schema(
    schema: Schema, *, epsilon: object = 1, rows: int | None = None, majority: float | None = None
) -> Recommendation:
    """Return advice for a schema, registered or not; `rows` is a guess that goes before a declared size.

    `majority` is a guess of the largest class's share. Without any size the advice is a list over sizes.

    >>> from dpsql.schema import Boolean
    >>> schema = Schema("y", ("a", "b"), tuple(Boolean(f"x{n}") for n in range(10)))
    >>> advise_schema(schema, epsilon=0.1, rows=100).verdict, advise_schema(schema, epsilon=1, rows=100_000).now.trees
    ('not worth the budget', 15)
    """
    source = GUESSED if rows is not None else DECLARED if schema.rows is not None else UNKNOWN
    size = _checked_rows(rows) if rows is not None else schema.rows
    return _advice(schema, parse_epsilon(epsilon), size, source, _checked_share(majority, schema))


def advise_table(
    engine: Engine,
    ledger: Ledger,
    table: str,
    *,
    epsilon: object = 1,
    rows: int | None = None,
    buy: object | None = None,
    majority: float | None = None,
    who: str,
    request_id: str | None = None,
) -> Recommendation:
    """Return advice for a registered table. Free, unless `buy` is an epsilon for its size, which is charged first."""
    if rows is not None and buy is not None:
        raise UsageError("a size is guessed or bought, not both.", hint="leave out rows or buy")
    if request_id is not None and buy is None:
        raise ParameterError("request_id", allowed="given only with buy", given=request_id)
    look = look_at_dataset if buy is None else find_dataset
    dataset = look(engine, ledger, table)
    free = advise_schema(dataset.schema, epsilon=epsilon, rows=rows, majority=majority)
    bought = None
    if buy is not None:
        bought = buy_size(engine, ledger, dataset, epsilon=buy, who=who, request_id=request_id)
    elif free.source == UNKNOWN:
        bought = best_size(engine, ledger, dataset)
    if bought is not None:
        free = _advice(dataset.schema, free.nano_epsilon, bought.rows, BOUGHT, majority)
    budget = ledger.budget(dataset.payer)
    crowded = known_crowded_ranges(engine, dataset)
    left = budget.left_for(who)
    return replace(free, table=dataset.table, bought=bought, budget=budget, left=left, crowded=crowded)


def plan_advice(engine: Engine, ledger: Ledger, table: str, *, buy: object) -> Plan:
    """Return what buying a table's size would ask and cost. Reads no row, charges nothing."""
    return plan_size(_check_label(look_at_dataset(engine, ledger, table)), epsilon=buy)


def _check_label(dataset: Dataset) -> Dataset:
    methods.get_fitting(recommended_method(dataset.schema), dataset.schema)
    return dataset


def _advice(schema: Schema, nano_epsilon: int, rows: int | None, source: str, majority: float | None) -> Recommendation:
    problem = Problem.of(schema, majority)
    methods.get_fitting(recommended_method(schema), schema)
    advice = Recommendation(schema, nano_epsilon, problem, source)
    if rows is None:
        return replace(advice, by_size=tuple(outlook(schema, size, nano_epsilon, problem) for size in SIZES))
    now = outlook(schema, rows, nano_epsilon, problem)
    return replace(
        advice,
        now=now,
        twice_rows=outlook(schema, min(2 * rows, _MOST_ROWS), nano_epsilon, problem),
        twice_epsilon=outlook(schema, rows, 2 * nano_epsilon, problem),
        fewer_rows=_outlook_with_fewer_rows(schema, rows, nano_epsilon, problem),
        smaller_epsilon=_outlook_with_less_epsilon(schema, now, nano_epsilon, problem),
    )


def _outlook_with_less_epsilon(schema: Schema, now: Outlook, nano_epsilon: int, problem: Problem) -> Outlook | None:
    """Return the outlook at the smallest half, quarter, … of epsilon that is still more than needed, or None."""
    smallest = None
    if not problem.classes:  # growing random trees for each half would take longer than it is worth
        return None
    while now.verdict == AMPLE and nano_epsilon >= _LEAST_HALVED:
        nano_epsilon //= 2
        now = outlook(schema, now.rows, nano_epsilon, problem)
        smallest = now if now.verdict == AMPLE else smallest
    return smallest


def _outlook_with_fewer_rows(schema: Schema, rows: int, nano_epsilon: int, problem: Problem) -> Outlook | None:
    """Return the outlook with half as many rows of a unit, if no row were lost by it; None at row level."""
    if schema.unit.max_rows == 1:
        return None
    unit = replace(schema.unit, max_rows=schema.unit.max_rows // 2)
    return outlook(replace(schema, unit=unit), rows, nano_epsilon, replace(problem, max_rows=unit.max_rows))


def _checked_rows(rows: object) -> int:
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= _MOST_ROWS:
        raise ParameterError("rows", allowed="a whole number from 1", given=rows)
    return rows


def _checked_share(majority: object, schema: Schema) -> float | None:
    if majority is None:
        return None
    if schema.target is not None:
        raise ParameterError("majority", allowed="given only where the label has classes", given=majority)
    least = 1 / max(1, len(schema.classes))
    if isinstance(majority, bool) or not isinstance(majority, int | float) or not least <= majority < 1:
        raise ParameterError("majority", allowed=f"a share from {least:.3g} to below 1", given=majority)
    return float(majority)
