"""Replays a run on a neighbouring table and adds up what every release lost, exactly, against what was charged.

    replay(open_first, open_second, act)  ──▶  Replay: loss, promise, and everything else that differed

The run is recorded on the first table. On the second it gets the same secret keys and the same released values. The
loss of all releases together is compared with each record of what they cost: the ledger's charges, the growth of the
budget, and the certificate of every model (`audit/claims.py`).

Everything else that a run does must follow from its releases. So the questions, the statements, the shapes, the public
answers, the models and all that is stored in the database (`audit/database_text.py`) must be the same to the last bit;
a difference means that private data came out on another way than through noise.

The audit is for made-up tables alone, because a tape holds exact counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from dpsql.api.database import Database
from dpsql.audit.claims import BUDGET, CHARGES, Claim, Outcome, Spent, claims_of, read_spent
from dpsql.audit.database_text import database_text, table_places
from dpsql.audit.loss import SLACK, Loss, release_loss, same_noise, selection_delta, selection_loss
from dpsql.audit.record import Recorder, Tape
from dpsql.audit.seam import Watched, listen
from dpsql.engines.base import Engine
from dpsql.errors import DpsqlError
from dpsql.ledger import Entry

#: Kinds of differences between two runs. Only the exact values behind releases may differ, so any of these is a breach.
SHAPE = "shape"
NOISE = "noise"
PUBLIC = "public answer"
DIGEST = "digest"
STORED = "stored"
FAILURE = "failure"

Act = Callable[[Database], Sequence[Outcome]]


@dataclass(frozen=True)
class StepLoss:
    """What all releases of one step lost together, at worst, and what its plan allowed it."""

    step: str
    operation: str
    loss: Fraction
    allowed: Fraction

    @property
    def holds(self) -> bool:
        """Whether the step kept to its part of the plan."""
        return self.loss <= self.allowed + SLACK


@dataclass(frozen=True)
class Replay:
    """One run on two neighbouring tables.

    `loss` is the sum of the worst losses of all releases, in epsilon or, for the kind "approximate", in rho. `claims`
    hold what ledger, budget and certificates say that the unit in which the tables differ lost at most. `seen` is the
    log-ratio of the chances of what came out. `differences` says what else was not the same, without private values.
    """

    kind: str
    loss: Fraction
    seen: Fraction
    claims: tuple[Claim, ...]
    releases: int
    steps: tuple[StepLoss, ...]
    differences: tuple[tuple[str, str], ...]
    failed: str = ""

    @property
    def promise(self) -> Fraction:
        """What all releases together may lose: the less of what was charged and what the budget says is spent."""
        return min(claim.promise for claim in self.claims if claim.record in (CHARGES, BUDGET))

    @property
    def ratio(self) -> float:
        """The largest loss over what a record says of it: at most 1, where the promise holds."""
        return max(claim.ratio for claim in self.claims)

    @property
    def same_shapes(self) -> bool:
        """Whether both runs asked, sent and released the same numbers of the same things, with the same noise."""
        return not any(what in (SHAPE, NOISE, FAILURE) for what, _ in self.differences)

    @property
    def same_digest(self) -> bool:
        """Whether both runs made the same of what was released."""
        return not any(what == DIGEST for what, _ in self.differences)

    @property
    def holds(self) -> bool:
        """Whether the run kept its promise: no loss above it, by step and by record, and no other difference."""
        within_promise = all(step.holds for step in self.steps) and all(claim.holds for claim in self.claims)
        return within_promise and not self.differences

    def __str__(self) -> str:
        word = "rho" if self.kind == "approximate" else "epsilon"
        lines = [
            f"{'holds' if self.holds else 'DOES NOT HOLD'}: loss {float(self.loss):.6g} of {word} "
            f"{float(self.promise):.6g} ({self.ratio:.6f}), {self.releases} releases"
        ]
        lines += [
            f"  step {step.step} ({step.operation}): loss {float(step.loss):.6g} of {float(step.allowed):.6g}"
            for step in self.steps
            if not step.holds
        ]
        lines += [
            f"  {claim.record}: loss {float(claim.loss):.6g} of {float(claim.promise):.6g}"
            for claim in self.claims
            if not claim.holds
        ]
        lines += [f"  {what}: {text}" for what, text in self.differences]
        return "\n".join(lines + ([f"  failed on both tables: {self.failed}"] if self.failed else []))


@dataclass(frozen=True, eq=False)
class _Run:
    """One run: its tape, what it gave out, its charges and budgets, what it stored, and how it failed."""

    tape: Tape
    outcomes: tuple[Outcome, ...]
    charges: tuple[Entry, ...]
    before: Spent
    after: Spent
    stored: Mapping[str, str]
    failed: str
    diverged: str


def replay(
    open_first: Callable[[], Database],
    open_second: Callable[[], Database],
    act: Act,
    *,
    pays: Callable[[Entry], bool] = lambda entry: True,
    groups: int | None = None,
) -> Replay:
    """Record an act on one database, replay it on another one, and compare.

    Both are opened ready: the same tables registered in the same way, with neighbouring rows. `act` does one or more
    charged runs and returns what they gave out (`model_outcome`). `pays` says for each charge whether the unit in which
    the tables differ pays it; by default it pays all of them. `groups` is the most groups that one statement may count
    (`audit/seam.py`).
    """
    first = _run(open_first, act, None, groups)
    second = _run(open_second, act, first.tape, groups)
    kinds = sorted({charge.kind for charge in second.charges}) or ["pure"]
    if len(kinds) > 1:
        raise ValueError("an act must be of one kind: epsilon and rho do not add up")
    steps, sessions = _losses(first.tape, second.tape)
    total = sum(sessions.values(), Loss())
    failed = first.failed if first.failed == second.failed else ""
    return Replay(
        kind=kinds[0],
        loss=total.worst,
        seen=total.seen,
        claims=claims_of(
            {session: loss.worst for session, loss in sessions.items()},
            [charge for charge in second.charges if pays(charge)],
            second.outcomes,
            before=second.before,
            after=second.after,
        ),
        releases=len(first.tape.releases) + len(first.tape.selections),
        steps=steps,
        differences=tuple(_find_differences(first, second)),
        failed=failed,
    )


def _run(opened: Callable[[], Database], act: Act, script: Tape | None, groups: int | None) -> _Run:
    recorder = Recorder(script)
    with opened() as inner:
        database = Database(cast(Engine, Watched(inner.engine, recorder)), who=inner.who)
        with inner.engine.snapshot() as looking:
            tables = table_places(looking)
        before, outcomes, failed = read_spent(inner.book), tuple[Outcome, ...](), ""
        with listen(recorder, groups=groups):
            try:
                outcomes = tuple(act(database))
            except DpsqlError as error:
                failed = f"{type(error).__name__}: {error}"
        charges = tuple(inner.book.entries(event="reserve"))
        after = read_spent(inner.book)
        with inner.engine.snapshot() as looking:
            stored = database_text(looking, inner.book, before=tables)
    return _Run(recorder.tape, outcomes, charges, before, after, stored, failed, recorder.diverged)


def _losses(first: Tape, second: Tape) -> tuple[tuple[StepLoss, ...], dict[int, Loss]]:
    """Return the loss of each step and of each session; what only one run released is found by `_find_differences`."""
    sessions, steps = dict[int, Loss](), dict[tuple[int, str, str], StepLoss]()
    losses = [
        (
            release.operation,
            release_loss(release, replayed, approximate=first.operations[release.operation].approximate),
        )
        for release, replayed in zip(first.releases, second.releases, strict=False)
        if release.operation < len(first.operations) and release.exact.shape == replayed.exact.shape
    ]
    losses += [
        (selection.operation, selection_loss(selection, replayed))
        for selection, replayed in zip(first.selections, second.selections, strict=False)
        if selection.operation < len(first.operations)
    ]
    for number, loss in losses:
        operation = first.operations[number]
        sessions[operation.session] = sessions.get(operation.session, Loss()) + loss
        before = steps.get(operation.question, StepLoss(operation.step, operation.name, Fraction(0), operation.allowed))
        steps[operation.question] = StepLoss(
            operation.step, operation.name, before.loss + loss.worst, operation.allowed
        )
    return tuple(steps.values()), sessions


def _find_differences(first: _Run, second: _Run) -> list[tuple[str, str]]:
    tape, replayed = first.tape, second.tape
    differences: list[tuple[str, str]] = []
    if second.diverged or first.diverged:
        differences.append((SHAPE, second.diverged or first.diverged))
    if first.failed != second.failed:
        differences.append((FAILURE, f'"{first.failed}" on one table, "{second.failed}" on the other'))
    if [operation.question for operation in tape.operations] != [
        operation.question for operation in replayed.operations
    ]:
        differences.append((SHAPE, "other questions were asked, or in another order"))
    if len(tape.keys) != len(replayed.keys):
        differences.append((SHAPE, "other secret keys were drawn"))
    if len(tape.statements) != len(replayed.statements):
        differences.append(
            (SHAPE, f"{len(tape.statements)} statements on one table, {len(replayed.statements)} on the other")
        )
    elif tape.statements != replayed.statements:
        differences.append((SHAPE, "a statement, or a table that it joined, was another one"))
    differences += _differing_answers(tape, replayed)
    differences += _differing_noise(tape, replayed)
    if first.outcomes != second.outcomes:
        differences.append((DIGEST, "the same released values gave another model or other figures"))
    tables = sorted({*first.stored, *second.stored})
    differences += [
        (STORED, f"{table} is not the same") for table in tables if first.stored.get(table) != second.stored.get(table)
    ]
    return differences


def _differing_answers(tape: Tape, replayed: Tape) -> list[tuple[str, str]]:
    return [
        (PUBLIC, f'the answer to "{first.name}" {first.step} was another one')
        for first, second in zip(tape.operations, replayed.operations, strict=False)
        if first.answer != second.answer
    ]


def _differing_noise(tape: Tape, replayed: Tape) -> list[tuple[str, str]]:
    differences: list[tuple[str, str]] = []
    if len(tape.releases) != len(replayed.releases):
        differences.append((SHAPE, "one of the runs released more"))
    for first, second in zip(tape.releases, replayed.releases, strict=False):
        if (first.mechanism, first.exact.shape) != (second.mechanism, second.exact.shape):
            differences.append((SHAPE, "a release had another shape"))
        elif not same_noise(first, second):
            differences.append((NOISE, f"the parameters of {first.mechanism} were other ones"))
    return differences + _selections_shown(tape, replayed)


def _selections_shown(tape: Tape, replayed: Tape) -> list[tuple[str, str]]:
    """Return a sentence for each selection that shows a unit's own group more often than its delta allows."""
    if len(tape.selections) != len(replayed.selections):
        return [(SHAPE, "one of the runs selected more")]
    return [
        (NOISE, "a group of one unit may come out with a probability above the selection delta")
        for first, second in zip(tape.selections, replayed.selections, strict=True)
        if first.least != second.least or selection_delta(first, second) > first.allowed
    ]
