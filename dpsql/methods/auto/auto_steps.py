"""The steps of `auto` and what each gets of epsilon, by the rules of `methods/auto/epsilon_shares.py`.

On large tables a step asks a sample of the rows where that is enough. A sample is drawn by the units' tickets, and a
step that looks at a sample is charged the whole epsilon of the step, as if it had looked at all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil

from dpsql.kernel.operations import Choose, Histograms, Pick, ScoreCounts
from dpsql.kernel.plan import Composition, Sample, Sequential, Step
from dpsql.kernel.promise import Promise
from dpsql.methods.auto import epsilon_shares
from dpsql.methods.auto.epsilon_shares import ALONE, DEEPEST, PUBLIC, Advice
from dpsql.methods.auto.mixture_list import choices
from dpsql.methods.shared.noisy_leaves import shared_counts
from dpsql.schema import CELLS, Schema
from dpsql.trees.grid import Axis, axes
from dpsql.trees.grow.one_feature import axes_by_feature
from dpsql.trees.score_grid import ScoreGrid

#: An oblivious tree of this depth has 256 leaves; deeper ones cost more than they bring.
DATA_DEPTH = 8
#: From this many rows on, each row is counted in one tree alone: as accurate, for a fraction of the work.
APART_ROWS = 2**18
#: The most rows that `marginals` looks at, unless its noise asks for more.
MARGINAL_ROWS = 2**17
#: Below this many rows all rows are asked, and no sample.
SAMPLED_ROWS = 2**16
#: The fewest rows of a sample on which splits are chosen.
LEAST_SAMPLE = 2**13
#: The fewest rows of a sample whose rows are scored by all trees.
LEAST_SCORED = 2**12
#: The name of the step that counts each feature's bins by class.
MARGINALS = "marginals"
#: The names of the looks of `zoom`, in their order.
ZOOMS = ("zoom", *(f"zoom_{number}" for number in range(2, epsilon_shares.MORE_ZOOMS + 2)))
#: The most rows × axes that one level of the data tree looks at, unless `LEAST_SAMPLE` rows are more.
SPLIT_WORK = 2**18
#: The most rows × trees × classes that `pick` and `calibration` look at, unless their noise asks for more.
PICK_WORK = 2**17
#: A sample for `zoom` has at least this many times as many rows as the scale of the step's noise.
ZOOM_CLARITY = 200
#: The same for `marginals`.
MARGINAL_CLARITY = 2000
#: The same for `pick`.
PICK_CLARITY = 300
#: The same for `calibration`.
SURE_CLARITY = 300


def auto_steps(schema: Schema, promise: Promise, advice: Advice, nano_epsilon: int, rows: float) -> Composition:
    """Return the steps of one run on about `rows` rows; they add up to epsilon exactly."""
    if advice.regime == PUBLIC:
        cells = advice.trees * 2**advice.depth * len(schema.classes)
        return shared_counts(nano_epsilon, advice.trees, schema, cells)
    if advice.regime == ALONE:
        return _marginals(schema, promise, nano_epsilon, rows)
    return Sequential(tuple(_guided_steps(schema, promise, advice, nano_epsilon, rows)))


def _guided_steps(
    schema: Schema, promise: Promise, advice: Advice, nano_epsilon: int, rows: float
) -> Iterator[Composition]:
    zooms = epsilon_shares.zoom_shares(schema, advice.strength) if advice.zoom else ()
    looks = [int(nano_epsilon * share / 100) for share in zooms]
    pick = nano_epsilon * epsilon_shares.PICK_SHARE // 100 if advice.pick else 0
    calibration = nano_epsilon * epsilon_shares.CALIBRATION_SHARE // 100 if advice.calibration else 0
    left = nano_epsilon - sum(looks) - pick - calibration
    marginals = int(left * advice.marginals)
    splits = (left - marginals) * epsilon_shares.SPLITS_SHARE // 100
    for name, look in zip(ZOOMS, looks, strict=False):
        yield _zoom(name, schema, promise, look, rows)
    yield _marginals(schema, promise, marginals, rows)
    yield _splits(schema, splits, rows)
    yield _counts(schema, advice, left - marginals - splits, rows)
    if pick:
        yield _pick(schema, promise, advice, pick, rows)
    if calibration:
        yield _calibration(schema, promise, advice, calibration, rows)


def _zoom(name: str, schema: Schema, promise: Promise, nano_epsilon: int, rows: float) -> Composition:
    numbers = len(epsilon_shares.numbers(schema))
    note = "where numbers lie, without classes: a range that is mostly empty is narrowed"
    if name != ZOOMS[0]:
        note = "closer, only where nearly all rows of a number lay in two neighbouring cells"
    step = Step(name, Histograms(), nano_epsilon, axes=numbers, cells=numbers * CELLS, note=note)
    return _sampled_steps(step, rows, max(SAMPLED_ROWS, ceil(ZOOM_CLARITY * step.scale(promise))))


def _marginals(schema: Schema, promise: Promise, nano_epsilon: int, rows: float) -> Composition:
    grid = axes(schema)
    cells = sum(_most_bins(places, grid) for places in axes_by_feature(grid)) * len(schema.classes)
    note = "each feature's bins by class: a naive-Bayes reader, and what guides the trees"
    step = replace(shared_counts(nano_epsilon, len(schema.features), schema, cells), name=MARGINALS, note=note)
    return _sampled_steps(step, rows, max(MARGINAL_ROWS, ceil(MARGINAL_CLARITY * step.scale(promise))))


def _splits(schema: Schema, nano_epsilon: int, rows: float) -> Composition:
    note = f"one split for all nodes of a level, by rows that a majority vote gets right; up to {DATA_DEPTH} levels"
    step = Step("splits", Choose("majority"), nano_epsilon, cells=2**DATA_DEPTH, uses=DATA_DEPTH, note=note)
    return _sampled_steps(replace(step, scans=DATA_DEPTH), rows, max(LEAST_SAMPLE, SPLIT_WORK // len(axes(schema))))


def _counts(schema: Schema, advice: Advice, nano_epsilon: int, rows: float) -> Composition:
    shared = rows < APART_ROWS or (schema.parts is not None and schema.parts < advice.trees)
    note = "the leaves of all trees by class; each row is in " + ("every tree" if shared else "one tree")
    cells = advice.trees * 2**DEEPEST * len(schema.classes)
    return replace(shared_counts(nano_epsilon, advice.trees, schema, cells), note=note, shared=shared)


def _pick(schema: Schema, promise: Promise, advice: Advice, nano_epsilon: int, rows: float) -> Composition:
    note = "which mixture of naive Bayes and trees labels most rows right"
    step = Step("pick", Pick(), nano_epsilon, cells=len(choices(advice.kinds, advice.strength)), note=note)
    return _sampled_steps(step, rows, max(_scored_rows(schema, advice), ceil(PICK_CLARITY * step.scale(promise))))


def _calibration(schema: Schema, promise: Promise, advice: Advice, nano_epsilon: int, rows: float) -> Composition:
    grid = ScoreGrid(len(schema.classes), confidence_alone=True)
    note = "how sure the model is and how often it is right: sets how far probabilities are from even"
    step = Step("calibration", ScoreCounts(), nano_epsilon, cells=grid.cells, classes=grid.classes, note=note)
    return _sampled_steps(step, rows, max(_scored_rows(schema, advice), ceil(SURE_CLARITY * step.scale(promise))))


def _scored_rows(schema: Schema, advice: Advice) -> int:
    """Return how many rows are enough for a step whose rows are scored by all trees."""
    return max(LEAST_SCORED, PICK_WORK // ((len(schema.features) + advice.trees) * len(schema.classes)))


def _sampled_steps(step: Step, rows: float, enough: int) -> Composition:
    """Return the step on a sample of about `enough` rows or more; on all rows, where they are few."""
    parts = int(rows // enough)
    return Sample(step, parts) if parts > 1 and rows >= SAMPLED_ROWS else step


def _most_bins(places: Sequence[int], grid: Sequence[Axis]) -> int:
    product = 1
    for place in places:
        product *= grid[place].cells
    return product
