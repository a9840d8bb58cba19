"""Which trees a statement is about, and what tells which of them a row walks."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.schema import Schema
from dpsql.trees.forest import Forest


@dataclass(frozen=True)
class Slice:
    """The trees, out of `total`, that a forest holds: those from number `first` on.

    If `shared` is true, every row walks all trees, otherwise one of them: that of its stored part, where `parts` says
    that rows have one, or that of its ticket.
    """

    shared: bool
    first: int
    total: int
    parts: int | None = None

    @classmethod
    def of(cls, schema: Schema, forest: Forest, *, shared: bool, first: int = 0) -> Slice:
        """Return the trees of a whole forest from number `first` on, on the rows of a schema.

        Trees that are more than the stored parts are told apart by ticket: some would have no rows otherwise. (A plan
        that says so beforehand is refused; this is for steps that are planned from earlier answers.)
        """
        parts = schema.parts if schema.parts is not None and forest.trees <= schema.parts else None
        return cls(shared, first, forest.trees, parts)
