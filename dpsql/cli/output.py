"""What commands print: tables and JSON on stdout, notes, progress and errors on stderr."""

from __future__ import annotations

import csv
import io
import json
import math
import shlex
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from dpsql.errors import BudgetExceeded, DpsqlError, ParameterError, UsageError
from dpsql.kernel.describe import larger_noise_notes, loss_text
from dpsql.kernel.plan import Plan
from dpsql.ledger import Budget, charge_measure, format_epsilon
from dpsql.ledger.budget import amount_text, left_of
from dpsql.ledger.spend import how_to_open
from dpsql.trees.strategies.optimize import KINDS, watch_search

#: Kinds of characters that could steer a terminal or cannot be printed: control, format, lone surrogate.
_UNPRINTABLE = ("Cc", "Cf", "Cs")


def clean(text: object) -> str:
    """Return text without control characters: a table's name must not be able to steer the terminal.

    >>> clean("a\\x1b[31mb")
    'a�[31mb'
    """
    return "".join(c if c in "\n\t" or unicodedata.category(c) not in _UNPRINTABLE else "�" for c in str(text))


def say(text: str) -> None:
    """Print a result to stdout."""
    click.echo(clean(text))


def note(text: str) -> None:
    """Print a remark to stderr."""
    click.echo(clean(text), err=True)


def say_exact(text: str) -> None:
    """Print text that is to be run or read again, such as SQL: unchanged, except on a terminal."""
    if sys.stdout.isatty():
        say(text)
    else:
        click.echo(text.encode("utf-8", "backslashreplace"))


def print_json(value: Any) -> None:
    """Print one JSON value to stdout and nothing else; characters that could steer a terminal are escaped."""
    click.echo(_json_text(value))


def _json_text(value: Any) -> str:
    text = json.dumps(_plain(value), indent=2, ensure_ascii=False, default=str, allow_nan=False)
    strange = {c for c in text if c != "\n" and unicodedata.category(c) in _UNPRINTABLE}
    return text.translate({ord(c): json.dumps(c)[1:-1] for c in strange})


def print_json_rows(chunks: Iterable[Sequence[Mapping[Any, Any]]]) -> None:
    """Print the rows of chunks as one JSON list, as `print_json` would, each chunk as it comes."""
    begun = False
    for rows in chunks:
        for row in rows:
            text = _json_text([row]).removeprefix("[\n").removesuffix("\n]")
            click.echo(f",\n{text}" if begun else f"[\n{text}", nl=False)
            begun = True
    click.echo("\n]" if begun else "[]")


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: NaN is null, an infinity is text."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def print_csv(columns: Sequence[str], rows: Sequence[Mapping[Any, Any]]) -> None:
    """Print rows as CSV to stdout."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    say_exact(buffer.getvalue().removesuffix("\n"))


def print_table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows as a table to stdout; nothing in a cell is taken for markup."""
    table = Table(title=Text(clean(title)) if title else None, title_justify="left", show_edge=False, pad_edge=False)
    for name in columns:
        table.add_column(Text(clean(name)), overflow="fold")
    for row in rows:
        table.add_row(*(Text("NULL" if cell is None else clean(cell)) for cell in row))
    Console(file=sys.stdout, soft_wrap=False, width=_width()).print(table)


def _not_overwritten(to: str, option: str) -> UsageError:
    return UsageError(f'"{to}" exists, and is not overwritten.', hint=f"another name behind --{option}, or remove it")


def check_new(to: str | None, option: str = "to") -> None:
    """Refuse the path of a file that exists, or whose folder does not."""
    try:
        exists = to is not None and Path(to).exists()
    except (OSError, ValueError):
        exists = False  # writing it will say why not
    if exists:
        raise _not_overwritten(str(to), option)
    if to is not None and not exists and not _is_in_folder(to):
        raise ParameterError(option, allowed="a file in a folder that exists", given=to)


def _is_in_folder(to: str) -> bool:
    """Whether the folder that a file is to be written to exists."""
    try:
        return Path(to).parent.is_dir()
    except (OSError, ValueError):
        return False


def write_new(to: str, text: str) -> None:
    """Write text to a new file, all of it or nothing."""
    created = False
    try:
        with Path(to).open("x", encoding="utf-8", newline="") as file:
            created = True
            file.write(text)
    except FileExistsError:
        raise _not_overwritten(to, "to") from None
    except OSError as error:
        if created:
            Path(to).unlink(missing_ok=True)
        raise ParameterError("to", allowed=f"a file that can be written ({error.strerror})", given=to) from None


@contextmanager
def show_progress(doing: str) -> Iterator[Callable[[str], None]]:
    """Show that something long is going on, on stderr and only on a terminal; what is given says how far it is."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda said: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(clean(doing), total=None)

        def draw_progress(kind: str) -> None:
            said = f"{clean(doing)}: looking for a strategy ({kind})"
            progress.update(task, description=said, total=len(KINDS), completed=KINDS.index(kind))

        with watch_search(draw_progress):
            yield lambda said: progress.update(task, description=clean(said))


def print_plan(plan: Plan, budget: Budget, before: int, *, as_json: bool) -> None:
    """Print a plan and what it would leave of a budget; raise BudgetExceeded when it would be refused."""
    after = before + plan.charge
    fits = budget.cap is None or after <= budget.cap
    described = plan.to_dict()
    if as_json:
        print_json({"plan": described, **plan.loss, "budget": budget_values(budget), "fits": fits})
    else:
        _print_steps(described, plan)
        say(f'\nBudget of "{budget.table}": {budget.text(before, up=True)} of {budget.cap_text} spent before.')
        say(f"After this run: {budget.text(after, up=True)} spent." if fits else "This run would be refused.")
        for sentence in larger_noise_notes(described):
            note(sentence)
        note("Nothing was read and nothing was charged.")
    if not fits:
        raise BudgetExceeded(
            f'table "{budget.table}"',
            needed=format_epsilon(plan.charge),
            left=amount_text(left_of(budget.cap, before)),
            cap=amount_text(budget.cap),
            measure=charge_measure(plan.kind),
            hint=f"dpsql ledger --table {shlex.quote(budget.table)}"
            if budget.cap
            else how_to_open(budget.table, plan.kind),
        )


def _print_steps(described: dict[str, Any], plan: Plan) -> None:
    say(f"Plan of {plan.method}: {loss_text(described, plan.nano_epsilon)} in all, {described['neighbours']}.")
    if not plan.private:
        say("NOT differentially private: the published variant has no proof.")
    spent = "epsilon" if plan.promise.approximate is None else "rho"
    columns = ("step", "asks for", spent, "noise scale", "scans", "values", "expected error")
    rows = [
        (
            shown["name"],
            shown["operation"],
            shown["epsilon"] if spent == "epsilon" else f"{shown['rho']:.4g}",
            f"{shown['noise_scale']:.4g}" if step.operation.answers else "–",
            shown["scans"],
            shown["values"],
            shown["expected_error"],
        )
        for shown, step in zip(described["steps"], plan.steps, strict=True)
    ]
    print_table(None, columns, rows)
    for shown in described["steps"]:
        say(f"{shown['name']}: {shown['note']}.")
    given = [f"{name} {value}" for name, value in plan.parameters.items() if value is not None]
    if given:
        say("Parameters: " + ", ".join(given))


def budget_values(budget: Budget) -> dict[str, Any]:
    """Return a budget as plain values."""
    amounts = {"cap": budget.cap, "spent": budget.spent, "left": budget.left}
    texts = {name: amount_text(amount) for name, amount in amounts.items()}
    return {"table": budget.table, "kind": budget.kind, **texts}


def report(error: DpsqlError) -> None:
    """Print an error and its next step to stderr."""
    click.echo(f"Error: {clean(error.message)}", err=True)
    if error.hint:
        click.echo(f"Try:   {clean(error.hint)}", err=True)


def _width() -> int | None:
    return None if sys.stdout.isatty() else 120
