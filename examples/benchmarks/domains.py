"""The command `domains` of `python -m examples.benchmarks`: what bought domains hold, and what they cost in accuracy.

Each split registers nine tenths of a public table without a schema: bounds of numbers are bought, and of texts the
cells of a hash that are in use, or with a delta lists. The owner declares the classes alone. What is bought and what is
trained cost epsilon 1 together, and the same split is trained with the table's declared domains for epsilon 1.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import click
import pandas as pd
from rich.console import Console
from rich.table import Table as ShownTable

from dpsql import methods
from dpsql.api.database import connect
from dpsql.bench import show
from dpsql.errors import ParameterError, SchemaError, UsageError
from dpsql.ledger import parse_delta, parse_epsilon
from dpsql.ledger.amount import format_epsilon
from dpsql.owner.drafts.proposal import LEFT_OUT
from dpsql.schema import category_text, hashed_cell
from examples.benchmarks.folder import DATA_OPTION
from examples.benchmarks.results import Results, Row
from examples.benchmarks.splits import REAL, Table, create, halves, run_split, tables

#: What the purchase and the training cost together.
TOTAL = Decimal(1)
#: The form of domains that every purchase is compared with.
DECLARED = "declared"
HASHED, LISTED = "hashed", "listed"
COLUMNS = (
    "set", "form", "epsilon", "delta", "rows", "split", "accuracy", "inside", "least_inside", "listed", "least_listed",
    "hashed", "left_out",
)  # fmt: skip


@dataclass(frozen=True)
class Purchase:
    """How the domains of a table come to be known: declared, or bought with texts hashed or listed; epsilon as text.

    `delta` is empty but where lists are bought.
    """

    form: str
    epsilon: str = ""
    delta: str = ""


@dataclass(frozen=True)
class Coverage:
    """What bought domains hold of the rows they were bought on, as shares; None where no such domain was bought.

    `inside` is the mean over the numbers of the share of their rows within the bounds, `least_inside` that of the worst
    number, and `listed` and `least_listed` are the same of texts and lists, of values or of cells of a hash. `hashed`
    counts the columns that are hashed without a list, and `left_out` those that are no features.
    """

    inside: float | None
    least_inside: float | None
    listed: float | None
    least_listed: float | None
    hashed: int
    left_out: int


@dataclass(frozen=True)
class DomainsFigure:
    """The means of one table and purchase: shares and accuracy in %, and points that are lost or won by buying.

    `models` is the number of splits on which something was left to train on: accuracy is the mean over these.
    """

    set: str
    form: str
    epsilon: str
    splits: int
    inside: float | None
    least_inside: float | None
    listed: float | None
    least_listed: float | None
    hashed: float
    left_out: float
    models: int
    accuracy: float | None
    declared: float | None
    difference: float | None
    standard_error: float | None


@click.command()
@DATA_OPTION
@click.option("--sets", default=",".join(REAL), help="Tables, separated by commas; without it the 13 real ones.")
@click.option("--epsilon", "epsilons", default="0.05,0.1,0.5", show_default=True, help="What the purchase costs.")
@click.option("--delta", default="1e-6", show_default=True, help="Of purchases of lists of texts; none: buy no lists.")
@click.option("--splits", type=click.IntRange(1), default=5, show_default=True, help="Number of 90/10 splits.")
@click.option("--most-rows", type=click.IntRange(100), default=50_000, show_default=True,
              help="Of a larger table a sample of this many rows is taken.")  # fmt: skip
@click.option("--csv", "file", type=click.Path(path_type=Path, dir_okay=False), help="Keep every split here.")
@click.option("--no-run", is_flag=True, help="Run nothing: show what the CSV file has.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def domains(
    data: Path,
    sets: str,
    epsilons: str,
    delta: str,
    splits: int,
    most_rows: int,
    file: Path | None,
    no_run: bool,
    as_json: bool,
) -> None:
    """Buy the domains of public tables, and say what they hold and what they cost in accuracy.

    \b
    Example:
      python -m examples.benchmarks get-tables --sets adult,car
      python -m examples.benchmarks domains --sets adult,car --epsilon 0.1 --csv domains.csv

    Purchase and training cost epsilon 1 together; the declared domains are trained on for epsilon 1. Noise has no seed:
    figures differ a little each time. A run that was stopped goes on from its CSV file.
    """
    purchases = _purchases(epsilons, delta)
    available, missing = tables(data, sets.split(","))
    for name, why in missing.items():
        click.echo(f"{name} is skipped: {why}", err=True)
    if not available:
        raise UsageError("none of the tables can be had.", hint="--data FOLDER, or --sets syn5d")
    results = Results(file, COLUMNS)
    with Console(stderr=True).status("") as status:
        figures = measure_domains(
            [_sample(table, most_rows) for table in available],
            purchases,
            splits=splits,
            results=results,
            run=not no_run,
            progress=lambda what: status.update(what) if sys.stderr.isatty() else None,
        )
    if not figures:
        raise UsageError("there are no results to show.", hint="leave out --no-run")
    show.either({"figures": [asdict(figure) for figure in figures]}, domains_table(figures), as_json=as_json)


def _purchases(epsilons: str, delta: str) -> list[Purchase]:
    """Return all purchases to make, after the declared domains: hashed texts first, then lists at the delta."""
    costs = [format_epsilon(parse_epsilon(text, "epsilon")) for text in epsilons.split(",")]
    if any(Decimal(cost) >= TOTAL for cost in costs):
        raise ParameterError("epsilon", allowed=f"less than {TOTAL}: training needs the rest", given=epsilons)
    bought = [Purchase(HASHED, cost) for cost in costs]
    if delta != "none":
        parse_delta(delta)
        bought += [Purchase(LISTED, cost, delta) for cost in costs]
    return [Purchase(DECLARED), *bought]


def _sample(table: Table, most_rows: int) -> Table:
    """Return a table with at most this many rows, always the same ones."""
    if table.rows <= most_rows:
        return table
    frame = table.frame.sample(most_rows, random_state=0).reset_index(drop=True)
    return Table(table.name, table.schema, frame, table.null_columns)


def measure_domains(
    all_tables: Iterable[Table],
    purchases: Sequence[Purchase],
    *,
    splits: int,
    results: Results,
    run: bool = True,
    progress: Callable[[str], None] = lambda what: None,
) -> list[DomainsFigure]:
    """Return a figure for each table and purchase; splits that `results` has are not run again.

    A table is asked for what `fitting` says.
    """
    figures = []
    for table in all_tables:
        wanted = fitting(purchases, table)
        for split in range(splits if run else 0):
            for purchase in wanted:
                key = _key(table, purchase, split)
                if results.find(key) is None:
                    progress(f"{table.name} split {split}: {purchase.form} {purchase.epsilon}")
                    accuracy, coverage = _run(table, purchase, split)
                    outcome = {"accuracy": accuracy, **({} if coverage is None else asdict(coverage))}
                    results.add({**key, **{name: value for name, value in outcome.items() if value is not None}})
        declared = _rows(results, table, Purchase(DECLARED), splits)
        for purchase in wanted:
            rows = _rows(results, table, purchase, splits)
            if purchase.form != DECLARED and rows:
                figures.append(summarize(table.name, purchase, rows, declared))
    return figures


def fitting(purchases: Sequence[Purchase], table: Table) -> list[Purchase]:
    """Return the purchases that make sense for a table: lists where it has texts."""
    has_texts = bool(text_columns(table))
    return [purchase for purchase in purchases if purchase.form != LISTED or has_texts]


def _key(table: Table, purchase: Purchase, split: int) -> dict[str, object]:
    return {"set": table.name, **asdict(purchase), "rows": table.rows, "split": split}


def _rows(results: Results, table: Table, purchase: Purchase, splits: int) -> dict[int, Row]:
    rows = {split: results.find(_key(table, purchase, split)) for split in range(splits)}
    return {split: row for split, row in rows.items() if row is not None}


def _run(table: Table, purchase: Purchase, split: int) -> tuple[float | None, Coverage | None]:
    if purchase.form == DECLARED:
        return run_split(table, split, method=methods.DEFAULT, epsilon=str(TOTAL), parameters={}).accuracy, None
    return run_purchase(table, purchase, split)


def run_purchase(table: Table, purchase: Purchase, split: int) -> tuple[float | None, Coverage]:
    """Buy the domains of nine tenths of a table, train for what is left of epsilon 1, and evaluate on the tenth.

    A purchase with a delta has a budget of its own kind; without one it is a part of the cap of 1. There is no accuracy
    where noise hides all columns, so that dpsql has nothing to train on and says so.
    """
    train, test = (part[[*table.schema["features"], table.schema["label"]]] for part in halves(table, split))
    rest = TOTAL - Decimal(purchase.epsilon)
    cap = TOTAL if purchase.form == HASHED else rest
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "split.duckdb"
        create(path, train=train)
        with connect(path) as db:
            try:
                bought = db.buy_schema(
                    "train",
                    cap=str(cap),
                    buy=purchase.epsilon,
                    delta=purchase.delta or None,
                    label=table.schema["label"],
                    classes=table.schema["classes"],
                )
            except SchemaError as error:
                if "no column is left" not in str(error):
                    raise
                return None, coverage_of(train, {}, left_out=len(table.schema["features"]))
            seed: dict[str, Any] = {"seed": split} if "seed" in methods.get(methods.DEFAULT).parameters else {}
            model = db.train("train", epsilon=str(rest), **seed)
            accuracy = db.evaluate(model, test).accuracy
    features = bought.dataset.schema.to_dict()["features"]
    left_out = [proposal for proposal in bought.draft.proposals if proposal.role == LEFT_OUT]
    return accuracy, coverage_of(train, features, left_out=len(left_out))


def coverage_of(frame: pd.DataFrame, features: Mapping[str, Mapping[str, Any]], *, left_out: int = 0) -> Coverage:
    """Return what some features' domains hold of the cells of a frame that are not missing.

    >>> features = {"x": {"type": "numeric", "lower": 0, "upper": 2}, "t": {"type": "categorical", "values": ["a"]}}
    >>> coverage = coverage_of(pd.DataFrame({"x": [1, 2, 3, None], "t": ["a", "b", "a", "a"]}), features)
    >>> round(coverage.inside, 2), coverage.listed
    (0.67, 0.75)
    """
    inside, listed, hashed = [], [], 0
    for name, feature in features.items():
        cells = frame[name].dropna()
        if feature["type"] == "numeric":
            inside.append(float(cells.astype(float).between(feature["lower"], feature["upper"]).mean()))
        elif feature["type"] == "categorical":
            listed.append(float(cells.map(category_text).isin(set(feature["values"])).mean()))
        elif "listed" in feature:
            numbers = cells.map(lambda cell, hash_cells=feature["cells"]: hashed_cell(cell, hash_cells))
            listed.append(float(numbers.isin(set(feature["listed"])).mean()))
        else:
            hashed += 1
    return Coverage(*_mean_and_least(inside), *_mean_and_least(listed), hashed, left_out)


def _mean_and_least(shares: Sequence[float]) -> tuple[float | None, float | None]:
    return (fmean(shares), min(shares)) if shares else (None, None)


def text_columns(table: Table) -> list[str]:
    """Return the features of a table that are stored as texts."""
    frame = table.frame
    return [name for name in table.schema["features"] if not pd.api.types.is_numeric_dtype(frame[name].dtype)]


def summarize(name: str, purchase: Purchase, rows: Mapping[int, Row], declared: Mapping[int, Row]) -> DomainsFigure:
    """Return the means over the splits of a purchase, and its difference to declared domains on the same splits."""
    own, other = _accuracies(rows), _accuracies(declared)
    both = [split for split in own if split in other]
    differences = [own[split] - other[split] for split in both]
    spread = stdev(differences) / len(differences) ** 0.5 if len(differences) > 1 else None
    return DomainsFigure(
        set=name,
        form=purchase.form,
        epsilon=purchase.epsilon,
        splits=len(rows),
        **{share: _percent(rows, share) for share in ("inside", "least_inside", "listed", "least_listed")},
        hashed=fmean(float(row["hashed"]) for row in rows.values()),
        left_out=fmean(float(row["left_out"]) for row in rows.values()),
        models=len(own),
        accuracy=fmean(own.values()) if own else None,
        declared=fmean(other.values()) if other else None,
        difference=fmean(differences) if differences else None,
        standard_error=spread,
    )


def _accuracies(rows: Mapping[int, Row]) -> dict[int, float]:
    return {split: 100 * float(row["accuracy"]) for split, row in rows.items() if row["accuracy"]}


def _percent(rows: Mapping[int, Row], share: str) -> float | None:
    """Return the mean of a share over splits, in %; the least over them where it is the share of the worst column."""
    shares = [100 * float(row[share]) for row in rows.values() if row[share]]
    if not shares:
        return None
    return min(shares) if share.startswith("least") else fmean(shares)


def domains_table(figures: Sequence[DomainsFigure]) -> ShownTable:
    """Return the figures as a table."""
    shown = ShownTable(title="Domains bought: % of rows that they hold, accuracy in % at epsilon 1 in all")
    headings = ("set", "texts", "bought for", "splits", "inside", "least", "listed", "least", "hashed", "left out")
    for heading in (*headings, "models", "bought", "declared", "points", "±"):
        shown.add_column(heading, justify="left" if heading in ("set", "texts") else "right")
    for figure in figures:
        shares = (figure.inside, figure.least_inside, figure.listed, figure.least_listed, figure.hashed)
        shown.add_row(
            figure.set,
            figure.form,
            figure.epsilon,
            str(figure.splits),
            *(show.number_text(share, places=1) for share in (*shares, figure.left_out)),
            str(figure.models),
            show.number_text(figure.accuracy, places=1),
            show.number_text(figure.declared, places=1),
            "" if figure.difference is None else f"{figure.difference:+.1f}",
            show.number_text(figure.standard_error, places=1),
        )
    return shown
