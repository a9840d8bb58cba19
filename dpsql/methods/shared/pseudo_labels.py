"""A released forest labels rows whose features are public, and more trees learn from these labels at no cost.

`pte` (median trees) and `ssrdt` (random trees) share this. Only labels are private here: the noisy counts of the first
forest, the teacher, are paid for. How it then labels public rows is post-processing, so the second trees need no noise.
"""

from __future__ import annotations

import numpy as np

from dpsql.kernel.operations import PseudoCounts
from dpsql.kernel.plan import Step
from dpsql.kernel.session import Session
from dpsql.schema import Schema
from dpsql.trees.forest import Forest
from dpsql.trees.join import join_over_same_features
from dpsql.trees.voting import VotingForest, largest_weight


def pseudo_step(trees: int, cells: int, schema: Schema) -> Step:
    """Return the step that counts the teacher's labels in the second trees."""
    return Step(
        "pseudo_labels",
        PseudoCounts(),
        0,
        trees=trees,
        shared=True,
        cells=cells,
        classes=len(schema.classes),
        scans=2,
        note="labels that the first trees give to unlabelled rows, counted in more trees: no noise, no cost",
    )


def teach_trees(session: Session, teacher: VotingForest, forest: Forest) -> VotingForest:
    """Return the teacher's trees beside trees whose leaves count the teacher's labels of the unlabelled rows."""
    schema = session.schema
    counts = session.pseudo_counts("pseudo_labels", teacher, forest)
    most = largest_weight(teacher.forest.trees + forest.trees, len(schema.classes))
    pupil = VotingForest(forest, np.clip(counts, -most, most))
    return join_over_same_features(VotingForest(teacher.forest, np.clip(teacher.weights, -most, most)), pupil)
