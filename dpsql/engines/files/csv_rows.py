"""Checks that the rows of a CSV file can be told apart: that one row more or less changes one row of the table.

A quote that stays open swallows all rows after it, and one in the wrong place moves the ends of others. Where the
meaning of a line break depends on its neighbours (two kinds in one file), or a line is longer than DuckDB takes, a row
decides how others are read. It also does where DuckDB's buffer of 32 MB ends inside a blank line, or in the bytes of a
last line that are not UTF-8: the lengths of all rows before say whether that happens. Such a file cannot be read
privately, so it is refused, before anything is charged. The refusal follows from the file's rows: it is a fault of the
file, which its owner mends by writing it with any CSV writer. In a table of one column an empty cell must be quoted:
else it would be a blank line.

The scan looks at quotes and line breaks alone (RFC 4180): a cell is quoted from its first sign to its last, and a quote
inside it is doubled. Line breaks inside quotes are text. Each byte is looked at once, in pieces of a fixed size; pieces
with bytes beyond ASCII are decoded, too.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.engines.files.csv_header import Header
from dpsql.errors import DatabaseError

#: Bytes that are looked at together.
_PIECE = 1 << 22
#: Bytes of the longest row. DuckDB leaves out rows of about two million, or not, as they lie in its buffers.
LONGEST_ROW = 1_900_000
_QUOTE, _LF, _CR = b'"\n\r'
#: Bytes below this one are ASCII.
_BEYOND_ASCII = 0x80
_BOM = b"\xef\xbb\xbf"
_Bytes = NDArray[np.uint8]
_Places = NDArray[np.int64]


def check_rows(path: Path, header: Header) -> None:
    """Raise DatabaseError unless the rows of a file can be told apart. The message says nothing of where, or of rows.

    Raises OSError where the file cannot be read.
    """
    scan = _Scan(ord(header.delimiter))
    for before, piece, after in _pieces(path):
        scan.look(piece, before=before, after=after)
    problem = scan.problem()
    if problem:
        raise DatabaseError(
            f'the rows of file "{path.name}" cannot be told apart: {problem}.',
            hint="write it again with a CSV writer, in UTF-8: cells with quotes or line breaks quoted, no blank lines",
        )


@dataclass
class _Scan:
    """What was seen so far: whether a quote is open, quotes in wrong places, kinds of line breaks, the longest row."""

    delimiter: int
    inside: bool = False
    misplaced: bool = False
    blank: bool = False
    text: _Text = field(default_factory=lambda: _Text())
    kinds: set[str] = field(default_factory=set)
    looked: int = 0
    start: int = 0
    longest: int = 0

    def look(self, piece: _Bytes, *, before: int, after: int) -> None:
        """Look at the next piece, with the byte before it and the one after it."""
        self.text.look(piece)
        quotes = np.flatnonzero(piece == _QUOTE)
        opens = (np.arange(len(quotes)) % 2 == 0) ^ self.inside
        previous = _neighbour_bytes(piece, quotes, -1, before, after)
        following = _neighbour_bytes(piece, quotes, 1, before, after)
        self.misplaced |= not self._may_border(previous[opens]).all() or not self._may_border(following[~opens]).all()
        ends = np.flatnonzero((piece == _LF) | (piece == _CR))
        ends = ends[(np.searchsorted(quotes, ends) % 2 == 1) == self.inside]
        self._look_at_lines(piece, ends, before, after)
        self.inside ^= len(quotes) % 2 == 1
        self.looked += len(piece)

    def problem(self) -> str:
        """Return what is wrong with the file, "" if nothing is."""
        self.longest = max(self.longest, self.looked - self.start)
        if self.inside:
            return "a quote is never closed"
        if self.misplaced:
            return "a quote is neither at the border of a cell nor doubled"
        if len(self.kinds) > 1:
            return "its lines end in different ways"
        if self.blank:
            return "a line is blank"
        if self.text.is_not_utf8():
            return "its text is not UTF-8"
        return f"one is longer than {LONGEST_ROW} bytes" if self.longest > LONGEST_ROW else ""

    def _may_border(self, signs: _Bytes) -> NDArray[np.bool_]:
        """Whether signs may stand before an opening quote, or after a closing one; two quotes are one in a cell."""
        return np.isin(signs, [self.delimiter, _LF, _CR, _QUOTE])

    def _look_at_lines(self, piece: _Bytes, ends: _Places, before: int, after: int) -> None:
        returns = piece[ends] == _CR
        followed_by_lf = _neighbour_bytes(piece, ends, 1, before, after) == _LF
        previous = _neighbour_bytes(piece, ends, -1, before, after)
        preceded_by_cr = previous == _CR
        self.blank |= bool((np.isin(previous, [_LF, _CR]) & ~(preceded_by_cr & ~returns)).any())
        for kind, is_present in (
            ("CR LF", returns & followed_by_lf),
            ("CR", returns & ~followed_by_lf),
            ("LF", ~returns & ~preceded_by_cr),
        ):
            if is_present.any():
                self.kinds.add(kind)
        places = np.concatenate([[self.start], ends + self.looked])
        self.longest = max(self.longest, int(np.diff(places).max(initial=0)))
        self.start = int(places[-1])


@dataclass
class _Text:
    """Whether the bytes that were seen so far are UTF-8; a sign may lie in two pieces."""

    decoder: codecs.IncrementalDecoder = field(default_factory=codecs.getincrementaldecoder("utf-8"))
    spoilt: bool = False

    def look(self, piece: _Bytes) -> None:
        """Decode the next piece, unless it is ASCII and no sign was begun."""
        if not self.spoilt and (piece.max(initial=0) >= _BEYOND_ASCII or self.decoder.getstate()[0]):
            self._decode(piece.tobytes())

    def is_not_utf8(self) -> bool:
        """Whether all bytes together are not UTF-8."""
        if not self.spoilt:
            self._decode(b"", final=True)
        return self.spoilt

    def _decode(self, data: bytes, *, final: bool = False) -> None:
        try:
            self.decoder.decode(data, final)
        except UnicodeDecodeError:
            self.spoilt = True


def _neighbour_bytes(piece: _Bytes, places: _Places, step: int, before: int, after: int) -> _Bytes:
    """Return the bytes one step before or after some places."""
    wide = np.concatenate([np.array([before], np.uint8), piece, np.array([after], np.uint8)])
    neighbours: Any = wide[places + 1 + step]
    return np.asarray(neighbours)


def _pieces(path: Path) -> Iterator[tuple[int, _Bytes, int]]:
    """Yield a file's bytes without its byte order mark, each piece with its neighbours; at the ends line breaks."""
    with path.open("rb") as file:
        piece = file.read(_PIECE).removeprefix(_BOM)
        before = _LF
        while piece:
            following = file.read(_PIECE)
            yield before, np.frombuffer(piece, np.uint8), following[0] if following else _CR
            before, piece = piece[-1], following
