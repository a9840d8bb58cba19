"""`dpsql register` on a terminal with nothing else: asks the open questions one by one, and writes the schema file.

Nothing is changed before the last answer: the file is shown, and written and registered after a yes. Ctrl-C, and the
end of the input, leave everything as it was.
"""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from dpsql.api.database import Database
from dpsql.cli.options import DatabaseTarget
from dpsql.cli.output import check_new, clean, note, say, write_new
from dpsql.errors import DpsqlError, UnknownName, UsageError
from dpsql.kernel.datasets.dataset import registration_of, resolve
from dpsql.ledger import format_epsilon, parse_epsilon
from dpsql.owner.draft_schema import Draft
from dpsql.owner.drafts.open_questions import (
    BUY,
    SKIP,
    describe_forms,
    open_questions,
    read_answer,
    with_answer,
    with_label,
)
from dpsql.owner.drafts.proposal import FEATURE, LABEL, LEFT_OUT, UNIT
from dpsql.schema import Unit, schema_file
from dpsql.schema.schema_file import inline

_Answer = TypeVar("_Answer")


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
        if not draft.gaps:
            resolve(db.engine, name, schema_file.loads(draft.text))
        cap = cap or _ask_cap()
        epsilon = _ask_epsilon(draft.gaps) if draft.gaps else None
        say(draft.text.rstrip())
        acts = (
            f"Write {path} and register" if epsilon is None else f"Buy for epsilon {epsilon}, write {path} and register"
        )
        if not click.confirm(f"{acts} {clean(draft.table)} with cap {cap}?", err=True):
            raise click.Abort
        if epsilon is None:
            _write_and_register(db, name, path, draft, cap)
        else:
            write_new(path, db.buy_schema(name, cap=cap, buy=epsilon, **_declared_parts(draft)).draft.text)
    say(f'Wrote {path} and registered "{draft.table}" with cap {format_epsilon(parse_epsilon(cap, "cap"))}.')
    note(f"Next:  dpsql train {place.words} --table {shlex.quote(draft.table)} --dry-run")


def _write_and_register(db: Database, table: str, path: str, draft: Draft, cap: str) -> None:
    """Write the file and register the table; where that fails, the file is gone again."""
    write_new(path, draft.text)
    done = False
    try:
        db.register(table, path, cap=cap)
        done = True
    finally:
        if not done:
            Path(path).unlink(missing_ok=True)


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
    if registration_of(db.book, info.name) is not None:
        raise UsageError(
            f'table "{info.name}" is registered already.',
            hint=f"dpsql register --table {info.name} --schema FILE --cap EPSILON --replace",
        )
    path = f"{''.join(sign if sign.isalnum() or sign in '._-' else '_' for sign in info.table)}.yml"
    check_new(path, "the schema file")
    return path


def _draft(db: Database, table: str, label: str | None) -> Draft:
    """Return a draft with a label, which is asked for where it is not given."""
    draft = db.draft(table, label=label)
    if label is not None:
        return draft
    guess = next((proposal.column for proposal in draft.proposals if proposal.role == LABEL), None)
    columns = with_label(draft.proposals)
    note(f"\nColumns: {', '.join(columns)}")
    chosen_label = _ask("Which column is to be predicted", lambda text: _known(text, columns, "column"), guess)
    return db.draft(table, label=chosen_label)


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
        domain = _ask(prompt, partial(read_answer, question), None if question.is_label else SKIP)
        if domain != {"type": BUY}:  # what is to be bought keeps its gap
            proposals[question.column] = with_answer(proposals[question.column], domain)
    return replace(draft, proposals=tuple(proposals.values()), unit=_ask_unit(draft))


def _ask_epsilon(columns: Sequence[str]) -> str:
    """Return the epsilon for what is to be bought, after saying what that makes public."""
    note(f"\nTo be bought: bounds of {', '.join(map(clean, columns))}, and the number of rows.")
    note("  Public: noisy counts by powers of two. They are charged, and bounds follow from them.")
    return _ask("Epsilon of the purchase", lambda text: format_epsilon(parse_epsilon(text, "buy")), "0.1")


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


def _ask_unit(draft: Draft) -> dict[str, Any] | None:
    """Return the privacy unit as a schema declares it; None for the row."""
    names = [proposal.column for proposal in draft.proposals]
    guess = next((proposal.column for proposal in draft.proposals if proposal.role == UNIT), "row")
    note("\nWho is protected: one row, or all rows of one person, by the column that names the person.")
    column = _ask("Privacy unit", lambda text: _known(text, ["row", *names], "column"), guess)
    if column == "row":
        return None
    note("  Public: how many rows of one person are used; more of them mean more noise.")
    return {"column": column, "max_rows": _ask("  At most how many rows of one person are used", _whole_number, "10")}


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
