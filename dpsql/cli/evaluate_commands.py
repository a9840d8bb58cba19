"""The command that measures a model: free on public rows, charged on private ones."""

from __future__ import annotations

import click

from dpsql.cli.command import command
from dpsql.cli.options import DatabaseTarget, as_json, database
from dpsql.cli.output import budget_values, check_new, note, print_json, print_plan, print_table, say, show_progress
from dpsql.cli.written_files import new_place, overwrites
from dpsql.errors import UsageError
from dpsql.kernel.datasets.hold_out import without_suffix
from dpsql.models.evaluate import Evaluation, NumericEvaluation
from dpsql.models.plot import check_plot, reliability_plot
from dpsql.runs.private_evaluation import measured_table

_FIGURES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "f1": "F1 (mean of classes)",
    "auc": "AUC",
    "log_loss": "log loss",
    "brier": "Brier score",
    "calibration_error": "calibration error",
}


@command("evaluate")
@database
@click.option("--model", required=True, help="The model's name.")
@click.option("--table", required=True, help="A table with the label column: public, or private with --epsilon.")
@click.option("--epsilon", metavar="E", help="What an evaluation on a private registered table may cost.")
@click.option("--request-id", metavar="ID", help="Ask twice under one id: the same figures, one charge.")
@click.option("--dry-run", is_flag=True, help="Show cost, noise and budget of a charged evaluation; touch nothing.")
@click.option("--plot", metavar="FILE", help="Draw predicted against observed shares into a new .png, .svg or .pdf.")
@overwrites
@as_json
def evaluate_command(
    target: DatabaseTarget,
    model: str,
    table: str,
    epsilon: str | None,
    request_id: str | None,
    dry_run: bool,
    plot: str | None,
    as_json: bool,
) -> None:
    """Measure a model on a table: accuracy, AUC, calibration.

    \b
    Example:
      dpsql evaluate --db data.duckdb --model adult_1 --table adult_test
      dpsql evaluate --db data.duckdb --model adult_1 --table adult --epsilon 0.5

    The figures are accuracy, F1, AUC, log loss and calibration.

    Free of charge on a public table. On a private registered table --epsilon is charged, and all figures come from
    noisy counts, with intervals that hold them 95 times in 100. A model is measured on the hold-out of the table that
    it was trained on, where there is one.
    """
    if epsilon is None and (dry_run or request_id is not None):
        raise UsageError("a free evaluation has no plan and no request id.", hint="--epsilon E, or leave them out")
    if plot is not None:
        check_new(plot, "plot")
        with new_place(plot) as place:
            check_plot(place)
    with target.open(writes=epsilon is not None and not dry_run) as db:
        if dry_run:
            plan = db.plan_evaluation(model, table, epsilon=epsilon)
            payer = measured_table(db.engine, db.book, db.model(model), table)
            print_plan(plan, db.budget(payer), db.spent_on(payer), as_json=as_json)
            _note_hold_out(model, table, payer)
            return
        with show_progress(f"evaluating on {table}"):
            evaluation = db.evaluate(model, table, epsilon=epsilon, request_id=request_id)
        left = None if epsilon is None else db.budget(evaluation.table)
    if left is not None:
        _note_hold_out(model, table, left.table)
    if plot is not None:
        if isinstance(evaluation, NumericEvaluation):
            raise UsageError("a model that predicts a number has no probabilities to plot.", hint="leave out --plot")
        with new_place(plot) as place:
            reliability_plot(evaluation, place)
        note(f"Wrote {plot}.")
    if as_json:
        print_json(evaluation.to_dict() | ({} if left is None else {"budget": budget_values(left)}))
        return
    say(str(evaluation))
    if isinstance(evaluation, Evaluation):
        _print_figures(evaluation)
    if left is not None:
        budget = f'Budget of "{left.table}": {left.left_text} of {left.cap_text} left.'
        say(f"\nCharged epsilon {evaluation.epsilon}. {budget}")


def _note_hold_out(model: str, table: str, payer: str) -> None:
    """Say where a model is measured on the hold-out of the table that was named."""
    if without_suffix(payer) != payer and without_suffix(table) == table:
        note(f'"{model}" was trained on "{table}": it is measured on the hold-out, "{payer}", which pays.')


def _print_figures(measured: Evaluation) -> None:
    counts = measured.confusion.to_numpy().tolist()
    rows = [[true, *row] for true, row in zip(measured.confusion.index, counts, strict=True)]
    print_table(None, ("true class", *(f"predicted {name}" for name in measured.confusion.columns)), rows)
    say("")
    shown = [(label, _number(getattr(measured, name)), _interval(measured, name)) for name, label in _FIGURES.items()]
    shown += [
        (f"F1 of {name}", _number(value), _interval(measured, f"f1 of {name}"))
        for name, value in measured.class_f1.items()
    ]
    private = measured.epsilon is not None
    print_table(None, ("figure", "value", *(["95 % interval"] if private else [])), [r[: 2 + private] for r in shown])
    say("")
    columns = [str(name) for name in measured.reliability.columns]
    lines = [
        [str(int(value)) if name == "rows" else f"{value:.3f}" for name, value in zip(columns, line, strict=True)]
        for line in measured.reliability.to_numpy().tolist()
    ]
    print_table(None, columns, lines)


def _number(value: float | None) -> str:
    return "–" if value is None or value != value else f"{value:.4f}"


def _interval(measured: Evaluation, name: str) -> str:
    bounds = measured.intervals.get(name)
    return "" if bounds is None else f"{bounds[0]:.4f} to {bounds[1]:.4f}"
