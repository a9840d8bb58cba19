"""`dpsql register` on a terminal with nothing else: asks the open questions one by one, and writes the schema file.

Each answer is checked against the catalog at once, and asked again with the reason. Nothing is changed before the last
answer: the file is shown, and written and registered after a yes. Ctrl-C, and the end of the input, leave everything as
it was. Where registering is refused after all, the answers are kept in the file.
"""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import click

from dpsql.api.database import Database
from dpsql.cli.options import DatabaseTarget
from dpsql.cli.printing.output import check_new, clean, note, say, write_new
from dpsql.errors import DpsqlError, SchemaError, UnknownName, UsageError
from dpsql.kernel.datasets.dataset import registration_of, resolve
from dpsql.ledger import format_epsilon, parse_epsilon
from dpsql.ledger.limits import LEAST
from dpsql.owner.draft_schema import Draft
from dpsql.owner.drafts.open_questions import (
    BUY,
    SKIP,
    Question,
    check_answer,
    check_unit,
    describe_forms,
    open_questions,
    read_answer,
    with_answer,
    with_label,
)
from dpsql.owner.drafts.proposal import FEATURE, LABEL, LEFT_OUT, UNIT, Domain, Proposal
from dpsql.schema import Unit, schema_file
from dpsql.schema.schema_file import inline

_Answer = TypeVar("_Answer")
#: The answer that protects each row by itself.
_ROW = "row"


def on_terminal() -> bool:
    """Whether somebody is there to answer: input and notes are a terminal's."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def is_form_wanted(options: Sequence[object]) -> bool:
    """Whether a command was given none of these options, on a terminal."""
    return on_terminal() and not any(option not in (None, False, ()) for option in options)


def fill_in_form(target: DatabaseTarget, *, table: str | None, label: str | None, cap: str | None) -> None:
    """Ask what is not given, show the file, and write it and register the table after a yes."""
    note("Registering a private table. Nothing is changed before you say yes at the end; Ctrl-C leaves.")
    note("What you answer becomes public: say what you know from documentation, laws or common sense, not from rows.")
    with ExitStack() as opened:
        db, place = _ask_database(target, opened)
        name = table or _ask("Table", lambda text: _known(text, db.engine.tables(), "table"))
        path = _new_file(db, name)
        draft = _with_answers(db, _draft(db, name, label))
        cap = cap or _ask_cap()
        epsilon = _ask_epsilon(draft, cap) if draft.gaps else None
        say(draft.text.rstrip())
        _check_all(db, path, draft, epsilon)
        acts = (
            f"Write {path} and register" if epsilon is None else f"Buy for epsilon {epsilon}, write {path} and register"
        )
        if not click.confirm(f"{acts} {clean(draft.table)} with cap {cap}?", err=True):
            raise click.Abort
        _write_and_register(db, path, draft, cap, epsilon)
    say(f'Wrote {path} and registered "{draft.table}" with cap {format_epsilon(parse_epsilon(cap, "cap"))}.')
    note(f"Next:  dpsql train {place.words} --table {shlex.quote(draft.table)} --dry-run")


def _check_all(db: Database, path: str, draft: Draft, epsilon: str | None) -> None:
    """Check all answers together as registering does; where it would refuse them, offer to keep them in the file."""
    try:
        if epsilon is None:
            resolve(db.engine, draft.table, schema_file.loads(draft.text))
        else:
            db.plan_purchase(draft.table, buy=epsilon, **_declared_parts(draft))
    except DpsqlError as error:
        note(f"\nThis schema cannot be registered: {error.message}")
        if click.confirm(f"Keep your answers in {path}, to correct them there?", default=True, err=True):
            _keep(path, draft, error)
        raise


def _write_and_register(db: Database, path: str, draft: Draft, cap: str, epsilon: str | None) -> None:
    """Register the table and write the file; where that is refused, the file has the answers and the reason."""
    try:
        if epsilon is None:
            db.register(draft.table, schema_file.loads(draft.text), cap=cap)
            text = draft.text
        else:
            text = db.buy_schema(draft.table, cap=cap, buy=epsilon, **_declared_parts(draft)).draft.text
    except DpsqlError as error:
        _keep(path, draft, error)
        raise
    write_new(path, text)


def _keep(path: str, draft: Draft, error: DpsqlError) -> None:
    """Write the answers to the file, with what is wrong at its end."""
    problem = schema_file.remark(f"Not registered: {error.message}")
    write_new(path, "\n".join([draft.text.rstrip(), *problem]) + "\n")
    note(f"Your answers are in {path}. Correct them, then:")
    note(f"  dpsql register … --table {shlex.quote(draft.table)} --schema {shlex.quote(path)} --cap EPSILON")


def _ask_database(target: DatabaseTarget, opened: ExitStack) -> tuple[Database, DatabaseTarget]:
    """Return the open database, asked for where it was not named, and how it was named."""

    def open_named(text: str) -> tuple[Database, DatabaseTarget]:
        named = replace(target, db=text)
        return opened.enter_context(named.open()), named

    return open_named(target.db) if target.db else _ask("Database (a file, a folder of files, or a URL)", open_named)


def _new_file(db: Database, table: str) -> str:
    """Return the file that will be written; refuse one that exists, and a registered table, before any question."""
    info = db.engine.table(table)
    if info is None:
        raise UnknownName("table", table, db.engine.tables())
    if info.unfit:
        raise SchemaError(f'"{info.name}" {info.unfit}.', hint=info.remedy)
    if registration_of(db.book, info.name) is not None:
        raise UsageError(
            f'table "{info.name}" is registered already.',
            hint=f"dpsql register --table {shlex.quote(info.name)} --schema FILE --cap EPSILON --replace",
        )
    path = f"{''.join(sign if sign.isalnum() or sign in '._-' else '_' for sign in info.table)}.yml"
    check_new(path, "schema")
    return path


def _draft(db: Database, table: str, label: str | None) -> Draft:
    """Return a draft with a label, which is asked for where it is not given."""
    if label is not None:
        return _draft_with(db, table, label)
    draft = db.draft(table)
    guess = next((proposal.column for proposal in draft.proposals if proposal.role == LABEL), None)
    columns = with_label(draft.proposals)
    note(f"\nColumns: {', '.join(columns)}")
    return _ask(
        "Which column is to be predicted", lambda text: _draft_with(db, table, _known(text, columns, "column")), guess
    )


def _draft_with(db: Database, table: str, label: str) -> Draft:
    """Return a draft with this label; refuse a column whose type can be no label."""
    draft, info = db.draft(table, label=label), db.engine.table(table)
    assert info is not None, "the draft was made of it"
    if any(question.is_label and not question.forms for question in open_questions(info, draft.proposals)):
        raise UsageError(f'"{label}" cannot be the label: a label is a text, a number, a boolean or a date.')
    return draft


def _with_answers(db: Database, draft: Draft) -> Draft:
    """Return the draft without gaps: what the catalog says is shown, and what it does not say is asked."""
    known = [proposal for proposal in draft.proposals if proposal.is_used and not proposal.gaps]
    for proposal in known:
        note(f"  {proposal.column}: {inline(proposal.feature)}   ({proposal.origin})")
    info = db.engine.table(draft.table)
    assert info is not None, "the draft was made of it"
    proposals = {proposal.column: proposal for proposal in draft.proposals}
    for question in open_questions(info, draft.proposals, can_buy=True):
        if not question.forms:  # a type for which there is no feature
            proposals[question.column] = with_answer(proposals[question.column], None)
            continue
        note(f"\n{question.ask}\n  Public: {question.makes_public}.")
        prompt = f"  {'Classes' if question.is_label else 'Domain'}: {describe_forms(question)}"
        domain = _ask(prompt, partial(_checked_answer, db, draft.table, question), _default(question))
        if domain != {"type": BUY}:  # what is to be bought keeps its gap
            proposals[question.column] = with_answer(proposals[question.column], domain)
    return _with_unit(db, replace(draft, proposals=tuple(proposals.values())))


def _default(question: Question) -> str | None:
    return None if question.is_label else SKIP


def _checked_answer(db: Database, table: str, question: Question, text: str) -> Domain | None:
    """Return the domain that an answer declares, checked against the column's type; None where it is left out."""
    domain = read_answer(question, text)
    if domain is not None:
        check_answer(db.engine, table, question, domain)
    return domain


def _ask_epsilon(draft: Draft, cap: str) -> str:
    """Return the epsilon for what is to be bought, after saying what that makes public; it is within the cap."""
    note(f"\nTo be bought: the domains of {', '.join(map(clean, draft.gaps))}, and the number of rows.")
    note("  Public: noisy counts, of numbers by powers of two and of texts by the cells of a hash. They are charged,")
    note("  and bounds and cells follow from them.")
    most, least = parse_epsilon(cap, "cap"), min(LEAST, parse_epsilon(cap, "cap"))

    def read(text: str) -> str:
        amount = parse_epsilon(text, "epsilon")
        if not least <= amount <= most:
            allowed = (
                f"at most {format_epsilon(most)}, the cap" if amount > most else f"at least {format_epsilon(least)}"
            )
            raise UsageError(f"a purchase may cost {allowed}.")
        return format_epsilon(amount)

    return _ask("Epsilon of the purchase", read, "0.1" if parse_epsilon("0.1", "epsilon") <= most else None)


def _declared_parts(draft: Draft) -> dict[str, Any]:
    """Return what the answers declare, as arguments of a purchase."""
    label = next(proposal for proposal in draft.proposals if proposal.role == LABEL)
    is_number = label.feature.get("type") == "numeric"
    unit = Unit() if draft.unit is None else Unit(**draft.unit)
    return {
        "label": label.column,
        "classes": () if is_number else label.feature["values"],
        "target": (label.feature["lower"], label.feature["upper"]) if is_number else None,
        "features": {
            proposal.column: dict(proposal.feature)
            for proposal in draft.proposals
            if proposal.role == FEATURE and not proposal.gaps
        },
        "left_out": [proposal.column for proposal in draft.proposals if proposal.role == LEFT_OUT],
        "unit": unit,
    }


def _with_unit(db: Database, draft: Draft) -> Draft:
    """Return the draft with the privacy unit that is answered; a feature that names the unit is one no more."""
    names = [proposal.column for proposal in draft.proposals]
    label = next(proposal for proposal in draft.proposals if proposal.role == LABEL)

    def read(text: str) -> str | None:
        column = _known(text, [_ROW, *names], "column")
        if column != _ROW:
            check_unit(db.engine, draft.table, label, column)
        return None if column == _ROW else column

    note("\nWho is protected: one row, or all rows of one person, by the column that names the person.")
    note("  If m rows of one person are used, the noise is m times as large as for one row.")
    guess = next((proposal.column for proposal in draft.proposals if proposal.role == UNIT), None)
    if guess is not None:
        note(f"  If one person can have several rows, it may be: {guess}")
    column = _ask("Privacy unit", read, _ROW)
    if column is None:
        return draft
    note("  Public: how many rows of one person are used.")
    rows = _ask("  At most how many rows (m) of one person are used", _whole_number, "10")
    proposals = tuple(
        Proposal(column, UNIT, origin="the privacy unit") if proposal.column == column else proposal
        for proposal in draft.proposals
    )
    return replace(draft, proposals=proposals, unit={"column": column, "max_rows": rows})


def _ask_cap() -> str:
    """Return the cap, after saying what it means."""
    note("\nThe cap is the epsilon that all runs together may cost. It bounds by how much anything that anybody learns")
    note("can become likelier because of one person: by a factor of e^cap, which is " + ", ".join(_odds()) + ".")
    return _ask("Cap", lambda text: format_epsilon(parse_epsilon(text, "cap")), "1")


def _odds() -> list[str]:
    return [f"{math.exp(cap):.3g} at cap {cap}" for cap in (1, 3, 10)]


def _ask(prompt: str, read: Callable[[str], _Answer], default: str | None = None) -> _Answer:
    """Ask until an answer can be read, and return what it means."""
    while True:
        answer = click.prompt(
            prompt, default=None if default is None else clean(default), err=True, show_default=bool(default), type=str
        )
        try:
            return read(str(answer).strip())
        except DpsqlError as error:
            note(f"  {error.message}")


def _known(text: str, names: Sequence[str], kind: str) -> str:
    """Return the name that is meant, in any letter case, or raise UnknownName with the nearest ones."""
    match = next((name for name in names if name == text), None)
    match = match or next((name for name in names if name.lower() == text.lower()), None)
    if match is None:
        raise UnknownName(kind, text, names)
    return match


def _whole_number(text: str) -> int:
    if not text.isdecimal() or not 1 <= len(text) <= 9 or int(text) < 1:
        raise UsageError("that is no whole number from 1 on.")
    return int(text)
