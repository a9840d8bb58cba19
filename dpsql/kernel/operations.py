"""The operations of the kernel: everything that a method can ask about private rows, each with its proof.

One frozen class stands for each operation. It says what is asked, how far one unit can move the answer, which noise
hides that, what the noise does to the answer, and in which plans the operation may be. A step of a plan holds an object
of one of these classes (`kernel/plan.py`), and `Session` has a method of the same name (`kernel/session.py`).
Everything that depends on the operation is read here: the noise, the printed plan, the allowance, the audit, and the
table in docs/understanding/privacy.md. `OPERATIONS` lists all operations; what is not in the list is refused.

The proofs share one argument. Neighbouring tables differ in one unit, that is in at most c = `max_rows` rows. Add these
rows one at a time. Each adds 1 to one cell for each tree that it walks and each axis that it is read on. It walks one
tree where trees are disjoint (its ticket follows from the unit alone, its stored part from the row alone, so no other
unit's row moves; a unit's rows may be in several trees), and all T trees where they are shared. If a single +1 costs at
most e, the unit costs at most c·T·axes·e (group privacy, Dwork & Roth 2014, Theorem 2.2 and 3.16). Each operation
therefore runs at e = epsilon / (c·T·axes), which is `Step.row_epsilon`. Where labels alone are private, another label
takes 1 from one cell and adds 1 to another cell, which is the factor 2 of `Promise.change`: c is then 2·`max_rows`.

This holds for pure epsilon. A plan for (epsilon, delta) gets other noise for the same steps; `kernel/noise.py` has the
proof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from dpsql.errors import ParameterError
from dpsql.kernel.utility import CLASSLESS, IN_UTILITY_UNITS, MOST, UTILITIES, UTILITY_UNITS, width

if TYPE_CHECKING:
    from dpsql.kernel.plan import Step


@dataclass(frozen=True)
class Mechanism:
    """Which noise hides an answer: its name for a run that pays epsilon, and for a run that pays rho.

    `chooses` is true for a mechanism that chooses one of several candidates, and false for one that adds noise to
    every value.
    """

    pure: str
    approximate: str
    chooses: bool = False


ADDED_NOISE = Mechanism("discrete Laplace", "discrete Gaussian")
PERMUTE_AND_FLIP = Mechanism("permute-and-flip", "exponential mechanism", chooses=True)
EXPONENTIAL = Mechanism("exponential mechanism", "exponential mechanism", chooses=True)
NO_NOISE = Mechanism("none", "none")


@dataclass(frozen=True, slots=True)
class Operation:
    """What is common to all operations. Class attributes are facts of the operation; fields are what a plan may set.

    In `sensitivity` and `noise_words` c is the number of counts that a unit changes in one tree (`Promise.change`), T
    the number of trees where every row is in each of them (1 where trees are disjoint), ε the step's epsilon.
    """

    #: What the operation is called in plans, ledger entries and models. `Session` has a method of this name.
    name: ClassVar[str]
    #: What comes out, in words.
    answer: ClassVar[str]
    #: The most by which one unit can change all values in total.
    sensitivity: ClassVar[str]
    #: The noise of a run that pays epsilon, in words.
    noise_words: ClassVar[str]
    #: Why an operation without noise needs none.
    why_no_noise: ClassVar[str] = ""
    mechanism: ClassVar[Mechanism] = ADDED_NOISE
    #: Whether anything comes out. An allowance for later steps answers nothing itself.
    answers: ClassVar[bool] = True
    #: Whether it answers without noise and costs nothing. Only a run that promises privacy for labels alone may ask it.
    free: ClassVar[bool] = False
    #: Whether a step may be opened later, on an allowance. It then needs a cost and a proof of its own.
    may_come_later: ClassVar[bool] = True
    #: Whether an unproven, published form exists beside the proven one (`kernel/published.py`).
    has_published_form: ClassVar[bool] = False
    #: Whether the answer is what the leaves of given trees say about labels or targets.
    fills_leaves: ClassVar[bool] = False
    #: Whether it sums a numeric target, so that `row_weight` must be the declared steps of that target.
    needs_target: ClassVar[bool] = False
    #: Whether rows are told apart by class, however the operation is asked.
    by_class: ClassVar[bool] = False
    #: Whether it shows values that only rows tell. A part of delta must then be set aside for it.
    needs_selection_delta: ClassVar[bool] = False

    @property
    def needs_classes(self) -> bool:
        """Whether the answer needs classes, so that it cannot be asked where the label is a number."""
        return self.by_class

    def expected_error(self, step: Step, scale: float, *, approximate: bool) -> str:
        """Return in words how large the error is that noise of this scale causes in one released value of a step."""
        return f"standard deviation {math.sqrt(2) * scale:.3g} rows per count"


@dataclass(frozen=True, slots=True)
class Size(Operation):
    """The number of rows that training would use.

    Proof: one row changes the count by 1; discrete Laplace noise of scale c/epsilon gives a unit of c rows epsilon
    (Ghosh, Roughgarden & Sundararajan 2012).
    """

    name = "size"
    answer = "number of rows"
    sensitivity = "c"
    noise_words = "discrete Laplace, scale c/ε"


@dataclass(frozen=True, slots=True)
class LeafCounts(Operation):
    """Counts on the full grid of leaves × classes.

    Proof: the counts of all cells together change by at most c (disjoint) or c·T (shared) in L1; discrete Laplace noise
    of that scale over epsilon on every cell, empty ones included, gives epsilon (Dwork & Roth 2014, Theorem 3.6, for
    integers Ghosh et al. 2012).
    """

    name = "leaf_counts"
    answer = "rows of each class in each leaf"
    sensitivity = "c·T"
    noise_words = "discrete Laplace, scale c·T/ε"
    by_class = True
    fills_leaves = True


@dataclass(frozen=True, slots=True)
class LeafSums(Operation):
    """Two sums for every leaf: the steps of its rows' targets below `upper`, and those above `lower`.

    With B steps below `upper` and A steps above `lower`, the mean target of a leaf is lower + (upper − lower) ·
    A/(A + B), and the number of its rows is (A + B)/`steps`.

    Proof: a target counts as z whole steps above `lower`, clamped to 0 ≤ z ≤ S, where S is the declared number of
    steps. A row adds S − z ≥ 0 to one sum, and z ≥ 0 to the other sum, of one leaf per tree: S in total, whatever z is.
    So all sums change by at most c·S (disjoint) or c·T·S (shared) in L1; discrete Laplace noise of that scale over
    epsilon on both sums of every leaf, empty ones included, gives epsilon as in `LeafCounts`. A row whose target is
    NULL or NaN adds nothing. Where labels alone are private, another target moves both sums by at most S each, which is
    the factor 2 of `Promise.change`; there NaN counts as z = 0, so that no target takes a row out of the sums. (If a
    sum and a count had noise of their own, they would have to share epsilon. What is done here is the K-norm mechanism
    of Hardt & Talwar 2010 for the body that the sum and the count of one row span: epsilon is not divided, and the
    error of a mean is smaller.)
    """

    name = "leaf_sums"
    answer = "two sums of a numeric target in each leaf, in S steps"
    sensitivity = "c·T·S"
    noise_words = "discrete Laplace, scale c·T·S/ε"
    fills_leaves = True
    needs_target = True

    def expected_error(self, step: Step, scale: float, *, approximate: bool) -> str:
        """Return the deviations of a leaf's rows, and of its sum of targets in units of the declared range."""
        rows = scale / step.row_weight
        return f"standard deviation {2 * rows:.3g} rows per leaf, {math.sqrt(2) * rows:.3g} ranges per sum of targets"


@dataclass(frozen=True, slots=True)
class LeafLabels(Operation):
    """One class number per leaf by one-sided noisy arg-max, which is permute-and-flip on the counts.

    Proof: adding a row raises one class count of one leaf by 1 and lowers none, so the utility is monotone with
    sensitivity 1. Permute-and-flip at row epsilon e then costs e per row (McKenna & Sheldon 2020, Theorem 1, with the
    factor 1 of monotone utilities in place of 2; that it equals noisy arg-max is shown by Ding et al. 2021). Other
    leaves do not change.
    """

    name = "leaf_labels"
    answer = "one label per leaf"
    sensitivity = "c·T rows, each of which moves one count by 1"
    noise_words = "permute-and-flip at ε/(c·T) per row"
    by_class = True
    mechanism = PERMUTE_AND_FLIP
    has_published_form = True
    fills_leaves = True

    def expected_error(self, step: Step, scale: float, *, approximate: bool) -> str:
        """Return with what lead, in rows, the most frequent class of a leaf is named in at least 95 of 100 cases."""
        likely = 0.025 if approximate else 0.05  # permute-and-flip errs half as often as the exponential mechanism
        lead = math.ceil(scale * math.log(max(1, step.classes - 1) / 2 / likely)) if step.classes > 1 else 0
        return f"a class that leads its leaf by {max(1, lead)} rows is named at least 95 times in 100"


@dataclass(frozen=True, slots=True)
class Histograms(Operation):
    """Counts on the full grid of (leaf, axis, cell, class) at the leaves of a growing forest, or without classes.

    Proof: a row adds 1 to one cell of each axis in each tree it walks, so the L1 sensitivity is c·axes (disjoint) or
    c·T·axes (shared); discrete Laplace noise on every cell as in `LeafCounts`.
    """

    name = "histograms"
    answer = "rows in each cell of each axis of each node"
    sensitivity = "c·T·axes"
    noise_words = "discrete Laplace, scale c·T·axes/ε"


@dataclass(frozen=True, slots=True)
class Choose(Operation):
    """One candidate split per leaf of a growing forest, by the exponential mechanism, or one for all leaves of a tree.

    `utility` names what is maximised. `most` is the number of rows of a node at which the utilities "gini" and
    "entropy" cut its counts off.

    Proof: adding a row moves the utilities of its leaf's candidates within an interval whose width is proved in
    `kernel/utility.py`; with rate e/width the exponential mechanism costs e per row (McSherry & Talwar 2007; Dwork &
    Roth 2014, Theorem 3.10). A row is in one leaf per tree, so the other leaves' choices do not change; and a sum over
    the leaves of a tree moves as the term of the row's own leaf does, within the same interval.
    """

    utility: str
    most: int = MOST

    name = "choose"
    answer = "one candidate split per node, or one for all nodes of a tree"
    sensitivity = "c·T rows, each of which moves the utilities within a proven width"
    noise_words = "exponential mechanism at ε/(c·T) per row, over that width"
    mechanism = EXPONENTIAL
    has_published_form = True

    def __post_init__(self) -> None:
        if type(self.utility) is not str or self.utility not in UTILITIES:
            raise ParameterError("utility", allowed=f"one of {', '.join(UTILITIES)}", given=self.utility)
        if type(self.most) is not int or self.most < 1:
            raise ParameterError("most", allowed="a positive whole number", given=self.most)

    @property
    def needs_classes(self) -> bool:
        """Whether the utility reads classes."""
        return self.utility not in CLASSLESS

    @property
    def width(self) -> int:
        """How far one row can move the utility (see `kernel/utility.py`)."""
        return width(self.utility, self.most)

    def expected_error(self, step: Step, scale: float, *, approximate: bool) -> str:
        """Return how far from the best a likely choice is, in rows."""
        rows = scale * self.width / (UTILITY_UNITS if self.utility in IN_UTILITY_UNITS else 1)
        return f"choices within {max(1, math.ceil(rows))} rows of the best are likely"


@dataclass(frozen=True, slots=True)
class ScoreCounts(Operation):
    """Counts of rows by true class, named class and probability, as a released forest scores them.

    The cells are those of the H histograms of `trees/score_grid.py` (H is 1 for two classes or for confidence alone,
    and 4 for more classes).

    Proof: which cells a row falls into follows from that row, the ticket of its unit and the released forest: scores
    are sums of whole numbers, and probabilities are computed from them in a fixed order. So a row adds 1 to one cell of
    each histogram, and all cells together change by at most c·H in L1; discrete Laplace noise of scale c·H/epsilon on
    every cell, empty ones included, gives epsilon as in `LeafCounts`. Where labels alone are private, another label
    moves a count from one cell to another in each histogram, which is the factor 2 of `Promise.change`.
    """

    name = "score_counts"
    answer = "rows by true class, named class and probability, as a released model scores them"
    sensitivity = "c·H (H = 1 histogram for two classes, 4 for more)"
    noise_words = "discrete Laplace, scale c·H/ε"
    by_class = True


@dataclass(frozen=True, slots=True)
class Linear(Operation):
    """Answers to a strategy's questions about the cells of a tree, by class (questions × classes).

    The cells are leaves: of one tree, or of several that see disjoint rows.

    Proof: each row is in one cell, so it adds one column of the strategy to the answers for its class. The absolute
    values of that column are whole numbers that add up to at most Δ, the sensitivity of the strategy. The kernel works
    Δ out from the numbers that are asked, and never takes it from a plan or a cache. So all answers change by at most
    c·Δ in L1 (and in L2 too), and discrete Laplace noise of that scale over epsilon on every answer gives epsilon as in
    `LeafCounts`. Δ takes into account that one count enters several answers. Least squares, and whatever is read from
    it, is post-processing.
    """

    name = "linear"
    answer = "whole-number questions about the counts of cells, by class; each row is in one cell"
    sensitivity = "c·Δ (Δ the largest column sum of the questions, worked out from the whole numbers that are asked)"
    noise_words = "discrete Laplace, scale c·Δ/ε"
    by_class = True

    def expected_error(self, step: Step, scale: float, *, approximate: bool) -> str:
        """Return the standard deviation of a cell's count, had it been asked for by itself; a strategy does better."""
        rows = math.sqrt(2) * scale / step.row_weight
        return f"standard deviation {rows:.3g} rows per cell if cells were asked for; less by what the strategy gains"


@dataclass(frozen=True, slots=True)
class Pick(Operation):
    """The number of one of several mixtures of a released forest's trees, by how many rows each gets right.

    A method may weigh classes: a row is then worth the gain of its class where it is labelled right, in place of 1. It
    may also choose among options, each of which is worth what several mixtures are worth together.

    Proof: adding a row of one class raises what an option is worth by a sum of gains of that class, each of one of its
    mixtures and each at least 0, so by at least 0 and at most the largest such sum G. These utilities are monotone with
    sensitivity G, so the exponential mechanism with rate e/G, at row epsilon e, costs e per row (McSherry & Talwar
    2007; Dwork & Roth 2014, Theorem 3.10). Mixtures, options, weights and gains follow from public facts and earlier
    releases, and so does G; where all gains are 1 and each mixture is an option, G is 1.
    """

    name = "pick"
    answer = "one of several public mixtures of a released forest's trees, by the rows that each labels right"
    sensitivity = "c rows, each of which raises what a mixture is worth by 0 to G (1 unless classes are weighed)"
    noise_words = "exponential mechanism at ε/(c·G) per row"
    by_class = True
    mechanism = EXPONENTIAL

    def expected_error(self, step: Step, scale: float, *, approximate: bool) -> str:
        """Return how far from the best a likely choice is, in rows of the class with the largest gain."""
        return f"choices within {max(1, math.ceil(scale))} rows of the best are likely"


@dataclass(frozen=True, slots=True)
class Magnitudes(Operation):
    """How many rows each of several columns has by sign and power of two, on the grid of `trees/magnitude_grid.py`.

    A step of this operation has as many `axes` as columns are asked about. Bounds of the columns follow from the noisy
    counts alone.

    Proof: the grid is fixed, the same for every table. A row is in one cell of each column, NULL and NaN in a cell of
    their own, so all counts change by at most c·axes in L1; discrete Laplace noise of that scale over epsilon on every
    cell, empty ones included, gives epsilon as in `LeafCounts`.
    """

    name = "magnitudes"
    answer = "rows by sign and power of two, for each of several columns of numbers"
    sensitivity = "c·axes"
    noise_words = "discrete Laplace, scale c·axes/ε"


@dataclass(frozen=True, slots=True)
class HashCounts(Operation):
    """How many rows each of several columns of texts has in each cell of a public hash of 4096 cells.

    A step of this operation has as many `axes` as columns are asked about. Which cells are in use follows from the
    noisy counts alone; no text comes out.

    Proof: the hash has no key and knows no row (`dpsql/schema/hashed.py`), so the grid is fixed, the same for every
    table. A row is in one cell of each column, NULL in a cell of its own, so all counts change by at most c·axes in L1;
    discrete Laplace noise of that scale over epsilon on every cell, empty ones included, gives epsilon as in
    `LeafCounts`. Whoever knows a text can work out its cell, and learns no more than that cell's noisy count.
    """

    name = "hash_counts"
    answer = "rows in each cell of a wide public hash, for each of several columns of texts"
    sensitivity = "c·axes"
    noise_words = "discrete Laplace, scale c·axes/ε"


@dataclass(frozen=True, slots=True)
class CommonValues(Operation):
    """The texts that many rows have in common, of several columns together, each with a noisy count.

    A step of this operation has as many `axes` as columns are asked about. A text that at most c rows have is never
    released. Any other text is released with its noisy count if that count is at least T (`noise.least_common`).

    Proof: let D' be D with one more unit, which has at most c rows, and let K be the number of columns. Let S be the
    texts (of all columns) that more than c rows of D have. On S the noisy counts are those of a Gaussian mechanism: the
    unit moves the counts of one column by a vector of Euclidean length at most c, and those of all columns by at most
    c·√K, so they are rho-zCDP (`kernel/noise.py`, step 2), and comparing them with T is post-processing. A text that
    D' counts more than c times, and D does not, is in a row of the unit. So there are at most c·K such texts, and D'
    has each at most 2c times. Each is released only if its noise is at least T − 2c, which happens with probability at
    most selection_delta/(c·K). So with probability at least 1 − selection_delta none of them is released. Given that,
    what D' releases has exactly the distribution of the Gaussian mechanism on S, because the noise on different texts
    is independent. This is selection_delta-approximate rho-zCDP (Bun & Steinke 2016, Definition 8.1, in both
    directions). By their Lemma 8.2 the rho of all runs add up and so do their selection deltas; rho-zCDP that implies
    (epsilon, delta − selection_delta) then gives (epsilon, delta) in all. (That the texts which at most c rows have are
    left out before noise is added is why T has 2c and not c.)
    """

    name = "common_values"
    answer = "the texts of several columns that many rows have, each with its number of rows"
    sensitivity = (
        "c in each of the columns (Euclidean length c·√axes); a text of one unit shows with probability below δ"
    )
    noise_words = "none: it is not offered without a δ"
    mechanism = Mechanism("none", "discrete Gaussian, and a threshold")
    may_come_later = False
    needs_selection_delta = True


@dataclass(frozen=True, slots=True)
class Later(Operation):
    """An allowance for steps that are planned once an earlier answer is known (`Session.later`).

    Proof: it answers nothing. The steps that are opened on it are a function of released values, and whatever they are,
    they cost no more than the allowance that was charged (adaptive composition of pure epsilon: Rogers, Roth, Ullman &
    Vadhan 2016; of rho: `kernel/noise.py`). They look only at the units of the allowance's own part and side, because
    no others were charged, and each has a proof of its own.
    """

    name = "later"
    answer = "nothing: it is an allowance for steps that are planned from an earlier answer"
    why_no_noise = "the steps that are opened on it have noise of their own, and cost no more than it together"
    sensitivity = "0"
    noise_words = "none"
    mechanism = NO_NOISE
    answers = False
    may_come_later = False

    def expected_error(self, step: Step, scale: float, *, approximate: bool) -> str:
        """Return that nothing is known yet."""
        return "known once the step before it has answered"


@dataclass(frozen=True, slots=True)
class ExactAnswer(Operation):
    """What is common to the operations that answer without noise: what they read is the same on both neighbours."""

    sensitivity = "0"
    noise_words = "none"
    mechanism = NO_NOISE
    free = True
    may_come_later = False

    def expected_error(self, step: Step, scale: float, *, approximate: bool) -> str:
        """Return that there is none."""
        return "none: the features are public"


@dataclass(frozen=True, slots=True)
class PublicSize(ExactAnswer):
    """The number of labelled rows. Neighbours differ only in what labels say, so it is the same for both.

    Proof: a row counts if its label is not NULL, whatever the label says, and neighbours have the same NULLs.
    """

    name = "public_size"
    answer = "the number of labelled rows"
    why_no_noise = "which labels are NULL is public there; what they say is not read"


@dataclass(frozen=True, slots=True)
class PublicSplits(ExactAnswer):
    """The best candidate split of each leaf for the utility "median", over all rows, labelled or not.

    Proof: it reads features alone, and neighbours have the same features. Before the charge, `check_sides` of
    `kernel/unlabelled_rows.py` has checked that the owner declared them public. No other utility can be asked for:
    those that read classes would read labels.
    """

    #: The one utility that is asked for without noise.
    utility: ClassVar[str] = "median"

    name = "public_splits"
    answer = "the best split of each node by the utility `median`"
    why_no_noise = "it reads features alone; a utility that needs classes cannot be asked for"


@dataclass(frozen=True, slots=True)
class PseudoCounts(ExactAnswer):
    """How many unlabelled rows of each predicted class reach each leaf; a released forest predicts.

    Proof: the forest that predicts is released, and the features of the rows are public (as for `PublicSplits`), so the
    answer is post-processing.
    """

    name = "pseudo_counts"
    answer = "the unlabelled rows of each predicted class in each leaf"
    why_no_noise = "features are public, and the forest that predicts is released"


_ALL: tuple[type[Operation], ...] = (
    Size, LeafCounts, LeafSums, LeafLabels, Histograms, ScoreCounts, Choose, Linear, Pick, Magnitudes, HashCounts,
    CommonValues, Later, PublicSize, PublicSplits, PseudoCounts,
)  # fmt: skip
#: Every operation by its name: those with noise, the allowance, those without noise.
OPERATIONS: Mapping[str, type[Operation]] = MappingProxyType({kind.name: kind for kind in _ALL})


def check_known(given: object) -> None:
    """Raise ParameterError, with the list of known classes, unless an object's class is one of them, by identity."""
    if not any(type(given) is kind for kind in OPERATIONS.values()):
        came = given if type(given) is str else type(given).__name__
        kinds = ", ".join(kind.__name__ for kind in OPERATIONS.values())
        raise ParameterError("operation", allowed=f"a value of one of the kernel's ({kinds})", given=came)
