"""The command that measures a model: free on public rows, charged on private ones."""

from __future__ import annotations

import shlex

import click

from dpsql.cli.class_numbers import numbers_of_classes
from dpsql.cli.command import command
from dpsql.cli.options import DatabaseTarget, as_json, database
from dpsql.cli.printing.evaluation_lines import cheapest_text, print_curve
from dpsql.cli.printing.output import (
    budget_values,
    check_new,
    note,
    print_json,
    print_plan,
    print_table,
    say,
    show_progress,
)
from dpsql.cli.written_files import new_place, overwrites
from dpsql.errors import UsageError
from dpsql.kernel.datasets.hold_out import without_suffix
from dpsql.models.evaluate import Evaluation, NumericEvaluation, costs_of_classes
from dpsql.models.plot import check_curves, check_plot, curve_plot, reliability_plot
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
#: The figures of each class.
_BY_CLASS = {"precision": "precision", "recall": "recall", "f1": "F1"}


@command("evaluate")
@database
@click.option("--model", "models", required=True, multiple=True, help="The model's name.")
@click.option("--table", required=True, help="A table with the label column: public, or private with --epsilon.")
@click.option("--epsilon", metavar="E", help="What an evaluation on a private registered table may cost.")
@click.option("--request-id", metavar="ID", help="Ask twice under one id: the same figures, one charge.")
@click.option("--dry-run", is_flag=True, help="Show cost, noise and budget of a charged evaluation; touch nothing.")
@click.option("--plot", metavar="FILE", help="Draw predicted against observed shares into a new .png, .svg or .pdf.")
@overwrites
@click.option(
    "--cost",
    metavar="CLASS=COST",
    multiple=True,
    help="What a row of the class costs when it is named otherwise: find the cheapest threshold.",
)
@click.option("--curve", is_flag=True, help="Show recall, precision and lift at thresholds from 0 to 1.")
@click.option("--plot-curves", metavar="FILE", help="Draw the ROC and precision-recall curves into a new file.")
@as_json
def evaluate_command(
    target: DatabaseTarget,
    models: tuple[str, ...],
    table: str,
    epsilon: str | None,
    request_id: str | None,
    dry_run: bool,
    plot: str | None,
    cost: tuple[str, ...],
    curve: bool,
    plot_curves: str | None,
    as_json: bool,
) -> None:
    """Measure a model on a table: accuracy, AUC, calibration.

    \b
    Example:
      dpsql evaluate --db data.duckdb --model adult_1 --table adult_test
      dpsql evaluate --db data.duckdb --model adult_1 --table adult --epsilon 0.5
      dpsql evaluate --db data.duckdb --model adult_1 --table adult_test --cost ">50K=5"

    The figures are accuracy, precision, recall, F1, AUC, log loss, calibration, and what a mistake costs.

    Free of charge on a public table. On a private registered table --epsilon is charged, and all figures come from
    noisy counts, with intervals that hold them 95 times in 100. A model is measured on the hold-out of the table that
    it was trained on, where there is one. Several models: dpsql compare.
    """
    model = _only_model(target, models, table)
    if epsilon is None and (dry_run or request_id is not None):
        raise UsageError("a free evaluation has no plan and no request id.", hint="--epsilon E, or leave them out")
    costs = numbers_of_classes("cost", cost, allowed="CLASS=COST with a number, as in yes=5") if cost else None
    for option, path in (("plot", plot), ("plot-curves", plot_curves)):
        if path is not None:
            check_new(path, option)
            with new_place(path) as place:
                check_plot(place)
    with target.open(writes=epsilon is not None and not dry_run) as db:
        classes = db.model(model).classes
        if classes and costs is not None:
            costs_of_classes(classes, costs)
        if classes and plot_curves is not None:
            check_curves(len(classes), private=epsilon is not None)
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
    if isinstance(evaluation, NumericEvaluation) and (plot or plot_curves or costs or curve):
        raise UsageError(
            "a model that predicts a number has no probabilities.",
            hint="leave out --plot, --plot-curves, --curve and --cost",
        )
    for draw, picture in ((reliability_plot, plot), (curve_plot, plot_curves)):
        if picture is not None:
            with new_place(picture) as place:
                draw(evaluation, place)
            note(f"Wrote {picture}.")
    best = None if costs is None else evaluation.cheapest(costs)
    if as_json:
        own = {} if left is None else {"budget": budget_values(left)}
        print_json(evaluation.to_dict() | ({} if best is None else {"cheapest": best.to_dict()}) | own)
        return
    say(str(evaluation))
    if isinstance(evaluation, Evaluation):
        _print_figures(evaluation)
        if curve:
            print_curve(evaluation)
    if best is not None:
        say(f"\n{cheapest_text(best)}")
        if 0 < best.threshold <= 1:
            words = f"{best.label}={best.threshold:.4g}"
            note(f"Next:  dpsql predict {target.words} {_words(model, 'NEW_ROWS')} --threshold {shlex.quote(words)}")
    if left is not None:
        budget = f'Budget of "{left.table}": {left.left_text} of {left.cap_text} left.'
        say(f"\nCharged epsilon {evaluation.epsilon}. {budget}")


def _only_model(target: DatabaseTarget, models: tuple[str, ...], table: str) -> str:
    """Return the one model that was named; several are another command."""
    if len(models) > 1:
        named = " ".join(f"--model {shlex.quote(name)}" for name in models)
        raise UsageError(
            f"evaluate measures one model, and {len(models)} were named.",
            hint=f"dpsql compare {target.words} {named} --table {shlex.quote(table)}",
        )
    return models[0]


def _words(model: str, table: str) -> str:
    return f"--model {shlex.quote(model)} --table {shlex.quote(table)}"


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
    for name in measured.class_f1:
        for what, heading in _BY_CLASS.items():
            value = getattr(measured, f"class_{what}")[name]
            shown.append((f"{heading} of {name}", _number(value), _interval(measured, f"{what} of {name}")))
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
