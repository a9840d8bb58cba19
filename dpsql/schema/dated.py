"""Dates and timestamps as numbers: a feature between two public days or moments, counted in units since 1970.

The number of a moment is `float(microseconds) / 1e6 / seconds per unit`, in doubles and in this order, where the
microseconds are those since 1970-01-01 00:00 UTC. Every database works out the same (`Vocabulary.seconds` in
`dpsql/spelling.py`), so that a row has the same cell everywhere. A moment without a time zone counts as UTC.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from dpsql.errors import SchemaError
from dpsql.schema.features import CELLS, Numeric

#: Seconds of each unit that a feature may be counted in.
UNITS = {"day": 86_400.0, "hour": 3_600.0, "minute": 60.0, "second": 1.0}
#: The unit of each kind of feature where none is declared.
DEFAULT_UNITS = {"date": "day", "timestamp": "second"}
#: Microseconds of one second.
_MILLION = 1_000_000
#: Nanoseconds of one microsecond.
_THOUSAND = 1_000
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
#: How the databases that have endless dates write them.
_ENDLESS = {"infinity": math.inf, "-infinity": -math.inf}
#: The widest cell, in seconds, whose edges are shown with their seconds, and with all their digits.
_SHOW_SECONDS, _SHOW_ALL = 3_600.0, 10.0


@dataclass(frozen=True)
class Dated(Numeric):
    """A date or timestamp between public bounds, as the number of units since 1970-01-01 00:00 UTC.

    Bounds and `null` are dates, datetimes, ISO texts, or numbers of units. They are kept as numbers.

    >>> joined = Dated("joined", "2020-01-01", "2020-03-05")
    >>> joined.lower, joined.cell(date(2020, 1, 2)), joined.cell("2020-01-03T12:00:00"), joined.cell(None)
    (18262.0, 1, 2, 0)
    """

    lower: Any
    upper: Any
    cells: int = CELLS
    null: Any = None
    unit: str = ""
    kind: str = "date"

    def __post_init__(self) -> None:
        where = f'feature "{self.name}"'
        if self.kind not in DEFAULT_UNITS:
            raise SchemaError(f"{where}: kind must be date or timestamp.")
        if not isinstance(self.unit, str) or (self.unit and self.unit not in UNITS):
            raise SchemaError(f"{where}: unit must be {', '.join(UNITS)}.")
        object.__setattr__(self, "unit", self.unit or DEFAULT_UNITS[self.kind])
        for bound in ("lower", "upper", "null"):
            given = getattr(self, bound)
            if given is not None or bound != "null":
                object.__setattr__(self, bound, self._bound(given, f"{where}: {bound}"))
        super().__post_init__()

    @property
    def seconds_per_unit(self) -> float:
        """The seconds of one unit."""
        return UNITS[self.unit]

    def number(self, value: object) -> float:
        """Return a date, datetime, pandas Timestamp or ISO text as a number of units; NaN where it is missing.

        A number is taken as one of units already. A text with an offset from UTC is refused, because databases differ
        in what they make of it.
        """
        if isinstance(value, numbers.Real) and not isinstance(value, bool):
            return float(value)
        if value is None or str(value) in ("NaT", "<NA>", "nan"):
            return math.nan
        if isinstance(value, str):
            if value.strip().lower() in _ENDLESS:
                return _ENDLESS[value.strip().lower()]
            value = _parse_moment(value)
        if not isinstance(value, date):
            raise SchemaError(f'feature "{self.name}": dates, datetimes and ISO texts can be read, and nothing else.')
        return self.number_of_microseconds(microseconds(value))

    def number_of_microseconds(self, count: int) -> float:
        """Return the number of units of whole microseconds since 1970: the one arithmetic that all databases share."""
        return float(count) / _MILLION / self.seconds_per_unit

    def cell(self, number: object) -> int:
        """Return the cell of one number of units, date, datetime or text (clamped; what is missing goes with NULL)."""
        return super().cell(self.number(number))

    def first_moment(self, number: float) -> int:
        """Return the first microsecond since 1970 whose number of units is at least this one."""
        count = round(number * self.seconds_per_unit * _MILLION)
        while self.number_of_microseconds(count) >= number:
            count -= 1
        while self.number_of_microseconds(count) < number:
            count += 1
        return count

    def text(self, number: float) -> str:
        """Return a number of units as the shortest ISO text of its moment, exact to the microsecond.

        >>> Dated("seen", "2020-01-01", "2021-01-01").text(18262.5)
        '2020-01-01 12:00:00'
        """
        return moment_text(self.first_moment(number))

    def first_day_and_time(self, cell: int, *, at_midnight: bool) -> tuple[str, str]:
        """Return the first day and time of a cell in ISO form, the time "" at midnight; `at_midnight`, its first day.

        >>> Dated("joined", "2020-01-01", "2021-01-01").first_day_and_time(1, at_midnight=False)
        ('2020-01-06', '17:15:00')
        >>> Dated("joined", "2020-01-01", "2021-01-01").first_day_and_time(1, at_midnight=True)
        ('2020-01-07', '')
        """
        count = self.first_moment(self.edges[cell - 1])
        day = int(UNITS["day"]) * _MILLION
        text = moment_text(-(-count // day) * day if at_midnight else count)
        return text[:10], text[11:]

    def edge_text(self, cell: int) -> str:
        """Return the lower edge of a cell for people: a date's first day in it, a time as finely as the cell is wide.

        >>> Dated("joined", "2020-01-01", "2021-01-01").edge_text(1)
        '2020-01-07'
        """
        moment = _EPOCH + self.first_moment(self.edges[cell - 1]) * _MICROSECOND
        if self.kind == "date":
            day = moment.date()
            return (day if moment == datetime.combine(day, _EPOCH.time()) else day + timedelta(days=1)).isoformat()
        width = self.seconds_per_unit / self.scale
        if width > _SHOW_SECONDS:
            return (moment + timedelta(seconds=30)).strftime("%Y-%m-%d %H:%M")
        if width > _SHOW_ALL:
            return (moment + timedelta(seconds=0.5)).strftime("%Y-%m-%d %H:%M:%S")
        return moment.isoformat(" ")

    def declaration(self) -> dict[str, Any]:
        """Return the feature in plain values, bounds as ISO texts where these give the same number."""
        shown: dict[str, Any] = {"type": self.kind, "lower": self._plain(self.lower), "upper": self._plain(self.upper)}
        if self.unit != DEFAULT_UNITS[self.kind]:
            shown["unit"] = self.unit
        return shown

    def null_declaration(self) -> float | str | None:
        """Return what stands for NULL in plain values."""
        return None if self.null is None else self._plain(self.null)

    def plain(self) -> Numeric:
        """Return the same grid of cells for a column that holds the numbers themselves."""
        return Numeric(self.name, self.lower, self.upper, self.cells, self.null)

    def _plain(self, number: float) -> float | str:
        text = self.text(number)
        return text if self.number(text) == number else number

    def _bound(self, given: object, where: str) -> float:
        try:
            number = math.nan if isinstance(given, bool) else self.number(given)
            _EPOCH + timedelta(seconds=number * self.seconds_per_unit)
        except (SchemaError, OverflowError, ValueError):
            raise SchemaError(
                f"{where} must be a day or a moment of the years 1 to 9999, in UTC.", hint="such as 2026-12-31"
            ) from None
        return number


def microseconds(moment: date) -> int:
    """Return the microseconds from 1970-01-01 00:00 UTC to a day's start or to a moment.

    A pandas Timestamp has nanoseconds too; they are rounded, half of one away from zero, as DuckDB does.

    >>> microseconds(date(1970, 1, 2)), microseconds(datetime(1969, 12, 31, 23, 59, 59, 999999))
    (86400000000, -1)
    """
    if not isinstance(moment, datetime):
        return (moment.toordinal() - _EPOCH.toordinal()) * 86_400 * _MILLION
    utc = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    plain = datetime(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond)
    return rounded_microseconds((plain - _EPOCH) // _MICROSECOND * _THOUSAND + getattr(moment, "nanosecond", 0))


def rounded_microseconds(nanoseconds: int) -> int:
    """Return nanoseconds as microseconds, half of one away from zero.

    >>> [rounded_microseconds(n) for n in (499, 500, -499, -500)]
    [0, 1, 0, -1]
    """
    size = (abs(nanoseconds) + _THOUSAND // 2) // _THOUSAND
    return size if nanoseconds >= 0 else -size


def moment_text(count: int) -> str:
    """Return microseconds since 1970 as ISO text: the day alone at midnight, no fraction at a whole second.

    A moment before the year 1 or after 9999, which rounding can give, is shown as the first or the last there is.

    >>> moment_text(0), moment_text(1_500_000), moment_text(-(10**20))
    ('1970-01-01', '1970-01-01 00:00:01.500000', '0001-01-01')
    """
    first, last = ((moment - _EPOCH) // _MICROSECOND for moment in (datetime.min, datetime.max))
    moment = _EPOCH + min(max(count, first), last) * _MICROSECOND
    return moment.date().isoformat() if moment.time() == _EPOCH.time() else moment.isoformat(" ")


def tick_text(number: float, unit: str) -> str:
    """Return a number of units as the day it falls on, "" for one beyond the years 1 to 9999.

    >>> tick_text(18262.5, "day"), tick_text(1e12, "day")
    ('2020-01-01', '')
    """
    try:
        return (_EPOCH + timedelta(seconds=number * UNITS[unit])).date().isoformat()
    except OverflowError:
        return ""


def _parse_moment(text: str) -> date:
    """Return an ISO text as a date or a moment in UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        moment = None
    if moment is None or (moment.tzinfo is not None and moment.utcoffset()):
        raise SchemaError("a text is no day or moment in ISO form, in UTC.", hint="such as 2026-12-31T23:59:59")
    return moment
