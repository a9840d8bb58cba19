"""MD5 written in SQL for SQLite, which has no hash function: the first 32 bits of the hash of a text, as a number.

RFC 1321 step by step, in one recursive query for each row: 64 rounds for each block of 64 bytes, and after them one
step that adds the block's result to the state (`a0`, `b0`, `c0`, `d0`). SQLite has 64-bit integers and the operators &,
| and <<, but no exclusive or and no rotation, so these are written as sums that are exact for 32-bit numbers:

- b XOR c XOR d = b + c + d − 2·(the bits that two of the three have), and x XOR y = x + y − 2·(x AND y);
- x rotated by s places = (x·2^s − 1) mod (2^32 − 1) + 1, where the remainder of −1 is −1, so that 0 stays 0.

A hexadecimal digit's value is its place in '123456789ABCDEF', and 0 where it is not there. The message is kept as
bytes, of which SQLite finds any one at once. A word takes about a fifth of a millisecond; the time grows with the
square of a text's length, which is felt from some ten thousand characters on.
"""

from __future__ import annotations

import math
from functools import cache

import sqlglot
from sqlglot import exp

_TEXT, _SINES, _TURNS = "the_text", "the_sines", "the_turns"
#: How far each round rotates: four numbers of two digits for each quarter of the rounds.
_ROTATIONS = "07121722050914200411162306101521"
_QUERY = """
SELECT (
  WITH RECURSIVE message(digits, blocks) AS (
    SELECT
      CAST(HEX(bytes) || '80' || HEX(ZEROBLOB((119 - LENGTH(bytes) % 64) % 64)) || PRINTF(
        '%02X%02X%02X%02X%02X000000',
        LENGTH(bytes) << 3 & 255, LENGTH(bytes) >> 5 & 255, LENGTH(bytes) >> 13 & 255, LENGTH(bytes) >> 21 & 255,
        LENGTH(bytes) >> 29
      ) AS BLOB),
      (LENGTH(bytes) + 8) / 64 + 1
    FROM (SELECT CAST(CAST(the_text AS TEXT) AS BLOB) AS bytes) AS given
  ), rounds(digits, blocks, step, place, a, b, c, d, a0, b0, c0, d0) AS (
    SELECT
      digits, blocks, 0, 0,
      1732584193, 4023233417, 2562383102, 271733878, 1732584193, 4023233417, 2562383102, 271733878
    FROM message
    UNION ALL
    SELECT
      digits, blocks, step + 1,
      (step + 1) / 65 * 128 + 8 * (CASE (step + 1) % 65 / 16
        WHEN 0 THEN (step + 1) % 65
        WHEN 1 THEN 5 * ((step + 1) % 65) + 1
        WHEN 2 THEN 3 * ((step + 1) % 65) + 5
        ELSE 7 * ((step + 1) % 65) END % 16),
      CASE WHEN step % 65 = 64 THEN (a + a0) & 4294967295 ELSE d END,
      CASE WHEN step % 65 = 64 THEN (b + b0) & 4294967295 ELSE (b + 1 + (((
        a + CASE step % 65 / 16
          WHEN 0 THEN (b & c) + ((4294967295 - b) & d)
          WHEN 1 THEN (d & b) + ((4294967295 - d) & c)
          WHEN 2 THEN b + c + d - 2 * ((b & c) | (b & d) | (c & d))
          ELSE c + (b | (4294967295 - d)) - 2 * (c & (b | (4294967295 - d))) END
        + CAST(SUBSTR(the_sines, 1 + 10 * (step % 65), 10) AS INTEGER)
        + INSTR(X'313233343536373839414243444546', SUBSTR(digits, place + 1, 1)) * 16
        + INSTR(X'313233343536373839414243444546', SUBSTR(digits, place + 2, 1))
        + INSTR(X'313233343536373839414243444546', SUBSTR(digits, place + 3, 1)) * 4096
        + INSTR(X'313233343536373839414243444546', SUBSTR(digits, place + 4, 1)) * 256
        + INSTR(X'313233343536373839414243444546', SUBSTR(digits, place + 5, 1)) * 1048576
        + INSTR(X'313233343536373839414243444546', SUBSTR(digits, place + 6, 1)) * 65536
        + INSTR(X'313233343536373839414243444546', SUBSTR(digits, place + 7, 1)) * 268435456
        + INSTR(X'313233343536373839414243444546', SUBSTR(digits, place + 8, 1)) * 16777216
      ) & 4294967295) * (1 << CAST(SUBSTR(the_turns, 1 + 8 * (step % 65 / 16) + 2 * (step % 65 % 4), 2) AS INTEGER))
        - 1) % 4294967295) & 4294967295 END,
      CASE WHEN step % 65 = 64 THEN (c + c0) & 4294967295 ELSE b END,
      CASE WHEN step % 65 = 64 THEN (d + d0) & 4294967295 ELSE c END,
      CASE WHEN step % 65 = 64 THEN (a + a0) & 4294967295 ELSE a0 END,
      CASE WHEN step % 65 = 64 THEN (b + b0) & 4294967295 ELSE b0 END,
      CASE WHEN step % 65 = 64 THEN (c + c0) & 4294967295 ELSE c0 END,
      CASE WHEN step % 65 = 64 THEN (d + d0) & 4294967295 ELSE d0 END
    FROM rounds
    WHERE step < 65 * blocks
  )
  SELECT (a & 255) * 16777216 + (a >> 8 & 255) * 65536 + (a >> 16 & 255) * 256 + (a >> 24)
  FROM rounds
  WHERE step = 65 * blocks
)
"""


def md5_in_sqlite(value: exp.Expr) -> exp.Expr:
    """Return the first 32 bits of MD5 of a value's text as a whole number, NULL for NULL."""
    query = _query_with_constants().copy()
    for column in list(query.find_all(exp.Column)):
        if column.name == _TEXT:
            column.replace(value.copy())
    return query


@cache
def _query_with_constants() -> exp.Expr:
    """Return the query with its tables of constants, parsed once."""
    sines = "".join(f"{int(abs(math.sin(number + 1)) * 2**32):010d}" for number in range(64))
    query = sqlglot.parse_one(_QUERY, read="sqlite", into=exp.Select).selects[0]
    for column in list(query.find_all(exp.Column)):
        if column.name in (_SINES, _TURNS):
            column.replace(exp.Literal.string(sines if column.name == _SINES else _ROTATIONS))
    return query
