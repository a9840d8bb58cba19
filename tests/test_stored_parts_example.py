"""`examples/stored_parts.py` trains on a stored partition column in both of its forms."""

from __future__ import annotations

import pytest

from examples.stored_parts import PARTITIONS, accuracy, made_up_rows


@pytest.mark.parametrize("form", PARTITIONS)
def test_both_forms_train_a_model(form: str) -> None:
    """Each form gives a model that labels more than a third of the rows held out right."""
    rows = made_up_rows(1500)
    assert accuracy(rows, PARTITIONS[form], "rosnam", seed=1, epsilon="4") > 33
