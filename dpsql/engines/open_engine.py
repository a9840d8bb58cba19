"""Finds the engine that a target means, and opens it: a loop over what engines declare of themselves.

The engines of dpsql come first. Engines of other packages join by the entry point group `dpsql.engines`; they are
looked for only when none of dpsql's own knows a URL or a connection, so that they can take nothing over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from dpsql.engines import chdb, duckdb, postgres, spark
from dpsql.engines.base import Engine
from dpsql.engines.other_databases import scheme_of, url_refusal
from dpsql.engines.spec import EngineSpec, NotAConnection, Opening
from dpsql.errors import DatabaseError, ParameterError, UsageError

#: dpsql's own engines; a new one is one more entry.
SPECS: tuple[EngineSpec, ...] = (duckdb.SPEC, postgres.SPEC, spark.SPEC, chdb.SPEC)
GROUP = "dpsql.engines"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")
_IBIS = "ibis"


def open_engine(
    target: Any,
    *,
    create: bool = False,
    read_only: bool = False,
    wait: float = 2.0,
    ledger: str | Path | None = None,
    attach: Sequence[str | Path] = (),
    memory_limit: str | None = None,
) -> Engine:
    """Open what a target names, or wrap a connection.

    `ledger` is where the ledger of files, of a DuckDB file that is only read, of Spark or of chDB lies; `attach` are
    the DuckDB files to attach to a DuckDB file.
    """
    opening = Opening(create, read_only, wait, ledger, attach=tuple(map(str, attach)), memory_limit=memory_limit)
    if isinstance(target, str | Path):
        return _open_target(str(target), opening)
    return _adopt(target, opening)


def show_target(target: str) -> str:
    """Return a target, or NAME=TARGET, as it may be shown, without passwords.

    >>> show_target("hr=mysql://ann:secret@host/x"), show_target("hr=people.duckdb")
    ('hr=mysql://…', 'hr=people.duckdb')
    """
    name, _, place = target.partition("=")
    if scheme_of(place) and not scheme_of(name):
        return f"{name}={show_target(place)}"
    spec = _spec_of_url(target)
    if spec is not None:
        return spec.hide_secrets(target)
    scheme = scheme_of(target)
    return f"{scheme}://…" if scheme else target


def url_forms(specs: Sequence[EngineSpec] = SPECS) -> str:
    """Return the URLs of engines in words: the first prefix of each.

    >>> url_forms([postgres.SPEC, spark.SPEC])
    'postgresql:// or spark://'
    """
    return _list_words([spec.prefixes[0] for spec in specs if spec.prefixes])


def _open_target(target: str, opening: Opening) -> Engine:
    spec = _spec_of_url(target) or next((spec for spec in SPECS if spec.opens_path(target)), None)
    if spec is None or "\x00" in target:
        raise _unknown_target(target)
    if not spec.opens_url(target) and not Path(target).exists():
        refusal = url_refusal(target)
        if refusal is not None:
            raise refusal
    if opening.attach and (spec.name != duckdb.SPEC.name or duckdb.is_table_files(target)):
        raise _attach_refused(opening.attach[0])
    opening, undo = _with_ledger(spec, opening, takes_ledger=not spec.opens_url(target) and spec.takes_ledger(target))
    with undo:
        engine = spec.load().open_target(target, opening)
        undo.pop_all()
    return engine


def _adopt(connection: object, opening: Opening) -> Engine:
    if _driver_of(connection) == _IBIS:
        connection = _behind_ibis(connection)
    spec = _spec_of_connection(connection)
    if spec is None:
        raise _unknown_target(type(connection))
    if opening.attach:
        raise _attach_refused(opening.attach[0])
    opening, undo = _with_ledger(spec, opening, takes_ledger=False)
    with undo:
        try:
            engine = spec.load().adopt_connection(connection, opening)
        except NotAConnection:
            raise _unknown_target(type(connection)) from None
        undo.pop_all()
    return engine


def _with_ledger(spec: EngineSpec, opening: Opening, *, takes_ledger: bool) -> tuple[Opening, ExitStack]:
    """Return how to open an engine whose ledger is open, and what closes the ledger again if the engine cannot be.

    The ledger comes first: where it cannot be reached, the engine is not started.
    """
    undo = ExitStack()
    if not spec.ledger_elsewhere:
        if opening.ledger_place is not None and not takes_ledger:
            raise _ledger_refused(opening.ledger_place)
        return opening, undo
    place = _ledger_place(spec, opening.ledger_place)
    spec.load()
    ledger = _open_target(str(place), Opening(read_only=opening.read_only, wait=opening.wait, made_by_writing=True))
    undo.callback(ledger.close)
    return replace(opening, ledger=ledger), undo


def _ledger_place(spec: EngineSpec, place: str | Path | None) -> str | Path:
    """Return where the ledger of an engine without transactions is to be, or refuse."""
    keeping = [other for other in SPECS if not other.ledger_elsewhere]
    if place is None:
        raise UsageError(
            f"{spec.title} has no transactions, so its ledger and models must be kept elsewhere.",
            hint=f"--ledger FILE.duckdb, or --ledger {url_forms(keeping)}… (ledger=… in Python)",
        )
    holder = _spec_of_url(str(place))
    if holder is not None and holder.ledger_elsewhere:
        allowed = f"a DuckDB file or a {url_forms(keeping)} URL"
        raise ParameterError("ledger", allowed=allowed, given=str(place))
    return place


def _behind_ibis(backend: object) -> object:
    """Return the driver's own connection of an Ibis backend, which shows it as `con`."""
    connection = getattr(backend, "con", None)
    if _spec_of_connection(connection) is None:
        titles = [spec.title for spec in SPECS if spec.behind_ibis]
        raise ParameterError(
            "db",
            allowed=f"an Ibis connection to {_list_words(titles)}",
            given=getattr(backend, "name", type(backend)),
            hint="for another database pass the driver's own connection or session, and ledger=… where it needs one",
        )
    return connection


def _spec_of_url(target: str) -> EngineSpec | None:
    """Return the engine whose prefix a URL has; None for what is no URL, and for one that nobody knows."""
    own = next((spec for spec in SPECS if spec.opens_url(target)), None)
    scheme = _SCHEME.match(target)
    if own is not None or scheme is None:
        return own
    joined = [_load_entry_point(entry) for entry in entry_points(group=GROUP, name=scheme[1])]
    if len(joined) > 1:
        raise DatabaseError(
            f"{len(joined)} installed packages open {scheme[0]} URLs.", hint="uninstall all of them but one"
        )
    return joined[0] if joined else None


def _spec_of_connection(connection: object) -> EngineSpec | None:
    """Return the engine that an open connection belongs to, by the module that its class comes from."""
    driver = _driver_of(connection)
    return next((spec for spec in _all_specs() if driver in spec.drivers), None)


def _all_specs() -> Iterator[EngineSpec]:
    """Yield dpsql's own engines, then those of other packages, which are imported only when they are reached."""
    yield from SPECS
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        yield _load_entry_point(entry)


def _load_entry_point(entry: EntryPoint) -> EngineSpec:
    """Return an engine of another package. Its entry point has the name of the scheme of its URLs.

    What is imported here is code that whoever installed the package chose to run in this process.
    """
    package = entry.dist.name if entry.dist is not None else entry.value
    try:
        spec = entry.load()
    except (ImportError, AttributeError):
        raise DatabaseError(
            f'the engine "{entry.name}" of package {package} cannot be imported.', hint="reinstall or uninstall it"
        ) from None
    if not isinstance(spec, EngineSpec) or f"{entry.name}://" not in spec.prefixes:
        raise DatabaseError(
            f'the entry point "{entry.name}" of package {package} is no EngineSpec with the prefix {entry.name}://.',
            hint="ask its authors, or uninstall it",
        )
    return spec


def _driver_of(connection: object) -> str:
    return type(connection).__module__.split(".")[0]


def _attach_refused(given: str) -> ParameterError:
    return ParameterError(
        "attach",
        allowed="given only with the path of a DuckDB file",
        given=show_target(given),
        hint="on a connection of your own run ATTACH yourself, before you hand it over",
    )


def _ledger_refused(place: str | Path) -> ParameterError:
    titles = ["files", *(spec.title for spec in SPECS if spec.ledger_elsewhere)]
    return ParameterError(
        "ledger",
        allowed=f"given only for {_list_words(titles, 'and')}, which cannot keep one themselves",
        given=str(place),
        hint="leave it out: a database has its own ledger",
    )


def _unknown_target(given: object) -> ParameterError:
    connections = _list_words([*(spec.title for spec in SPECS), "Ibis"])
    return ParameterError("db", allowed=f"a path, a {url_forms()} URL, or a connection of {connections}", given=given)


def _list_words(words: Sequence[str], last: str = "or") -> str:
    """Return words as a list in a sentence.

    >>> _list_words(["a", "b", "c"]), _list_words(["a"])
    ('a, b or c', 'a')
    """
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""
