"""Tries all kinds of strategies for a workload and takes the one with the smallest proved error, from public facts.

The error of a strategy A for a workload W is the variance of the noise, which grows with the square of A's sensitivity,
times its *spread* tr(WᵀW·(AᵀA)⁺): the sum, over all of the workload, of the variance that noise of variance 1 on each
answer leaves after least squares. The spread is computed from the whole numbers that will be asked.

The search is bounded by work, not by the clock (`effort.py`): the same request finds the same strategy everywhere.
Strategies are cached in memory, and on disk where the environment variable `DPSQL_CACHE` names a folder: workloads are
public, and so are strategies.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from dpsql.errors import ParameterError
from dpsql.trees.strategies import leaf_strategies, marginals
from dpsql.trees.strategies import p_identity as pidentity
from dpsql.trees.strategies.effort import Effort
from dpsql.trees.strategies.strategy import Dense, Floats, Partition, Strategy, identity
from dpsql.trees.strategies.workload import Leaves, Workload

#: The kinds of strategies, in the order in which they are tried.
KINDS = ("identity", "marginals", "trees", "leaves", "pidentity")
#: Units of effort (`effort.py`) after which the best strategy so far is taken.
EFFORT = 100
#: The share of the error by which a later kind must be better to be taken: simpler kinds come first.
MIN_IMPROVEMENT = 0.01
#: What is called with the name of each kind before it is tried: it moves a progress bar, for example.
Progress = Callable[[str], None]
_watching: ContextVar[Progress] = ContextVar("watching", default=lambda what: None)
#: The errors that a cached file raises when it is cut, broken or not ours: the strategy is then searched for anew.
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, IndexError, ParameterError, BadZipFile, zlib.error)
#: The strategies that were searched for in this process, by the workload's digest, and by kind and effort.
_cache: dict[tuple[str, str], BestStrategy] = {}


@contextmanager
def watch_search(progress: Progress) -> Iterator[None]:
    """Call `progress` with each kind of strategy that is tried, until the block ends."""
    before = _watching.set(progress)
    try:
        yield
    finally:
        _watching.reset(before)


@dataclass(frozen=True, eq=False)
class Attempt:
    """One kind that was tried: its error over that of asking for every cell; None where the kind does not apply."""

    kind: str
    ratio: float | None


@dataclass(frozen=True, eq=False)
class BestStrategy:
    """The best strategy, its spread, the kinds that were tried, and the error of asking for every cell."""

    strategy: Strategy
    spread: float
    tried: tuple[Attempt, ...]
    identity_error: float

    @property
    def error(self) -> float:
        """The error sensitivity² · spread, in units of the variance of the noise on a count of sensitivity 1."""
        return self.strategy.sensitivity**2 * self.spread

    @property
    def ratio(self) -> float:
        """The error over that of asking for every cell."""
        return self.error / self.identity_error


def best_strategy(
    workload: Workload, *, kind: str = "", effort: int = EFFORT, progress: Progress | None = None
) -> BestStrategy:
    """Return the best strategy for a workload, or the best of one kind; a cached one is not searched for again."""
    if kind not in ("", *KINDS):
        raise ParameterError("strategy", allowed=f"one of {', '.join(KINDS)}", given=kind)
    key = (workload.key(), f"{kind} {effort}")  # a search with less effort may end with another strategy
    if key not in _cache:
        stored = _read(key, workload)
        _cache[key] = stored or _search(workload, kind, Effort(effort), progress or _watching.get())
        if stored is None:
            _store(key, _cache[key])
    return _cache[key]


def _search(workload: Workload, kind: str, effort: Effort, progress: Progress) -> BestStrategy:
    """Try the kinds in turn, and return the best strategy.

    A kind whose first step needs more than the effort that is left is passed over, unless there is no strategy yet.
    """
    tried: list[Attempt] = []
    best: tuple[float, Strategy, float] | None = None
    for search in _searches(workload, effort):
        if kind not in ("", search.kind) or (best is not None and not effort.allows(search.first_work)):
            continue
        progress(search.kind)
        result = search.run()
        error = None if result is None else result[0].sensitivity ** 2 * result[1]
        tried.append(Attempt(search.kind, None if error is None else error / workload.length))
        if result is not None and error is not None and (best is None or error < best[0] * (1 - MIN_IMPROVEMENT)):
            best = (error, *result)
    if best is None:
        return BestStrategy(identity(workload.cells), workload.length, tuple(tried), workload.length)
    return BestStrategy(best[1], best[2], tuple(tried), workload.length)


@dataclass(frozen=True)
class _Search:
    """The search for one kind: `run` returns a strategy and its spread, after at least `first_work` multiplications."""

    kind: str
    first_work: int
    run: Callable[[], tuple[Strategy, float] | None]


def _searches(workload: Workload, effort: Effort) -> Iterator[_Search]:
    yield _Search("identity", 0, lambda: (identity(workload.cells), workload.length))
    yield _Search("marginals", workload.moments_work, lambda: marginals.marginals(workload, effort))
    if isinstance(workload, Leaves):
        work = workload.eigenvalues_work
        yield _Search("trees", work, lambda: _trees(workload, effort, cells=True))
        yield _Search("leaves", work, lambda: _trees(workload, effort, cells=False))
    yield _Search("pidentity", pidentity.slope_work(workload), lambda: _p_identity(workload, effort))


def _trees(workload: Leaves, effort: Effort, *, cells: bool) -> tuple[Strategy, float] | None:
    """Return the strategy of all leaves, with or without all cells, and its spread; None for too many cells."""
    if cells:  # the eigenvalues are computed once for both kinds
        effort.spend(workload.eigenvalues_work)
    values = workload.eigenvalues
    if values is None:
        return None
    if not cells:
        return leaf_strategies.workload_itself(workload), leaf_strategies.spread(values, 0, 1)
    strategy = leaf_strategies.cells_and_trees(workload, values)
    return strategy, leaf_strategies.spread(values, leaf_strategies.PARTS, strategy.blocks[1].largest)


def _p_identity(workload: Workload, effort: Effort) -> tuple[Strategy, float] | None:
    """Return the best p-identity strategy and its spread; None where there is none."""
    strategy = pidentity.p_identity(workload, effort)
    if strategy is None:
        return None
    cell_weights, more = strategy.blocks[0], strategy.blocks[1:]
    assert isinstance(cell_weights, Partition)
    matrix: Floats = np.zeros((1, workload.cells))
    if more:
        assert isinstance(more[0], Dense)
        matrix = more[0].matrix.astype(np.float64)
    return strategy, pidentity.p_identity_spread(workload, cell_weights.weight.astype(np.float64), matrix)


def _file(key: tuple[str, str]) -> Path | None:
    """Return the file in which a strategy is cached; None where no folder is named."""
    folder = os.environ.get("DPSQL_CACHE")
    name = hashlib.sha256(f"strategy 2 {key}".encode()).hexdigest()[:32]
    return None if not folder else Path(folder) / f"{name}.npz"


def _store(key: tuple[str, str], best: BestStrategy) -> None:
    """Write a strategy to the cache folder; a folder that cannot be written is no reason to fail."""
    file = _file(key)
    if file is None:
        return
    arrays: dict[str, np.ndarray] = {"spread": np.array([best.spread])}
    for number, block in enumerate(best.strategy.blocks):
        if isinstance(block, Partition):
            arrays |= {f"{number}_group": block.group, f"{number}_weight": block.weight}
        else:
            arrays[f"{number}_matrix"] = block.matrix
    arrays["tried"] = np.array([[attempt.kind, str(attempt.ratio)] for attempt in best.tried])
    arrays["name"] = np.array([best.strategy.name])
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}.npz")
        np.savez_compressed(part, **arrays)  # type: ignore[arg-type]
        part.replace(file)
    except OSError:
        return


def _read(key: tuple[str, str], workload: Workload) -> BestStrategy | None:
    """Return a strategy from the cache folder; None where there is none, or none that can be read.

    A file with a wrong strategy costs accuracy, never privacy: the kernel computes the sensitivity itself.
    """
    file = _file(key)
    if file is None or not file.exists():
        return None
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as file_arrays:
            blocks: list[Partition | Dense] = []
            while f"{len(blocks)}_group" in file_arrays or f"{len(blocks)}_matrix" in file_arrays:
                number = len(blocks)
                if f"{number}_group" in file_arrays:
                    blocks.append(Partition(file_arrays[f"{number}_group"], file_arrays[f"{number}_weight"]))
                else:
                    blocks.append(Dense(file_arrays[f"{number}_matrix"]))
            strategy = Strategy(str(file_arrays["name"][0]), workload.cells, tuple(blocks))
            tried = tuple(
                Attempt(str(kind), None if ratio == "None" else float(ratio)) for kind, ratio in file_arrays["tried"]
            )
            return BestStrategy(strategy, float(file_arrays["spread"][0]), tried, workload.length)
    except _UNREADABLE:
        return None
