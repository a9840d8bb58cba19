"""A step without a proof reads no rows that have a cap, on whichever side of a run they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsql.api.database import connect
from dpsql.errors import NotPrivate
from dpsql.kernel.datasets.dataset import find_dataset
from dpsql.kernel.plan import Sides, Step
from dpsql.kernel.run import Job
from dpsql.kernel.run import run as run_job
from dpsql.schema import Schema
from tests.tables import SCHEMA, UNITS, fill


@pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["rows", "units"])
def test_unlabelled_rows_with_a_cap_are_not_read_as_published(schema: Schema) -> None:
    """A plan of a method's own making cannot look at private rows beside a public table."""
    with connect(":memory:", who="ann") as db:
        for table in ("open", "private"):
            fill(db.engine, table, [(k, float(k), "ab"[k % 2], "no") for k in range(20)])
        db.register("open", replace(schema, disjoint_from=("private",)), cap=None)
        db.register("private", schema, cap=1)
        plan = db.plan("open", method="sspe", unlabelled="private", epsilon=0.5, trees=2)
        sides = plan.composition
        assert isinstance(sides, Sides)
        assert isinstance(sides.unlabelled, Step)
        splits = replace(sides.unlabelled, published=True)
        unproven = replace(plan, composition=replace(sides, unlabelled=splits))
        assert not unproven.private
        dataset, other = (find_dataset(db.engine, db.book, name) for name in ("open", "private"))
        job = Job.of(dataset, unproven, who="ann", request_id=None, other=other)
        with pytest.raises(NotPrivate, match="as published"):
            run_job(db.engine, db.book, job, lambda session: session)  # type: ignore[arg-type,return-value]
        assert db.budget("private").spent_text == "0"
