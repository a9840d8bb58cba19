"""The `dpsql` command: finds the subcommand, turns errors into messages and exit codes.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 budget refused, 4 database out of reach, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType

import click

from dpsql import __version__
from dpsql.cli.command_list import SECTIONS, VARIABLES
from dpsql.cli.late_group import LateGroup
from dpsql.errors import DpsqlError, Interrupted


@click.group(
    cls=LateGroup,
    sections=SECTIONS,
    variables=VARIABLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="dpsql")
@click.option("--debug", is_flag=True, help="Show a traceback when something unexpected fails.")
def app(debug: bool) -> None:
    """Train differentially private decision forests inside your database.

    \b
    Example:
      dpsql demo
      dpsql register --db data.duckdb --table adult --schema adult.yml --cap 3
      dpsql train --db data.duckdb --table adult
    """
    if not debug:
        sys.excepthook = _report_bug


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run_command_line(arguments))


def run_command_line(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    as_json = "--json" in (sys.argv[1:] if arguments is None else arguments)
    _begin_output()
    try:
        app.main(args=arguments, prog_name="dpsql", standalone_mode=False)
        sys.stdout.flush()
    except DpsqlError as error:
        _report(error, as_json=as_json)
        return error.exit_code
    except click.ClickException as error:
        _report_usage(error, as_json=as_json)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as stop:
        interrupt = stop if isinstance(stop, KeyboardInterrupt) else stop.__cause__ or stop.__context__
        said = f"Stopped. {interrupt}" if isinstance(interrupt, Interrupted) else "Stopped."
        code = Interrupted.exit_code if isinstance(interrupt, KeyboardInterrupt) else 1
        _report_stop(said, code, as_json=as_json)
        return code
    except BrokenPipeError:  # who read the output has gone, as in `dpsql ledger | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _begin_output() -> None:
    """Forget what an earlier command of this process printed, if what prints is loaded at all."""
    output = sys.modules.get("dpsql.cli.printing.output")
    if output is not None:
        output.begin_output()


def _report(error: DpsqlError, *, as_json: bool) -> None:
    """Print an error and its next step; what prints is loaded when there is something to say."""
    from dpsql.cli.printing.output import report

    report(error, as_json=as_json)


def _report_usage(error: click.ClickException, *, as_json: bool) -> None:
    """Print what click says of a command line that it cannot read."""
    if not as_json:
        error.show()
        return
    from dpsql.cli.printing.output import report_usage

    report_usage(error)


def _report_stop(said: str, code: int, *, as_json: bool) -> None:
    """Say that a command was stopped, and what stays charged."""
    if not as_json:
        _note(said)
        return
    stopped = DpsqlError(said)
    stopped.exit_code = code
    _report(stopped, as_json=True)


def _note(text: str) -> None:
    """Print a remark to stderr."""
    from dpsql.cli.printing.output import note

    note(text)


def _report_bug(_kind: type[BaseException], _error: BaseException, _trace: TracebackType | None) -> None:
    """Say that something unexpected happened, without its class, its text or a traceback: they could tell of rows."""
    if "--json" in sys.argv:
        bug = DpsqlError("something unexpected failed. This is a bug in dpsql.", hint="dpsql --debug …, and report it")
        _report(bug, as_json=True)
        return
    _note("Error: something unexpected failed. This is a bug in dpsql.")
    _note("Try:   run it again as dpsql --debug …, and report what it prints")
