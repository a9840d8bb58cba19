"""A function of the user's in the place of one that dpsql calls would be handed private cells: each is looked for."""

from __future__ import annotations

import pytest

from tests.servers import OPEN_EMPTY


def test_every_function_that_spark_is_asked_to_call_must_be_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older Sparks prefer a temporary function to their own of that name: none that dpsql may call is forgotten."""
    engine = OPEN_EMPTY["spark"]()
    try:
        assert engine.redefined_functions() == []
        spark_engine = pytest.importorskip("dpsql.engines.spark.engine")
        monkeypatch.setattr(spark_engine, "_BUILT_IN", "nobody's")
        names = engine.vocabulary.functions - {"is_nan"}
        assert {"md5", "conv", "unix_micros", "try_validate_utf8"} <= names <= set(engine.redefined_functions())
    finally:
        engine.close()
