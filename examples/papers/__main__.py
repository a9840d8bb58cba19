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
from examples.papers.experiment import Experiment, RunSettings


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
        subparser = commands.add_parser(word, help=text)
        subparser.set_defaults(command=command)
        subparser.add_argument("names", nargs="+", metavar="NAME", help="an experiment, a paper, or all")
        subparser.add_argument("--results", type=Path, default=Path("results"), help="folder of CSV files and pictures")
        subparser.add_argument("--short", action="store_true", help="a run of seconds: few rows, few cells, one split")
        if word == "run":
            subparser.add_argument("--data", type=Path, default=data_folder(), help="folder of Parquet files")
            subparser.add_argument("--splits", type=_positive, default=10, help="90/10 splits of each cell [10]")
            subparser.add_argument("--jobs", type=_positive, default=1, help="processes [1]")
    return options


def list_all(given: argparse.Namespace) -> None:
    """Print one line for each experiment."""
    for experiment in catalogue.EXPERIMENTS.values():
        print(f"{experiment.name:20} {experiment.paper}, {experiment.place}: {experiment.title}")


def run(given: argparse.Namespace) -> None:
    """Run what is missing and say where the results are."""
    settings = RunSettings(given.data, given.results, given.splits, given.short)
    for experiment in catalogue.find_experiments(given.names):
        done = runner.run(experiment, settings, jobs=given.jobs)
        print(f"{experiment.name}: {done} cells run, results in {settings.file(experiment, 'csv')}")


def show(given: argparse.Namespace) -> None:
    """Print results, ours beside the paper's."""
    for experiment, rows, _ in _experiments_with_results(given):
        showing.show(experiment, rows)


def plot(given: argparse.Namespace) -> None:
    """Draw results into PNG files."""
    for experiment, rows, settings in _experiments_with_results(given):
        file = settings.file(experiment, "png")
        plots.draw(experiment, rows, file)
        print(f"{experiment.name}: {file}")


def _experiments_with_results(given: argparse.Namespace) -> list[tuple[Experiment, list[dict[str, str]], RunSettings]]:
    """Return the named experiments that have results, with their rows; refuse when there is none at all."""
    settings = RunSettings(Path(), given.results, short=given.short)
    experiments = catalogue.find_experiments(given.names)
    ready = [experiment for experiment in experiments if settings.file(experiment, "csv").exists()]
    for experiment in experiments:
        if experiment not in ready:
            print(f"{experiment.name}: not run yet", file=sys.stderr)
    if not ready:
        raise UsageError(f'there are no results in "{given.results}".', hint="python -m examples.papers run NAME")
    return [(experiment, runner.results_of(experiment, settings).rows, settings) for experiment in ready]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("a whole number from 1 is needed")
    return number


if __name__ == "__main__":
    sys.exit(main())
