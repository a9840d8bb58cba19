"""What a session may still ask: the steps of its plan, each taken once and only as it was declared.

The allowance takes a step out of its list before the kernel looks at anything else that the caller handed over. So no
code of the caller can use the step a second time meanwhile. The step is put back only if the request is refused before
a row is read.

If an operation fails while rows are read, the session answers nothing more. Whether it failed may depend on the rows,
and a method that went on would have learnt this without paying for it. Nor may the method see how it failed: the text
of an error can quote a cell, and the frames of its traceback hold exact counts. `hide_failures` raises another error
instead, which holds neither.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar, cast

from dpsql.errors import DpsqlError, RunFailed, TableChanged
from dpsql.kernel.border import AllowanceExceeded, check_whole_number, rebuild_composition
from dpsql.kernel.operations import Later, Operation
from dpsql.kernel.plan import LARGEST_SCALE, Plan, Step, has_sides, steps_with_parts
from dpsql.kernel.progress import RunProgress
from dpsql.schema import Schema
from dpsql.trees.forest import Forest

#: The most values of one answer. No method asks for as many, and they fit into memory (8 GiB of 64-bit numbers).
MOST_CELLS = 2**30
_Method = TypeVar("_Method", bound=Callable[..., Any])


class Allowance:
    """The steps of one plan that can still be asked."""

    def __init__(self, plan: Plan, progress: RunProgress | None = None) -> None:
        self._progress = progress or RunProgress(plan)
        self._promise = plan.promise
        self._open = {step.name: step for step in plan.steps}
        self._declared = dict(self._open)
        self._busy = threading.Lock()
        self._reading = self._closed = False
        self._failure: DpsqlError | None = None

    def __len__(self) -> int:
        return len(self._open)

    @property
    def has_failed(self) -> bool:
        """Whether an operation failed while rows were read."""
        return self._failure is not None

    @property
    def failure(self) -> DpsqlError:
        """A new error to show to a method and its caller, in place of the one that was raised."""
        return _without_frames(self._failure)

    def close(self) -> None:
        """Close every step: from now on all requests are refused."""
        self._closed = True
        self._open.clear()

    def step(self, name: str) -> Step:
        """Return a copy of a step as it was declared, in the plan or later, with an operation of its own."""
        declared = self._declared[name]
        return replace(declared, operation=replace(declared.operation))

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Run one request of a session. A second one meanwhile, from another thread or from inside it, is refused."""
        if not self._busy.acquire(blocking=False):
            raise AllowanceExceeded("a session does one thing at a time.")
        self._reading = False
        try:
            if self._closed or self.has_failed:
                raise AllowanceExceeded("the session is closed, or has failed: nothing more can be asked.")
            yield
        except BaseException as error:
            if self._reading:
                self._failure = _without_frames(error)
                self._open.clear()
            raise
        finally:
            self._busy.release()

    def read(self) -> None:
        """Note that rows are read from here on: an error from now on is a failure of the run, not a refused request."""
        self._reading = True

    @contextmanager
    def take(self, name: str, operation: type[Operation]) -> Iterator[Step]:
        """Take a step out of the list for one operation; it is put back only if the request is refused."""
        with self.one_at_a_time():
            step = self._open.get(name) if type(name) is str else None
            if step is None:
                raise AllowanceExceeded(f'step "{str(name)[:80]}" is not in the plan or was already used.')
            if type(step.operation) is not operation:
                declared = step.operation.name
                raise AllowanceExceeded(f'step "{step.name}" was declared as {declared}, not {operation.name}.')
            del self._open[step.name]
            if operation is not Later:
                self._progress.begin(step)
            try:
                yield step
            except AllowanceExceeded:
                if not self._reading:
                    self._open[step.name] = step
                raise

    def use(
        self,
        step: Step,
        schema: Schema,
        *,
        forest: Forest | None = None,
        axes: int = 1,
        cells: int = 1,
        by_class: bool = False,
        nano_epsilon: int | None = None,
        row_weight: int | None = None,
    ) -> Step:
        """Return the step as it is used now, after checking that the request is what the step declared.

        The arguments describe the request, in values that the kernel itself worked out. If the step has several uses,
        this use takes a part of its epsilon, and the rest stays open for the others. The parts may depend on earlier
        answers, as long as they add up to no more than was declared (Rogers, Roth, Ullman & Vadhan 2016: for pure
        epsilon, sums of adaptively chosen parts compose).
        """
        trees = 1 if forest is None else forest.trees
        request = (trees, axes, step.row_weight if row_weight is None else row_weight)
        declared = (step.trees, step.axes, step.row_weight)
        if request != declared or cells > step.cells:
            raise AllowanceExceeded(
                f'step "{step.name}" was declared as {declared} with {step.cells} values, not {request} with {cells}.'
            )
        if cells > MOST_CELLS:
            raise AllowanceExceeded(f'step "{step.name}" asks for {cells} values; at most {MOST_CELLS} are possible.')
        _check_label(step, schema, by_class=by_class)
        used = self._use(step, nano_epsilon)
        self.read()
        return used

    def _use(self, step: Step, nano_epsilon: int | None) -> Step:
        """Return a step with the part of its epsilon that is used now, and leave the rest of its uses open."""
        if step.free:
            if step.uses > 1:
                self._open[step.name] = replace(step, uses=step.uses - 1)
            return replace(step, uses=1)
        part = step.nano_epsilon if nano_epsilon is None else check_whole_number(nano_epsilon, least=1)
        if part > step.nano_epsilon:
            raise AllowanceExceeded(f'step "{step.name}" has epsilon {float(step.epsilon)} left, and more was asked.')
        if step.uses > 1 and step.nano_epsilon - part >= step.uses - 1:
            self._open[step.name] = replace(step, nano_epsilon=step.nano_epsilon - part, uses=step.uses - 1)
        return replace(step, nano_epsilon=part, uses=1)

    def open_later(self, name: str, given: object) -> None:
        """Replace a step that is an allowance for later steps by the steps of a composition."""
        with self.take(name, Later) as allowance:
            composition = rebuild_composition(given)
            if composition.cost > allowance.nano_epsilon:
                raise AllowanceExceeded(f'step "{name}" does not allow steps of nano-epsilon {composition.cost}.')
            steps = steps_with_parts(composition, allowance)
            names = [step.name for step in steps]
            if has_sides(composition) or len(set(names)) < len(names) or set(names) & set(self._declared):
                raise AllowanceExceeded(f'the later steps of "{name}" need new names, and no sides.')
            if any(step.published or not step.operation.may_come_later for step in steps):
                raise AllowanceExceeded(f'the later steps of "{name}" must each have a cost and a proof.')
            if any(step.scale(self._promise) > LARGEST_SCALE for step in steps):
                raise AllowanceExceeded(f'the later steps of "{name}" need more epsilon: noise must fit into 64 bits.')
            self._progress.replace(name, steps)
            self._open.update((step.name, step) for step in steps)
            self._declared.update((step.name, step) for step in steps)


def _without_frames(error: BaseException | None) -> DpsqlError:
    """Return a new error that can be shown in place of one that was raised while rows were read.

    It says if the table was written to or replaced during the run: that depends on who writes to the table, and not on
    what the rows hold.
    """
    if isinstance(error, TableChanged):
        return TableChanged(error.message, hint=error.hint)
    return RunFailed()


def hide_failures(operation: _Method) -> _Method:
    """Return an operation of a session that raises another error in place of any error after rows were read.

    The new error has no traceback, context or words of the old one. (A `with` block cannot do this: an error that it
    raises has the old one as its context.)
    """

    @functools.wraps(operation)
    def ask(session: Any, *values: Any, **named: Any) -> Any:
        stopped: type[BaseException] | None = None
        failed_before = session.has_failed
        try:
            return operation(session, *values, **named)
        except BaseException as error:
            if failed_before or not session.has_failed:
                raise  # The request was refused, and no row was read for it.
            stopped = next((kind for kind in (KeyboardInterrupt, SystemExit) if type(error) is kind), None)
        raise session.failure if stopped is None else stopped()

    return cast(_Method, ask)


def _check_label(step: Step, schema: Schema, *, by_class: bool) -> None:
    """Refuse classes where the label is a number, and sums where it is none or was declared with other steps."""
    if step.operation.needs_target and step.row_weight != schema.steps:
        raise AllowanceExceeded(
            f'step "{step.name}" was declared for targets of {step.row_weight} steps, not {schema.steps}.'
        )
    if (by_class or step.operation.needs_classes) and schema.target is not None:
        raise AllowanceExceeded(f'step "{step.name}" asks for classes, but the label is a number.')
