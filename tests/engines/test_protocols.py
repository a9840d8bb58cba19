"""Every engine has what the protocols ask: names and signatures. `protocol_types.py` is the same for mypy."""

from __future__ import annotations

import inspect
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dpsql.engines.base import Engine, Transaction, Workspace
from dpsql.engines.open_engine import SPECS
from dpsql.engines.spec import EngineModule, EngineSpec
from dpsql.spelling import Lists, RowByRow, Vocabulary
from tests.servers import OPEN_EMPTY

ROOT = Path(__file__).resolve().parents[2]


def members(protocol: type) -> dict[str, Any]:
    """Return the attributes and methods that a protocol asks for."""
    declared = dict.fromkeys(inspect.get_annotations(protocol))
    return declared | {name: value for name, value in vars(protocol).items() if name[0] != "_"}


def check_members(instance: object, protocol: type) -> None:
    """Raise AssertionError unless an object has all that a protocol asks for, with the same parameters."""
    for name, asked in members(protocol).items():
        assert hasattr(instance, name), f"{type(instance).__name__} has no {name}"
        if inspect.isfunction(asked):
            own = inspect.signature(getattr(type(instance), name)).parameters
            expected = inspect.signature(asked).parameters
            shown = f"{type(instance).__name__}.{name}({', '.join(own)})"
            assert list(own)[: len(expected)] == list(expected), shown
            assert [own[key].kind for key in expected] == [expected[key].kind for key in expected], shown


def test_mypy_reads_the_typed_half() -> None:
    """The type checker, which `tests/test_quality.py` runs, is told to read the file that names every engine."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert "tests.engines.protocol_types" in settings["modules"]
    text = Path(__file__).with_name("protocol_types.py").read_text(encoding="utf-8")
    assert all(spec.module.rpartition(".")[0] in text for spec in SPECS)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_an_open_engine_has_what_the_protocols_ask(spec: EngineSpec) -> None:
    """The engine, its words, its workspace and its transaction."""
    engine = OPEN_EMPTY[spec.name]()
    try:
        check_members(engine, Engine)
        check_members(engine.vocabulary, Vocabulary)
        with engine.workspace() as workspace:
            check_members(workspace, Workspace)
        with engine.transaction() as transaction:
            check_members(transaction, Transaction)
            assert not transaction.has_table("nothing of ours")
        for part, protocol in ((engine.vocabulary.lists, Lists), (engine.vocabulary.row_by_row, RowByRow)):
            if part is not None:
                check_members(part, protocol)
    finally:
        engine.close()


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_spec_names_its_own_package(spec: EngineSpec) -> None:
    """The module is in the package of that name and has the functions that opening calls."""
    pytest.importorskip(spec.drivers[0])
    assert spec.module.startswith(f"dpsql.engines.{spec.name}.")
    module = import_module(spec.module)
    for name in ("open_target", "adopt_connection"):
        expected = list(inspect.signature(getattr(EngineModule, name)).parameters)[1:]
        assert list(inspect.signature(getattr(module, name)).parameters) == expected
