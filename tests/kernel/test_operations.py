"""The list of operations: complete, each with a proof, described in the docs as it is, and compared nowhere by name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from dpsql.errors import ParameterError
from dpsql.kernel.describe import describe_step, exact_table, expected_error, noise_table
from dpsql.kernel.noise import approximate, mechanism_name
from dpsql.kernel.operations import NO_NOISE, OPERATIONS, Choose, Later, LeafCounts, LeafLabels, Operation, PublicSplits
from dpsql.kernel.plan import Plan, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.kernel.utility import UTILITIES
from dpsql.ledger import parse_delta
from dpsql.schema import Unit

ROOT = Path(__file__).resolve().parent.parent.parent
PROMISE = Promise(Unit())
NOISY = [kind for kind in OPERATIONS.values() if kind.mechanism is not NO_NOISE]


def value_of(kind: type[Operation]) -> Operation:
    """Return a value of an operation."""
    return Choose("majority") if kind is Choose else kind()


def step_of(kind: type[Operation]) -> Step:
    """Return a step that asks for an operation."""
    return Step("a", value_of(kind), 0 if kind.free else 10**9, classes=3)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_session_has_a_method_for_each_operation(name: str) -> None:
    """The list and the session name the same questions, and a session refers to the proof."""
    method = vars(Session)[name]
    assert f"Proof: `operations.{OPERATIONS[name].__name__}`." in (method.__doc__ or "")


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_has_a_proof_and_says_what_it_does(name: str) -> None:
    """The docstring of the class holds the proof; answer, sensitivity and noise are written down."""
    kind = OPERATIONS[name]
    assert kind.name == name
    assert "    Proof: " in (kind.__doc__ or "")
    assert all((kind.answer, kind.sensitivity, kind.noise_words))
    assert bool(kind.why_no_noise) is (kind.mechanism is NO_NOISE)


def test_nothing_but_the_listed_operations_stands_in_the_room() -> None:
    """Every public class with a name of its own is in the list: none can be forgotten."""
    tree = ast.parse((ROOT / "dpsql/kernel/operations.py").read_text(encoding="utf-8"))
    named = [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and any(isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "name" for part in node.body)
    ]
    assert sorted(named) == sorted(kind.__name__ for kind in OPERATIONS.values())
    assert len(named) == 16


@pytest.mark.parametrize("kind", OPERATIONS.values(), ids=OPERATIONS)
def test_a_stored_step_names_its_operation(kind: type[Operation]) -> None:
    """Plans in ledgers and models keep the operation's name as text."""
    assert describe_step(step_of(kind), PROMISE)["operation"] == kind.name


@pytest.mark.parametrize("kind", OPERATIONS.values(), ids=OPERATIONS)
def test_the_noise_is_the_one_that_the_operation_says(kind: type[Operation]) -> None:
    """With epsilon alone and with a delta; the words of the table begin with it."""
    step, delta = step_of(kind), Promise(Unit(), approximate=approximate(10**9, parse_delta("1e-6")))
    assert mechanism_name(step, PROMISE) == kind.mechanism.pure
    assert mechanism_name(step, delta) == kind.mechanism.approximate
    assert kind.noise_words.startswith(kind.mechanism.pure)
    assert (step.scale(PROMISE) == 0) is (kind.mechanism is NO_NOISE) is (step.scale(delta) == 0)


@pytest.mark.parametrize("kind", NOISY, ids=lambda kind: kind.name)
def test_the_expected_error_follows_the_noise(kind: type[Operation]) -> None:
    """A hundred times the epsilon says something better."""
    step = step_of(kind)
    faint = Step("a", step.operation, 10**7, classes=3)
    assert expected_error(step, PROMISE) != expected_error(faint, PROMISE)


def test_free_operations_cost_nothing_and_cannot_come_later() -> None:
    """What answers without noise is never published, never opened on an allowance, and fills no leaf."""
    free = [kind for kind in OPERATIONS.values() if kind.free]
    assert {kind.name for kind in free} == {"public_size", "public_splits", "pseudo_counts"}
    for kind in (*free, Later):
        assert kind.mechanism is NO_NOISE
        assert (kind.may_come_later, kind.has_published_form, kind.fills_leaves) == (False, False, False)


@pytest.mark.parametrize("utility", UTILITIES)
def test_a_choice_needs_classes_where_its_utility_does(utility: str) -> None:
    """Medians read features alone."""
    assert Choose(utility).needs_classes is (utility != "median")


def test_the_splits_without_noise_are_medians() -> None:
    """No utility that reads labels can be asked for without noise: there is none to set."""
    assert (PublicSplits.utility, PublicSplits().needs_classes) == ("median", False)
    with pytest.raises(TypeError):
        PublicSplits("majority")  # type: ignore[call-arg]


@pytest.mark.parametrize("given", [("spread", 4), ("", 4), (["median"], 4), ("gini", 0), ("gini", True), ("gini", 2.0)])
def test_a_choice_of_an_unknown_utility_is_refused(given: tuple[object, object]) -> None:
    """A utility is one of the proved ones, its bound a positive whole number."""
    with pytest.raises(ParameterError):
        Choose(*given)  # type: ignore[arg-type]


def test_an_unknown_operation_is_refused_with_the_known_ones() -> None:
    """The error says what may stand there."""
    with pytest.raises(ParameterError, match=r"LeafCounts.*PseudoCounts.*not 'leaves'"):
        Step("a", "leaves", 1)  # type: ignore[arg-type]


def test_a_step_tells_its_operation_by_exact_class() -> None:
    """What is asked for as one operation cannot be read as another."""
    assert step_of(LeafLabels).operation_as(LeafLabels) == LeafLabels()
    with pytest.raises(ParameterError, match="leaf_counts"):
        step_of(LeafCounts).operation_as(LeafLabels)


def test_the_steps_of_a_plan_are_worked_out_once() -> None:
    """`Plan.steps` is one value, not a new one for each reader."""
    plan = Plan("test", step_of(LeafCounts), PROMISE)
    assert plan.steps is plan.steps


@pytest.mark.parametrize("table", [noise_table(), exact_table()], ids=["with noise", "without noise"])
def test_the_page_on_privacy_holds_the_table_of_operations(table: str) -> None:
    """docs/understanding/privacy.md says of each operation what the code says. Paste the table when this fails."""
    assert table in (ROOT / "docs/understanding/privacy.md").read_text(encoding="utf-8")


#: Comparisons of an operation with a text, in any of the ways in which Python compares.
BY_NAME = re.compile(
    r"""operation(\.name)?("\]|'\])?\s*(==|!=|\bnot\s+in\b|\bin\b\s*[("'\[{]|\.(startswith|endswith)\()"""
    r"""|["']\s*(==|!=)\s*\w+\.operation\b"""
)


@pytest.mark.parametrize(
    "line",
    ['if step.operation == "size":', 'step.operation in ("a", "b")', "s['operation'] != x", 'operation.name == "later"',
     'step.operation.startswith("leaf_")', 'step["operation"] == "later"', '"size" == step.operation',
     'step.operation not in FREE'],
)  # fmt: skip
def test_a_comparison_by_name_would_be_found(line: str) -> None:
    """The search below can fail."""
    assert BY_NAME.search(line)


def test_operations_are_compared_by_name_nowhere() -> None:
    """What depends on an operation is a property of its class: no module but its own asks for a name."""
    for path in sorted((ROOT / "dpsql").rglob("*.py")):
        if path.name != "operations.py":
            assert not BY_NAME.search(path.read_text(encoding="utf-8")), path
