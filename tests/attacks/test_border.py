"""The border between methods and kernel: a method that lies about its objects gets a refusal, never an exact count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpsql.api.database import Database
from dpsql.engines.base import Engine
from dpsql.errors import DpsqlError, NotPrivate, ParameterError, QueryFailed, RunFailed
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.datasets.dataset import find_dataset
from dpsql.kernel.noise import approximate
from dpsql.kernel.operations import Choose, Later, LeafSums, Linear, Pick, PublicSize, ScoreCounts, Size
from dpsql.kernel.plan import Parallel, Plan, Sequential, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.run import Job, charge_for, run
from dpsql.kernel.session import AllowanceExceeded, Session
from dpsql.ledger import Charge
from dpsql.methods.base import Trained
from dpsql.methods.rdt import Rdt
from dpsql.schema import Numeric, Schema, Unit
from dpsql.trees.estimate.mixtures import Mixtures
from dpsql.trees.forest import Forest, Level
from dpsql.trees.grid import Axis, axes
from dpsql.trees.grow.splits import two_way
from dpsql.trees.score_grid import ScoreGrid
from dpsql.trees.strategies.strategy import Partition, Strategy
from dpsql.trees.voting import VotingForest
from tests.conformance.tables import put, source_in
from tests.kernel.helpers import EPSILON, Held, Watched, held, leaf_step, session
from tests.releases import releasing
from tests.rows import Table
from tests.tables import SCHEMA, TARGET, UNITS, on_disk, small_forest, some_rows, some_targets

GRID = axes(SCHEMA)
CLASSES = len(SCHEMA.classes)
FOREST = small_forest(trees=2, depth=2)
VOTES = VotingForest(FOREST, np.ones((FOREST.leaves, CLASSES), np.int64))
LINEAR = Step("answers", Linear(), EPSILON, trees=1, cells=CLASSES, row_weight=1)
LEAVES = leaf_step("leaf_counts", FOREST, CLASSES, shared=True)


def watched_session(step: Any, database: Held | None = None) -> tuple[Session, Watched]:
    """Return a session whose statements over private rows are remembered."""
    here = database or held(some_rows())
    opened = session(here, step)
    opened._rows._engine = watched = Watched(here.engine)  # type: ignore[assignment]
    return opened, watched


def check_refused(opened: Session, watched: Watched, ask: Callable[[Session], Any]) -> None:
    """Assert that a request is refused, and that no row was read for it."""
    with pytest.raises(AllowanceExceeded):
        ask(opened)
    assert watched.statements == []


class Listening(Partition):
    """A block of a strategy that keeps what it is asked to answer from."""

    heard: list[Any] = []  # noqa: RUF012  what the kernel handed over, for the test to look at

    def answer(self, values: Any) -> Any:
        """Keep the exact counts."""
        self.heard.append(values)
        return super().answer(values)


def test_a_strategy_of_ones_own_class_sees_no_counts() -> None:
    """A block whose `answer` would be handed exact counts is refused before anything is counted."""
    one_leaf = Forest(GRID, 1, ())
    block = Listening(np.zeros(1, np.int64), np.ones(1, np.int64))
    opened, watched = watched_session(LINEAR)
    check_refused(opened, watched, lambda here: here.linear("answers", one_leaf, Strategy("s", 1, (block,))))
    assert Listening.heard == []


class OwnStrategy(Strategy):
    """A strategy that works out its answers itself."""


def test_a_subclass_of_a_strategy_is_refused() -> None:
    """Not only its blocks: the whole strategy must be of the known class."""
    given = OwnStrategy("s", 1, (Partition.even(np.zeros(1, np.int64), 1),))
    opened, watched = watched_session(LINEAR)
    check_refused(opened, watched, lambda here: here.linear("answers", Forest(GRID, 1, ()), given))


@pytest.mark.parametrize("name", ["plan", "schema"])
def test_plan_and_schema_cannot_be_set(name: str) -> None:
    """A session keeps the plan and the schema that were charged for."""
    opened = session(held(some_rows()), LEAVES)
    with pytest.raises(AttributeError):
        setattr(opened, name, None)


@pytest.mark.parametrize("name", ["close", "own_schema", "has_failed", "failure", "size"])
def test_nothing_stands_in_for_what_the_kernel_calls(name: str) -> None:
    """A session that its method kept from closing would answer after the run; one with another schema would lie."""
    opened = session(held(some_rows()), LEAVES)
    with pytest.raises(AttributeError):
        setattr(opened, name, lambda: None)


def test_writing_to_the_plan_that_a_session_shows_changes_no_noise() -> None:
    """What `plan` and `step` hand out are copies: a unit of one row written there leaves the noise of three."""
    opened = session(held(some_rows(), schema=UNITS), replace(LEAVES, nano_epsilon=3))
    object.__setattr__(opened.plan, "promise", Promise(Unit()))
    object.__setattr__(opened.step("leaves"), "nano_epsilon", 10**15)
    object.__setattr__(opened.schema, "unit", Unit())
    assert opened.deviation("leaves") > 10**8
    noisy = opened.leaf_counts("leaves", FOREST)
    assert np.abs(noisy).max() > 10**5


def test_an_operation_that_a_session_shows_is_a_copy() -> None:
    """A step that was charged for noise cannot be made one that answers without it: the kernel keeps its operation."""
    opened, watched = watched_session(Step("n", Size(), EPSILON))
    object.__setattr__(opened.step("n").operation, "__class__", PublicSize)
    assert opened.step("n").operation == Size()
    check_refused(opened, watched, lambda here: here.public_size("n"))


def test_the_utility_of_a_choice_that_a_session_shows_is_a_copy() -> None:
    """What a choice maximises is what was declared, whatever is written to the operation that a session shows."""
    opened = session(held(some_rows()), Step("splits", Choose("median"), EPSILON))
    object.__setattr__(opened.step("splits").operation, "utility", "gini")
    assert opened.step("splits").operation == Choose("median")


def test_the_steps_of_a_target_cannot_be_made_smaller() -> None:
    """`leaf_sums` keeps to the registered steps, whatever is written to the schema that a session shows."""
    step = Step("sums", LeafSums(), EPSILON, trees=2, cells=FOREST.leaves * 2, row_weight=2)
    opened, watched = watched_session(step, held(some_targets(), schema=TARGET))
    object.__setattr__(opened.schema.target, "steps", 2)
    check_refused(opened, watched, lambda here: here.leaf_sums("sums", FOREST))


@dataclass(frozen=True)
class Cheap(Sequential):
    """Steps that say they cost next to nothing."""

    @property
    def cost(self) -> int:
        """Next to nothing."""
        return 1


def test_a_composition_with_a_cost_of_its_own_is_refused() -> None:
    """Steps that are opened later cost what the kernel's own classes say."""
    opened, watched = watched_session(Step("rest", Later(), 10))
    dear = Cheap((Step("n", Size(), EPSILON),))
    check_refused(opened, watched, lambda here: here.later("rest", dear))
    check_refused(opened, watched, lambda here: here.later("rest", Sequential((dear,))))
    check_refused(opened, watched, lambda here: here.later("rest", Parallel((Step("m", Size(), 1), dear))))


def test_a_plan_with_a_cost_of_its_own_is_not_run(tmp_path: Path) -> None:
    """A plan is rebuilt before it is charged; nothing is charged for one that lies."""
    with on_disk(tmp_path / "data.duckdb", some_rows(), cap=5) as database:
        plan = Plan("test", Cheap((Step("n", Size(), EPSILON),)), Promise(Unit()))
        with pytest.raises(AllowanceExceeded):
            perform(database, plan, lambda here: here.size("n"))
        assert database.budget("people").spent == 0


def test_a_charge_below_its_plan_is_refused(tmp_path: Path) -> None:
    """The ledger is asked for what the plan costs at the time of the run, not for what it cost when it was shown."""
    with on_disk(tmp_path / "data.duckdb", some_rows(), cap=5) as database:
        step = Step("n", Size(), 10**6)
        plan = Plan("test", step, Promise(Unit()))
        dataset = find_dataset(database.engine, database.book, "people")
        job = Job.of(dataset, plan, who="ann", request_id="r")
        object.__setattr__(step, "nano_epsilon", EPSILON)
        with pytest.raises(AllowanceExceeded):
            run(database.engine, database.book, job, releasing(lambda here: here.size("n")))
        assert database.budget("people").spent == 0


def perform(database: Database, plan: Plan, ask: Callable[[Session], Any]) -> Any:
    """Run a plan on "people", and return what its method handed back."""
    dataset = find_dataset(database.engine, database.book, "people")
    job = Job.of(dataset, plan, who="ann", request_id=None)
    return run(database.engine, database.book, job, releasing(ask)).value


def test_weights_raised_after_they_were_checked_are_refused() -> None:
    """Scores that leave 64 bits for some rows alone would answer a yes/no question about them."""
    votes = VotingForest(FOREST, np.ones((FOREST.leaves, CLASSES), np.int64))
    mixtures = Mixtures(votes, np.zeros(2, np.int64), np.ones((1, 1), np.int64), np.ones(1, np.int64))
    votes.weights[:] = 2**62
    opened, watched = watched_session(Step("best", Pick(), EPSILON, cells=1))
    check_refused(opened, watched, lambda here: here.pick("best", mixtures))


@pytest.mark.parametrize("raised", ["factors", "gains"])
def test_factors_and_gains_raised_after_they_were_checked_are_refused(raised: str) -> None:
    """Both are copied and checked again: noise is scaled to what a row is worth."""
    ones = [np.ones(shape, np.int64) for shape in ((1, 1), 1, (1, CLASSES))]
    mixtures = Mixtures(VOTES, np.zeros(2, np.int64), *ones)
    getattr(mixtures, raised)[:] = 2**62
    check_refused(*watched_session(Step("best", Pick(), EPSILON, cells=1)), lambda here: here.pick("best", mixtures))


def shared_leaf() -> Forest:
    """Return two trees of one split each, whose first sends its right cells to a leaf of the second."""
    planes = np.array([[0, 0], [2**64 - 2, 0]], np.uint64)
    return Forest(GRID, 2, (Level(np.zeros(2, np.int16), np.full(2, 2, np.uint8), planes),))


def test_trees_that_share_a_leaf_are_refused() -> None:
    """A row would be counted in one leaf by both trees, and change it by more than the noise is for."""
    forest = shared_leaf()
    opened, watched = watched_session(leaf_step("leaf_counts", forest, CLASSES, shared=True))
    check_refused(opened, watched, lambda here: here.leaf_counts("leaves", forest))


def test_a_wrong_number_of_leaves_is_not_believed() -> None:
    """What a forest says of itself is worked out again: a cached figure that was written to it is not used."""
    forest = small_forest(trees=2, depth=2)
    forest.__dict__["leaves"] = 1
    forest.__dict__["first_leaf"] = np.zeros(3, np.int64)
    opened, watched = watched_session(replace(LEAVES, cells=CLASSES))
    check_refused(opened, watched, lambda here: here.leaf_counts("leaves", forest))


class Greedy(Forest):
    """A forest that uses the session's step while it is being looked at."""

    opened: Session | None = None
    taken: list[Any] = []  # noqa: RUF012  what the second use gave

    @property
    def trees(self) -> int:  # type: ignore[override]
        """Ask once more, then answer."""
        if self.opened is not None:
            self.taken.append(self.opened.size("n"))
        return 1


class Reentrant(int):
    """A whole number that uses the session's step while it is compared."""

    opened: Session

    def __le__(self, other: object) -> bool:
        """Ask once more, then answer."""
        Greedy.taken.append(self.opened.size("n"))
        return True

    __gt__ = __lt__ = __ge__ = __le__


def test_attributes_that_ask_again_get_nothing() -> None:
    """While a step is taken no code of the caller's can use it, or another one, a second time."""
    database = held(some_rows())
    steps = Sequential((Step("splits", Choose("median"), EPSILON, cells=1, uses=3), Step("n", Size(), EPSILON)))
    opened = session(database, steps)
    Greedy.taken.clear()
    number = Reentrant(5)
    number.opened = opened
    tree = Forest(GRID, 1, ())
    splits = two_way(GRID)
    weights = np.zeros((1, 1, splits.most), np.int64)
    weights[0, 0, 0] = 1
    candidates = Candidates(splits, np.zeros((1, 1), np.int16), weights)
    with pytest.raises(AllowanceExceeded):
        opened.choose("splits", tree, candidates, nano_epsilon=number)
    assert Greedy.taken == []
    with pytest.raises(AllowanceExceeded):
        opened.choose("splits", Greedy.__new__(Greedy), candidates)
    assert Greedy.taken == []
    assert repr(opened) == "<Session: 2 of 2 steps left>"


def test_a_session_does_one_thing_at_a_time() -> None:
    """A second request while one is under way is refused, wherever it comes from."""
    opened = session(held(some_rows()), Sequential((Step("n", Size(), EPSILON), LEAVES)))
    with opened._allowance.one_at_a_time(), pytest.raises(AllowanceExceeded):
        opened.size("n")


@pytest.mark.parametrize("arity", [[-1, 3], [0, 2], [257, 2], [65, 2]])
def test_arities_out_of_range_are_refused(arity: list[int]) -> None:
    """A negative number of children would put a leaf of one tree in the place of another's."""
    level = Level(np.zeros(2, np.int16), np.array(arity, np.int64), np.zeros((1, 2), np.uint64))  # type: ignore[arg-type]
    forest = Forest(GRID, 2, (level,))
    opened, watched = watched_session(replace(LEAVES, cells=10**6))
    check_refused(opened, watched, lambda here: here.leaf_counts("leaves", forest))


WRONG: dict[str, Callable[[Session], Any]] = {
    "a forest of other axes": lambda here: here.leaf_counts("leaves", Forest((Axis(0, 0, 2, 2, ordered=True),), 2, ())),
    "no forest": lambda here: here.leaf_counts("leaves", None),  # type: ignore[arg-type]
    "a list of levels": lambda here: here.leaf_counts("leaves", Forest(GRID, 2, list(FOREST.levels))),  # type: ignore[arg-type]
    "more trees": lambda here: here.leaf_counts("leaves", small_forest(trees=3, depth=2)),
    "levels too narrow": lambda here: here.leaf_counts("leaves", Forest(GRID, 2, small_forest(trees=1).levels)),
    "an axis that is not there": lambda here: here.leaf_counts(
        "leaves",
        Forest(GRID, 2, (Level(np.full(2, 99, np.int16), np.full(2, 2, np.uint8), np.zeros((1, 2), np.uint64)),)),
    ),
    "planes of floats": lambda here: here.leaf_counts(
        "leaves", Forest(GRID, 2, (Level(np.zeros(2, np.int16), np.full(2, 2, np.uint8), np.zeros((1, 2))),))  # type: ignore[arg-type]
    ),
    "an array of objects": lambda here: here.leaf_counts(
        "leaves",
        Forest(GRID, 2, (Level(np.array([0, 0], object), np.full(2, 2, np.uint8), np.zeros((1, 2), np.uint64)),)),
    ),
    "a name that is no text": lambda here: here.leaf_counts(["leaves"], FOREST),  # type: ignore[arg-type]
    "a name that is not in the plan": lambda here: here.leaf_counts("other", FOREST),
}  # fmt: skip


@pytest.mark.parametrize("ask", WRONG.values(), ids=WRONG)
def test_a_plain_mistake_is_refused_unread(ask: Callable[[Session], Any]) -> None:
    """A method that hands over a wrong object is told so; the step is left, for nothing was read."""
    opened, watched = watched_session(LEAVES)
    check_refused(opened, watched, ask)
    assert opened.leaf_counts("leaves", FOREST).shape == (FOREST.leaves, CLASSES)


def test_a_failure_that_a_method_hides_loses_the_run(tmp_path: Path) -> None:
    """Whether a statement failed may depend on rows: a method that catches it and goes on has no result."""
    with on_disk(tmp_path / "data.duckdb", some_rows(), cap=5) as database:
        plan = Plan("test", Sequential((Step("n", Size(), EPSILON), Step("m", Size(), EPSILON))), Promise(Unit()))

        def hide(here: Session) -> int:
            here._rows._run = lambda _: 1 / 0  # type: ignore[method-assign, assignment, return-value]
            with pytest.raises(RunFailed):
                here.size("n")
            with pytest.raises(AllowanceExceeded):
                here.size("m")
            return 1

        with pytest.raises(QueryFailed):
            perform(database, plan, hide)
        assert [entry.state for entry in database.book.entries(event="reserve")] == ["lost"]


class Forgetful(Session):
    """A session that has never failed, and never closes."""

    __slots__ = ()
    has_failed = False  # type: ignore[assignment]

    def close(self) -> None:
        """Stay open."""


def test_a_session_of_another_class_hides_no_failure(tmp_path: Path) -> None:
    """Whether an operation failed is asked of the kernel's own class, whatever a method writes to its session."""
    sessions: list[Session] = []
    with on_disk(tmp_path / "data.duckdb", some_rows(), cap=5) as database:

        def hide(here: Session) -> int:
            sessions.append(here)
            here._rows._run = lambda _: 1 / 0  # type: ignore[method-assign, assignment, return-value]
            with pytest.raises(RunFailed):
                here.size("n")
            object.__setattr__(here, "__class__", Forgetful)
            return 1

        with pytest.raises(RunFailed):
            perform(database, Plan("test", Step("n", Size(), EPSILON), Promise(Unit())), hide)
        assert [entry.state for entry in database.book.entries(event="reserve")] == ["lost"]
    with pytest.raises(AllowanceExceeded, match="closed"):
        sessions[0].size("n")


FIELDS = {"shared": [], "published": [], "note": ["x"], "uses": True, "name": b"n"}


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_a_step_that_could_change_is_refused(field: str) -> None:
    """An empty list is false when a step is checked, and true once something was put into it."""
    with pytest.raises(ParameterError, match=field):
        replace(LEAVES, **{field: FIELDS[field]})
    step = replace(LEAVES)
    object.__setattr__(step, field, FIELDS[field])
    opened, watched = watched_session(Step("rest", Later(), EPSILON))
    check_refused(opened, watched, lambda here: here.later("rest", step))
    with pytest.raises((AllowanceExceeded, ParameterError)):
        session(held(some_rows()), step)


def private_frames(error: BaseException) -> list[str]:
    """Return the names of variables that an error's frames, and those of the errors behind it, hold arrays in."""
    names = []
    while error is not None:
        trace = error.__traceback__
        while trace is not None:
            names += [name for name, value in trace.tb_frame.f_locals.items() if isinstance(value, np.ndarray)]
            trace = trace.tb_next
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return names


def test_an_error_while_rows_are_read_brings_no_count_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method sees neither the words nor the frames of a failure, and what it says of one is not passed on."""
    with on_disk(tmp_path / "data.duckdb", some_rows(), cap=5) as database:
        plan = Plan("test", Step("n", Size(), 10**6), Promise(Unit()))
        seen: list[BaseException] = []

        def fail(counts: Any, *_: Any) -> Any:
            raise ZeroDivisionError(f"the count is {counts}")

        def tell(here: Session) -> int:
            try:
                return here.size("n")
            except DpsqlError as error:
                seen.append(error)
                raise DpsqlError("the count is odd") from None

        monkeypatch.setattr("dpsql.kernel.noise.add_noise", fail)
        with pytest.raises(RunFailed) as caught:
            perform(database, plan, tell)
        assert type(seen[0]) is RunFailed
        assert "odd" not in str(caught.value)
        # The method's own frames are the test's; none of the kernel's, which held the count, is left.
        assert private_frames(seen[0]) == private_frames(caught.value) == []
        assert (seen[0].__context__, seen[0].__cause__) == (None, None)


def test_a_refusal_after_rows_were_read_puts_no_step_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes the kernel raise its own refusal meanwhile does not get to ask again."""

    def refuse(*_: Any) -> Any:
        raise AllowanceExceeded("once more")

    opened = session(held(some_rows()), Step("n", Size(), EPSILON))
    monkeypatch.setattr("dpsql.kernel.noise.add_noise", refuse)
    with pytest.raises(RunFailed):
        opened.size("n")
    monkeypatch.undo()
    assert (opened.has_failed, repr(opened)) == (True, "<Session: 0 of 1 steps left>")
    for ask in (opened.hold, lambda: opened.size("n")):
        with pytest.raises(AllowanceExceeded):
            ask()


def test_an_answer_that_no_memory_holds_is_refused_unread() -> None:
    """Where it failed only once the rows were counted, the failure would be the rows' to tell."""
    block = Partition(np.array([2**58]), np.array([1]))
    opened, watched = watched_session(replace(LINEAR, cells=2**62))
    check_refused(opened, watched, lambda here: here.linear("answers", Forest(GRID, 1, ()), Strategy("s", 1, (block,))))


@pytest.mark.parametrize("ask", [Session.hold, lambda here: here.size("n"), lambda here: here.narrow({})])
def test_a_closed_session_reads_nothing(ask: Callable[[Session], Any]) -> None:
    """Not even rows that are only kept for later."""
    opened, watched = watched_session(Step("n", Size(), EPSILON))
    opened.close()
    check_refused(opened, watched, ask)


class Discount(Charge):
    """A charge that says it is equal to any other."""

    def __eq__(self, other: object) -> bool:
        """Say so."""
        return True

    def __ne__(self, other: object) -> bool:
        """Say so."""
        return False

    __hash__ = None  # type: ignore[assignment]


def test_what_is_charged_is_what_the_kernel_worked_out(tmp_path: Path) -> None:
    """A charge that was handed over is compared with the plan's, and then left alone."""
    with on_disk(tmp_path / "data.duckdb", some_rows(), cap=5) as database:
        plan = Plan("test", Step("n", Size(), 2 * EPSILON), Promise(Unit()))
        dataset = find_dataset(database.engine, database.book, "people")
        known = vars(charge_for(dataset, plan, who="ann", request_id="r"))
        job = Job(dataset, plan, Discount(**known | {"amount": 10**6}))
        run(database.engine, database.book, job, releasing(lambda here: here.size("n")))
        assert database.budget("people").spent == 2 * EPSILON


def test_a_method_cannot_plan_more_than_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The epsilon that a user names is the most that a run costs, whatever its method plans."""
    plan = Rdt.plan
    monkeypatch.setattr(Rdt, "plan", lambda self, schema, nano, *rest: plan(self, schema, 4 * nano, *rest))
    with on_disk(tmp_path / "data.duckdb", some_rows(), cap=5) as database:
        with pytest.raises(AllowanceExceeded, match="planned epsilon"):
            database.train("people", epsilon=0.5, method="rdt", trees=1, depth=1)
        assert database.budget("people").spent == 0


@pytest.mark.parametrize(("asked", "planned"), [("1e-7", "1e-3"), ("1e-7", None), (None, "1e-7")])
def test_a_method_cannot_plan_for_another_delta(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str | None, planned: str | None
) -> None:
    """The delta that a user names is the one that a run keeps, and none is none, whatever its method plans."""
    plan = Rdt.plan

    def plan_otherwise(self: Rdt, schema: Schema, nano: int, parameters: Any, promise: Promise) -> Plan:
        own = None if planned is None else approximate(nano, Decimal(planned))
        return plan(self, schema, nano, parameters, Promise(promise.unit, approximate=own))

    monkeypatch.setattr(Rdt, "plan", plan_otherwise)
    with on_disk(tmp_path / "data.duckdb", some_rows(), cap=5) as database:
        database.set_cap("people", 3, kind="approximate", delta="5e-3")
        with pytest.raises(AllowanceExceeded, match="planned delta"):
            database.train("people", epsilon=0.5, delta=asked, method="rdt", trees=1, depth=1)
        assert database.budget("people").spent == database.budget("people", "approximate").spent == 0


def test_a_model_says_what_the_kernel_worked_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a method writes to the schema that a session shows reaches neither the model nor the ledger's block."""
    train = Rdt.train

    def write(self: Rdt, here: Session) -> VotingForest:
        object.__setattr__(here.schema, "classes", ("ANYTHING", "else", "maybe"))
        return train(self, here)

    monkeypatch.setattr(Rdt, "train", write)
    with on_disk(tmp_path / "data.duckdb", some_rows(), cap=5) as database:
        assert database.train("people", epsilon=1, method="rdt", trees=1, depth=1).classes == SCHEMA.classes


def forget_the_unit(schema: Schema, promise: Promise) -> Promise:
    """Write a unit of one row into the schema, and promise no more."""
    object.__setattr__(schema, "unit", Unit())
    return Promise(Unit())


def shrink_the_unit(schema: Schema, promise: Promise) -> Promise:
    """Write one row into the unit that the promise holds."""
    object.__setattr__(promise.unit, "max_rows", 1)
    return promise


@pytest.mark.parametrize("write", [forget_the_unit, shrink_the_unit])
def test_what_a_plan_writes_to_the_schema_changes_no_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Schema, Promise], Promise]
) -> None:
    """A method plans from copies: the unit that the owner declared is the one that its plan must protect."""
    plan = Rdt.plan

    def plan_after_writing(self: Rdt, schema: Schema, nano: int, parameters: Any, promise: Promise) -> Plan:
        return plan(self, schema, nano, parameters, write(schema, promise))

    monkeypatch.setattr(Rdt, "plan", plan_after_writing)
    with on_disk(tmp_path / "data.duckdb", some_rows(), schema=UNITS, cap=5) as database:
        with pytest.raises(NotPrivate, match="was registered to protect"):
            database.train("people", epsilon=1, method="rdt", trees=1, depth=1)
        assert database.budget("people").spent == 0


def test_a_certificate_says_what_was_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a method writes to its own plan while it trains reaches neither cost nor promise of the model."""
    plan, train = Rdt.plan, Rdt.train
    plans: list[Plan] = []

    def keep(self: Rdt, *given: Any) -> Plan:
        plans.append(plan(self, *given))
        return plans[-1]

    def write(self: Rdt, here: Session) -> Trained:
        object.__setattr__(plans[-1], "composition", Step("n", Size(), 10**6))
        object.__setattr__(plans[-1], "promise", Promise(Unit()))
        vars(plans[-1]).pop("steps", None)
        return train(self, here)

    monkeypatch.setattr(Rdt, "plan", keep)
    monkeypatch.setattr(Rdt, "train", write)
    with on_disk(tmp_path / "data.duckdb", some_rows(), schema=UNITS, cap=5) as database:
        said = database.train("people", epsilon=1, method="rdt", trees=1, depth=1).certificate
        charged = database.book.entries(event="reserve")[-1]
    assert (said["epsilon"], said["unit"], said["neighbours"]) == ("1", charged.unit, charged.neighbours)
    assert said["plan"] == charged.plan


def test_parts_are_disjoint_whatever_features_are_asked_about(engine: Engine) -> None:
    """Where rows have no address they are known by the registered features, so that no unit is in two parts."""
    schema = Schema("y", ("no", "yes"), (Numeric("x", 0, 64), Numeric("z", 0, 64)))
    rows = 300
    cells = {"x": [1.0] * rows, "z": [2.0] * rows, "y": ["yes"] * rows}
    put(engine, "people", Table({"x": "DOUBLE", "z": "DOUBLE", "y": "VARCHAR"}, cells))
    x, z = schema.features
    asked = [(x, z), (z, x), (x,), (z,)]
    grid = ScoreGrid(2)
    parts = tuple(Step(f"part {n}", ScoreCounts(), 100 * EPSILON, cells=grid.cells) for n in range(len(asked)))
    for _ in range(1 if engine.dialect == "spark" else 5):
        opened = Session(engine, source_in(engine, schema, "people"), Plan("test", Parallel(parts), Promise(Unit())))
        total = 0
        for step, features in zip(parts, asked, strict=True):
            forest = Forest(axes(replace(schema, features=features)), 1, ())
            total += int(opened.score_counts(step.name, VotingForest(forest, np.array([[1, 2]])), features).sum())
        opened.close()
        assert abs(total - rows) < 20
