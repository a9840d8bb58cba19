"""The border between a method and the kernel: what a method hands over is rebuilt from plain values before it is used.

A method is not trusted. Python cannot stop an object from answering one thing when it is checked and another when it
is used: a subclass may override a property, an array may be written to between the check and the use, an attribute may
call back into the session. So the kernel never uses an object that a method made. Each function here takes one kind of
argument and returns a new object, which only the kernel has:

- The argument, and every object inside it, must be of exactly the known class; a subclass is refused. Classes are
  compared by identity, because `==` and `in` would call code of the given object's metaclass, which may lie.
- Its arrays are copied. The copies must hold whole numbers in range, and cannot be written to.
- The new object is built by its own class, whose checks run on the copies. A forest is also checked by
  `check_forest` of `trees/serialize.py`: every cell of every node leads to a child of that node, so each row is in
  exactly one leaf of each tree.

An argument that does not fit raises AllowanceExceeded. Nothing here looks at a private row, so an error tells nothing
about rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import BudgetError, DpsqlError
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.operations import OPERATIONS, Operation
from dpsql.kernel.plan import Composition, Parallel, Plan, Sample, Sequential, Sides, Step
from dpsql.kernel.promise import Approximate, Promise
from dpsql.schema import Boolean, Categorical, Dated, Feature, Hashed, Numeric, Schema, Unit
from dpsql.trees import serialize
from dpsql.trees.estimate.mixtures import Mixtures
from dpsql.trees.forest import Forest, Level
from dpsql.trees.grid import Axis
from dpsql.trees.grow.splits import Splits
from dpsql.trees.strategies.strategy import Dense, Partition, Strategy
from dpsql.trees.voting import VotingForest

#: The most trees of a forest: the same limit as for a stored model that is read back.
MOST_TREES = 10**6
#: How deeply parts of a composition, or values, may be nested: far more than any method needs, and far below the depth
#: at which Python refuses to recurse.
DEEPEST = 50
#: The classes of numpy's whole numbers; `item` returns the same number as a Python integer.
_NUMPY_INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
#: The classes of all numbers and flags of numpy that a plain value may hold.
_NUMPY_NUMBERS = (*_NUMPY_INTEGERS, np.float16, np.float32, np.float64, np.bool_)
_Value = TypeVar("_Value")


class AllowanceExceeded(BudgetError):
    """A method asked for more than its plan declared, or handed over an object that cannot be used. No row was read."""


def rebuild_forest(given: object, axes: tuple[Axis, ...]) -> Forest:
    """Return a forest over the kernel's own axes with copies of the given levels."""
    forest = _check_class(Forest, given)
    if _tuple(forest.axes) != axes:
        raise AllowanceExceeded("a forest was handed over that reads other axes than the schema has.")
    trees = check_whole_number(forest.trees, least=1, most=MOST_TREES)
    rebuilt = Forest(axes, trees, tuple(_level(level) for level in _tuple(forest.levels)))
    _build(lambda: serialize.check_forest(rebuilt))
    return rebuilt


def rebuild_voting_forest(given: object, axes: tuple[Axis, ...], classes: int) -> VotingForest:
    """Return a released forest with copies of its levels and weights. Its class checks that scores fit into 64 bits."""
    released = _check_class(VotingForest, given)
    forest, weights = rebuild_forest(released.forest, axes), _integers(released.weights, np.int64, dimensions=2)
    if weights.shape[1] != classes:
        raise AllowanceExceeded(f"a forest for {weights.shape[1]} classes was handed over, and there are {classes}.")
    return _build(lambda: VotingForest(forest, weights, check_whole_number(released.nat, least=0)))


def rebuild_mixtures(given: object, axes: tuple[Axis, ...], classes: int) -> Mixtures:
    """Return mixtures of a released forest's trees, with copies of the forest and of all arrays."""
    mixtures = _check_class(Mixtures, given)
    released = rebuild_voting_forest(mixtures.released, axes, classes)
    part = _integers(mixtures.part, np.int64, dimensions=1)
    factors = _integers(mixtures.factors, np.int64, dimensions=2)
    weights = _integers(mixtures.weights, np.int64, dimensions=1)
    gains = None if mixtures.gains is None else _integers(mixtures.gains, np.int64, dimensions=2)
    option = None if mixtures.option is None else _integers(mixtures.option, np.int64, dimensions=1)
    return _build(lambda: Mixtures(released, part, factors, weights, gains, option))


def rebuild_candidates(given: object, forest: Forest, *, together: bool = False) -> Candidates:
    """Return candidate splits with copies of their arrays, after checking that they fit the leaves of a rebuilt forest.

    With `together` all leaves must have the same candidates.
    """
    candidates = _check_class(Candidates, given)
    splits = _check_class(Splits, candidates.splits)
    arity = _integers(splits.arity, np.uint8, dimensions=2)
    planes = _integers(splits.planes, np.uint64, dimensions=3)
    if planes.shape[1:] != arity.shape or not 1 <= len(planes) <= serialize.PLANES:
        raise AllowanceExceeded("candidate splits were handed over whose bit planes do not fit their axes.")
    axis = _integers(candidates.axis, np.int16, dimensions=2)
    weights = _integers(candidates.weights, np.int64, dimensions=3)
    rebuilt = _build(lambda: Candidates(Splits(arity, planes), axis, weights))
    _build(lambda: rebuilt.check_fit(forest))
    if together:
        _build(lambda: rebuilt.check_same_for_all_leaves(forest))
    return rebuilt


def rebuild_strategy(given: object, cells: int) -> Strategy:
    """Return a strategy about this number of cells, with copies of its blocks.

    The answers, and the sensitivity, are then worked out by the strategy's own class from the copied numbers.
    """
    strategy = _check_class(Strategy, given)
    blocks = tuple(_block(block) for block in _tuple(strategy.blocks))
    rebuilt = _build(lambda: Strategy(_text(strategy.name), check_whole_number(strategy.cells, least=1), blocks))
    if rebuilt.cells != cells:
        raise AllowanceExceeded(f"a strategy about {rebuilt.cells} cells was handed over, and there are {cells}.")
    return rebuilt


def rebuild_features(given: object) -> tuple[Feature, ...]:
    """Return features with the same declarations."""
    return tuple(_fields_of(feature, (Numeric, Categorical, Boolean, Hashed, Dated)) for feature in _tuple(given))


def rebuild_schema(schema: Schema, features: tuple[Feature, ...]) -> Schema:
    """Return a schema of the kernel with other features, which were rebuilt before."""
    return _build(lambda: replace(schema, features=features))


def rebuild_plan(given: object) -> Plan:
    """Return a plan of the same steps, promise and parameters. The known classes work out anew what it costs."""
    plan = _check_class(Plan, given)
    composition = rebuild_composition(plan.composition)
    promise = _promise(plan.promise)
    method = _text(plan.method)
    unlabelled = _text(plan.unlabelled)
    parameters = copy_plain_value(plan.parameters)
    return _build(lambda: Plan(method, composition, promise, parameters, unlabelled))


def rebuild_composition(given: object, depth: int = 0) -> Composition:
    """Return a composition of the same steps, which is built of the five known classes alone."""
    if depth > DEEPEST:
        raise AllowanceExceeded("a composition was handed over whose parts are nested too deeply.")
    if type(given) is Step:
        return _step(given)
    if type(given) is Sequential or type(given) is Parallel:
        parts = tuple(rebuild_composition(part, depth + 1) for part in _tuple(given.parts))
        if not parts:
            raise AllowanceExceeded("a composition was handed over that has no parts.")
        return type(given)(parts)
    if type(given) is Sample:
        step, of = _step(given.part), check_whole_number(given.of, least=1)
        return _build(lambda: Sample(step, of))
    sides = _check_class(Sides, given)
    unlabelled, labelled = (rebuild_composition(side, depth + 1) for side in (sides.unlabelled, sides.labelled))
    return Sides(unlabelled, labelled, check_flag(sides.disjoint))


def rebuild_bounds(given: object) -> dict[str, tuple[float, float]]:
    """Return the bounds of some numeric features by name."""
    if type(given) is not dict:
        raise AllowanceExceeded("bounds must be handed over as a dictionary.")
    bounds = {}
    for name, pair in list(given.items()):
        lower, upper = _tuple(pair)
        if not _is_exactly(lower, int, float) or not _is_exactly(upper, int, float):
            raise AllowanceExceeded("bounds must be handed over as numbers.")
        bounds[_text(name)] = (float(lower), float(upper))
    return bounds


def rebuild_axis_numbers(given: object, count: int) -> tuple[int, ...]:
    """Return a list of axes, each a number below `count`."""
    if type(given) is np.ndarray:
        numbers: Sequence[object] = _integers(given, np.int64, dimensions=1).tolist()
    elif _is_exactly(given, list, tuple, range):
        numbers = list(given)  # type: ignore[call-overload]
    else:
        raise AllowanceExceeded("axes must be handed over as a list of whole numbers.")
    if not numbers:
        raise AllowanceExceeded("no axis was asked for.")
    return tuple(check_whole_number(_plain_integer(axis), least=0, most=count - 1) for axis in numbers)


def rebuild_names(given: object, schema: Schema, kind: type[Feature]) -> tuple[str, ...]:
    """Return names of features of the kernel's own schema, each of that kind and named once."""
    names = tuple(_text(name) for name in (list(given) if type(given) is list else _tuple(given)))
    features = {feature.name: feature for feature in schema.features}
    if not names or len(set(names)) != len(names):
        raise AllowanceExceeded("columns must be handed over as names, each once.")
    if not all(isinstance(features.get(name), kind) for name in names):
        raise AllowanceExceeded("a column was handed over that is no feature of that kind.")
    return names


def check_whole_number(given: object, *, least: int, most: int = 2**63 - 1) -> int:
    """Return a whole number in range, or raise AllowanceExceeded; true and false are no numbers."""
    if type(given) is not int or not least <= given <= most:
        raise AllowanceExceeded(f"a whole number from {least} to {most} was expected.")
    return given


def check_flag(given: object) -> bool:
    """Return true or false, or raise AllowanceExceeded for anything else."""
    if type(given) is not bool:
        raise AllowanceExceeded("true or false was expected.")
    return given


def copy_plain_value(given: object, depth: int = 0) -> Any:
    """Return a copy of a value that JSON can hold: texts, numbers, flags, lists and dictionaries of them."""
    if depth > DEEPEST:
        raise AllowanceExceeded("a value was handed over that is nested too deeply.")
    if given is None or _is_exactly(given, bool, int, float, str):
        return given
    if type(given) is dict or type(given) is MappingProxyType:
        return {_text(key): copy_plain_value(value, depth + 1) for key, value in list(given.items())}
    if type(given) is list:
        return [copy_plain_value(value, depth + 1) for value in given]
    if type(given) is tuple:
        return tuple(copy_plain_value(value, depth + 1) for value in given)
    if _is_exactly(given, *_NUMPY_NUMBERS):
        return given.item()  # type: ignore[attr-defined]
    raise AllowanceExceeded("a value was handed over that is not plain.")


def _level(given: object) -> Level:
    level = _check_class(Level, given)
    axis = _integers(level.axis, np.int16, dimensions=1)
    arity = _integers(level.arity, np.uint8, dimensions=1)
    planes = _integers(level.planes, np.uint64, dimensions=2)
    if not 1 <= len(planes) <= serialize.PLANES:
        raise AllowanceExceeded(f"a level was handed over with {len(planes)} bit planes.")
    return Level(axis, arity, planes)


def _block(given: object) -> Partition | Dense:
    if type(given) is Dense:
        return Dense(_integers(given.matrix, np.int64, dimensions=2))
    block = _check_class(Partition, given)
    return Partition(_integers(block.group, np.int64, dimensions=1), _integers(block.weight, np.int64, dimensions=1))


def _promise(given: object) -> Promise:
    promise = _check_class(Promise, given)
    unit, approximate = _check_class(Unit, promise.unit), promise.approximate
    if approximate is not None:
        approximate = _check_class(Approximate, approximate)
        delta = Decimal(_check_class(Decimal, approximate.delta))
        nano_epsilon = check_whole_number(approximate.nano_epsilon, least=1)
        nano_rho = check_whole_number(approximate.nano_rho, least=1)
        selection_delta = Decimal(_check_class(Decimal, approximate.selection_delta))
        approximate = Approximate(nano_epsilon, delta, nano_rho, selection_delta)
    column = None if unit.column is None else _text(unit.column)
    max_rows = check_whole_number(unit.max_rows, least=1)
    return _build(lambda: Promise(Unit(column, max_rows), check_flag(promise.labels_only), approximate))


def _step(given: object) -> Step:
    """Return a step with the same values, with a rebuilt operation."""
    step = _check_class(Step, given)
    return _build(lambda: Step(operation=_operation(step.operation), **_plain_fields(step, leave_out="operation")))


def _operation(given: object) -> Operation:
    """Return a new operation of exactly one of the listed classes, with the values of the given one."""
    return _fields_of(given, tuple(OPERATIONS.values()))


def _fields_of(given: Any, classes: tuple[type[Any], ...]) -> Any:
    """Return a new object of the same class and field values. The class must be a known one, and the values plain."""
    exact_class = next((kind for kind in classes if type(given) is kind), None)
    if exact_class is None:
        names = ", ".join(kind.__name__ for kind in classes)
        raise AllowanceExceeded(f"an object was handed over that is none of {names}.")
    return _build(lambda: exact_class(**_plain_fields(given)))


def _plain_fields(given: Any, leave_out: str = "") -> dict[str, Any]:
    """Return copies of the values of an object's fields, by name. The values must be plain.

    Lists become tuples, so that nobody can write to the values that the kernel uses. Fields that the class itself works
    out are left to it.
    """
    names = (field.name for field in fields(given) if field.init and field.name != leave_out)
    return {name: _freeze(copy_plain_value(getattr(given, name))) for name in names}


def _freeze(value: Any) -> Any:
    """Return a plain value with tuples in place of lists. A dictionary is refused, because it could be written to."""
    if type(value) is dict:
        raise AllowanceExceeded("a dictionary was handed over where none is expected.")
    return tuple(_freeze(part) for part in value) if _is_exactly(value, list, tuple) else value


def _integers(given: object, kind: type[np.integer[Any]], *, dimensions: int) -> NDArray[Any]:
    """Return a copy of an array of whole numbers, converted to a type that must hold them all; nobody can change it.

    The copy is made first and checked afterwards, because a method may write to the original meanwhile.
    """
    if type(given) is not np.ndarray or given.dtype.kind not in "iu" or given.ndim != dimensions:
        raise AllowanceExceeded(f"an array of whole numbers in {dimensions} dimensions was expected.")
    copied = np.array(given, order="C")
    limits = np.iinfo(kind)
    if copied.size and not limits.min <= int(copied.min()) <= int(copied.max()) <= limits.max:
        raise AllowanceExceeded(f"an array was handed over with numbers that {np.dtype(kind)} cannot hold.")
    copied = copied.astype(kind, copy=False)
    copied.flags.writeable = False
    return copied


def _plain_integer(given: object) -> object:
    """Return a whole number of numpy as a Python integer, and anything else unchanged."""
    return given.item() if _is_exactly(given, *_NUMPY_INTEGERS) else given  # type: ignore[attr-defined]


def _tuple(given: object) -> tuple[Any, ...]:
    if type(given) is not tuple:
        raise AllowanceExceeded("a tuple was expected.")
    return given


def _text(given: object) -> str:
    if type(given) is not str:
        raise AllowanceExceeded("a text was expected.")
    return given


def _check_class(kind: type[_Value], given: object) -> _Value:
    """Return an object whose class is exactly the known one, or raise AllowanceExceeded: a subclass may lie."""
    if type(given) is not kind:
        raise AllowanceExceeded(f"an object of another class than {kind.__name__} was handed over.")
    return given


def _is_exactly(given: object, *kinds: type) -> bool:
    """Whether the class of an object is one of these, by identity: a class may claim to be equal to another one."""
    return any(type(given) is kind for kind in kinds)


def _build(make: Any) -> Any:
    """Return what `make` builds or checks, and turn an error of dpsql into AllowanceExceeded, with the same words."""
    problem: DpsqlError
    try:
        return make()
    except AllowanceExceeded:
        raise
    except DpsqlError as error:
        problem = error
    raise AllowanceExceeded(problem.message)
