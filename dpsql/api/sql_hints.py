"""Writes the next step of an error in SQL, where whoever asked did so from SQL.

Errors are raised far below, and their hints name commands (`dpsql register --table people --replace`) and options
(`--label COLUMN`). A command or option that has a form in SQL is written in that form; all else stays as it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp


@dataclass(frozen=True)
class SqlForm:
    """How calls look in one database: the beginning of a name, the sign of a named argument, and what there is.

    `functions` maps a command to a function; `arguments` are those that an option may become.
    """

    before: str
    sign: str
    functions: Mapping[str, str]
    arguments: frozenset[str] = field(default_factory=frozenset)


#: Options that are arguments of another name.
_OTHER_NAMES = {"yes": "allow_large", "class": "classes", "public_table": "public_tables"}
DUCKDB_FORM = SqlForm(
    "FROM dpsql_",
    ":=",
    {
        "register": "register", "schema draft": "draft", "budget": "budget", "set-cap": "set_cap", "ledger": "ledger",
        "ledger verify": "verify", "models": "models", "train": "train", "structure": "structure", "update": "update",
        "party export-structure": "export_structure",
    },
    frozenset({"label", "classes", "unit", "kind", "delta", "selection_delta", "allow_large", "replace",
               "share_budget", "holdout", "values_are_public", "like", "batch", "rows", "method", "schema", "entry",
               "depth", "cap", "buy", "view"}),
)  # fmt: skip
POSTGRES_FORM = SqlForm(
    "SELECT * FROM dpsql.",
    "=>",
    {"register": "register", "set-cap": "set_cap", "ledger verify": "verify", "train": "train"},
    frozenset({"allow_large", "replace", "kind", "delta", "selection_delta"}),
)
#: Options that have no value.
_FLAGS = ("yes", "replace", "share-budget", "default-analyst", "no-cap")
#: An option with its value, if it has one.
_OPTION = (
    rf"(?:--(?:{'|'.join(_FLAGS)})(?![\w-])"
    r"|--[a-z][a-z-]*(?: (?!or\b|and\b|for\b|with\b|--|…)(?:'[^']*'|[\w./%=-]+))?)"
)
#: The name of a table, quoted for a shell.
_TABLE = r"""--table (?:'[^']*'|"[^"]*"|[^\s,;'"])+"""
_COMMAND = re.compile(
    r"dpsql (?P<command>(?:schema|ledger|party) [a-z][a-z-]*|[a-z]+(?![\w-]|[.(]))"
    rf"(?P<options>(?: {_TABLE}| {_OPTION}| …)*)"
)
_BARE = re.compile(rf"{_OPTION}(?: {_OPTION})*")
#: Functions that take a table, and nothing else of it, or nothing at all.
_WITHOUT_ARGUMENTS = ("ledger", "verify", "models")


def sql_hint(hint: str | None, form: SqlForm) -> str | None:
    """Return a hint whose commands and options are written in SQL, where they have a form there.

    >>> sql_hint("dpsql register --table 'my t' … --replace", DUCKDB_FORM)
    "FROM dpsql_register('my t', …, replace := true)"
    >>> sql_hint("--label COLUMN", DUCKDB_FORM)
    "label := 'COLUMN'"
    >>> sql_hint("--class true=yes --class false=no", DUCKDB_FORM)
    "classes := MAP {'true': 'yes', 'false': 'no'}"
    >>> sql_hint("dpsql export --model NAME --to FILE writes one", DUCKDB_FORM)
    'dpsql export --model NAME --to FILE writes one'
    """
    if hint is None or "SQL:" in hint:
        return hint
    pieces, place = [], 0
    for match in _COMMAND.finditer(hint):
        pieces += [_bare_options(hint[place : match.start()], form), _call(match, form)]
        place = match.end()
    return "".join([*pieces, _bare_options(hint[place:], form)])


def _call(match: re.Match[str], form: SqlForm) -> str:
    """Return a command as a call; as it is where it has no form in SQL, or one of its options has none."""
    command = match["command"]
    words = re.findall(f"{_TABLE}|{_OPTION}|…", match["options"])
    if command == "budget" and any(word.startswith(("--set-cap", "--kind")) for word in words):
        command = "set-cap"
    if command not in form.functions:
        return match[0]
    function = form.functions[command]
    if function in _WITHOUT_ARGUMENTS:
        return f"{form.before}{function}()"
    first: list[str] = []
    others: list[str] = []
    for word in words:
        if word.startswith(("--table ", "--set-cap ")):
            first.append(_sql_text(word.partition(" ")[2]))
        elif word == "…":
            others.append(word)
        else:
            argument = _argument(word, form)
            if argument is None and "--to " not in word:
                return match[0]
            others += [argument] if argument is not None else []
    return f"{form.before}{function}({', '.join([*(first or [_sql_text('TABLE')]), *others])})"


def _bare_options(text: str, form: SqlForm) -> str:
    """Return a text with its options as named arguments."""

    def named_arguments(match: re.Match[str]) -> str:
        options = re.findall(_OPTION, match[0])
        mapped = [option for option in options if re.match(r"--class [^=]+=", option)]
        arguments = [_argument(option, form) for option in options if option not in mapped]
        arguments += [_class_map(mapped, form)] if mapped else []
        known = [argument for argument in arguments if argument is not None]
        return ", ".join(known) if len(known) == len(arguments) else match[0]

    written = _BARE.sub(named_arguments, text)
    return written if written == text else written.replace("(on the command line: ", "(in SQL: ")


def _class_map(options: list[str], form: SqlForm) -> str | None:
    """Return classes that name what is stored (`--class true=yes`) as one argument; None where SQL has none."""
    if "classes" not in form.arguments:
        return None
    pairs = [option.partition(" ")[2].partition("=") for option in options]
    listed = ", ".join(f"{_sql_text(stored)}: {_sql_text(word)}" for stored, _, word in pairs)
    return f"classes {form.sign} MAP {{{listed}}}"


def _argument(option: str, form: SqlForm) -> str | None:
    """Return an option as a named argument; None where SQL has no such argument."""
    name, _, value = option[2:].partition(" ")
    name = name.replace("-", "_")
    name = _OTHER_NAMES.get(name, name)
    if name not in form.arguments:
        return None
    if name == "classes":
        return f"{name} {form.sign} [{_sql_text(value)}, …]"
    if not value:
        return f"{name} {form.sign} true" if option[2:] in _FLAGS else name
    return f"{name} {form.sign} {_sql_text(value)}"


def _sql_text(word: str) -> str:
    """Return a word of a shell as a text of SQL."""
    try:
        plain = "".join(shlex.split(word))
    except ValueError:
        plain = word
    return exp.Literal.string(plain).sql()
