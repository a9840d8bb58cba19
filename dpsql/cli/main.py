"""The `dpsql` command: finds the subcommand, turns errors into messages and exit codes.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 budget refused, 4 database out of reach.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType

import click

from dpsql import __version__
from dpsql.cli import (
    advise_commands,
    compare_commands,
    evaluate_commands,
    explain_commands,
    export_commands,
    label_commands,
    ledger_commands,
    model_commands,
    owner_commands,
    party_commands,
    register_commands,
    server_commands,
    start_commands,
    train_commands,
)
from dpsql.cli.bench_commands import bench
from dpsql.cli.output import note, report
from dpsql.errors import DpsqlError

_COMMANDS = (
    start_commands.demo,
    server_commands.init_command,
    server_commands.doctor,
    register_commands.register_command,
    owner_commands.schema_group,
    owner_commands.budget_command,
    owner_commands.add_ids,
    advise_commands.advise_command,
    train_commands.train_command,
    explain_commands.explain_command,
    party_commands.update_command,
    party_commands.party,
    model_commands.models,
    model_commands.show,
    label_commands.label_request_command,
    model_commands.predict,
    evaluate_commands.evaluate_command,
    compare_commands.compare_command,
    model_commands.sql,
    export_commands.export,
    model_commands.import_,
    ledger_commands.ledger,
    start_commands.shell,
    bench,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
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


for _command in _COMMANDS:
    app.add_command(_command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run_command_line(arguments))


def run_command_line(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        app.main(args=arguments, prog_name="dpsql", standalone_mode=False)
        sys.stdout.flush()
    except DpsqlError as error:
        report(error)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        note("Stopped.")
        return 1
    except BrokenPipeError:  # who read the output has gone, as in `dpsql ledger | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _report_bug(_kind: type[BaseException], _error: BaseException, _trace: TracebackType | None) -> None:
    """Say that something unexpected happened, without its class, its text or a traceback: they could tell of rows."""
    note("Error: something unexpected failed. This is a bug in dpsql.")
    note("Try:   run it again as dpsql --debug …, and report what it prints")
