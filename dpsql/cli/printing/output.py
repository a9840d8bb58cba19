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
from shutil import get_terminal_size
from typing import Any

import click
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar
from rich.table import Table
from rich.text import Text

from dpsql.cli.printing.json_values import error_values, plain_numbers
from dpsql.cli.printing.table_width import hidden_columns
from dpsql.cli.written_files import may_overwrite, new_place, overwrite_hint
from dpsql.errors import BudgetExceeded, DpsqlError, ParameterError, UsageError
from dpsql.kernel.describe import larger_noise_notes, loss_text
from dpsql.kernel.plan import Plan, Step
from dpsql.kernel.progress import Progress, watch_progress
from dpsql.ledger import Budget, charge_measure, format_epsilon
from dpsql.ledger.budget import amount_text, left_of
from dpsql.ledger.spend import how_to_open

#: The width of a table that no terminal shows, in characters: more than any line has.
_UNLIMITED = 100_000
#: The lines of a terminal: not used by a table, but without them the width of a plain terminal is taken for 80.
_HEIGHT = 25
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


def readable_time(stored: str) -> str:
    """Return a stored time as people read it, to the minute; it is in UTC.

    >>> readable_time("2026-11-17T23:43:53.663272+00:00")
    '2026-11-17 23:43'
    """
    return stored[:16].replace("T", " ")


def say_exact(text: str) -> None:
    """Print text that is to be run or read again, such as SQL: unchanged, except on a terminal."""
    if sys.stdout.isatty():
        say(text)
    else:
        click.echo(text.encode("utf-8", "backslashreplace"))


def print_json(value: Any, *, rows_of_users: bool = False) -> None:
    """Print one JSON value to stdout and nothing else; characters that could steer a terminal are escaped.

    Amounts are numbers, with their exact texts beside them (`json_values.py`); `rows_of_users` stay as they are.
    """
    click.echo(_json_text(value if rows_of_users else plain_numbers(value)))
    _Stdout.has_value = True


def print_json_rows(chunks: Iterable[Sequence[Mapping[Any, Any]]]) -> None:
    """Print the rows of chunks, which are a user's own, as one JSON list, each chunk as it comes."""
    begun = False
    for rows in chunks:
        for row in rows:
            text = _json_text([row]).removeprefix("[\n").removesuffix("\n]")
            click.echo(f",\n{text}" if begun else f"[\n{text}", nl=False)
            begun = _Stdout.has_value = True
    click.echo("\n]" if begun else "[]")
    _Stdout.has_value = True


def _json_text(value: Any) -> str:
    text = json.dumps(_plain(value), indent=2, ensure_ascii=False, default=str, allow_nan=False)
    strange = {c for c in text if c != "\n" and unicodedata.category(c) in _UNPRINTABLE}
    return text.translate({ord(c): json.dumps(c)[1:-1] for c in strange})


class _Stdout:
    """What was printed by the command that runs: --json prints one value, and an error that follows it is no second."""

    has_value = False


def begin_output() -> None:
    """Say that a command begins: nothing was printed yet."""
    _Stdout.has_value = False


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


def print_table(
    title: str | None,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    less: Sequence[str] = (),
    width: int | None = None,
) -> None:
    """Print rows as a table to stdout; nothing in a cell is taken for markup.

    On a terminal that is too narrow columns are left out, those of `less` first, and a note says which. Where the
    output goes elsewhere nothing is cut. With a `width` of its own the table has room for all of its columns.
    """
    cells = [["NULL" if cell is None else clean(cell) for cell in row] for row in rows]
    names = [clean(name) for name in columns]
    hidden = [] if width is not None else _hidden(names, cells, less)
    table = Table(title=Text(clean(title)) if title else None, title_justify="left", show_edge=False, pad_edge=False)
    shown = [place for place, name in enumerate(names) if name not in hidden]
    for place in shown:
        table.add_column(Text(names[place]), overflow="fold")
    for row in cells:
        table.add_row(*(Text(row[place]) for place in shown))
    Console(file=sys.stdout, soft_wrap=False, width=width or _width(), height=_HEIGHT).print(table)
    if hidden:
        note(f"Hidden: {', '.join(hidden)} (a wider terminal or --json shows them).")


def _hidden(names: Sequence[str], cells: Sequence[Sequence[str]], less: Sequence[str]) -> list[str]:
    """Return the columns that have no room on this terminal."""
    if not sys.stdout.isatty():
        return []
    columns = [[name, *(row[place] for row in cells)] for place, name in enumerate(names)]
    widths = {column[0]: max(cell_len(line) for cell in column for line in cell.split("\n")) for column in columns}
    return hidden_columns(widths, _width(), less)


def _not_overwritten(to: str, option: str) -> UsageError:
    return UsageError(f'"{to}" exists, and is not overwritten.', hint=overwrite_hint(option))


def check_new(to: str | None, option: str = "to") -> None:
    """Refuse the path of a file that exists, unless --force may overwrite it, or whose folder does not."""
    try:
        exists = to is not None and Path(to).exists()
    except (OSError, ValueError):
        exists = False  # writing it will say why not
    if exists and not may_overwrite(Path(str(to))):
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
    """Write text to a new file, or with --force in place of another, all of it or nothing."""
    place, created = Path(to), False
    try:
        with new_place(to) as place, place.open("x", encoding="utf-8", newline="") as file:
            created = True
            file.write(text)
    except FileExistsError:
        raise _not_overwritten(to, "to") from None
    except OSError as error:
        if created:
            place.unlink(missing_ok=True)
        raise ParameterError("to", allowed=f"a file that can be written ({error.strerror})", given=to) from None


@contextmanager
def show_progress(doing: str) -> Iterator[Callable[[str], None]]:
    """Show how far something long is, on stderr and only on a terminal: the step of the plan, the share, the time.

    What has no plan says how far it is by calling what it is given.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda said: None
        return
    doing_column = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), doing_column, BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with ProgressBar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(clean(doing), total=None)

        def draw_progress(progress: Progress) -> None:
            total = None if progress.steps == 1 else 1  # the bar of a single step says only that it goes on
            said = clean(f"{doing}: {progress}")
            bar.update(task, description=said, total=total, completed=progress.share, refresh=True)

        with watch_progress(draw_progress):
            yield lambda said: bar.update(task, description=clean(said))


def print_plan(
    plan: Plan, budget: Budget, before: int, *, as_json: bool, by_size: Sequence[tuple[int, Plan]] = ()
) -> None:
    """Print a plan and what it would leave of a budget; raise BudgetExceeded when it would be refused.

    `by_size` has the plans that would follow after a size is bought, for several sizes.
    """
    after = before + plan.charge
    fits = budget.cap is None or after <= budget.cap
    described = plan.to_dict()
    if as_json:
        after_size = [{"rows": rows, "plan": of_size.to_dict()} for rows, of_size in by_size]
        more = {"by_size": after_size} if after_size else {}
        print_json({"plan": described, **plan.loss, "budget": budget_values(budget), "fits": fits, **more})
    else:
        _print_steps(described, plan)
        _print_by_size(by_size)
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
    print_table(None, columns, rows, less=("scans", "values", "asks for", "expected error"))
    for shown in described["steps"]:
        say(f"{shown['name']}: {shown['note']}.")
    given = [f"{name} {value}" for name, value in plan.parameters.items() if value is not None]
    if given:
        say("Parameters: " + ", ".join(given))


def _print_by_size(by_size: Sequence[tuple[int, Plan]]) -> None:
    """Print the steps that would follow, a column for each size: their epsilon, and the noise scale of counts."""
    if not by_size:
        return
    most = max((plan for _, plan in by_size), key=lambda plan: len(plan.steps))
    others = (step.name for _, plan in by_size for step in plan.steps)
    names = dict.fromkeys([*(step.name for step in most.steps), *others])
    of_size = [({step.name: step for step in plan.steps}, plan) for _, plan in by_size]
    depths = [plan.parameters.get("planned_depth") for _, plan in by_size]
    rows: list[list[object]] = [["depth of trees", *depths]] if None not in depths else []
    for name in names:
        rows.append([name, *(_cost_text(steps[name], plan) if name in steps else "–" for steps, plan in of_size)])
    say("\nThe size decides what follows. Epsilon of each step (noise scale), if it turns out to be about")
    print_table(None, ["step", *(f"{size} rows" for size, _ in by_size)], rows)


def _cost_text(step: Step, plan: Plan) -> str:
    epsilon = format_epsilon(step.nano_epsilon)
    scale = float(step.scale(plan.promise))
    return f"{float(epsilon):.3g} ({scale:.4g})" if step.operation.answers and scale else f"{float(epsilon):.3g}"


def budget_values(budget: Budget) -> dict[str, Any]:
    """Return a budget as plain values."""
    amounts = {"cap": budget.cap, "spent": budget.spent, "left": budget.left}
    texts = {name: amount_text(amount) for name, amount in amounts.items()}
    return {"table": budget.table, "kind": budget.kind, **texts}


def report(error: DpsqlError, *, as_json: bool = False) -> None:
    """Print an error and its next step to stderr; with `as_json` to stdout, unless there is a value already."""
    if as_json and not _Stdout.has_value:
        print_json(error_values(error), rows_of_users=True)
        return
    click.echo(f"Error: {clean(error.message)}", err=True)
    if error.hint:
        click.echo(f"Try:   {clean(error.hint)}", err=True)


def report_usage(error: click.ClickException) -> None:
    """Print what click says of a command line that it cannot read as JSON, unless there is a value already."""
    if _Stdout.has_value:
        error.show()
        return
    context = getattr(error, "ctx", None)
    hint = None if context is None else f"{context.command_path} --help"
    refused = UsageError(clean(error.format_message()), hint=hint)
    refused.exit_code = error.exit_code
    report(refused, as_json=True)


def _width() -> int:
    """Return the width of the terminal; what goes elsewhere is as wide as it is."""
    return get_terminal_size().columns if sys.stdout.isatty() else _UNLIMITED
