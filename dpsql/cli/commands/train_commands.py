"""The analyst's command: train under a charged budget, or see the plan and the SQL that would run."""

from __future__ import annotations

import logging
import shlex
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from dpsql.cli import options
from dpsql.cli.command import MORE, SectionedOption, command
from dpsql.cli.options import DatabaseTarget, as_json, database, parameters
from dpsql.cli.printing.cap_notes import note_warnings
from dpsql.cli.printing.evaluation_lines import evaluation_line
from dpsql.cli.printing.json_values import short_certificate
from dpsql.cli.printing.output import budget_values, note, print_json, print_plan, say, say_exact, show_progress
from dpsql.cli.printing.quality_lines import offer_command, quality_sentences
from dpsql.compile.count.literal import LOGGER
from dpsql.errors import NoRowsWarning, UsageError
from dpsql.kernel.datasets.dataset import look_at_dataset
from dpsql.kernel.describe import larger_noise_notes
from dpsql.ledger import Budget
from dpsql.ledger.odds import note_large
from dpsql.models.model import lookup_note, purchase_note
from dpsql.models.monotone_request import monotone_note
from dpsql.runs.likely_quality import offer_evaluation, own_accuracy
from dpsql.runs.private_evaluation import evaluation_of_training
from dpsql.runs.size_first import FOR_THIS_RUN
from dpsql.runs.train import TrainRequest
from dpsql.trees.tree_count import forest_count_text

#: A flag that stands further down in the help.
_more = partial(click.option, is_flag=True, cls=SectionedOption, section=MORE)


@command("train")
@database
@options.request_options(names_release=True)
@click.option("--dry-run", is_flag=True, help="Show steps, cost, noise and budget; touch nothing.")
@_more("-v", "--verbose", help="With --literal: show each statement before it runs.")
@_more("--sql", help="Print the statement that would run; touch nothing.")
@as_json
def train_command(target: DatabaseTarget, dry_run: bool, verbose: bool, sql: bool, as_json: bool, **given: Any) -> None:
    """Train a private forest on a registered table.

    \b
    Example:
      dpsql train --db data.duckdb --table adult
      dpsql train --db data.duckdb --table adult --epsilon 0.5 --dry-run
      dpsql train --db data.duckdb --table adult --epsilon 1 --evaluate 0.1

    The charge is in the ledger before the first row is read, and stays whatever happens next. With --delta the run is
    (epsilon, delta)-private and pays from a budget of kind "approximate", which the owner must have opened.
    With --evaluate the model is measured on the table's hold-out, whose own budget pays for that.
    """
    if sql and dry_run:
        raise UsageError("one thing at a time: the SQL or the plan.", hint="leave out --sql or --dry-run")
    request = parameters(given)
    options.refuse_foreign_parameters(request["method"], request)
    table, batch = request.pop("table"), request.get("batch")
    with target.open(writes=not sql and not dry_run) as db:
        if sql:
            _print_sql(table, db.explain(table, **request).statement_sql, as_json=as_json)
            return
        if dry_run:
            with note_warnings():
                plan = db.plan(table, **request)
                by_size = db.plans_by_size(table, **request)
                _note_large(db.budget(table), table, request)
            before = db.spent_on(table, batch, plan.kind)
            print_plan(plan, db.budget(table, plan.kind), before, by_size=by_size, as_json=as_json)
            if request.get("evaluate") is not None:
                note(f"Then the hold-out would pay epsilon {request['evaluate']} for an evaluation.")
            return
        started = time.perf_counter()
        with (
            _shown_statements(verbose=verbose),
            show_progress(f'training on "{table}"'),
            note_warnings(),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", NoRowsWarning)  # said below, with the rest of the output
            model = db.train(table, **request)
        seconds = time.perf_counter() - started
        left = db.budget(table, model.certificate.get("kind", "pure"))
        measured = evaluation_of_training(model)
        beside = None if measured is None else db.budget(measured["table"])
        offer = offer_evaluation(db.book, model, look_at_dataset(db.engine, db.book, table), who=db.who)
    if as_json:
        described: dict[str, Any] = {
            "model": model.name,
            "trees": model.released.forest.trees,
            "depth": model.released.forest.depth,
            "leaves": model.released.forest.leaves,
            "budget": budget_values(left),
            "certificate": short_certificate(model.certificate),
        }
        if beside is not None:
            described |= {"evaluation": measured, "holdout_budget": budget_values(beside)}
        print_json(described)
        return
    forest = model.released.forest
    trees = forest_count_text(forest)
    say(f'Model "{model.name}": {model.method}, {trees}, depth {forest.depth}, {forest.leaves} leaves.')
    if not model.certificate["private"]:
        say("NOT differentially private: the published variant has no proof.")
    say(f"Charged {_loss(model.certificate)} ({model.certificate['neighbours']}){_entries(model.certificate)}.")
    say(f'Budget of "{left.table}": {left.spent_text} of {left.cap_text} spent, {left.left_text} left.')
    if monotone_note(model.schema, model.certificate):
        say(f"Monotone: {monotone_note(model.schema, model.certificate)}.")
    for sentence in filter(None, (lookup_note(model.certificate), purchase_note(model.certificate))):
        say(f"Domains: {sentence}.")
    for sentence in model.certificate.get("warnings", ()):
        note(f"WARNING: {sentence}")
    if measured is not None and beside is not None:
        say(f"Measured: {evaluation_line(measured)}.")
        say(f'Budget of "{beside.table}": {beside.spent_text} of {beside.cap_text} spent, {beside.left_text} left.')
    elif not model.certificate.get("warnings"):
        for sentence in quality_sentences(own_accuracy(model), offer):
            say(sentence)
        if offer is not None:
            note(f"Measure it:  {offer_command(offer, target.words, model.name, table)}")
    for sentence in larger_noise_notes(model.certificate["plan"]):
        note(sentence)
    if request.get("literal"):
        note(f"Each leaf was counted by a statement of its own: {seconds:.1f} s in all.")
    note(f"Next:  dpsql predict {target.words} --model {shlex.quote(model.name)} --table NEW_ROWS")


def _note_large(budget: Budget, table: str, request: Mapping[str, Any]) -> None:
    """Warn of a large epsilon as the run itself does, or refuse one that nobody said is meant."""
    asked = TrainRequest.of(table, request)
    if budget.cap is not None:
        note_large("epsilon", asked.nano_epsilon, allow_large=asked.allow_large, table=table)


@contextmanager
def _shown_statements(*, verbose: bool) -> Iterator[None]:
    """Print the statements of single leaves to stderr as they run; without `verbose` print nothing."""
    if not verbose:
        yield
        return
    log, handler = logging.getLogger(LOGGER), logging.StreamHandler(sys.stderr)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)


def _print_sql(table: str, statement: str, *, as_json: bool) -> None:
    """Print the statement that would run on a table."""
    if as_json:
        print_json({"table": table, "sql": statement})
    else:
        say_exact(statement)


def _entries(certificate: Mapping[str, Any]) -> str:
    """Return which ledger entries paid, where a bought size has one of its own."""
    size = certificate.get("size")
    if not size:
        return ""
    if size["bought"] != FOR_THIS_RUN:
        return f"; its size was bought earlier, by entry {size['ledger_entry']}"
    return (
        f": {size['epsilon']} for the size (entry {size['ledger_entry']}), "
        f"the rest for training (entry {certificate['ledger_entry']})"
    )


def _loss(certificate: Mapping[str, Any]) -> str:
    """Return what a model cost, in words."""
    epsilon = f"epsilon {certificate['epsilon']}"
    return f"rho {certificate['rho']}: {epsilon}, delta {certificate['delta']}" if "rho" in certificate else epsilon
