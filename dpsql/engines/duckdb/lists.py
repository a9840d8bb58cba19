"""Lists in DuckDB's expressions (the protocol `Lists` of `dpsql/spelling.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp


class DuckDBLists:
    """DuckDB's own spellings."""

    def of(self, values: Sequence[exp.Expr]) -> exp.Expr:
        """Return `[a, b, …]`."""
        return exp.Array(expressions=list(values))

    def numbers(self, count: int) -> exp.Expr:
        """Return `RANGE(count)`."""
        return _call("RANGE", exp.Literal.number(count))

    def at(self, values: exp.Expr, place: exp.Expr) -> exp.Expr:
        """Return `LIST_EXTRACT(values, place)`."""
        return _call("LIST_EXTRACT", values, place)

    def place(self, values: exp.Expr, value: exp.Expr) -> exp.Expr:
        """Return `LIST_POSITION(values, value)`."""
        return _call("LIST_POSITION", values, value)

    def part(self, values: exp.Expr, first: int, last: int) -> exp.Expr:
        """Return `LIST_SLICE(values, first, last)`."""
        return _call("LIST_SLICE", values, exp.Literal.number(first), exp.Literal.number(last))

    def each(self, values: exp.Expr, name: str, result: exp.Expr) -> exp.Expr:
        """Return `LIST_TRANSFORM(values, LAMBDA name : result)`."""
        return _call("LIST_TRANSFORM", values, exp.Lambda(this=result, expressions=[exp.to_identifier(name)]))

    def both(self, values: exp.Expr, others: exp.Expr) -> exp.Expr:
        """Return `LIST_CONCAT(values, others)`."""
        return _call("LIST_CONCAT", values, others)

    def flat(self, lists: exp.Expr) -> exp.Expr:
        """Return `FLATTEN(lists)`."""
        return _call("FLATTEN", lists)

    def sum(self, values: exp.Expr) -> exp.Expr:
        """Return `CAST(LIST_SUM(values) AS BIGINT)`."""
        return exp.cast(_call("LIST_SUM", values), exp.DataType.Type.BIGINT)

    def largest(self, values: exp.Expr) -> exp.Expr:
        """Return `LIST_MAX(values)`."""
        return _call("LIST_MAX", values)

    def collect(self, value: exp.Expr, by: exp.Expr, test: exp.Expr | None = None) -> exp.Expr:
        """Return `LIST(value ORDER BY by) FILTER(WHERE test)`."""
        collected = _call("LIST", exp.Order(this=value, expressions=[exp.Ordered(this=by, nulls_first=False)]))
        return collected if test is None else exp.Filter(this=collected, expression=exp.Where(this=test))

    def collect_once(self, value: exp.Expr) -> exp.Expr:
        """Return `LIST(DISTINCT value ORDER BY value)`."""
        by = [exp.Ordered(this=value.copy(), nulls_first=False)]
        return _call("LIST", exp.Order(this=exp.Distinct(expressions=[value]), expressions=by))


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))
