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
    advising,
    analyst,
    batching,
    books,
    explaining,
    exporting,
    measuring,
    owner,
    parties,
    scoring,
    servers,
    start,
)
from dpsql.cli.bench import bench
from dpsql.cli.output import note, report
from dpsql.errors import DpsqlError

_COMMANDS = (
    start.demo,
    servers.init,
    servers.doctor,
    owner.register,
    owner.schema,
    owner.budget,
    owner.add_ids,
    advising.advise,
    analyst.train,
    explaining.explain,
    parties.update,
    parties.party,
    scoring.models,
    scoring.show,
    batching.structure,
    scoring.predict,
    measuring.evaluate,
    scoring.sql,
    exporting.export,
    scoring.import_,
    books.ledger,
    start.shell,
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
        sys.excepthook = _short


for _command in _COMMANDS:
    app.add_command(_command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
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


def _short(_kind: type[BaseException], _error: BaseException, _trace: TracebackType | None) -> None:
    """Say that something unexpected happened, without its class, its text or a traceback: they could tell of rows."""
    note("Error: something unexpected failed. This is a bug in dpsql.")
    note("Try:   run it again as dpsql --debug …, and report what it prints")
