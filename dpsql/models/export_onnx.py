"""Writes a model as an ONNX file, for programs that predict without a database. Needs `pip install 'dpsql[onnx]'`.

The graph does what our own code does, on whole numbers and doubles alone. It finds cells by comparing each number with
the edges of its cells and by looking up each category, walks one level of all trees at once by one Gather operator, and
adds whole-number weights. So labels are equal in every row; nothing is rounded to 32 bits. Probabilities of log-scores
are equal up to the last digits of Exp.

Inputs are the features by name, each a column of rows × 1: doubles (NaN where missing) and texts. A missing category is
the empty text; where the empty text is a declared value, it is another text that the file's metadata names. ONNX has
no hash: a hashed category is the number of its cell (`dpsql.hashed_cell`), any number that is none is a missing value,
and the metadata says how many cells there are and how to find the one of a value.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.errors import ParameterError, UsageError
from dpsql.models.model import ReleasedModel
from dpsql.schema import CELLS, Categorical, Dated, Feature, Hashed, Numeric, Schema, Target
from dpsql.trees.forest import PASS, Forest, Level
from dpsql.trees.grid import BITS, digits
from dpsql.trees.voting import Weights

if TYPE_CHECKING:
    import onnx


#: The version of ONNX's operators; this and the next two can be read since 2023.
_OPSET = 18
#: The version of ONNX's operators for machine learning.
_ML_OPSET = 3
#: The version of ONNX's file format.
_FORMAT = 9
#: The most bytes of a model's tables: ONNX files end at 2 GB, and 16 MB are left for the rest.
_LARGEST = 2**31 - 2**24
#: Whole numbers below this are exact as doubles, in which runtimes add.
_EXACT = 2**53
#: Weights whose sums could reach _EXACT (they are at most 2^40) are added in two halves, the lower of this many bits.
_HALF = 20
#: The name of ONNX's set of operators for machine learning.
_ML = "ai.onnx.ml"
#: How the metadata says what the cell of a hashed category is.
_HASH = "the first 8 hexadecimal digits of MD5 of the value's text in UTF-8, as a number, modulo cells; missing: cells"


def check_onnx() -> None:
    """Raise UsageError where the package that writes ONNX is not installed."""
    if importlib.util.find_spec("onnx") is None:
        raise UsageError(
            "an ONNX file needs the package onnx, which is not installed.", hint="pip install 'dpsql[onnx]'"
        )


def write_onnx(model: ReleasedModel, path: str | Path) -> None:
    """Write the model to a new ONNX file."""
    proto = onnx_model(model)
    try:
        with Path(path).open("xb") as file:
            file.write(proto.SerializeToString())
    except FileExistsError:
        raise ParameterError("onnx", allowed="a new file; this one exists", given=str(path)) from None
    except OSError as error:
        allowed = f"a file that can be written ({error.strerror})"
        raise ParameterError("onnx", allowed=allowed, given=str(path)) from None


def onnx_model(model: ReleasedModel) -> onnx.ModelProto:
    """Return the model as an ONNX graph, checked."""
    check_onnx()
    import onnx
    from onnx import helper

    forest = model.released.forest
    _check_size(forest, model.schema.leaf_values)
    graph = _Graph(feature.name for feature in model.schema.features)
    scores = _scores(graph, model)
    outputs = _outputs(graph, model, scores)
    proto = helper.make_model(
        graph.finish([_input(feature) for feature in model.schema.features], outputs),
        opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid(_ML, _ML_OPSET)],
        ir_version=_FORMAT,
        producer_name="dpsql",
    )
    helper.set_model_props(proto, _facts(model))
    onnx.checker.check_model(proto)
    return proto


class _Graph:
    """A graph that is being built: its nodes and constants. The names that it gives never equal those of features."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def name(self, base: str) -> str:
        """Return a name that is still free."""
        number, name = 1, base
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        return name

    def constant(self, value: Any, kind: Any = np.int64) -> str:
        """Add a constant and return its name."""
        from onnx import numpy_helper

        name = self.name("constant")
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def add(self, operator: str, *inputs: str, named: str | None = None, domain: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its result."""
        from onnx import helper

        name = named or self.name(operator.lower())
        self.nodes.append(helper.make_node(operator, list(inputs), [name], domain=domain, **attributes))
        return name

    def finish(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """Return the finished graph."""
        from onnx import helper

        return helper.make_graph(self.nodes, "dpsql", list(inputs), list(outputs), self.constants)


def missing_text(feature: Categorical) -> str:
    """Return the text that stands for a missing category.

    >>> missing_text(Categorical("c", ("a", "b"))), missing_text(Categorical("c", ("", "b")))
    ('', '<missing>')
    """
    text = "" if "" not in feature.positions else "<missing>"
    while text in feature.positions:
        text += ">"
    return text


def _facts(model: ReleasedModel) -> dict[str, str]:
    hashed = {feature.name: feature.hash_cells for feature in model.schema.features if isinstance(feature, Hashed)}
    missing = {
        feature.name: missing_text(feature) for feature in model.schema.categorical if feature.name not in hashed
    }
    digest = str(model.certificate["digest"])
    facts = {"dpsql.model": model.name, "dpsql.digest": digest, "dpsql.missing": json.dumps(missing)}
    facts |= {"dpsql.hashed": json.dumps(hashed), "dpsql.hash": _HASH} if hashed else {}
    dated = {feature.name: feature.unit for feature in model.schema.features if isinstance(feature, Dated)}
    return facts | ({"dpsql.units_since_1970_utc": json.dumps(dated)} if dated else {})


def _check_size(forest: Forest, values: int) -> None:
    size = 4 * CELLS * sum(len(level.axis) for level in forest.levels) + 8 * values * forest.leaves
    if size > _LARGEST:
        raise UsageError(f"the model would take {size / 2**30:.1f} GB as ONNX; 2 GB is the most.", hint="fewer trees")


def _input(feature: Feature) -> Any:
    from onnx import TensorProto, helper

    kind = TensorProto.DOUBLE if isinstance(feature, Numeric) else TensorProto.STRING
    if isinstance(feature, Hashed):
        kind = TensorProto.INT64
    return helper.make_tensor_value_info(feature.name, kind, ["rows", 1])


def _scores(graph: _Graph, model: ReleasedModel) -> str:
    """Add the nodes that work out whole-number scores (rows × classes), and return the name of the result."""
    forest, cells = model.released.forest, _cells(graph, model.schema)
    first = graph.add("Gather", cells, graph.constant([0]), axis=1)
    zeros = graph.add("Sub", first, first)
    nodes = graph.add("Add", zeros, graph.constant(np.arange(forest.trees)[None, :]))
    for level in forest.levels:
        nodes = _step(graph, level, cells, nodes)
    return _sum_weights(graph, model.released.weights, nodes)


def _sum_weights(graph: _Graph, weights: Weights, nodes: str) -> str:
    """Return the sum of the weights of each row's leaves; large ones in two halves, because runtimes add in doubles."""
    if int(np.abs(weights).max(initial=0)) * len(weights) >= _EXACT:
        upper, lower = weights >> _HALF, weights & (2**_HALF - 1)
        moved = graph.add("Mul", _sum_weights(graph, upper, nodes), graph.constant(2**_HALF))
        return graph.add("Add", moved, _sum_weights(graph, lower, nodes))
    votes = graph.add("Gather", graph.constant(weights), nodes, axis=0)
    return graph.add("ReduceSum", votes, graph.constant([1]), keepdims=0)


def _cells(graph: _Graph, schema: Schema) -> str:
    """Add the nodes that find the cells of each row (rows × axes), and return the name of the result."""
    cells = []
    for feature in schema.features:
        cell = _number_cell(graph, feature) if isinstance(feature, Numeric) else _category_cell(graph, feature)
        for digit in range(digits(feature)):
            moved = graph.add("Div", cell, graph.constant(2 ** (BITS * digit))) if digit else cell
            cells.append(graph.add("Mod", moved, graph.constant(CELLS)))
    return graph.add("Concat", *cells, axis=1)


def _number_cell(graph: _Graph, feature: Numeric) -> str:
    """Return a number's cell: how many edges it has reached. NaN has the cell of NULL."""
    reached = graph.add("GreaterOrEqual", feature.name, graph.constant([feature.edges], np.float64))
    count = graph.add("ReduceSum", _integer(graph, reached), graph.constant([1]), keepdims=1)
    missing = graph.add("IsNaN", feature.name)
    return graph.add("Where", missing, graph.constant(feature.null_cell), count)


def _category_cell(graph: _Graph, feature: Categorical) -> str:
    if isinstance(feature, Hashed):
        return _hashed_cell(graph, feature)
    places = {missing_text(feature): feature.null_cell} | feature.positions
    return graph.add(
        "LabelEncoder",
        feature.name,
        domain=_ML,
        keys_strings=list(places),
        values_int64s=list(places.values()),
        default_int64=feature.unknown_cell,
    )


def _hashed_cell(graph: _Graph, feature: Hashed) -> str:
    """Return the feature's cell of the cell of the hash that is given; that of NULL where there is none."""
    reached = graph.add("GreaterOrEqual", feature.name, graph.constant(0))
    below = graph.add("Less", feature.name, graph.constant(feature.hash_cells))
    known = graph.add("And", reached, below)
    number = graph.add("Where", known, feature.name, graph.constant(feature.hash_cells))
    return graph.add("Gather", graph.constant(np.array(feature.cell_of_hash)), number) if feature.listed else number


def _step(graph: _Graph, level: Level, cells: str, nodes: str) -> str:
    """Return the nodes that rows reach one level down: one Gather in a table of nodes × 64 cells."""
    axis = graph.add("Gather", graph.constant(np.where(level.axis == PASS, 0, level.axis)), nodes)
    cell = graph.add("GatherElements", cells, axis, axis=1)
    place = graph.add("Add", graph.add("Mul", nodes, graph.constant(CELLS)), cell)
    children = level.child[:, None] + level.slots(np.arange(len(level.axis))[:, None], np.arange(CELLS))
    return _integer(graph, graph.add("Gather", graph.constant(children.reshape(-1), np.int32), place))


def _outputs(graph: _Graph, model: ReleasedModel, scores: str) -> list[Any]:
    from onnx import TensorProto, helper

    if model.schema.target is not None:
        name = _number(graph, model.schema.target, scores)
        return [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["rows"])]
    label, shares = _label(graph, model.classes, scores), _shares(graph, model.released.nat, len(model.classes), scores)
    return [
        helper.make_tensor_value_info(label, TensorProto.STRING, ["rows"]),
        helper.make_tensor_value_info(shares, TensorProto.DOUBLE, ["rows", len(model.classes)]),
    ]


def _label(graph: _Graph, classes: Sequence[str], scores: str) -> str:
    best = graph.add("ArgMax", scores, axis=1, keepdims=0, select_last_index=0)
    names = graph.constant(list(classes), object)
    return graph.add("Gather", names, best, named=graph.name("label"))


def _shares(graph: _Graph, nat: int, classes: int, scores: str) -> str:
    """Return probabilities: each positive vote over the sum of all, or softmax(score / nat) of log-scores."""
    if nat:
        top = graph.add("ReduceMax", scores, graph.constant([1]), keepdims=1)
        below = _real(graph, graph.add("Sub", scores, top))
        powers = graph.add("Exp", graph.add("Div", below, graph.constant(nat, np.float64)))
        total = graph.add("ReduceSum", powers, graph.constant([1]), keepdims=1)
        return graph.add("Div", powers, total, named=graph.name("probabilities"))
    positive = graph.add("Max", scores, graph.constant(0))
    total = graph.add("ReduceSum", positive, graph.constant([1]), keepdims=1)
    has_votes = graph.add("Greater", total, graph.constant(0))
    share = graph.add("Div", _real(graph, positive), _real(graph, graph.add("Max", total, graph.constant(1))))
    equal = graph.constant(np.full((1, classes), 1 / classes), np.float64)
    return graph.add("Where", has_votes, share, equal, named=graph.name("probabilities"))


def _number(graph: _Graph, target: Target, scores: str) -> str:
    """Return lower + width · (votes for the upper bound / all votes), within the bounds."""
    below, above = (graph.add("Gather", scores, graph.constant(bound), axis=1) for bound in (0, 1))
    votes = graph.add("Add", below, above)
    share = graph.add("Div", _real(graph, above), _real(graph, graph.add("Max", votes, graph.constant(1))))
    lower, width, highest = (graph.constant(value, np.float64) for value in (target.lower, target.width, target.upper))
    value = graph.add("Add", lower, graph.add("Mul", width, share))
    return graph.add("Min", graph.add("Max", value, lower), highest, named=graph.name("prediction"))


def _integer(graph: _Graph, value: str) -> str:
    from onnx import TensorProto

    return graph.add("Cast", value, to=TensorProto.INT64)


def _real(graph: _Graph, value: str) -> str:
    from onnx import TensorProto

    return graph.add("Cast", value, to=TensorProto.DOUBLE)
