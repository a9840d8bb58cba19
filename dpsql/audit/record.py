"""A tape of one run: every exact value that met noise, and what came out. It is private, for it holds exact counts.

A *recording* run draws its noise and its secret keys as usual, and writes them down. A *replaying* run is given the
tape of another one: it takes the same keys and releases the same values, whatever its own rows are, and writes a tape
of its own. The two tapes then hold, for each release, one outcome and the exact values of two tables from which it
could have come: all that the ratio of its chances needs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The mechanisms that a release can name.
LAPLACE = "discrete Laplace"
GAUSSIAN = "discrete Gaussian"
EXPONENTIAL = "exponential mechanism"
FLIP = "permute-and-flip"

Numbers = NDArray[np.int64]


class Diverged(Exception):
    """A replayed run asked for something else than the recorded one, so that it cannot go on."""


@dataclass(frozen=True, eq=False)
class RecordedRelease:
    """One call of a mechanism: the exact values that went in, the public parameter of its noise, what came out.

    `parameter` is the scale of discrete Laplace noise, the variance of discrete Gaussian noise, or the rate of a choice
    (what a utility gap of 1 adds to the exponent). `weights` is the base measure of the exponential mechanism.
    """

    operation: int
    mechanism: str
    parameter: Fraction
    exact: Numbers
    released: Numbers
    weights: Numbers | None = None


@dataclass(frozen=True, eq=False)
class RecordedSelection:
    """One selection of common groups: their exact counts, the variance of the noise, the least count, what came out.

    `allowed` is the selection delta: the probability with which a group that one unit alone has may come out.
    """

    operation: int
    variance: Fraction
    least: int
    allowed: Decimal
    exact: Mapping[Any, int]
    released: Mapping[Any, int]


@dataclass(frozen=True)
class RecordedOperation:
    """One question to a session: which, for which step, what that step may cost, and a digest of the answer.

    `session` numbers the sessions of a tape: each has steps of its own. `allowed` is the step's epsilon, or its part of
    rho where the run is `approximate`. `public` tells a question that is answered without noise.
    """

    name: str
    step: str
    session: int
    allowed: Fraction
    approximate: bool
    public: bool
    answer: str

    @property
    def question(self) -> tuple[int, str, str]:
        """What was asked, of which session and for which step, without the answer."""
        return self.session, self.name, self.step


@dataclass(eq=False)
class Tape:
    """What was written down of one run, in order."""

    keys: list[int] = field(default_factory=list)
    operations: list[RecordedOperation] = field(default_factory=list)
    releases: list[RecordedRelease] = field(default_factory=list)
    selections: list[RecordedSelection] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<Tape: {len(self.operations)} operations, {len(self.releases)} releases>"


class Recorder:
    """Writes a tape; with the tape of another run it answers from there instead of drawing."""

    def __init__(self, script: Tape | None = None) -> None:
        self.tape = Tape()
        #: What could not be replayed, in public words; "" as long as all could.
        self.diverged = ""
        self._script = script
        self._counts: Numbers | None = None
        self._noise: tuple[str, Fraction] | None = None
        self._depth = 0
        self._sessions: list[object] = []

    def key(self, draw: Callable[[], int]) -> int:
        """Return a secret key: a fresh one, or the one that the recorded run drew here."""
        if self._script is None:
            key = draw()
        elif len(self.tape.keys) < len(self._script.keys):
            key = self._script.keys[len(self.tape.keys)]
        else:
            raise self._stop("it drew more secret keys")
        self.tape.keys.append(key)
        return key

    def statement(self, text: str) -> None:
        """Write down the digest of a statement that was sent to the database, with the tables it joined."""
        self.tape.statements.append(hashlib.sha256(text.encode()).hexdigest())

    @contextmanager
    def operation(
        self, name: str, step: str, *, session: object, allowed: Fraction, approximate: bool, public: bool
    ) -> Iterator[list[Any]]:
        """Write down an operation: the caller puts the answer into the list. A charged one must have met noise."""
        before, answer = len(self.tape.releases) + len(self.tape.selections), list[Any]()
        self._depth += 1
        try:
            yield answer
        finally:
            self._depth -= 1
        if not public and len(self.tape.releases) + len(self.tape.selections) == before:
            raise self._stop(f'"{name}" answered step "{step}" without a mechanism that the audit knows')
        number = self._number(session)
        self.tape.operations.append(
            RecordedOperation(name, step, number, allowed, approximate, public, answer_digest(answer))
        )

    def addition(self, counts: Numbers, add: Callable[[], Numbers]) -> Numbers:
        """Write down counts that get noise; `add` draws it through `noise`."""
        self._check_within("noise")
        self._counts, self._noise = np.array(counts, np.int64), None
        released = add()
        if self._noise is None:
            raise self._stop("counts were released without noise")
        mechanism, parameter = self._noise
        self._write(RecordedRelease(len(self.tape.operations), mechanism, parameter, self._counts, np.array(released)))
        self._counts = None
        return released

    def noise(self, mechanism: str, parameter: Fraction, draw: Callable[[], Numbers]) -> Numbers:
        """Return noise for the counts of the moment: fresh, or what makes them the values of the recorded run."""
        if self._counts is None or self._noise is not None:
            raise self._stop("noise was drawn that belongs to no counts")
        self._noise = (mechanism, Fraction(parameter))
        if self._script is None:
            return draw()
        released = self._recorded_release(mechanism).released
        if released.shape != self._counts.shape:
            raise self._stop("counts had another shape")
        return np.asarray(released - self._counts).ravel()

    def selection(
        self, groups: Mapping[Any, int], draw: Callable[[], dict[Any, int]], *, least: int, allowed: Decimal
    ) -> dict[Any, int]:
        """Return the groups that a selection shows: drawn, or those of the recorded run, whatever groups are here."""
        self._check_within("a selection")
        if self._script is None:
            self._counts, self._noise = np.array(list(groups.values()), np.int64), None
            released = draw()
            if self._noise is None:
                raise self._stop("groups were released without noise")
            variance = self._noise[1]
            self._counts = None
        else:
            place = len(self.tape.selections)
            if place >= len(self._script.selections):
                raise self._stop("it released something else")
            recorded = self._script.selections[place]
            released, variance = dict(recorded.released), recorded.variance
        operation = len(self.tape.operations)
        self.tape.selections.append(
            RecordedSelection(operation, variance, least, allowed, dict(groups), dict(released))
        )
        return released

    def choice(
        self,
        mechanism: str,
        rate: Fraction,
        utilities: Numbers,
        weights: Numbers | None,
        draw: Callable[[], Numbers],
    ) -> Numbers:
        """Return a choice for each row of utilities: drawn, or that of the recorded run."""
        self._check_within("a choice")
        exact = np.array(utilities, np.int64)
        measure = None if weights is None else np.broadcast_to(np.array(weights, np.int64), exact.shape)
        if self._script is None:
            choices = draw()
        else:
            recorded = self._recorded_release(mechanism)
            if recorded.exact.shape != exact.shape:
                raise self._stop("choices had other candidates")
            choices = recorded.released.copy()
        self._write(RecordedRelease(len(self.tape.operations), mechanism, rate, exact, np.array(choices), measure))
        return choices

    def _number(self, session: object) -> int:
        """Return the number of a session, in the order in which they were first asked."""
        if not any(earlier is session for earlier in self._sessions):
            self._sessions.append(session)
        return next(number for number, earlier in enumerate(self._sessions) if earlier is session)

    def _check_within(self, what: str) -> None:
        if not self._depth:
            raise self._stop(f"{what} was asked for outside of every operation of a session")

    def _recorded_release(self, mechanism: str) -> RecordedRelease:
        """Return the release of the recorded run that stands at this place."""
        assert self._script is not None
        place = len(self.tape.releases)
        if place >= len(self._script.releases) or self._script.releases[place].mechanism != mechanism:
            raise self._stop("it released something else")
        return self._script.releases[place]

    def _write(self, release: RecordedRelease) -> None:
        for numbers in (release.exact, release.released):
            numbers.setflags(write=False)
        self.tape.releases.append(release)

    def _stop(self, why: str) -> Diverged:
        self.diverged = self.diverged or why
        return Diverged(why)


def answer_digest(value: Any) -> str:
    """Return a digest of an answer: arrays by type, shape and bytes, other values by their text."""
    digest = hashlib.sha256()
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
        else:
            digest.update(repr(part).encode())
    return digest.hexdigest()
