"""Writes small pieces of HTML for notebooks: everything that is put into them is escaped.

Names of tables, columns and models come from users. A notebook shows what `_repr_html_` returns as it stands, so that
a name which is not escaped could run as a script of the reader's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

#: How cells stand.
_LEFT = ' style="text-align: left; vertical-align: top"'


class Readable:
    """A value that shows itself as its text: in a prompt, and in a notebook, where its markup is escaped."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_lines(self)


def html_text(text: object) -> str:
    """Return a paragraph; line breaks stay.

    >>> html_text("<b>1 < 2</b>")
    '<p style="white-space: pre-wrap">&lt;b&gt;1 &lt; 2&lt;/b&gt;</p>'
    """
    return f'<p style="white-space: pre-wrap">{escape(str(text))}</p>'


def html_heading(text: object) -> str:
    """Return a line in bold.

    >>> html_heading("a & b")
    '<p><strong>a &amp; b</strong></p>'
    """
    return f"<p><strong>{escape(str(text))}</strong></p>"


def html_lines(text: object) -> str:
    """Return a text whose lines and spaces stay as they are, for what is drawn with letters."""
    return f"<pre>{escape(str(text))}</pre>"


def html_table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a line of headings.

    >>> html_table(("name",), [("<script>",)])[-46:]
    ' top">&lt;script&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th{_LEFT}>{escape(str(cell))}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td{_LEFT}>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
