"""Measures what it costs to start dpsql, as a multiple of an interpreter that imports click and rich and nothing else.

Each start is a process of its own. Its CPU time is the user's and the system's together; all starts take turns, and
the least of several rounds counts, so that what else the machine does hits all alike.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

BASE = "import click, rich"
#: What a user waits for before anything is done: words behind `python`, and what a shell sets for completion.
STARTS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "import dpsql": (("-c", "import dpsql"), {}),
    "dpsql --version": (("-m", "dpsql", "--version"), {}),
    "dpsql --help": (("-m", "dpsql", "--help"), {}),
    "dpsql tr<TAB>": (
        ("-m", "dpsql"),
        {"_DPSQL_COMPLETE": "bash_complete", "COMP_WORDS": "dpsql tr", "COMP_CWORD": "1"},
    ),
    "dpsql models --help": (("-m", "dpsql", "models", "--help"), {}),
    "dpsql train --help": (("-m", "dpsql", "train", "--help"), {}),
}
#: The starts that load no more than the list of commands.
LIGHT = ("import dpsql", "dpsql --version", "dpsql --help", "dpsql tr<TAB>")


def measure_starts(trees: Mapping[str, Path], *, repeat: int, names: tuple[str, ...] = tuple(STARTS)) -> dict[str, Any]:
    """Return the CPU seconds of the base, and of each start in each tree as seconds and as a multiple of the base.

    Args:
        trees: working copies of dpsql by the names to show, each the folder that holds the package.
        repeat: rounds, each of which runs every start once; the least is kept. One more round comes before them, in
            which Python compiles what it imports, as it does when a package is new.
        names: the starts to measure.
    """
    here = next(iter(trees.values()))
    acts: dict[tuple[str, str], tuple[tuple[str, ...], Mapping[str, str], Path]] = {
        (BASE, ""): (("-c", BASE), {}, here)
    }
    acts |= {(name, label): (*STARTS[name], folder) for name in names for label, folder in trees.items()}
    with TemporaryDirectory() as bytecode:
        rounds = [
            {key: child_cpu_seconds(words, more, folder, bytecode) for key, (words, more, folder) in acts.items()}
            for _ in range(repeat + 1)
        ]
    seconds = {key: min(times[key] for times in rounds[1:]) for key in acts}
    base = seconds[BASE, ""]
    starts = {
        name: {
            label: {"seconds": round(seconds[name, label], 4), "ratio": round(seconds[name, label] / base, 2)}
            for label in trees
        }
        for name in names
    }
    return {"base": BASE, "base_seconds": round(base, 4), "starts": starts}


def child_cpu_seconds(words: tuple[str, ...], more: Mapping[str, str], folder: Path, bytecode: str) -> float:
    """Return the CPU time of one run of this Python, which finds dpsql in `folder` alone; a failed run is an error.

    What Python compiles is kept in the folder `bytecode`, so that no working copy is written to.
    """
    compiled = {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    environment = {**os.environ, **compiled, "PYTHONPATH": str(folder), **more}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-P", *words], env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
