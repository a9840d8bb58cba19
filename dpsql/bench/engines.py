"""Measures what counting the leaves of a forest, or all of training, costs on a server and in DuckDB, in turns.

Both have tables of as many rows, and forests of 10 trees of depth 8. When counting is measured, each row is in one
tree, and counts come through the kernel's own statement, transfer and layout on the grid. When training is measured, a
run of the named method goes from the charge to the stored model. CPU time is that of this process and, where the server
is on this machine, of its own process too; Spark's is not known. The first and the second round have figures of their
own, because Spark compiles what it runs. The scratch table is made on the server from random numbers (for Spark and
chDB in a folder of its own) and dropped at the end.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import sqlglot

from dpsql.api.database import Database
from dpsql.bench import table
from dpsql.compile.rows import Source
from dpsql.compile.rows import table_reference as reference
from dpsql.engines.base import Engine
from dpsql.engines.duckdb.open_database import open_file
from dpsql.engines.open_engine import SPECS, open_engine, url_forms
from dpsql.errors import ParameterError
from dpsql.kernel.operations import LeafCounts
from dpsql.kernel.plan import Plan, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.ledger.amount import NANO
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import random_forest

#: Trees of the measured forest.
TREES = 10
#: Levels of splits in each of them.
DEPTH = 8
#: The scratch table on the server.
NAME = "dpsql_bench"
#: The engines that are opened by a URL.
_URL_ENGINES = tuple(spec for spec in SPECS if spec.prefixes)
#: Those of them whose tables are in a folder and whose ledger is elsewhere, so that both can be thrown away.
_FOLDER_ENGINES = tuple(spec for spec in _URL_ENGINES if spec.ledger_elsewhere)


@dataclass(frozen=True)
class Server:
    """How a server is measured.

    `query` makes the rows of `bench/table.py`. `inside` says that the server is a part of this process. `processes` is
    a query for the ids of the server's processes that work for dpsql, None where they cannot be found. `before` is run
    once the table is made, `after` at the end.
    """

    query: str
    inside: bool = False
    processes: str | None = None
    before: str | None = None
    after: str | None = None


SERVERS = {
    "duckdb": Server("", inside=True),
    "clickhouse": Server(
        """
SELECT
    randCanonical(0) AS number_0, randCanonical(1) AS number_1, randCanonical(2) AS number_2,
    randCanonical(3) AS number_3, randCanonical(4) AS number_4, randCanonical(5) AS number_5,
    randCanonical(6) AS number_6, randCanonical(7) AS number_7, randCanonical(8) AS number_8,
    randCanonical(9) AS number_9,
    concat('value ', toString(rand(10) % 5)) AS text_0,
    concat('value ', toString(rand(11) % 8)) AS text_1,
    concat('value ', toString(rand(12) % 16)) AS text_2,
    concat('value ', toString(rand(13) % 40)) AS text_3,
    if(randCanonical(14) < 0.3, 'yes', 'no') AS label
FROM numbers({rows})
""",
        inside=True,
    ),
    "postgres": Server(
        """
SELECT
    random() AS number_0, random() AS number_1, random() AS number_2, random() AS number_3, random() AS number_4,
    random() AS number_5, random() AS number_6, random() AS number_7, random() AS number_8, random() AS number_9,
    'value ' || CAST(floor(5 * random()) AS INT) AS text_0,
    'value ' || CAST(floor(8 * random()) AS INT) AS text_1,
    'value ' || CAST(floor(16 * random()) AS INT) AS text_2,
    'value ' || CAST(floor(40 * random()) AS INT) AS text_3,
    CASE WHEN random() < 0.3 THEN 'yes' ELSE 'no' END AS label
FROM generate_series(1, {rows})
""",
        processes="SELECT pid FROM pg_stat_activity WHERE application_name = 'dpsql' AND datname = current_database()",
        # One process does the work, so that its clock tells all of it.
        before=f"ALTER TABLE public.{NAME} SET (parallel_workers = 0)",
        after=f"DROP TABLE public.{NAME}",
    ),
    "spark": Server(
        """
SELECT
    rand() AS number_0, rand() AS number_1, rand() AS number_2, rand() AS number_3, rand() AS number_4,
    rand() AS number_5, rand() AS number_6, rand() AS number_7, rand() AS number_8, rand() AS number_9,
    concat('value ', CAST(floor(5 * rand()) AS STRING)) AS text_0,
    concat('value ', CAST(floor(8 * rand()) AS STRING)) AS text_1,
    concat('value ', CAST(floor(16 * rand()) AS STRING)) AS text_2,
    concat('value ', CAST(floor(40 * rand()) AS STRING)) AS text_3,
    if(rand() < 0.3, 'yes', 'no') AS label
FROM range({rows})
"""
    ),
}


@dataclass(frozen=True, eq=False)
class MeasuredPlace:
    """An engine with the table in it: by what name it is registered, and as a source to count."""

    engine: Engine
    name: str
    source: Source


@dataclass(frozen=True)
class EngineCost:
    """The least of several rounds, in seconds: DuckDB's CPU and wall time, and the server's; None where unknown.

    `first` and `second` are the server's wall time in these rounds, `second_ratio` is to DuckDB's in the same round.
    """

    rows: int
    duckdb_cpu: float
    duckdb_wall: float
    cpu: float | None
    wall: float
    first: float
    second: float | None
    second_ratio: float | None

    @property
    def cpu_ratio(self) -> float | None:
        """The server's CPU time over DuckDB's."""
        return None if self.cpu is None else self.cpu / self.duckdb_cpu

    @property
    def wall_ratio(self) -> float:
        """The server's wall time over DuckDB's."""
        return self.wall / self.duckdb_wall


def measure_engine(target: str, sizes: Sequence[int], *, repeat: int, method: str | None = None) -> dict[str, object]:
    """Return the figures of a server and of DuckDB on tables of these sizes, as plain values.

    What is measured is counting, or with `method` training by it. Training charges a ledger, which is thrown away:
    PostgreSQL keeps its own, so there it is counting alone.
    """
    if not any(spec.opens_url(target) for spec in _URL_ENGINES):
        raise ParameterError("db", allowed=f"a server: {_with_dots(url_forms(_URL_ENGINES))}", given=target)
    if method is not None and not _uses_folder(target):
        urls = _with_dots(url_forms(_FOLDER_ENGINES))
        allowed = f"{urls} with a method: a server's own ledger keeps every charge"
        raise ParameterError("db", allowed=allowed, given=target)
    costs = [_measure_size(target, rows, repeat, method) for rows in sizes]
    figures = [{**asdict(cost), "cpu_ratio": cost.cpu_ratio, "wall_ratio": cost.wall_ratio} for cost in costs]
    return {"method": method, "trees": TREES, "depth": DEPTH, "repeat": repeat, "sizes": figures}


def _uses_folder(target: str) -> bool:
    """Whether a URL's engine has its tables in a folder and its ledger elsewhere."""
    return any(spec.opens_url(target) for spec in _FOLDER_ENGINES)


def _with_dots(urls: str) -> str:
    return urls.replace("://", "://…")


def _measure_size(target: str, rows: int, repeat: int, method: str | None) -> EngineCost:
    with _duckdb(rows) as own, _server(target, rows) as other:
        works = [(place.engine, _work(place, method)) for place in (own, other)]
        rounds = [[_time_act(*work) for work in works] for _ in range(repeat)]
    (cpu, wall), (server_cpu, server_wall) = (_least([times[place] for times in rounds]) for place in range(2))
    assert cpu is not None
    own_walls, walls = ([times[place][1] for times in rounds] for place in range(2))
    second = walls[1] if repeat > 1 else None
    return EngineCost(rows, cpu, wall, server_cpu, server_wall, walls[0], second, second and second / own_walls[1])


def _work(place: MeasuredPlace, method: str | None) -> Callable[[], object]:
    """Return what one round does: train, or count with a trace of noise."""
    if method is None:
        forest = random_forest(axes(place.source.schema), trees=TREES, depth=DEPTH, seed=1, branches=2)
        return partial(_count, place.engine, place.source, forest)
    database = Database(place.engine, who="bench")
    database.register(place.name, place.source.schema, cap=1000, allow_large=True)
    return partial(database.train, place.name, epsilon=1, method=method, trees=TREES, depth=DEPTH)


def _least(times: Sequence[tuple[float | None, float]]) -> tuple[float | None, float]:
    measured = [cpu for cpu, _ in times if cpu is not None]
    return min(measured, default=None), min(wall for _, wall in times)


def _time_act(engine: Engine, act: Callable[[], object]) -> tuple[float | None, float]:
    """Do something once and return its CPU and wall time in seconds."""
    before, started = _cpu(engine), time.perf_counter()
    act()
    wall, after = time.perf_counter() - started, _cpu(engine)
    return (None if before is None or after is None else after - before), wall


def _count(engine: Engine, source: Source, forest: Forest) -> None:
    cells = forest.leaves * len(source.schema.classes)
    step = Step(
        "leaves", LeafCounts(), NANO, trees=TREES, shared=False, cells=cells, classes=len(source.schema.classes)
    )
    session = Session(engine, source, Plan("bench", step, Promise(source.schema.unit)))
    try:
        session.leaf_counts("leaves", forest)
    finally:
        session.close()


def _cpu(engine: Engine) -> float | None:
    """Return the CPU time so far of this process and of the server's that work for it; None where it is elsewhere."""
    server = SERVERS[engine.dialect]
    if server.inside:
        return time.process_time()
    if server.processes is None:
        return None
    with engine.transaction() as transaction:
        places = [Path(f"/proc/{row['pid']}/stat") for row in transaction.rows(server.processes)]
    if not all(place.exists() for place in places):
        return None
    fields = [place.read_text().rsplit(")", 1)[1].split() for place in places]
    ticks = sum(int(stat[11]) + int(stat[12]) for stat in fields)
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def _duckdb(rows: int) -> Iterator[MeasuredPlace]:
    with tempfile.TemporaryDirectory() as folder:
        engine = open_file(Path(folder) / "bench.duckdb", create=True)
        try:
            yield MeasuredPlace(engine, table.NAME, table.create_bench_table(engine, rows))
        finally:
            engine.close()


@contextmanager
def _server(target: str, rows: int) -> Iterator[MeasuredPlace]:
    with _open_server(target) as engine:
        server = SERVERS[engine.dialect]
        engine.create(NAME, sqlglot.parse_one(server.query.format(rows=rows), dialect=engine.dialect))
        try:
            _run(engine, server.before)
            info = engine.table(NAME)
            assert info is not None
            yield MeasuredPlace(engine, NAME, Source(table.bench_schema(), reference(info.table, info.schema), {}))
        finally:
            _run(engine, server.after)


def _run(engine: Engine, statement: str | None) -> None:
    if statement is not None:
        with engine.transaction() as transaction:
            transaction.run(statement)


@contextmanager
def _open_server(target: str) -> Iterator[Engine]:
    """Open a server.

    An engine with folders gets a new one, inside the folder that the target names if any; it is removed at the end.
    """
    with ExitStack() as stack:
        ledger = None
        if _uses_folder(target):
            kind, _, rest = target.partition("://")
            master, slash, folder = rest.partition("/")
            place = stack.enter_context(tempfile.TemporaryDirectory(dir=slash + folder or None))
            target, ledger = f"{kind}://{master}{place}", ":memory:"
        engine = open_engine(target, ledger=ledger)
        stack.callback(engine.close)
        yield engine
