"""The request to train: one place for its arguments, and every door offers what stands there."""

from __future__ import annotations

import inspect
from dataclasses import MISSING
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql import methods
from dpsql.api.database import Database
from dpsql.api.duckdb_sql import macro_statements
from dpsql.cli.commands.explain_commands import explain_command
from dpsql.cli.commands.train_commands import train_command
from dpsql.cli.options import _parameter_help, parameter_sections
from dpsql.errors import ParameterError, UnknownName
from dpsql.runs.arguments import arguments, with_options
from dpsql.runs.train import ARGUMENTS, TrainRequest
from tests.tables import SMALL, memory, on_disk, some_rows, stored

OF_A_PLAN = set(arguments(names_release=False))


def option_names(command: Any) -> set[str]:
    """Return the names of a command's options."""
    return {parameter.name for parameter in command.params}


def test_the_command_line_offers_every_argument_and_parameter() -> None:
    """`dpsql train` has an option for each of them, with the sentence and the default that stand in one place."""
    options = {parameter.name: parameter for parameter in train_command.params}
    assert {*ARGUMENTS, *methods.PARAMETERS} <= set(options)
    assert {*OF_A_PLAN, *methods.PARAMETERS} <= option_names(explain_command)
    assert not {"name", "request_id"} & option_names(explain_command)
    for name, known in ARGUMENTS.items():
        option: Any = options[name]
        assert option.help == known.metadata["help"]
        assert option.required == (known.default is MISSING)
        if known.metadata["flag"]:
            assert option.is_flag
            continue
        default = None if known.default in (MISSING, None) else str(known.default)
        assert option.default == default or (default is None and not isinstance(option.default, str))


def test_help_names_the_methods_that_have_a_parameter() -> None:
    """The sentence is what they have in common; in the section of many methods it says which have it, or have not."""
    everywhere = parameter_sections()
    many = next(iter(everywhere))
    assert _parameter_help(methods.PARAMETERS["depth"], many).endswith(".")
    without = [name for name in methods.METHODS if name not in methods.PARAMETERS["trees"]]
    assert _parameter_help(methods.PARAMETERS["trees"], many).endswith(f"(not {', '.join(without)}).")
    assert "(" not in _parameter_help(methods.PARAMETERS["shared"], "Options of rosnam")
    bins = methods.PARAMETERS["bins"]
    assert len({parameter.help for parameter in bins.values()}) > 1
    assert {parameter.help.partition(";")[0] for parameter in bins.values()} == {"bins of a number, of equal width"}
    assert _parameter_help(bins, "Options of id3, mrf, snr") == "Bins of a number, of equal width."
    assert _parameter_help(bins, many) == "Bins of a number, of equal width (id3, mrf, snr)."
    assert "bins" in everywhere["Options of id3, mrf, snr"]
    everyone = dict.fromkeys(methods.METHODS, methods.PARAMETERS["seed"]["rdt"])
    assert _parameter_help(everyone, many) == "Shapes the trees, never touches noise."


@pytest.mark.parametrize(
    ("call", "names"), [(Database.train, set(ARGUMENTS)), (Database.plan, OF_A_PLAN), (Database.explain, OF_A_PLAN)]
)
def test_python_shows_every_argument(call: Any, names: set[str]) -> None:
    """`help(db.train)` has the arguments with their defaults and sentences, though they stand nowhere in its code."""
    shown = inspect.signature(call).parameters
    assert names <= set(shown)
    for name in names - {"table"}:
        assert shown[name].default == ARGUMENTS[name].default
        assert f"{name}: {ARGUMENTS[name].metadata['help']}" in call.__doc__


def test_sql_has_a_parameter_for_each() -> None:
    """The macros declare every argument and parameter, with the same defaults."""
    text = "\n".join(macro_statements())
    assert not [word for word in ("train_parameters", "plan_values") if f":{word}" in text]
    for name in (*ARGUMENTS, *methods.PARAMETERS):
        assert f"'{name}'" in text
    connection = duckdb.connect()
    dpsql.attach(connection)
    found = connection.execute(
        "SELECT parameters FROM duckdb_functions() WHERE function_name = 'dpsql_plan' AND function_type = 'table_macro'"
    ).fetchall()
    expected = ["table_name", *list(arguments(names_release=False))[1:], *methods.PARAMETERS, "options"]
    assert found[0][0] == expected


def test_every_door_asks_for_the_same(tmp_path: Path) -> None:
    """One request by Python, by SQL with names and by SQL with options: one plan, and under one id one charge."""
    path = tmp_path / "data.duckdb"
    on_disk(path, some_rows(), cap=5).close()
    connection = duckdb.connect(str(path))
    database = dpsql.attach(connection, who="ann")
    model = database.train("people", epsilon="0.5", method="rosnam", trees=3, depth=2, shared=True, request_id="r")
    before = stored(database)
    named = "trees := 3, depth := 2, shared := true"
    for asked in (named, "options := MAP {'trees': '3', 'depth': '2', 'shared': 'true'}"):
        call = (
            f"SELECT model FROM dpsql_train('people', epsilon := 0.5, method := 'rosnam', request_id := 'r', {asked})"
        )
        assert connection.execute(call).fetchall() == [(model.name,)]
    assert stored(database) == before


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"epsilon": None}, "epsilon"),
        ({"method": None}, "method"),
        ({"table": None}, "table"),
        ({"trees": "1.5"}, "trees"),
        ({"as_published": "maybe"}, "as_published"),
        ({"delta": "1e-6", "batch": "a"}, "delta"),
        ({"delta": "2"}, "delta"),
        ({"epsilon": "many"}, "epsilon"),
    ],
)
def test_texts_are_checked(given: dict[str, str | None], name: str) -> None:
    """A text that makes no sense is refused by the name of its argument; NULL never stands for a default."""
    with pytest.raises(ParameterError) as caught:
        TrainRequest.from_text({"table": "people", **given})
    assert caught.value.name == name


def test_a_parameter_that_is_null_is_left_to_the_method() -> None:
    """It is not handed on at all; others become what their method takes."""
    request = TrainRequest.from_text({"table": "people", "trees": None, "depth": "3", "shared": "TRUE", "made_up": "1"})
    assert request.parameters == {"depth": 3, "shared": True, "made_up": "1"}
    with memory(some_rows()) as opened, pytest.raises(UnknownName, match="made_up"):
        opened.plan("people", made_up="1")


class Growing(Decimal):
    """An epsilon that is ten times larger whenever it is read again."""

    def __new__(cls) -> Growing:
        """Begin small."""
        made = super().__new__(cls, "0.1")
        made.texts = iter(("0.1", "1", "10"))  # type: ignore[attr-defined]
        return made

    def __str__(self) -> str:
        return next(self.texts)  # type: ignore[attr-defined, no-any-return]


def test_epsilon_is_read_once() -> None:
    """What is checked, planned and charged is one number, whatever object it came from."""
    request = TrainRequest(table="people", epsilon=Growing())
    assert [request.nano_epsilon for _ in range(3)] == [10**8] * 3
    with memory(some_rows()) as opened:
        opened.train("people", epsilon=Growing(), **SMALL)
        assert opened.budget("people").spent == 10**8


def test_options_repeat_nothing() -> None:
    """What has a place by name comes by name: an option can neither replace it nor fill it in."""
    named = {"table": "people", "epsilon": "1", "name": None, "trees": None}
    assert with_options(named, {"trees": 3, "batch": "a"})["trees"] == 3
    for options in ({"epsilon": "9"}, {"table": "other"}, {"name": "mine"}):
        with pytest.raises(ParameterError, match="options"):
            with_options(named, options)
    with pytest.raises(ParameterError, match="options"):
        with_options({"trees": "3"}, {"trees": "4"})


def test_a_training_looks_twice_at_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once to find the dataset, once to settle which rows are read; planning and storing ask it nothing."""
    with memory(some_rows()) as opened:
        looks: list[str] = []
        real = type(opened.engine).table

        def table(engine: Any, name: str, **more: Any) -> Any:
            looks.append(name)
            return real(engine, name, **more)

        monkeypatch.setattr(type(opened.engine), "table", table)
        opened.train("people", method="rdt", **SMALL)
        assert looks == ["people", "people"]


def test_a_certificate_names_the_driver_in_use() -> None:
    """Versions are those of what made the model."""
    with memory(some_rows()) as opened:
        versions = opened.train("people", **SMALL).certificate["versions"]
    assert set(versions) == {"dpsql", "duckdb", "numpy", "sqlglot"}
    assert versions["duckdb"] == duckdb.__version__
