"""Tries all kinds of strategies for a workload and takes the one with the smallest proved error. Public facts only.

The error of a strategy A for a workload W is the variance of the noise, which grows with the square of A's sensitivity,
times its *spread* tr(WᵀW·(AᵀA)⁺): the sum, over all of the workload, of the variance that noise of variance 1 on each
answer leaves after least squares. The spread is computed from the whole numbers that will be asked.

What was found is kept in memory, and on disk where `DPSQL_CACHE` names a folder: workloads are public, and so are
strategies.
"""

from __future__ import annotations

import hashlib
import os
import time
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
from dpsql.trees.strategies.strategy import Dense, Floats, Partition, Strategy, identity
from dpsql.trees.strategies.workload import Leaves, Workload

KINDS = ("identity", "marginals", "trees", "leaves", "pidentity")
#: Seconds after which the best strategy so far is taken.
SECONDS = 30.0
#: A later kind must be better by this share: simpler ones come first.
CLEARLY = 0.01
Progress = Callable[[str], None]
#: Who is told what is being tried: a progress bar, for example.
_watching: ContextVar[Progress] = ContextVar("watching", default=lambda what: None)
#: What goes wrong with a file that is cut, broken or not ours: then the strategy is looked for anew.
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, IndexError, ParameterError, BadZipFile, zlib.error)
_known: dict[tuple[str, str], Found] = {}


@contextmanager
def watching(progress: Progress) -> Iterator[None]:
    """Tell `progress` which kind of strategy is being looked for, until the block ends."""
    before = _watching.set(progress)
    try:
        yield
    finally:
        _watching.reset(before)


@dataclass(frozen=True, eq=False)
class Tried:
    """One kind: its error over that of asking for every cell (None where it does not apply), and how long it took."""

    kind: str
    ratio: float | None
    seconds: float


@dataclass(frozen=True, eq=False)
class Found:
    """The strategy that won, its spread, and what was tried."""

    strategy: Strategy
    spread: float
    tried: tuple[Tried, ...]
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
    workload: Workload, *, kind: str = "", seconds: float = SECONDS, progress: Progress | None = None
) -> Found:
    """Return the best strategy for a workload, or the best of one kind; found before, it is not looked for again."""
    if kind not in ("", *KINDS):
        raise ParameterError("strategy", allowed=f"one of {', '.join(KINDS)}", given=kind)
    key = (workload.key(), f"{kind} {seconds:g}")  # what little time cut short is not what more would find
    if key not in _known:
        stored = _stored(key, workload)
        _known[key] = stored or _search(workload, kind, seconds, progress or _watching.get())
        if stored is None:
            _store(key, _known[key])
    return _known[key]


def _search(workload: Workload, kind: str, seconds: float, progress: Progress) -> Found:
    ends, tried = time.monotonic() + seconds, []
    best: tuple[float, Strategy, float] | None = None
    for name, look in _kinds(workload, lambda: time.monotonic() < ends):
        if kind not in ("", name) or (best is not None and time.monotonic() > ends):
            continue
        progress(name)
        started = time.monotonic()
        found = look()
        error = None if found is None else found[0].sensitivity ** 2 * found[1]
        tried.append(Tried(name, None if error is None else error / workload.length, time.monotonic() - started))
        if found is not None and error is not None and (best is None or error < best[0] * (1 - CLEARLY)):
            best = (error, *found)
    if best is None:
        every = identity(workload.cells)
        return Found(every, workload.length, tuple(tried), workload.length)
    return Found(best[1], best[2], tuple(tried), workload.length)


Look = Callable[[], tuple[Strategy, float] | None]


def _kinds(workload: Workload, go_on: Callable[[], bool]) -> Iterator[tuple[str, Look]]:
    yield "identity", lambda: (identity(workload.cells), workload.length)
    yield "marginals", lambda: marginals.marginals(workload, go_on)
    if isinstance(workload, Leaves):
        yield "trees", lambda: _trees(workload, cells=True)
        yield "leaves", lambda: _trees(workload, cells=False)
    yield "pidentity", lambda: _p_identity(workload, go_on)


def _trees(workload: Leaves, *, cells: bool) -> tuple[Strategy, float] | None:
    values = workload.eigenvalues
    if values is None:
        return None
    if not cells:
        return leaf_strategies.workload_itself(workload), leaf_strategies.spread(values, 0, 1)
    found = leaf_strategies.cells_and_trees(workload, values)
    return found, leaf_strategies.spread(values, leaf_strategies.PARTS, found.blocks[1].largest)


def _p_identity(workload: Workload, go_on: Callable[[], bool]) -> tuple[Strategy, float] | None:
    found = pidentity.p_identity(workload, go_on)
    if found is None:
        return None
    own, more = found.blocks[0], found.blocks[1:]
    assert isinstance(own, Partition)
    matrix: Floats = np.zeros((1, workload.cells))
    if more:
        assert isinstance(more[0], Dense)
        matrix = more[0].matrix.astype(np.float64)
    return found, pidentity.spread(workload, own.weight.astype(np.float64), matrix)


def _file(key: tuple[str, str]) -> Path | None:
    folder = os.environ.get("DPSQL_CACHE")
    name = hashlib.sha256(f"strategy 1 {key}".encode()).hexdigest()[:32]
    return None if not folder else Path(folder) / f"{name}.npz"


def _store(key: tuple[str, str], found: Found) -> None:
    """Write a strategy to the cache folder; a folder that cannot be written is no reason to fail."""
    file = _file(key)
    if file is None:
        return
    arrays: dict[str, np.ndarray] = {"spread": np.array([found.spread])}
    for number, block in enumerate(found.strategy.blocks):
        if isinstance(block, Partition):
            arrays |= {f"{number}_group": block.group, f"{number}_weight": block.weight}
        else:
            arrays[f"{number}_matrix"] = block.matrix
    arrays["tried"] = np.array([[one.kind, str(one.ratio), str(one.seconds)] for one in found.tried])
    arrays["name"] = np.array([found.strategy.name])
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}.npz")
        np.savez_compressed(part, **arrays)  # type: ignore[arg-type]
        part.replace(file)
    except OSError:
        return


def _stored(key: tuple[str, str], workload: Workload) -> Found | None:
    """Return a strategy from the cache folder; None where there is none, or none that can be read.

    A file that says something wrong costs accuracy, never privacy: the kernel works the sensitivity out itself.
    """
    file = _file(key)
    if file is None or not file.exists():
        return None
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as held:
            blocks: list[Partition | Dense] = []
            while f"{len(blocks)}_group" in held or f"{len(blocks)}_matrix" in held:
                number = len(blocks)
                if f"{number}_group" in held:
                    blocks.append(Partition(held[f"{number}_group"], held[f"{number}_weight"]))
                else:
                    blocks.append(Dense(held[f"{number}_matrix"]))
            strategy = Strategy(str(held["name"][0]), workload.cells, tuple(blocks))
            tried = tuple(
                Tried(str(kind), None if ratio == "None" else float(ratio), float(seconds))
                for kind, ratio, seconds in held["tried"]
            )
            return Found(strategy, float(held["spread"][0]), tried, workload.length)
    except _UNREADABLE:
        return None
