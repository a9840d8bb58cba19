"""The layers of the project: each may import only those below it, and drivers only where they belong."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from dpsql.engines.open_engine import SPECS

ROOT = Path(__file__).resolve().parent.parent / "dpsql"

#: Lowest first. What stands on one line does not know each other.
LAYERS: list[set[str]] = [
    {"errors", "notebook_html", "spelling"},
    {"schema"},
    {"trees"},
    {"compile", "engines", "mechanisms"},
    {"ledger"},
    {"kernel"},
    {"methods", "models"},
    {"owner", "runs"},
    {"advice"},
    {"api"},
    {"audit", "bench"},
    {"cli"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
METHODS_MAY_USE = {"errors", "schema", "trees", "kernel", "methods"}
#: What a method may know of the kernel: how to plan, what to ask for, and of what sizes.
_KNOWN_TO_METHODS = ("candidates", "operations", "plan", "promise", "session", "statement_size", "utility")
OF_THE_KERNEL = {f"dpsql.kernel.{name}" for name in _KNOWN_TO_METHODS}
#: What engines recognise connections by, and what their extras install (`psycopg[binary]>=3.2` is `psycopg`). An
#: export to ONNX is the one other thing that is optional and reads a released model alone.
EXTRAS = tomllib.loads((ROOT.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
DRIVERS = {driver for spec in SPECS for driver in spec.drivers} | {
    re.split(r"[^A-Za-z0-9_-]", needed, maxsplit=1)[0] for spec in SPECS for needed in EXTRAS.get(spec.name, [])
}
#: Modules of other extras, each with the one room that may import it.
OPTIONAL = {"onnx": "models"}


def modules() -> list[Path]:
    """Return all modules of the package."""
    return sorted(ROOT.rglob("*.py"))


def room(path: Path) -> str:
    """Return the layer's name that a module lives in."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "dpsql" if parts in (("__init__",), ("__main__",)) else parts[0]


@cache
def imported(path: Path) -> set[str]:
    """Return every module that a file imports, inside functions too, but not for type checking alone."""
    found: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            if node.module in ("dpsql", "dpsql.kernel"):
                found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def rooms_used(path: Path) -> set[str]:
    """Return the layers that a module imports."""
    names = {name.split(".")[1] for name in imported(path) if name.startswith("dpsql.")}
    return {name for name in names if name in RANK} - {room(path)}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_lower_layers(path: Path) -> None:
    """No module imports one of its own rank or above."""
    here = room(path)
    if here == "dpsql":
        return
    assert here in RANK, f"{here} has no layer: add it to LAYERS where it belongs"
    upward = {name for name in rooms_used(path) if RANK[name] >= RANK[here]}
    assert not upward


def test_a_method_cannot_see_an_exact_count() -> None:
    """Methods import schema, trees and kernel only, and of the kernel not what holds exact counts."""
    for path in modules():
        if room(path) == "methods":
            assert rooms_used(path) <= METHODS_MAY_USE, path
            assert {name for name in imported(path) if name.startswith("dpsql.kernel.")} <= OF_THE_KERNEL, path


def test_exact_counts_are_fetched_by_the_session_alone() -> None:
    """Only `kernel/session.py` imports the module that fetches exact counts; the audit gives it its secret keys."""
    users = [str(path.relative_to(ROOT)) for path in modules() if "dpsql.kernel.exact" in imported(path)]
    assert users == ["audit/seam.py", "kernel/session.py"]


def test_nothing_but_the_audit_listens_to_the_kernel() -> None:
    """The listeners between exact values and noise are imported by the audit alone."""
    users = {room(path) for path in modules() if "dpsql.audit.seam" in imported(path)}
    assert users == {"audit"}


def test_drivers_are_used_by_engines_alone() -> None:
    """A database driver is imported in `engines/` and nowhere else."""
    assert {"chdb", "duckdb", "psycopg", "pyarrow", "pyspark"} <= DRIVERS
    for path in modules():
        if room(path) != "engines":
            assert not {name.split(".")[0] for name in imported(path)} & DRIVERS, path


def test_a_driver_is_used_by_its_own_engine_alone() -> None:
    """A package of `engines/` imports no other engine's driver; what engines share imports none but Arrow."""
    for spec in SPECS:
        for path in modules():
            if room(path) == "engines" and path.relative_to(ROOT).parts[1] not in (spec.name, "files"):
                assert not {name.split(".")[0] for name in imported(path)} & set(spec.drivers), path


def test_a_spec_is_read_without_any_driver() -> None:
    """The package of an engine says what it is without importing what it needs."""
    for spec in SPECS:
        package = ROOT / "engines" / spec.name / "__init__.py"
        assert not {name.split(".")[0] for name in imported(package)} & DRIVERS, package


def test_other_optional_modules_are_used_in_one_room() -> None:
    """Each has a room of its own."""
    for path in modules():
        for name in {name.split(".")[0] for name in imported(path)} & OPTIONAL.keys():
            assert room(path) == OPTIONAL[name], path


#: Names of one database's own, or of a catalog that databases fill differently: only its engine may say them.
OF_ONE_DATABASE = re.compile(
    r"duckdb_(functions|tables|columns|views|settings)|information_schema|\"main\"|'main'|pg_class|system\.tables"
)
#: Where such a name is no question to a database: names that views may not read, and PostgreSQL's own roles.
ALSO_NAMED_IN = {"compile/views/tables_read.py", "owner/postgres_roles.py"}


def test_sql_of_one_database_stands_in_its_engine() -> None:
    """Nothing outside `engines/` and `sql/` asks a catalog of one database, or knows the name of its first schema."""
    for path in modules():
        name = str(path.relative_to(ROOT))
        if room(path) != "engines" and name not in ALSO_NAMED_IN:
            match = OF_ONE_DATABASE.search(path.read_text(encoding="utf-8"))
            assert match is None, (name, match)


def test_private_modules_of_dependencies_are_left_alone() -> None:
    """No import of a name that starts with an underscore, except `__future__`."""
    for path in modules():
        for name in imported(path) - {"__future__", "dpsql.__version__"}:
            assert not any(part.startswith("_") for part in name.split(".")), (path, name)


def test_randomness_stays_in_its_places() -> None:
    """Noise comes from `mechanisms/rng.py`; seeded generators shape trees, made-up rows, benches and searches."""
    shapes = {
        "trees/grow/common_cells.py",
        "trees/grow/random_trees.py",
        "trees/grow/guided_trees.py",
        "trees/grow/splits.py",
        "trees/grow/unequal_depth.py",
    }
    starts = {"trees/strategies/marginals.py", "trees/strategies/p_identity.py"}
    allowed = {*shapes, *starts, "api/census.py", "models/explain/background.py", "audit/ways.py"}
    for path in modules():
        name = str(path.relative_to(ROOT))
        if name in allowed or name.startswith("bench"):
            continue
        text = path.read_text(encoding="utf-8")
        assert "default_rng" not in text, name
        assert not {"random", "numpy.random"} & imported(path), name


def late_imports(path: Path) -> set[str]:
    """Return the modules of dpsql that a file imports inside functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    nodes = [node for function in functions for node in ast.walk(function) if isinstance(node, ast.ImportFrom)]
    return {str(node.module) for node in nodes if str(node.module).split(".")[0] == "dpsql"}


def test_no_late_import_hides_a_cycle() -> None:
    """Models, methods, runs and the doors import what they need at their heads.

    Three wait on purpose: the worker inside a server, until it has been asked; `dpsql bench`, until it is wanted; and
    the command line, which lists its commands without loading what they print with.
    """
    rooms = {"methods", "models", "runs", "api", "cli"}
    late = {str(path.relative_to(ROOT)) for path in modules() if room(path) in rooms and late_imports(path)}
    assert late == {"api/plpython_worker.py", "cli/commands/bench_commands.py", "cli/main.py"}
