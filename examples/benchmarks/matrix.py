"""Measures the matrix random forest: errors of strategies, their cost, and the figures of its paper, run again.

`errors` looks at no row: trees and strategies are public. `FIGURES` are the paper's figures 2, 3a and 4 as questions to
the accuracy bench, on its 90/10 splits; 3b, which asks for batches of growing size, is `queries`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from cProfile import Profile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from pstats import Stats
from typing import Any

import numpy as np

from dpsql.api.database import connect
from dpsql.mechanisms.laplace import discrete_laplace
from dpsql.methods.base import resolve_parameters
from dpsql.methods.mrf.ensembles import ensembles
from dpsql.methods.mrf.mrf import Mrf
from dpsql.schema.schema_file import load_schema
from dpsql.trees.grid import grid_cells
from dpsql.trees.strategies.least_squares import least_squares
from dpsql.trees.strategies.optimize import KINDS, best_strategy
from dpsql.trees.strategies.strategy import Strategy
from dpsql.trees.strategies.workload import Leaves, Sums, vote_workload
from examples.benchmarks.accuracy import Question
from examples.benchmarks.splits import Table, create, declare_schema, halves

#: The paper's settings: trees and depth of each table, and ensembles where one cannot hold all features.
SETTINGS: Mapping[str, Mapping[str, int]] = {
    "car": {"trees": 128, "depth": 4},
    "iris": {"trees": 64, "depth": 2, "bins": 3},
    "balance_scale": {"trees": 128, "depth": 2},
    "heart_mrf": {"trees": 128, "depth": 2, "ensembles": 2, "features": 4},
    "mushroom": {"trees": 125, "depth": 3, "ensembles": 5, "features": 4},
    "adult_binary": {"trees": 100, "depth": 8, "ensembles": 4, "features": 10},
    "nursery": {"trees": 128, "depth": 5},
}
#: What is compared: the name of a line and the parameters that make it.
LINES: Mapping[str, Mapping[str, Any]] = {
    "training, summed": {},
    "training, hard votes": {"votes": "hard"},
    "batch prediction": {"way": "batch"},
    "noise on every leaf": {"strategy": "leaves"},
}
EPSILONS = ("0.1", "0.5", "1", "2")
TREES = (4, 16, 64, 128)
QUERIES = (5, 50, 200, 1000)


@dataclass(frozen=True)
class Panel:
    """One panel of a figure: its title, the table, what runs along the horizontal axis, and the points of each line."""

    title: str
    table: str
    along: str
    points: Mapping[str, Sequence[tuple[float, Question]]]


def panels(names: Sequence[str]) -> list[Panel]:
    """Return the panels of figures 2, 3a and 4, for the tables that are there."""
    drawn = [
        Panel(f"2: {name}", name, "epsilon", {
            line: [(float(epsilon), _question(epsilon, {**SETTINGS[name], **more})) for epsilon in EPSILONS]
            for line, more in LINES.items()
        })
        for name in names
    ]  # fmt: skip
    if "car" in names:
        drawn.append(
            Panel("3a: car, epsilon 2", "car", "trees", {
                line: [(trees, _question("2", {"depth": 4, "trees": trees, **more})) for trees in TREES]
                for line, more in LINES.items() if line != "batch prediction"
            })
        )  # fmt: skip
        ways = {"subsample and aggregate": "subsample", "batch prediction": "batch"}
        drawn.append(
            Panel("4: car, 16 trees", "car", "epsilon", {
                line: [
                    (float(epsilon), _question(epsilon, {"depth": 3, "trees": 16, "way": way}))
                    for epsilon in EPSILONS
                ]
                for line, way in ways.items()
            })
        )  # fmt: skip
    return drawn


def _question(epsilon: str, parameters: Mapping[str, Any]) -> Question:
    return Question("mrf", epsilon, tuple(sorted(parameters.items())))


def queries(table: Table, sizes: Sequence[int], *, splits: int) -> list[dict[str, float]]:
    """Return figure 3b: accuracy on batches of growing size, drawn from the rows that are asked, as in the paper."""
    schema = declare_schema(table.schema)
    points = []
    for size in (size for size in sizes if size <= table.rows):
        right = []
        for number in range(splits):
            asked_rows = table.frame.sample(size, random_state=number)
            with tempfile.TemporaryDirectory() as folder:
                create(path := Path(folder) / "one.duckdb", rows=table.frame, batch=asked_rows)
                with connect(path) as db:
                    db.register("rows", schema, cap=2)
                    shape = db.structure("rows", trees=16, depth=4, seed=number)
                    model = db.predict_private(shape, "batch", epsilon=2)
                    right.append(100 * db.evaluate(model, "batch").accuracy)
        spread = float(np.std(right, ddof=1) / np.sqrt(splits)) if splits > 1 else 0.0
        points.append({"queries": size, "mean": float(np.mean(right)), "standard_error": spread})
    return points


def errors(table: Table, *, draws: int, effort: int) -> list[dict[str, Any]]:
    """Return for the leaves and for the votes of a tenth what each kind of strategy costs, and a check by drawing."""
    parameters = resolve_parameters(Mrf(), SETTINGS[table.name])
    _, test = halves(table, 0)
    schema = load_schema(declare_schema(table.schema))
    rows = grid_cells(schema, {feature.name: test[feature.name] for feature in schema.features})
    ensemble = ensembles(schema, parameters)[0]
    workloads: dict[str, Leaves | Sums] = {
        "leaves": ensemble.workload,
        "votes": vote_workload(ensemble.workload, ensemble.domain.cell_numbers(rows)),
    }
    return [_error(table.name, what, workload, draws, effort) for what, workload in workloads.items()]


def _error(name: str, what: str, workload: Leaves | Sums, draws: int, effort: int) -> dict[str, Any]:
    started = time.process_time()
    search = best_strategy(workload, effort=effort)
    spent = time.process_time() - started
    ratios = {attempt.kind: attempt.ratio for attempt in search.tried}
    return {
        "set": name,
        "workload": what,
        "cells": workload.cells,
        "best": search.strategy.name,
        "ratio": search.ratio,
        "cpu_seconds": spent,
        "ratios": {kind: ratios.get(kind) for kind in KINDS},
        "measured_to_proved": error_ratio(workload, search.strategy, search.spread, draws),
    }


def error_ratio(workload: Leaves | Sums, strategy: Strategy, spread: float, draws: int) -> float:
    """Return the squared error, averaged over draws of noise, divided by what the closed form says."""
    wide = Fraction(strategy.sensitivity)
    ratio = float(np.exp(-1 / float(wide)))
    variance = 2 * ratio / (1 - ratio) ** 2
    total, done = 0.0, 0
    while done < draws:
        count = min(50, draws - done)
        noise = discrete_laplace(wide, strategy.questions * count).reshape(strategy.questions, count)
        total += float((workload.answer(least_squares(strategy, noise.astype(np.float64))) ** 2).sum())
        done += count
    return total / draws / (variance * spread)


def cost(table: Table, epsilon: str) -> dict[str, float]:
    """Return the seconds of a training run: for the strategies, for counting cells, for noise, and for the rest."""
    parameters: dict[str, Any] = dict(SETTINGS[table.name])
    schema = declare_schema(table.schema)
    with tempfile.TemporaryDirectory() as folder:
        create(path := Path(folder) / "one.duckdb", rows=table.frame)
        with connect(path) as db:
            db.register("rows", schema, cap=epsilon)
            started = time.perf_counter()
            db.plan("rows", epsilon=epsilon, method="mrf", **parameters)
            optimised = time.perf_counter()
            profile = Profile()
            profile.runcall(db.train, "rows", epsilon=epsilon, method="mrf", **parameters)
            trained = time.perf_counter()
    count, noise = (
        _within(profile, file, name) for file, name in (("exact.py", "leaf_counts"), ("noise.py", "add_noise"))
    )
    return {
        "rows": len(table.frame),
        "optimise": optimised - started,
        "count": count,
        "noise": noise,
        "rest": trained - optimised - count - noise,
    }


def _within(profile: Profile, file: str, name: str) -> float:
    """Return the seconds spent in a function of the kernel, and in what it called."""
    stats: dict[tuple[str, int, str], tuple[int, int, float, float, Any]] = Stats(profile).stats  # type: ignore[attr-defined]
    return sum(
        figures[3] for (where, _, what), figures in stats.items() if what == name and where.endswith(f"kernel/{file}")
    )
