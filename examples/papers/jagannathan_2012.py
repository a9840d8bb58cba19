"""Jagannathan, Pillaipakkamnatt & Wright 2012: "A Practical Differentially Private Random Decision Tree Classifier".

The paper's figures are pictures; its text gives numbers in Table 1 and in section 6.1 alone.
"""

from __future__ import annotations

import math

import numpy as np

import dpsql
from examples.benchmarks.splits import Table, halves
from examples.papers import product, sets
from examples.papers.experiment import Cell, Claim, Experiment, Given, Picture, RunSettings, Summary, Verdict, points
from examples.papers.product import FIGURES, INFINITE

PAPER = "Jagannathan et al. 2012"
NURSERY, MUSHROOM, VOTES = SETS = ("nursery", "mushroom-21", "votes-filled")
EPSILONS = (INFINITE, 5, 4, 3, 2, 1, 0.75, 0.5, 0.25, 0.1, 0.01)
ACCURACY = "accuracy, %"


def load(cell: Cell, settings: RunSettings) -> Table:
    """Return the cell's table."""
    return sets.load(cell["set"], settings.data, split=cell["split"], short=settings.short)


# Figures 1 to 3 and Table 1: accuracy against epsilon, Private-RDT beside private ID3.


def run_epsilon(cell: Cell, settings: RunSettings) -> dict[str, object]:
    """Train one method at one epsilon; the paper's "infinite" epsilon needs a public copy."""
    carry_out = product.public_run if cell["epsilon"] == INFINITE else product.private_run
    return carry_out(load(cell, settings), cell["split"], method=cell["method"], epsilon=cell["epsilon"])


def difference_at_1(name: str, theirs: float) -> Claim:
    """Return the claim that Private-RDT is `theirs` points ahead of private ID3 at epsilon 1."""

    def judge(summary: Summary) -> Verdict:
        gain = summary.mean(set=name, method="rdt", epsilon=1) - summary.mean(set=name, method="id3", epsilon=1)
        return f"{gain:+.1f} points", None if math.isnan(gain) else abs(gain - theirs) <= 10

    text = f"at epsilon 1 private ID3 is around {theirs:g} points below Private-RDT on {name}"
    return Claim("Section 6.1", text, judge)


def gradual(summary: Summary) -> Verdict:
    """Judge that accuracy falls gradually down to epsilon 0.1 and breaks down at 0.01."""
    at = {
        name: [summary.mean(set=name, method="rdt", epsilon=epsilon) for epsilon in (INFINITE, 5, 0.1, 0.01)]
        for name in SETS
    }
    words = "; ".join(f"{name} {' → '.join(f'{value:.0f}' for value in values)}" for name, values in at.items())
    if any(math.isnan(value) for values in at.values() for value in values):
        return words, None
    return words, all(values[0] - values[1] < 5 and values[3] < values[1] - 15 for values in at.values())


EPSILON = Experiment(
    name="rdt-epsilon",
    paper=PAPER,
    place="Figures 1–3, Table 1",
    title="Private-RDT and private ID3 against epsilon",
    grid={"set": SETS, "method": ("rdt", "id3"), "epsilon": EPSILONS},
    short={"set": (VOTES,), "epsilon": (INFINITE, 0.5)},
    run=run_epsilon,
    figures=FIGURES,
    picture=Picture("boxes", "epsilon", "epsilon", ACCURACY, "set", "method", {str(INFINITE): "∞"}),
    given=(
        Given({"set": NURSERY, "method": "id3", "epsilon": 0.5}, 46, "Table 1"),
        Given({"set": VOTES, "method": "id3", "epsilon": 0.5}, 40, "Table 1"),
        Given({"set": MUSHROOM, "method": "id3", "epsilon": 0.5}, 56, "Table 1"),
        Given({"set": NURSERY, "method": "id3", "epsilon": INFINITE}, 98.19, "Table 1"),
        Given({"set": VOTES, "method": "id3", "epsilon": INFINITE}, 94.48, "Table 1"),
        Given({"set": MUSHROOM, "method": "id3", "epsilon": INFINITE}, 100, "Table 1"),
    ),
    claims=(
        difference_at_1(MUSHROOM, 20),
        difference_at_1(VOTES, 40),
        Claim(
            "Section 6.1",
            "Private-RDT loses little at epsilon 5, then falls gradually; 0.01 overwhelms it (none → 5 → 0.1 → 0.01)",
            gradual,
        ),
    ),
    exact=f"epsilon {INFINITE} runs on a public copy without a cap; gaps are filled from the rows, as in the paper",
)


# Section 6.1: the number of trees.


def run_trees(cell: Cell, settings: RunSettings) -> dict[str, object]:
    """Train Private-RDT with the cell's number of trees."""
    return product.private_run(
        load(cell, settings), cell["split"], method="rdt", epsilon=cell["epsilon"], trees=cell["trees"]
    )


def five_for_votes(summary: Summary) -> Verdict:
    """Judge that more than five trees do worse on the votes."""
    means = {trees: summary.mean(set=VOTES, trees=trees) for trees in (5, 10, 20)}
    words = ", ".join(f"{trees} trees {value:.1f} %" for trees, value in means.items())
    return words, None if any(map(math.isnan, means.values())) else means[10] < means[5] and means[20] < means[5]


def less_spread(summary: Summary) -> Verdict:
    """Judge that ten trees and more differ less from run to run than five and fewer."""
    few, many = ([summary.spread(set=name, trees=trees) for name in SETS[:2]] for trees in (1, 10))
    words = ", ".join(f"{name} {a:.1f} → {b:.1f}" for name, a, b in zip(SETS[:2], few, many, strict=True))
    return words, all(a > b for a, b in zip(few, many, strict=True)) if all((*few, *many)) else None


TREES = Experiment(
    name="rdt-trees",
    paper=PAPER,
    place="section 6.1",
    title="Private-RDT with different numbers of trees",
    grid={"set": SETS, "epsilon": (0.5,), "trees": (1, 2, 5, 10, 20, 50)},
    short={"set": (NURSERY,), "trees": (1, 5)},
    run=run_trees,
    figures=FIGURES,
    picture=Picture("lines", "trees", "trees (every row is in each of them)", ACCURACY, "set"),
    claims=(
        Claim("Section 6.1", "more than five trees give poor results on the 435 votes", five_for_votes),
        Claim("Section 6.1", "accuracy varies less with more trees (standard deviation at 1 → 10 trees)", less_spread),
    ),
)


# Figure 4: updates, and its twin for parties that hold different people.


def run_updates(cell: Cell, settings: RunSettings) -> dict[str, object]:
    """Train on the first batch, add the others one by one; what a row has paid is read from the ledger."""
    table = load(cell, settings)
    train, test = halves(table, cell["split"])
    dealt = np.random.default_rng(cell["split"]).permutation(len(train)) % cell["batches"]
    schema = {**product.with_rows(table.schema, len(train)), "batch": "batch"}
    with product.database(train=train.assign(batch=dealt), test=test) as db:
        db.register("train", schema, cap=cell["epsilon"])
        model = db.train("train", epsilon=cell["epsilon"], method="rdt", batch="0", seed=cell["split"])
        for batch in range(1, cell["batches"]):
            model = model.update(str(batch))
        return product.measure_model(db, model, epsilon_spent=db.budget("train").spent_text)


def slow_fall(summary: Summary) -> Verdict:
    """Judge that two and four batches cost less than ten points."""
    falls = {
        f"{name}, {batches} batches": summary.mean(set=name, batches=batches) - summary.mean(set=name, batches=1)
        for name in SETS[:2]
        for batches in (2, 4, 10)
    }
    if any(map(math.isnan, falls.values())):
        return "not run", None
    words = "; ".join(f"{name} {fall:+.1f} points" for name, fall in falls.items())
    return words, all(fall > -10 for name, fall in falls.items() if "10" not in name)


UPDATES = Experiment(
    name="rdt-updates",
    paper=PAPER,
    place="Figure 4",
    title="accuracy when rows arrive in batches; a row pays epsilon 0.5 once",
    grid={"set": (NURSERY, MUSHROOM), "epsilon": (0.5,), "batches": (1, 2, 4, 6, 8, 10)},
    short={"set": (NURSERY,), "batches": (1, 3)},
    run=run_updates,
    figures=FIGURES,
    also=("epsilon_spent",),
    picture=Picture("lines", "batches", "batches", ACCURACY, "set"),
    claims=(
        Claim(
            "Section 6.2", "a small number of updates leaves good accuracy, more of them cost it gradually", slow_fall
        ),
    ),
)


def run_horizontal(cell: Cell, settings: RunSettings) -> dict[str, object]:
    """Let each party count its own rows in shared trees, under a ledger of its own, and add up the noisy counts."""
    table = load(cell, settings)
    train, test = halves(table, cell["split"])
    dealt = np.random.default_rng(cell["split"]).permutation(len(train)) % cell["parties"]
    schema = product.with_rows(table.schema, len(train))
    shared_trees, models = "", []
    for party in range(cell["parties"]):
        with product.database(train=train[dealt == party]) as db:
            db.register("train", schema, cap=cell["epsilon"])
            shared_trees = shared_trees or db.export_structure("train", seed=cell["split"])
            models.append(db.contribute("train", shared_trees, epsilon=cell["epsilon"]))
    model = dpsql.merge(models) if len(models) > 1 else models[0]
    with product.database(test=test) as db:
        return product.measure_model(db, db.add(model), epsilon_spent=model.certificate["epsilon"])


def merged_epsilon(summary: Summary) -> Verdict:
    """Judge that epsilon stays the same whatever the number of parties."""
    spent = sorted({row["epsilon_spent"] for row in summary.rows})
    return f"the certificates say {', '.join(spent)}", spent == ["0.5"] if spent else None


HORIZONTAL = Experiment(
    name="rdt-horizontal",
    paper=PAPER,
    place="section 6.2 (m updates are m + 1 parties)",
    title="accuracy when each of several parties holds other people, epsilon 0.5 each",
    grid={"set": (NURSERY, MUSHROOM), "epsilon": (0.5,), "parties": (1, 2, 3, 5, 7, 9, 11)},
    short={"set": (NURSERY,), "parties": (1, 3)},
    run=run_horizontal,
    figures=FIGURES,
    also=("epsilon_spent",),
    picture=Picture("lines", "parties", "parties", ACCURACY, "set"),
    claims=(Claim("Section 5.3", "parties without common rows need no more epsilon than one", merged_epsilon),),
)


# Figure 5: two parties hold different columns of the same people.


def run_vertical(cell: Cell, settings: RunSettings) -> dict[str, object]:
    """Deal the features out to two parties at random, train each at epsilon, and ask all trees together."""
    table = load(cell, settings)
    if cell["columns"] == "one party":
        return product.private_run(table, cell["split"], method="rdt", epsilon=cell["epsilon"])
    train, test = halves(table, cell["split"])
    features = np.random.default_rng(cell["split"]).permutation(list(table.schema["features"])).tolist()
    models = []
    for number, names in enumerate((features[0::2], features[1::2])):
        own = {name: table.schema["features"][name] for name in names}
        with product.database(train=train[[*names, table.schema["label"]]]) as db:
            db.register("train", {**product.with_rows(table.schema, len(train)), "features": own}, cap=cell["epsilon"])
            seed = 2 * cell["split"] + number
            models.append(db.train("train", epsilon=cell["epsilon"], method="rdt", seed=seed))
    model = dpsql.unite(models)
    with product.database(test=test) as db:
        return product.measure_model(db, db.add(model), epsilon_spent=model.certificate["epsilon"])


def also_private(summary: Summary) -> Verdict:
    """Judge that the union of both parties' trees costs what one party's do."""
    united = [row for row in summary.rows if row["columns"] == "two parties"]
    if not united:
        return "not run", None
    last = next((row for row in united if row["epsilon"] == "0.5"), united[0])
    words = f"two releases of epsilon {last['epsilon']} about the same people are certified at {last['epsilon_spent']}"
    return words, all(float(row["epsilon_spent"]) == float(row["epsilon"]) for row in united)


def sometimes_higher(summary: Summary) -> Verdict:
    """Judge that the union can beat one party at the same epsilon for each."""
    gains = summary.gains("epsilon", {"columns": "two parties"}, {"columns": "one party"})
    return f"{points(gains)} by epsilon", any(gain > 0 for gain in gains.values()) if gains else None


VERTICAL = Experiment(
    name="rdt-vertical",
    paper=PAPER,
    place="Figure 5",
    title="one party with all columns against two with half each; the union of two costs twice epsilon",
    grid={"set": (VOTES,), "columns": ("one party", "two parties"), "epsilon": EPSILONS[1:]},
    short={"epsilon": (0.5,)},
    run=run_vertical,
    figures=FIGURES,
    also=("epsilon_spent",),
    picture=Picture("boxes", "epsilon", "epsilon of each party", ACCURACY, "set", "columns"),
    claims=(
        Claim(
            "Section 5.3",
            "the union of the parties' classifiers is also private, as they share no attributes",
            also_private,
        ),
        Claim(
            "Section 6.3",
            "on the votes the union can be more accurate than one party with everything",
            sometimes_higher,
        ),
    ),
)

EXPERIMENTS = (EPSILON, TREES, UPDATES, HORIZONTAL, VERTICAL)
