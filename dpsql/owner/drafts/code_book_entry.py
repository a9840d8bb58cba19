"""What a code book says of one column, and the words by which its forms are told apart."""

from __future__ import annotations

from dataclasses import dataclass, field

#: What the columns of a code book in CSV are called, the likeliest names first.
HEADERS = {
    "column": ("column", "column_name", "variable", "variable_name", "field", "field_name", "attribute", "feature",
               "var", "name"),
    "values": ("values", "allowed_values", "levels", "categories", "codes", "options", "domain", "enum"),
    "value": ("value", "code", "level", "category", "option"),
    "lower": ("min", "minimum", "lower", "lower_bound", "min_value", "from", "low"),
    "upper": ("max", "maximum", "upper", "upper_bound", "max_value", "to", "high"),
    "table": ("table", "table_name", "dataset", "model"),
}  # fmt: skip


@dataclass
class CodeBookEntry:
    """What a code book says of one column, and the line where it says so first."""

    column: str
    line: int
    values: list[str] = field(default_factory=list)
    lower: str = ""
    upper: str = ""
    unique: bool = False
    table: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said."""
        return not (self.values or self.lower or self.upper or self.unique)


def listed_texts(cell: str) -> list[str]:
    """Return the values that one cell lists, without their meanings.

    >>> listed_texts("a|b|c"), listed_texts("1=male; 2=female"), listed_texts("[x, y]")
    (['a', 'b', 'c'], ['1', '2'], ['x', 'y'])
    """
    text = cell.strip()
    if text[:1] + text[-1:] in ("[]", "{}", "()"):
        text = text[1:-1]
    sign = next((sign for sign in ("|", "\n", ";", ",") if sign in text), "|")
    parts = [part.strip() for part in text.split(sign) if part.strip()]
    if parts and all("=" in part for part in parts):
        parts = [part.partition("=")[0].strip() for part in parts]
    return [part.strip("'\"") for part in parts]
