"""Fletcher & Islam 2017: "Differentially Private Random Decision Forests using Smooth Sensitivity", and its addendum.

Tables 3 and 4 are numbers; the figures are pictures, of which the text gives extremes. All runs use the depths of
Table 4 unless depth is the question. The published mechanism has no proof: it runs on public copies without a cap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from sqlglot import exp

from dpsql import Schema, methods
from dpsql.bench.clock import cpu_seconds, least
from dpsql.trees.grid import grid_cells
from examples.benchmarks.splits import Table, halves
from examples.papers import product, sets
from examples.papers.experiment import Cell, Claim, Experiment, Given, Picture, RunSettings, Summary, Verdict, points
from examples.papers.product import FIGURES

PAPER = "Fletcher & Islam 2017"
ACCURACY = "accuracy, %"
SYNTHETIC = tuple(sets.SYNTHETIC)
NUMERIC = ("wall_robot", "pendigits", "magic04")
REAL = (*NUMERIC, "adult-complete", "mushroom-complete", "claves", "nursery")
PRIVATE, PUBLISHED = MECHANISMS = ("permute-and-flip", "as published")
#: Cells of a release, all trees together: what `rosnam` takes by default.
LIMIT = 2**22
NOT_PRIVATE = "the published mechanism has no proof, so it runs on a public copy without a cap"


def load(cell: Cell, settings: RunSettings) -> Table:
    """Return the cell's table."""
    return sets.load(cell["set"], settings.data, split=cell["split"], short=settings.short)


def forest_run(table: Table, cell: Cell, **parameters: Any) -> dict[str, object]:
    """Train `rosnam` by the cell's mechanism and epsilon."""
    parameters = {"depth_rule": "table4", **parameters}
    if cell["mechanism"] == PRIVATE:
        return product.private_run(table, cell["split"], method="rosnam", epsilon=cell["epsilon"], **parameters)
    return product.public_run(
        table, cell["split"], method="rosnam", epsilon=cell["epsilon"], as_published=True, **parameters
    )


# Figure 10, for all real tables: accuracy against epsilon. In place of Figure 4, both mechanisms.


def run_epsilon(cell: Cell, settings: RunSettings) -> dict[str, object]:
    """Train 100 trees at one epsilon by one mechanism."""
    return forest_run(load(cell, settings), cell, trees=10 if settings.short else 100)


def mended_gain(summary: Summary) -> Verdict:
    """Judge the addendum's expectation that one-sided noisy arg-max predicts better than smooth sensitivity."""
    gains = summary.gains("epsilon", {"mechanism": PRIVATE}, {"mechanism": PUBLISHED})
    words = ", ".join(f"{gain:+.1f} points at epsilon {epsilon}" for epsilon, gain in gains.items())
    return f"on average over the tables {words}", min(gains.values()) > 0 if gains else None


EPSILON = Experiment(
    name="rosnam-epsilon",
    paper=PAPER,
    place="Figure 10 and the addendum",
    title="accuracy against epsilon: permute-and-flip (private) and the published mechanism (not private)",
    grid={"set": REAL, "mechanism": MECHANISMS, "epsilon": (0.01, 0.1, 0.5, 1, 2)},
    short={"set": ("nursery",), "epsilon": (0.1, 2)},
    run=run_epsilon,
    figures=FIGURES,
    picture=Picture("boxes", "epsilon", "epsilon", ACCURACY, "set", "mechanism"),
    claims=(Claim("Addendum, section 2", "results are expected to improve with noisy arg-max", mended_gain),),
    exact=NOT_PRIVATE,
)


# Figure 11: beside Private-RDT at epsilon 1.


def run_others(cell: Cell, settings: RunSettings) -> dict[str, object]:
    """Train one technique at epsilon 1."""
    if cell["technique"] == "rdt":
        return product.private_run(load(cell, settings), cell["split"], method="rdt", epsilon=1)
    trees = 10 if settings.short else 100
    return forest_run(load(cell, settings), {**cell, "mechanism": cell["technique"], "epsilon": 1}, trees=trees)


def over_rdt(technique: str) -> Claim:
    """Return the claim that a technique beats Private-RDT everywhere but on Claves."""

    def judge(summary: Summary) -> Verdict:
        gains = summary.gains("set", {"technique": technique}, {"technique": "rdt"})
        complete = len(gains) == len(SYNTHETIC) + len(REAL)
        lost = [name for name, gain in gains.items() if gain <= 0]
        return f"{points(gains)}; lost: {', '.join(lost) or 'none'}", set(lost) <= {"claves"} if complete else None

    return Claim("Section 5.2", f"the forest ({technique}) beats Private-RDT on every table but Claves", judge)


def one_gain(name: str, theirs: float, *, technique: str = PUBLISHED, within: float = 5) -> Claim:
    """Return the claim that the published forest is `theirs` points ahead of Private-RDT on one table."""

    def judge(summary: Summary) -> Verdict:
        gain = summary.gains("set", {"technique": technique}, {"technique": "rdt"}).get(name, math.nan)
        return f"{gain:+.1f} points", None if math.isnan(gain) else abs(gain - theirs) <= within

    return Claim(
        "Section 5.2", f"on {name} the forest is {theirs:+g} points from Private-RDT (we allow {within:g})", judge
    )


OTHERS = Experiment(
    name="rosnam-others",
    paper=PAPER,
    place="Figure 11",
    title="the forest beside Private-RDT at epsilon 1",
    grid={"set": (*SYNTHETIC, *REAL), "technique": (*MECHANISMS, "rdt")},
    short={"set": ("SynthA",)},
    run=run_others,
    figures=FIGURES,
    picture=Picture("bars", "set", "table", ACCURACY, hue="technique"),
    claims=(
        over_rdt(PUBLISHED),
        over_rdt(PRIVATE),
        one_gain("adult-complete", 3.5),
        one_gain("claves", -2.5),
        one_gain("SynthA", 35, within=10),
    ),
    exact=NOT_PRIVATE,
)


# Figure 7: the number of trees.


def run_trees(cell: Cell, settings: RunSettings) -> dict[str, object]:
    """Train the cell's number of trees."""
    return forest_run(load(cell, settings), {**cell, "mechanism": PRIVATE}, trees=cell["trees"])


def sweet_spot(epsilon: float, low: int, high: int) -> Claim:
    """Return the claim that the best number of trees lies in this range on most tables."""

    def judge(summary: Summary) -> Verdict:
        best = {}
        for name in summary.seen("set"):
            means = {int(t): summary.mean(set=name, epsilon=epsilon, trees=t) for t in summary.seen("trees")}
            measured = {trees: mean for trees, mean in means.items() if not math.isnan(mean)}
            best[name] = max(measured, key=lambda trees: measured[trees]) if measured else 0
        inside = sum(low <= trees <= high for trees in best.values())
        words = ", ".join(f"{name} {trees}" for name, trees in best.items())
        return f"best at {words}", 2 * inside > len(best) if len(best) == len(SYNTHETIC) else None

    return Claim("Section 4.4", f"at epsilon {epsilon} {low} to {high} trees are best", judge)


def many_reach_85(summary: Summary) -> Verdict:
    """Judge that many synthetic tables reach 85 % with 100 trees at epsilon 1."""
    means = {name: summary.mean(set=name, epsilon=1, trees=100) for name in summary.seen("set")}
    words = ", ".join(f"{name} {value:.1f}" for name, value in means.items())
    return words, sum(value >= 85 for value in means.values()) >= 3 if len(means) == len(SYNTHETIC) else None


TREES = Experiment(
    name="rosnam-trees",
    paper=PAPER,
    place="Figure 7",
    title="accuracy with different numbers of trees, synthetic tables of 30,000 rows",
    grid={"set": SYNTHETIC, "epsilon": (0.2, 1), "trees": (1, 3, 10, 30, 100, 300)},
    short={"set": ("SynthA",), "epsilon": (1,), "trees": (1, 10)},
    run=run_trees,
    figures=FIGURES,
    picture=Picture("lines", "trees", "trees (each sees its own part of the rows)", ACCURACY, "set", "epsilon"),
    claims=(
        sweet_spot(0.2, 30, 100),
        sweet_spot(1, 100, 300),
        Claim("Section 4.4", "many synthetic tables reach 85 to 90 % with 100 trees at epsilon 1", many_reach_85),
    ),
)


# Figure 6: the depth.


def run_depth(cell: Cell, settings: RunSettings) -> dict[str, object]:
    """Train 100 trees of depth m/2, of Theorem 2 as written, as Table 4 lists it, or of depth m."""
    table = load(cell, settings)
    features = len(table.schema["features"])
    fixed = {"m/2": {"depth": max(1, features // 2)}, "m": {"depth": features}}
    parameters = fixed.get(cell["depth"], {"depth_rule": cell["depth"]})
    trees = 10 if settings.short else 100
    return forest_run(table, {**cell, "mechanism": PRIVATE, "epsilon": 1}, trees=trees, **parameters)


def depth_gains(over: str, text: str, least_gain: float) -> Claim:
    """Return a claim about the listed depth against another."""

    def judge(summary: Summary) -> Verdict:
        gains = summary.gains("set", {"depth": "table4"}, {"depth": over})
        complete = len(gains) == len(DEPTH.grid["set"])
        return points(gains), sum(gain < least_gain for gain in gains.values()) <= (over == "m") if complete else None

    return Claim("Section 4.3", text, judge)


DEPTH = Experiment(
    name="rosnam-depth",
    paper=PAPER,
    place="Figure 6",
    title="accuracy at depth m/2, Theorem 2 as written, as Table 4 lists it, and m; epsilon 1",
    grid={"set": (*SYNTHETIC, *NUMERIC, "adult-complete"), "depth": ("m/2", "theorem2", "table4", "m")},
    short={"set": ("wall_robot",)},
    run=run_depth,
    figures=FIGURES,
    also=("grown_depth",),
    picture=Picture("bars", "set", "table", ACCURACY, hue="depth"),
    claims=(
        depth_gains("m/2", "the proposed depth beats m/2 on every table, by 2 to 30 points", 2),
        depth_gains("m", "depth m is worse than the proposed depth on all tables but one", 0),
    ),
)


# Figure 5: rows dealt out to the trees, or all rows in every tree.


def run_disjoint(cell: Cell, settings: RunSettings) -> dict[str, object]:
    """Give each tree its own rows and all of epsilon, or all rows and its share of epsilon."""
    trees = 4 if settings.short else 100
    return forest_run(load(cell, settings), {**cell, "epsilon": 1}, trees=trees, shared=cell["rows"] == "shared")


def disjoint_gain(mechanism: str) -> Claim:
    """Return the claim that dealing rows out gains up to 18 points and never loses much."""

    def judge(summary: Summary) -> Verdict:
        inside = Summary([row for row in summary.rows if row["mechanism"] == mechanism], summary.figure)
        gains = inside.gains("set", {"rows": "disjoint"}, {"rows": "shared"})
        complete = len(gains) == len(DISJOINT.grid["set"])
        return points(gains), min(gains.values()) > -2 and max(gains.values()) > 5 if complete else None

    return Claim(
        "Section 4.2", f"disjoint rows gain up to 18 points and lose nothing worth naming ({mechanism})", judge
    )


DISJOINT = Experiment(
    name="rosnam-disjoint",
    paper=PAPER,
    place="Figure 5a",
    title="rows dealt out to 100 trees against all rows in every tree for a hundredth of epsilon; epsilon 1 in all",
    grid={
        "set": ("nursery", "wall_robot", "SynthA", "SynthF", "pendigits", "SynthG"),
        "mechanism": MECHANISMS,
        "rows": ("disjoint", "shared"),
    },
    short={"set": ("SynthA",)},
    run=run_disjoint,
    figures=FIGURES,
    also=("epsilon_spent",),
    picture=Picture("bars", "set", "table", ACCURACY, "mechanism", "rows"),
    claims=(disjoint_gain(PUBLISHED), disjoint_gain(PRIVATE)),
    exact=NOT_PRIVATE,
    most_splits=3,
)


# Table 3: the share of leaves that no row reaches.

EMPTY_LEAVES = {
    "SynthA": (49.8, 68.5), "SynthB": (79.1, 90.3), "SynthC": (95.0, 98.5), "SynthD": (95.7, 98.5),
    "SynthE": (63.3, 73.7), "SynthF": (79.2, 89.9), "SynthG": (98.7, 99.7), "wall_robot": (48.6, 65.1),
    "pendigits": (92.4, 97.7), "magic04": (86.2, 93.5), "adult-complete": (99.8, 99.9),
    "mushroom-complete": (99.9, 99.9), "claves": (0.0, 28.7), "nursery": (0.2, 7.2),
}  # fmt: skip


def run_empty(cell: Cell, settings: RunSettings) -> dict[str, object]:
    """Grow the trees of Table 3 and count the leaves that none of their rows reach, by looking at the rows."""
    table = load(cell, settings)
    train, _ = halves(table, cell["split"])
    forest, paper_depth = paper_trees(table.schema, cell["trees"], cell["split"], settings)
    schema = Schema.from_dict(table.schema)
    leaves = forest.route(grid_cells(schema, {name: train[name].to_numpy(object) for name in table.schema["features"]}))
    part = np.random.default_rng(cell["split"]).integers(cell["trees"], size=len(train))
    reached = len(np.unique(leaves[np.arange(len(train)), part]))
    return {
        "empty_percent": product.percent(1 - reached / forest.leaves),
        "wanted_depth": paper_depth,
        "grown_depth": forest.depth,
        "leaves": forest.leaves,
    }


def paper_trees(declared: Mapping[str, Any], trees: int, seed: int, settings: RunSettings) -> tuple[Any, int]:
    """Return trees that branch once for every value, at Table 4's depth, as far as 2^24 cells go; and that depth."""
    method, schema = methods.get("rosnam"), Schema.from_dict(declared)
    limit = LIMIT if settings.short else 2**24
    parameters = {"trees": trees, "depth_rule": "table4", "branches": 64, "limit": limit, "seed": seed}
    plan = method.plan(schema, 10**9, parameters)
    return method.public_trees(schema, plan), int(plan.parameters["wanted_depth"])


EMPTY = Experiment(
    name="rosnam-empty",
    paper=PAPER,
    place="Table 3",
    title="leaves that no row reaches, one tree and thirty on disjoint rows",
    grid={"set": tuple(EMPTY_LEAVES), "trees": (1, 30)},
    short={"set": ("SynthA", "nursery")},
    run=run_empty,
    figures=("empty_percent", "wanted_depth", "grown_depth", "leaves"),
    also=("wanted_depth", "grown_depth"),
    picture=Picture("bars", "set", "table", "empty leaves, %", hue="trees"),
    given=tuple(
        Given({"set": name, "trees": trees}, value, "Table 3")
        for name, both in EMPTY_LEAVES.items()
        for trees, value in zip((1, 30), both, strict=True)
    ),
    exact="which leaves are empty is counted on the rows themselves",
)


# Table 4: the depths.

DEPTHS = {
    "SynthA": 5, "SynthB": 8, "SynthC": 12, "SynthD": 12, "SynthE": 12, "SynthF": 8, "SynthG": 15, "wall_robot": 4,
    "pendigits": 12, "magic04": 8, "adult-complete": 9, "mushroom-complete": 11, "claves": 8, "nursery": 4,
}  # fmt: skip


def run_depths(cell: Cell, settings: RunSettings) -> dict[str, object]:
    """Work the depth out from the schema alone."""
    schema = Schema.from_dict(load(cell, settings).schema)
    parameters = {"depth_rule": cell["rule"], "trees": 1, "limit": 1000}
    plan = methods.get("rosnam").plan(schema, 10**9, parameters)
    return {"depth": plan.parameters["wanted_depth"]}


def formula_is_listed(rule: str) -> Claim:
    """Return the claim that Table 4 lists the depths of a rule."""

    def judge(summary: Summary) -> Verdict:
        other = [name for name in summary.seen("set") if summary.mean(set=name, rule=rule) != DEPTHS[name]]
        return f"{len(other)} of {len(summary.seen('set'))} depths differ", not other if summary.rows else None

    return Claim("Table 4", f"the listed depths are those of {rule}", judge)


LISTED = Experiment(
    name="rosnam-listed",
    paper=PAPER,
    place="Table 4",
    title="depths by Theorem 2 as written, and as listed",
    grid={"set": tuple(DEPTHS), "rule": ("theorem2", "table4")},
    short={"set": ("SynthA", "nursery")},
    run=run_depths,
    figures=("depth",),
    picture=Picture("bars", "set", "table", "depth, splits on a path", hue="rule"),
    given=tuple(Given({"set": name}, depth, "Table 4") for name, depth in DEPTHS.items()),
    claims=(formula_is_listed("theorem2"), formula_is_listed("table4")),
    most_splits=1,
)


# Figure 9: the number of rows.

TEST_ROWS = 10_000
SIZES = (3_000, 30_000, 300_000, 3_000_000)


@lru_cache(maxsize=1)
def synthetic_f(rows: int, seed: int) -> Table:
    """Return SynthF with this many rows, cached for the next cell: all sizes are beginnings of one table."""
    return sets.synthetic("SynthF", rows, seed=seed)


def run_size(cell: Cell, settings: RunSettings) -> dict[str, object]:
    """Train on the first rows of one large table; time it against the scan that reads every column of them."""
    test_rows = TEST_ROWS // 10 if settings.short else TEST_ROWS
    table = synthetic_f((4000 if settings.short else SIZES[-1]) + test_rows, cell["split"])
    train, test = table.frame.iloc[test_rows : test_rows + cell["rows"]], table.frame.iloc[:test_rows]
    models: list[Any] = []
    with product.database(train=train, test=test) as db:
        db.register("train", table.schema, cap=cell["epsilon"])
        parameters = {"depth_rule": "table4", "seed": cell["split"], "trees": 10 if settings.short else 100}
        scan = least({"scan": lambda: run_scan(db, list(table.schema["features"]))}, repeat=3)["scan"]
        train_seconds = cpu_seconds(
            lambda: models.append(db.train("train", epsilon=cell["epsilon"], method="rosnam", **parameters))
        )
        figures = product.measure_model(db, models[0], epsilon_spent=db.budget("train").spent_text)
    return {**figures, "train_scans": round(train_seconds / scan, 2), "scan_ms": round(1000 * scan, 2)}


def run_scan(db: Any, columns: list[str]) -> pd.DataFrame:
    """Run the scan that times are measured in: every column is read and little else is done. The table is public."""
    mixed = exp.func("BIT_XOR", exp.func("HASH", *(exp.column(name) for name in columns))).as_("mixed")
    query = exp.select("label", exp.Count(this=exp.Star()).as_("rows"), mixed).from_("train").group_by("label")
    return db.engine.frame(query)


def ten_for_ten(summary: Summary) -> Verdict:
    """Judge that a hundred times the rows make up for a tenth of epsilon."""
    large, small = summary.mean(rows=3_000_000, epsilon=0.1), summary.mean(rows=30_000, epsilon=1)
    words = f"3,000,000 rows at 0.1 {large:.1f} %, 30,000 rows at 1 {small:.1f} %"
    return words, None if math.isnan(large - small) else large >= small - 2


def over_85(summary: Summary) -> Verdict:
    """Judge that 30,000 rows at epsilon 1 give over 85 %."""
    accuracy = summary.mean(rows=30_000, epsilon=1)
    return f"{accuracy:.1f} %", None if math.isnan(accuracy) else accuracy > 85


SIZE = Experiment(
    name="rosnam-size",
    paper=PAPER,
    place="Figure 9",
    title="accuracy against the number of rows, SynthF, three budgets",
    grid={"rows": SIZES, "epsilon": (0.01, 0.1, 1)},
    short={"rows": (1000, 4000), "epsilon": (1,)},
    run=run_size,
    figures=(*FIGURES, "train_scans", "scan_ms"),
    also=("train_scans",),
    picture=Picture("lines", "rows", "rows", ACCURACY, hue="epsilon", names={str(n): f"{n:,}" for n in SIZES}),
    claims=(
        Claim("Section 5.1", "3,000,000 rows at epsilon 0.1 are as good as 30,000 at 1", ten_for_ten),
        Claim("Section 6", "30,000 rows at epsilon 1 give over 85 %", over_85),
    ),
    most_splits=3,
)

EXPERIMENTS = (EPSILON, OTHERS, TREES, DEPTH, DISJOINT, EMPTY, LISTED, SIZE)
