"""Schema files: YAML or JSON text read into a `Schema`, and a `Schema` written as YAML.

YAML is read more strictly than its standard asks, because a schema decides what is public: `yes`, `no`, `on`
and `off` are text, `007` and dates are text, `null:` is a key like any other, a key may stand only once, and
anchors, aliases and tags are refused. A plain `???` marks what a draft leaves to the owner.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

import yaml

from dpsql.errors import SchemaError, UnknownName
from dpsql.schema import problems
from dpsql.schema.file_lines import json_lines, yaml_lines
from dpsql.schema.schema import Schema

#: The largest file that is read, in MB; YAML is slow to read.
MAX_MEGABYTES = {".yml": 1, ".yaml": 1, ".json": 16}
#: The deepest nesting of mappings and lists in a YAML file.
MAX_DEPTH = 20
#: What a draft writes where the owner must fill in a public fact.
PLACEHOLDER = "???"
#: The command that errors suggest: it writes a draft of a schema.
DRAFT = "dpsql schema draft --table TABLE"
#: Words that some YAML readers take for something other than text.
_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "y", "n", "null"))


class Placeholder:
    """A part of a draft that its owner has not filled in yet."""


#: What a schema may be given as: a Schema, plain values, or the path of a file.
SchemaSource: TypeAlias = Schema | Mapping[str, Any] | str | Path


def load_schema(source: SchemaSource, *, entry: str | None = None) -> Schema:
    """Return the schema in a file, or in plain values; `entry` picks one of several in a file.

    Raises SchemaError when the file cannot be read, is not a schema, or is a draft that is not filled in.

    >>> load_schema({"label": "y", "classes": ["no", "yes"], "features": {"x": {"type": "boolean"}}}).classes
    ('no', 'yes')
    """
    if isinstance(source, Schema):
        return source
    if isinstance(source, Mapping):
        return Schema.from_dict(_pick(dict(source), entry, "the mapping"))
    if not isinstance(source, str | Path) or "\x00" in str(source):
        raise SchemaError("a schema must be a Schema, a mapping, or the path of a .yml, .yaml or .json file.")
    return loads(_read(Path(source)), name=f'"{source}"', entry=entry, kind=Path(source).suffix.lower())


def loads(text: str, *, name: str = "the schema", entry: str | None = None, kind: str = ".yml") -> Schema:
    """Return the schema in a text; `kind` is .yml, .yaml or .json, `name` says where it came from."""
    declared, lines, repeated = _parse(text, name, kind)
    if declared is None:
        raise SchemaError(f"{name} is empty.", hint=DRAFT)
    if not isinstance(declared, dict):
        raise SchemaError(f"{name} must hold a mapping with label, classes (or a target) and features.", hint=DRAFT)
    entry_values = _pick(declared, entry, name)
    gaps = list(_gaps(entry_values, ()))
    with _with_lines({**_lines_of_entry(lines, entry), **{problem.path: line for problem, line in repeated}}):
        certain = [*(problem for problem, _ in repeated), *gaps]
        if certain:
            raise problems.one_error([*certain, *_problems_elsewhere(entry_values, gaps)])
        return Schema.from_dict(entry_values)


@contextmanager
def lines_from(source: object, *, entry: str | None = None) -> Iterator[None]:
    """While a schema is compared with a table: add the lines of its file to an error that says what is wrong with it.

    A source that is no file has no lines, and its errors are raised as they are.
    """
    if not isinstance(source, str | Path):
        yield
        return
    text = _read(Path(source))
    _, lines, _ = _parse(text, f'"{source}"', Path(source).suffix.lower())
    with _with_lines(_lines_of_entry(lines, entry)):
        yield


@contextmanager
def _with_lines(lines: Mapping[problems.Path, int]) -> Iterator[None]:
    error: Exception
    try:
        yield
        return
    except SchemaError as problem:
        if not problem.problems:
            raise
        error = problems.one_error(problem.problems, lines)
    raise error


def _lines_of_entry(lines: Mapping[problems.Path, int], entry: str | None) -> Mapping[problems.Path, int]:
    return lines if entry is None else {path[1:]: line for path, line in lines.items() if path[0] == entry}


class _Parsed(NamedTuple):
    """What a text declares, where its parts stand, and keys that stand twice, each with the line of the second."""

    declared: Any
    lines: Mapping[problems.Path, int]
    repeated: Sequence[tuple[problems.SchemaProblem, int]] = ()


def _parse(text: str, name: str, kind: str) -> _Parsed:
    if kind != ".json":
        parsed: _Parsed = _replace_errors(lambda: _load(text), name)
        return parsed
    declared = _parse_json(text, name)
    return _Parsed(declared, json_lines(text, declared))


def read_nodes(path: Path) -> yaml.Node | None:
    """Return another YAML file of the owner's as nodes, which know their lines and keep scalars as they are written.

    It is read by the strict rules of schema files: no anchors, no tags, no deep nesting, at most a megabyte.
    """
    text, name = _read(path), f'"{path}"'
    node: yaml.Node | None = _replace_errors(lambda: yaml.compose(text, Loader=_Loader), name)
    return node


def dump(schema: Schema, *, comments: Mapping[str, str] | None = None) -> str:
    """Return a schema as YAML that `load_schema` reads back the same.

    `comments` maps a feature's name to a remark above it; the empty name is the head of the file.
    """
    remarks, declared = dict(comments or {}), schema.to_dict()
    lines = remark(remarks.get("", ""))
    for key, value in declared.items():
        if key != "features":
            lines += pair(key, value)
    lines.append("features:")
    for name, details in declared["features"].items():
        lines += [*remark(remarks.get(name, ""), indent=2), *pair(name, details, indent=2)]
    return "\n".join(lines) + "\n"


def pair(key: str, value: object, *, indent: int = 0) -> list[str]:
    """Return a key and its value as lines of YAML: a mapping as a block, anything else on the key's line."""
    space, name = " " * indent, inline(key)
    head = [f"{space}{name}:"] if len(name) <= 1000 else [f"{space}? {name}", f"{space}:"]  # YAML's limit is 1024
    if isinstance(value, Mapping):
        return head + [line for inner_key, inner in value.items() for line in pair(inner_key, inner, indent=indent + 2)]
    return [*head[:-1], f"{head[-1]} {inline(value)}"]


def line(key: str, value: object, *, comment: str = "", indent: int = 0) -> str:
    """Return a key and its value as one line of YAML, a mapping in braces, with a comment behind it.

    >>> print(line("age", {"type": "numeric", "lower": 0, "upper": Placeholder()}, comment="catalog", indent=2))
      age: {type: numeric, lower: 0, upper: ???}  # catalog
    """
    name, behind = inline(key), "".join(map(_escape, comment))
    head = f"{' ' * indent}{name}:" if len(name) <= 1000 else f"{' ' * indent}? {name}\n{' ' * indent}:"
    return f"{head} {inline(value)}" + (f"  # {behind}" if behind else "")


def inline(value: object) -> str:
    """Return a plain value as YAML on one line. Text is quoted unless every YAML reader takes it as text.

    >>> print(inline(["red", "<=50K", "no", "", -1.5, True]), inline(Placeholder()))
    [red, "<=50K", "no", "", -1.5, true] ???
    """
    if isinstance(value, Placeholder):
        return PLACEHOLDER
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        is_whole = not isinstance(value, float) or (value.is_integer() and abs(value) < 1e15)
        return str(int(value)) if is_whole else repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{inline(key)}: {inline(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(inline(item) for item in value) + "]"
    text = str(value)
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,200}", text) and text.lower() not in _WORDS
    return text if plain else quote(text)


def quote(text: str) -> str:
    r"""Return text in double quotes on one line; characters that could end the line or the quotes are escaped.

    >>> print(quote('it "is"' + chr(10) + 'ok'))
    "it \"is\"\x0aok"
    """
    return '"' + "".join(f"\\{character}" if character in '"\\' else _escape(character) for character in text) + '"'


def remark(text: str, *, indent: int = 0) -> list[str]:
    """Return a comment, one `#` line for each line of the text."""
    lines = text.split("\n") if text else []
    return [f"{' ' * indent}# {''.join(map(_escape, line))}".rstrip() for line in lines]


def _escape(character: str) -> str:
    code = ord(character)
    if character.isprintable():
        return character
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _read(path: Path) -> str:
    megabytes = MAX_MEGABYTES.get(path.suffix.lower())
    if megabytes is None:
        raise SchemaError(f'"{path}" is not a schema file: its name must end in .yml, .yaml or .json.')
    try:
        with path.open("rb") as file:
            data = file.read(megabytes * 2**20 + 1)
    except FileNotFoundError:
        raise SchemaError(f'there is no schema file "{path}".', hint=DRAFT) from None
    except IsADirectoryError:
        raise SchemaError(f'"{path}" is a folder, not a schema file.', hint="name a file in it") from None
    except OSError as error:
        raise SchemaError(f'"{path}" cannot be read ({error.strerror}).', hint="check the path") from None
    if len(data) > megabytes * 2**20:
        raise SchemaError(f'"{path}" is larger than {megabytes} MB.', hint="JSON files may have 16 MB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SchemaError(f'"{path}" is not UTF-8 text.', hint="save it again with encoding UTF-8") from None


def _pick(declared: dict[str, Any], entry: str | None, name: str) -> dict[str, Any]:
    """Return the only schema of a file, or the one named `entry` of several."""
    single = "label" in declared or "features" in declared
    entries = [] if single else [key for key, inner in declared.items() if isinstance(inner, Mapping)]
    if entry is not None and entry not in entries:
        raise UnknownName("schema entry", entry, map(str, entries), hint=f"look into {name}")
    if entry is not None:
        return dict(declared[entry])
    if entries:
        names = ", ".join(f'"{key}"' for key in entries[:20])
        raise SchemaError(f"{name} holds schemas by name: {names}.", hint=f"choose one: entry={entries[0]!r}")
    return declared


def _gaps(value: object, path: problems.Path) -> Iterator[problems.SchemaProblem]:
    """Yield each part that its owner has not filled in yet."""
    if isinstance(value, Placeholder):
        in_feature = len(path) > 2 and path[0] == "features"
        where = f'feature "{path[1]}": {path[2]}' if in_feature else ": ".join(path)
        error = SchemaError(
            f"{where} is still the placeholder {PLACEHOLDER}.",
            hint="write the public value you know; never look it up in the rows",
        )
        yield problems.SchemaProblem(path, error)
    parts = value.items() if isinstance(value, dict) else enumerate(value, 1) if isinstance(value, list) else ()
    for key, inner in parts:
        yield from _gaps(inner, (*path, str(key)))


def _problems_elsewhere(declared: dict[str, Any], gaps: list[problems.SchemaProblem]) -> list[problems.SchemaProblem]:
    """Return what else is wrong, in parts of a schema that have no gap."""
    incomplete = {_part_of(gap.path) for gap in gaps}
    try:
        Schema.from_dict(declared)
    except SchemaError as error:
        return [problem for problem in error.problems if _part_of(problem.path) not in incomplete]
    return []


def _part_of(path: problems.Path) -> problems.Path:
    """Return the feature, or the key of the schema, that a path leads into."""
    return path[: 2 if path[0] == "features" else 1]


def _parse_json(text: str, name: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, value in pairs:
            if key in mapping:
                raise _repeated_key(key)
            mapping[key] = value
        return mapping

    try:
        return json.loads(text, object_pairs_hook=unique) if text.strip() else None
    except json.JSONDecodeError as error:
        raise SchemaError(f"{name} is not JSON: {error.msg} in line {error.lineno}.") from None
    except (ValueError, RecursionError):
        raise SchemaError(f"{name} is not a schema: nested too deeply, or a number is too long.") from None


def _load(text: str) -> _Parsed:
    loader = _Loader(text)
    loader.repeated = []
    node = loader.get_single_node()
    declared = None if node is None else loader.construct_document(node)
    return _Parsed(declared, yaml_lines(node), loader.repeated)


def _replace_errors(read: Callable[[], Any], name: str) -> Any:
    try:
        return read()
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        hint = 'put quotes around values with signs, as in ">50K"'
        raise SchemaError(f"{name} cannot be read as YAML: {error.problem}{line}.", hint=hint) from None
    except yaml.YAMLError:
        raise SchemaError(f"{name} holds a character that YAML wants escaped, as in \\x01.") from None
    except (ValueError, RecursionError):
        raise SchemaError(f"{name} is not a schema: nested too deeply, or a number is too long.") from None


class _Loader(yaml.SafeLoader):
    """Reads YAML by the strict rules that the head of this file states."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (yaml's own)
    depth = 0
    repeated: list[tuple[problems.SchemaProblem, int]]

    def check_key(self) -> bool:
        """Return whether a key starts here; a placeholder does not start one, in braces either."""
        return not self._at_placeholder() and bool(super().check_key())

    def check_plain(self) -> bool:
        """Return whether plain text starts here; a placeholder is plain text in braces too."""
        return self._at_placeholder() or bool(super().check_plain())

    def scan_plain(self) -> Any:
        """Read plain text; in braces PyYAML would end it before each question mark."""
        if not (self.flow_level and self._at_placeholder()):
            return super().scan_plain()
        start = self.get_mark()
        self.forward(len(PLACEHOLDER))
        self.allow_simple_key = False
        return yaml.ScalarToken(PLACEHOLDER, True, start, self.get_mark())

    def _at_placeholder(self) -> bool:
        return bool(self.prefix(len(PLACEHOLDER)) == PLACEHOLDER)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Read one node; refuse anchors, aliases, tags and deep nesting."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None or event.tag is not None:
            self._refuse("anchors, aliases and tags (& * !) are not allowed", event)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self._refuse("nested too deeply", event)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Read a mapping; its keys are text as written. The second of a repeated key is noted, and not read."""
        mapping: dict[Any, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._refuse("a key must be text", key)
            if key.value in mapping:
                self._note_repeated(key)
                continue
            mapping[key.value] = self.construct_object(value, deep=deep)
        return mapping

    def _note_repeated(self, key: yaml.ScalarNode) -> None:
        line = key.start_mark.line + 1
        place = ("", f"{line}:{key.start_mark.column}")  # a path of its own: both keys have the same
        self.repeated.append((problems.SchemaProblem(place, _repeated_key(key.value)), line))

    def construct_decimal(self, node: yaml.ScalarNode) -> int | float:
        """Read a decimal number."""
        text = node.value.replace(".inf", "inf").replace(".nan", "nan")
        return int(text) if text.lstrip("+-").isdigit() else float(text)

    def _refuse(self, problem: str, place: Any) -> NoReturn:
        raise yaml.constructor.ConstructorError(None, None, problem, place.start_mark)


def _repeated_key(key: str) -> SchemaError:
    return SchemaError(f'the key "{key[:80]}" stands twice in one mapping.', hint="remove one of them")


_FLOAT = r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|\.(?:inf|nan))"
for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("tag:yaml.org,2002:null", "null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("!decimal", _FLOAT, "-+.0123456789"),
    ("!placeholder", r"\?\?\?", "?"),
):
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_first))
_Loader.add_constructor("!decimal", _Loader.construct_decimal)
_Loader.add_constructor("!placeholder", lambda loader, node: Placeholder())
