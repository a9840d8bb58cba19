"""Tries all kinds of strategies for a workload and takes the one with the smallest proved error. Public facts only.

The error of a strategy A for a workload W is the variance of the noise, which grows with the square of A's sensitivity,
times its *spread* tr(WᵀW·(AᵀA)⁺): the sum, over all of the workload, of the variance that noise of variance 1 on each
answer leaves after least squares. The spread is computed from the whole numbers that will be asked.

The search is bounded by work, not by the clock (`effort.py`): the same request finds the same strategy everywhere.
What was found is kept in memory, and on disk where `DPSQL_CACHE` names a folder: workloads are public, and so are
strategies.
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

KINDS = ("identity", "marginals", "trees", "leaves", "pidentity")
#: Units of work (`effort.py`) after which the best strategy so far is taken.
EFFORT = 100
#: A later kind must be better by this share of the error: simpler ones come first.
MIN_IMPROVEMENT = 0.01
Progress = Callable[[str], None]
#: Who is told what is being tried: a progress bar, for example.
_watching: ContextVar[Progress] = ContextVar("watching", default=lambda what: None)
#: What goes wrong with a file that is cut, broken or not ours: then the strategy is looked for anew.
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, IndexError, ParameterError, BadZipFile, zlib.error)
#: What was found, by workload, kind and effort.
_cache: dict[tuple[str, str], BestStrategy] = {}


@contextmanager
def watch_search(progress: Progress) -> Iterator[None]:
    """Tell `progress` which kind of strategy is being looked for, until the block ends."""
    before = _watching.set(progress)
    try:
        yield
    finally:
        _watching.reset(before)


@dataclass(frozen=True, eq=False)
class Attempt:
    """One kind: its error over that of asking for every cell; None where it does not apply."""

    kind: str
    ratio: float | None


@dataclass(frozen=True, eq=False)
class BestStrategy:
    """The strategy that won, its spread, and what was tried."""

    strategy: Strategy
    spread: float
    tried: tuple[Attempt, ...]
    identity_error: float

    @property
    def error(self) -> float:
        """The error in units of the noise of a single count: sensitivity² × spread."""
        return self.strategy.sensitivity**2 * self.spread

    @property
    def ratio(self) -> float:
        """The error over that of asking for every cell."""
        return self.error / self.identity_error


def best_strategy(
    workload: Workload, *, kind: str = "", effort: int = EFFORT, progress: Progress | None = None
) -> BestStrategy:
    """Return the best strategy for a workload, or the best of one kind; found before, it is not looked for again."""
    if kind not in ("", *KINDS):
        raise ParameterError("strategy", allowed=f"one of {', '.join(KINDS)}", given=kind)
    key = (workload.key(), f"{kind} {effort}")  # what little effort cut short is not what more would find
    if key not in _cache:
        stored = _read(key, workload)
        _cache[key] = stored or _search(workload, kind, Effort(effort), progress or _watching.get())
        if stored is None:
            _store(key, _cache[key])
    return _cache[key]


def _search(workload: Workload, kind: str, effort: Effort, progress: Progress) -> BestStrategy:
    """Try the kinds in turn; one that the effort left does not even start is passed over, unless it was asked for."""
    tried: list[Attempt] = []
    best: tuple[float, Strategy, float] | None = None
    for look in _looks(workload, effort):
        if kind not in ("", look.kind) or (best is not None and not effort.allows(look.first_work)):
            continue
        progress(look.kind)
        found = look.search()
        error = None if found is None else found[0].sensitivity ** 2 * found[1]
        tried.append(Attempt(look.kind, None if error is None else error / workload.length))
        if found is not None and error is not None and (best is None or error < best[0] * (1 - MIN_IMPROVEMENT)):
            best = (error, *found)
    if best is None:
        return BestStrategy(identity(workload.cells), workload.length, tuple(tried), workload.length)
    return BestStrategy(best[1], best[2], tuple(tried), workload.length)


@dataclass(frozen=True)
class _Look:
    """How one kind is searched for, and the multiplications before it has anything to show."""

    kind: str
    first_work: int
    search: Callable[[], tuple[Strategy, float] | None]


def _looks(workload: Workload, effort: Effort) -> Iterator[_Look]:
    yield _Look("identity", 0, lambda: (identity(workload.cells), workload.length))
    yield _Look("marginals", workload.moments_work, lambda: marginals.marginals(workload, effort))
    if isinstance(workload, Leaves):
        work = workload.eigenvalues_work
        yield _Look("trees", work, lambda: _trees(workload, effort, cells=True))
        yield _Look("leaves", work, lambda: _trees(workload, effort, cells=False))
    yield _Look("pidentity", pidentity.slope_work(workload), lambda: _p_identity(workload, effort))


def _trees(workload: Leaves, effort: Effort, *, cells: bool) -> tuple[Strategy, float] | None:
    if cells:  # worked out once for both kinds
        effort.spend(workload.eigenvalues_work)
    values = workload.eigenvalues
    if values is None:
        return None
    if not cells:
        return leaf_strategies.workload_itself(workload), leaf_strategies.spread(values, 0, 1)
    strategy = leaf_strategies.cells_and_trees(workload, values)
    return strategy, leaf_strategies.spread(values, leaf_strategies.PARTS, strategy.blocks[1].largest)


def _p_identity(workload: Workload, effort: Effort) -> tuple[Strategy, float] | None:
    strategy = pidentity.p_identity(workload, effort)
    if strategy is None:
        return None
    own, more = strategy.blocks[0], strategy.blocks[1:]
    assert isinstance(own, Partition)
    matrix: Floats = np.zeros((1, workload.cells))
    if more:
        assert isinstance(more[0], Dense)
        matrix = more[0].matrix.astype(np.float64)
    return strategy, pidentity.starting_matrix(workload, own.weight.astype(np.float64), matrix)


def _file(key: tuple[str, str]) -> Path | None:
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

    A file that says something wrong costs accuracy, never privacy: the kernel works the sensitivity out itself.
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
