"""Runs the papers' experiments again, through dpsql, and sets our figures beside theirs.

python -m examples.papers list
python -m examples.papers run rdt-updates --results results --splits 10
python -m examples.papers show rdt-updates --results results
python -m examples.papers plot rdt-updates --results results

NAME is an experiment, a paper (jagannathan_2012, ...) or `all`. A run can be stopped at any moment: what is in its CSV
file is not run again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dpsql import DpsqlError, UsageError
from examples.benchmarks.folder import data_folder
from examples.papers import catalogue, plots, runner, showing
from examples.papers.experiment import Asked, Experiment


def main(words: list[str] | None = None) -> int:
    """Carry out one command and return its exit code."""
    given = parser().parse_args(words)
    try:
        return int(given.command(given) or 0)
    except DpsqlError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("Stopped. The same command goes on from here.", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """Return the commands and their options."""
    options = argparse.ArgumentParser(
        prog="python -m examples.papers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = options.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("list", help="name the experiments").set_defaults(command=list_all)
    asks = {"run": (run, "run what is missing"), "show": (show, "print results"), "plot": (plot, "draw results")}
    for word, (command, text) in asks.items():
        one = commands.add_parser(word, help=text)
        one.set_defaults(command=command)
        one.add_argument("names", nargs="+", metavar="NAME", help="an experiment, a paper, or all")
        one.add_argument("--results", type=Path, default=Path("results"), help="folder of CSV files and pictures")
        one.add_argument("--short", action="store_true", help="a run of seconds: few rows, few cells, one split")
        if word == "run":
            one.add_argument("--data", type=Path, default=data_folder(), help="folder of Parquet files")
            one.add_argument("--splits", type=_positive, default=10, help="90/10 splits of each cell [10]")
            one.add_argument("--jobs", type=_positive, default=1, help="processes [1]")
    return options


def list_all(given: argparse.Namespace) -> None:
    """Print one line for each experiment."""
    for one in catalogue.EXPERIMENTS.values():
        print(f"{one.name:20} {one.paper}, {one.place}: {one.title}")


def run(given: argparse.Namespace) -> None:
    """Run what is missing and say where the results are."""
    asked = Asked(given.data, given.results, given.splits, given.short)
    for one in catalogue.named(given.names):
        done = runner.run(one, asked, jobs=given.jobs)
        print(f"{one.name}: {done} cells run, results in {asked.file(one, 'csv')}")


def show(given: argparse.Namespace) -> None:
    """Print results, ours beside the paper's."""
    for one, rows, _ in _found(given):
        showing.show(one, rows)


def plot(given: argparse.Namespace) -> None:
    """Draw results into PNG files."""
    for one, rows, asked in _found(given):
        file = asked.file(one, "png")
        plots.draw(one, rows, file)
        print(f"{one.name}: {file}")


def _found(given: argparse.Namespace) -> list[tuple[Experiment, list[dict[str, str]], Asked]]:
    """Return the named experiments that have results, with their rows; refuse when there is none at all."""
    asked = Asked(Path(), given.results, short=given.short)
    named = catalogue.named(given.names)
    ready = [one for one in named if asked.file(one, "csv").exists()]
    for one in named:
        if one not in ready:
            print(f"{one.name}: not run yet", file=sys.stderr)
    if not ready:
        raise UsageError(f'there are no results in "{given.results}".', hint="python -m examples.papers run NAME")
    return [(one, runner.results_of(one, asked).rows, asked) for one in ready]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("a whole number from 1 is needed")
    return number


if __name__ == "__main__":
    sys.exit(main())
