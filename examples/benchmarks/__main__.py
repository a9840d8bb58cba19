"""The command `python -m examples.benchmarks`: accuracy on public tables, beside papers and other libraries."""

from __future__ import annotations

import click

from dpsql.bench.__main__ import StandaloneGroup
from examples.benchmarks.accuracy_commands import accuracy, peers
from examples.benchmarks.domains import domains
from examples.benchmarks.get_tables import get_tables
from examples.benchmarks.matrix_commands import matrix
from examples.benchmarks.objectives import objectives
from examples.benchmarks.readers import readers
from examples.benchmarks.width import width


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, cls=StandaloneGroup)
def main() -> None:
    """Measure methods on public tables. Figures are reported, not judged: the exit code is 0 whatever they are."""


for _command in (get_tables, accuracy, peers, matrix, width, domains, objectives, readers):
    main.add_command(_command)

if __name__ == "__main__":
    main(prog_name="python -m examples.benchmarks")
