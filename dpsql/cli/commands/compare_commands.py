"""The command that measures several models on the same rows: free on public rows, charged on private ones."""

from __future__ import annotations

import click

from dpsql.cli.command import command
from dpsql.cli.options import DatabaseTarget, as_json, database
from dpsql.cli.printing.output import budget_values, note, print_json, print_plan, print_table, say, show_progress
from dpsql.errors import UsageError
from dpsql.ledger import format_epsilon
from dpsql.runs.compare import Comparison, interval

_HEADINGS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "f1": "F1",
    "auc": "AUC",
    "log_loss": "log loss",
    "brier": "Brier score",
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
}


@command("compare")
@database
@click.option("--model", "models", required=True, multiple=True, help="A model's name; give two or more.")
@click.option("--table", required=True, help="A table with the label column: public, or private with --epsilon.")
@click.option("--epsilon", metavar="E", help="What the whole comparison on a private table may cost.")
@click.option("--request-id", metavar="ID", help="Ask twice under one id: the same figures, one charge.")
@click.option("--dry-run", is_flag=True, help="Show cost, noise and budget of a charged comparison; touch nothing.")
@as_json
def compare_command(
    target: DatabaseTarget,
    models: tuple[str, ...],
    table: str,
    epsilon: str | None,
    request_id: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Measure several models on the same rows, side by side.

    \b
    Example:
      dpsql compare --db data.duckdb --model adult_1 --model adult_2 --table adult_test
      dpsql compare --db data.duckdb --model adult_1 --model adult_2 --table adult --epsilon 0.5

    Free of charge on a public table. On a private registered table --epsilon is what all models cost TOGETHER, shared
    evenly; figures come from noisy counts, with intervals. All models are measured on the same rows: on the hold-out,
    where one of them was trained on the table and it has one.
    """
    if epsilon is None and (dry_run or request_id is not None):
        raise UsageError("a free comparison has no plan and no request id.", hint="--epsilon E, or leave them out")
    with target.open(writes=epsilon is not None and not dry_run) as db:
        if epsilon is not None:
            plan, payer = db.plan_comparison(models, table, epsilon=epsilon)
            if dry_run:
                print_plan(plan, db.budget(payer), db.spent_on(payer), as_json=as_json)
                return
            each, total = format_epsilon(plan.steps[0].nano_epsilon), format_epsilon(plan.nano_epsilon)
            note(f'{len(models)} models at epsilon {each} each: epsilon {total} in all, paid by "{payer}".')
        with show_progress(f"comparing on {table}"):
            comparison = db.compare(models, table, epsilon=epsilon, request_id=request_id)
        left = None if epsilon is None else db.budget(comparison.table)
    if as_json:
        print_json(comparison.to_dict() | ({} if left is None else {"budget": budget_values(left)}))
        return
    say(f"{_rows(comparison)} of {comparison.table}")
    print_table(None, ("model", *(_HEADINGS[name] for name in comparison.figures)), _lines(comparison))
    say("")
    for sentence in leader_sentences(comparison):
        say(sentence)
    if left is not None:
        budget = f'Budget of "{left.table}": {left.left_text} of {left.cap_text} left.'
        say(f"\nCharged epsilon {comparison.epsilon}. {budget}")


def _rows(comparison: Comparison) -> str:
    rows = [evaluation.rows for evaluation in comparison.evaluations]
    if comparison.epsilon is None:
        return f"{rows[0]} rows"
    return f"About {min(rows)} to {max(rows)} rows" if min(rows) < max(rows) else f"About {rows[0]} rows"


def _lines(comparison: Comparison) -> list[list[str]]:
    lines = []
    for evaluation in comparison.evaluations:
        values = [(getattr(evaluation, name), *interval(evaluation, name)) for name in comparison.figures]
        lines.append([evaluation.model, *(_cell(*value) for value in values)])
    return lines


def _cell(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or value != value:
        return "–"
    return f"{value:.4g}" if low is None or high is None else f"{value:.3f} ± {(high - low) / 2:.3f}"


def leader_sentences(comparison: Comparison) -> list[str]:
    """Return which model is best by which figures, and by which the best cannot be told apart."""
    figures: dict[tuple[str, ...], list[str]] = {}
    for name in comparison.figures:
        leaders = comparison.leaders(name)
        alone = leaders if len(leaders) < 2 else tuple(sorted(leaders))
        if leaders:
            figures.setdefault(alone, []).append(_HEADINGS[name])
    reason = "" if comparison.epsilon is None else ": their intervals meet, so noise and chance may decide"
    return [
        f"Best in {', '.join(names)}: {leaders[0]}."
        if len(leaders) == 1
        else f"Too near to tell in {', '.join(names)}: {', '.join(leaders)}{reason}."
        for leaders, names in figures.items()
    ]
