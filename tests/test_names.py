"""Names keep to the house's words: verbs or nouns for functions, one word for one idea, no placeholder locals.

A name that a rule catches wrongly is listed with its reason. What users, files and stored documents know is not
renamed.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "dpsql"
GLOSSARY = ROOT / "docs" / "understanding" / "glossary.md"

#: One word that is a participle or an adverb says neither what a function does nor what it returns.
BARE = re.compile(
    r"\w+(ed|ing|ly)|told|held|kept|taught|apart|beside|alike|drawn|grown|shown|laid|made|met|sent|spent|lost"
)
#: Words with such an ending that are verbs or nouns.
ENDINGS_ONLY = frozenset(
    ("seed", "need", "feed", "embed", "string", "supply", "apply", "multiply", "family", "anomaly", "reply", "tally")
)
#: Bare names that stay: name -> reason.
BARE_ALLOWED = {
    "spent": "the ledger's own noun: what is spent of a budget",
    "sibling": "a noun: another database of the same server",
}
#: Locals and parameters that hold anything and say nothing.
PLACEHOLDERS = frozenset(("found", "one", "told"))

#: Public functions and classes that several modules define on purpose: name -> reason.
DEFINED_TWICE = {
    "main": "the entry point of a program",
    "evaluate": "on public rows for free, and the command and SQL function of that name",
    "train": "the run, and the command and SQL function of that name",
    "store": "a model in its tables, and a frame in Spark",
}

#: Words that had several meanings -> the rooms in which names may hold them, and what they mean there.
ONE_MEANING = {
    "batch": (
        "a part of the private table, told by the schema's batch column",
        {"schema", "owner", "ledger", "audit", "kernel", "models", "runs", "api", "cli"},
    ),
    "structure": ("no name: say trees, label request or shared trees", set()),
    "whole": ("only in whole_number: an integer", set()),
    "reading": ("no name: say mixture, typed expression or explanation", set()),
    "explain": ("what a released model learned", {"models", "api", "cli"}),
    "held": ("no name: say cached_rows or rows_at_nodes", set()),
    "kept": ("only in signal_kept: the share of the signal that noise leaves", {"advice"}),
}
WHOLE_NUMBER = re.compile("_?(check_)?whole_numbers?|is_whole")
#: Names that stay although their word means something else elsewhere: they are commands or arguments that users write.
OF_USERS = {"structure", "export_structure", "whole_table"}

#: File stems that stand in every engine's package.
ENGINE_STEMS = frozenset(("engine", "catalog", "vocabulary", "cursor", "opening", "files"))


@cache
def modules() -> list[tuple[Path, ast.Module]]:
    """Return every module of the package with its syntax tree."""
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in sorted(PACKAGE.rglob("*.py"))]


def room(path: Path) -> str:
    """Return the room that a module lives in; a module at the root is a room of its own."""
    return path.relative_to(PACKAGE).parts[0]


def is_bare(name: str) -> bool:
    """Whether a function's name is one word that is a participle or an adverb."""
    word = name.strip("_")
    if name.startswith("__") or "_" in word or word in ENDINGS_ONLY or word in BARE_ALLOWED:
        return False
    return BARE.fullmatch(word) is not None


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Yield every name that a module gives: functions, classes, parameters, and what is assigned."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def words_of(name: str) -> set[str]:
    """Return the words of a name in snake case or camel case, plurals as singulars too."""
    words = set(re.sub("([a-z])([A-Z])", r"\1_\2", name).lower().split("_"))
    return words | {word.removesuffix("es") for word in words} | {word.removesuffix("s") for word in words}


@pytest.mark.parametrize(
    ("name", "bare"),
    [("settled", True), ("_told", True), ("rarely", True), ("with_sides_settled", False), ("seed", False)],
)
def test_the_rule_knows_a_bare_participle(name: str, bare: bool) -> None:
    """A single participle or adverb is caught, in private names too; several words and plain nouns are not."""
    assert is_bare(name) == bare


def test_functions_are_named_by_verbs_or_nouns() -> None:
    """No function is called by a bare participle or adverb."""
    bare = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_bare(node.name)
    ]
    assert not bare


def test_locals_say_what_they_hold() -> None:
    """Nothing is called `found`, `one` or `told`."""
    names = [(str(path.relative_to(PACKAGE)), name) for path, tree in modules() for name in bound_names(tree)]
    assert not [place for place in names if place[1] in PLACEHOLDERS]


def test_a_public_name_is_defined_once() -> None:
    """Functions and classes of one name in two modules are listed with a reason, or each engine's own."""
    places = defaultdict(set)
    for path, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(path)
    twice = {
        name: sorted(str(path.relative_to(PACKAGE)) for path in paths)
        for name, paths in places.items()
        if len(paths) > 1 and name not in DEFINED_TWICE and {room(path) for path in paths} != {"engines"}
    }
    assert not twice


def test_a_file_stem_stands_once() -> None:
    """No two modules have one name, engines' packages aside."""
    stems = Counter(path.stem for path, _ in modules() if path.name not in ("__init__.py", "__main__.py", "base.py"))
    repeated = {stem for stem, count in stems.items() if count > 1}
    assert repeated <= ENGINE_STEMS


@pytest.mark.parametrize("word", ONE_MEANING)
def test_a_word_means_one_thing(word: str) -> None:
    """A word that once had several meanings is part of names only where its one meaning is at home."""
    meaning, homes = ONE_MEANING[word]
    names = {
        (str(path.relative_to(PACKAGE)), name)
        for path, tree in modules()
        for name in bound_names(tree)
        if word in words_of(name)
        and room(path) not in homes
        and name not in OF_USERS
        and not WHOLE_NUMBER.fullmatch(name.lower())
    }
    assert not names, meaning


def glossary() -> dict[str, list[str]]:
    """Return each term of the glossary page with the modules and rooms that its entry names, as paths."""
    if not GLOSSARY.exists():
        return {}
    text = GLOSSARY.read_text(encoding="utf-8")
    entries = re.findall(r"^\*\*(.+?)\*\*\s*\n((?::|[ \t]).*(?:\n[ \t]+.*)*)", text, re.MULTILINE)
    return {term: re.findall(r"`((?:dpsql/)?[\w/]+(?:/|\.py))`", body) for term, body in entries}


@pytest.mark.parametrize("term", glossary())
def test_a_term_of_the_glossary_lives_where_it_says(term: str) -> None:
    """The modules that an entry names exist, and one of them uses a word of the term, in any form."""
    texts = []
    for name in glossary()[term]:
        place = PACKAGE / name.removeprefix("dpsql/")
        assert place.exists(), f"{term}: there is no {name}"
        paths = place.rglob("*.py") if place.is_dir() else [place]
        texts += [path.read_text(encoding="utf-8").lower() for path in paths]
    stems = [word.removesuffix("s") for word in re.findall(r"[\w²]+", term.lower())]
    used = any(stem in text for stem in stems for text in texts)
    assert used or not texts, f"{term} is not used in {glossary()[term]}"
