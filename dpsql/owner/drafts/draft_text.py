"""Writes a draft as a schema file: one line for each column, with the origin of its domain as a comment behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dpsql.owner.drafts.proposal import FEATURE, GAP, IDENTIFIER, LABEL, LEFT_OUT, UNIT, Domain, Proposal
from dpsql.schema.schema_file import inline, line, quote, remark

#: The longest alternative that is shown behind a line, in characters.
_SHORT = 120
_HEAD = """A draft for table {table}. {read}
Everything in this file becomes public. Write what you know from documentation, laws or
common sense, never what a look at the rows tells you.{rest}"""
_REST = " Fill in each ???, then register."
_NO_ROWS = "No row of it was read."
_BOUGHT = "Domains were bought: noisy counts of its rows, charged to its budget."
_LOOKED = "The values of {columns} were looked up in its rows by its owner (ledger entry {entry})."


def draft_text(
    table: str,
    proposals: Sequence[Proposal],
    *,
    looked_up: Sequence[str] = (),
    entry: int | None = None,
    unit: Domain | None = None,
    bought_rows: int | None = None,
    more: Domain | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Return the schema file: label, unit, features, and a comment for each column that is left out.

    `bought_rows` is the noisy number of rows, where domains were bought: it is declared, so that no run buys it again.
    `more` are further keys of the schema that the owner declared, and `notes` are shown as comments.
    """
    others = dict(more or {})
    bought = [_BOUGHT] if bought_rows is not None else []
    lookups = [_LOOKED.format(columns=", ".join(map(quote, looked_up)), entry=entry)] if looked_up else []
    read = " ".join([*bought, *lookups]) or _NO_ROWS
    label = next((proposal for proposal in proposals if proposal.role == LABEL), None)
    complete = label is not None and not any(proposal.gaps for proposal in proposals if proposal.is_used)
    lines = remark(_HEAD.format(table=quote(table), read=read, rest="" if complete else _REST))
    lines += [part for text in notes for part in remark(text)]
    lines += _label_lines(label, [proposal.column for proposal in proposals if proposal.role == FEATURE])
    lines.append(_unit_line(proposals) if unit is None else line("privacy_unit", unit))
    lines += [line(key, value, comment="declared") for key, value in others.items()]
    if bought_rows is not None and "rows" not in others:
        lines.append(line("rows", bought_rows, comment="about, bought with the domains"))
    if looked_up:
        lines.append(line("looked_up", list(looked_up), comment="keep this line: these domains are no release"))
    lines.append("features:")
    lines += [_feature_line(proposal) for proposal in proposals if proposal.role != LABEL]
    return "\n".join(lines) + "\n"


def _label_lines(label: Proposal | None, names: list[str]) -> Iterator[str]:
    """Yield the label with its classes, or with the bounds of a numeric target."""
    if label is None:
        listed = ", ".join(map(quote, names))
        yield line("label", GAP, comment=f"the column to predict, one of {listed}; take it out of the features")
        yield line("classes", GAP, comment='all values of the label, as in ["no", "yes"]')
        return
    domain = label.feature
    yield line("label", label.column)
    if domain.get("type") == "numeric":
        yield line("target", {"lower": domain["lower"], "upper": domain["upper"]}, comment=_behind(label))
    else:
        yield line("classes", domain.get("values", GAP), comment=_behind(label))


def _unit_line(proposals: Iterable[Proposal]) -> str:
    unit = next((proposal.column for proposal in proposals if proposal.role == UNIT), None)
    if unit is None:
        return line("privacy_unit", "row", comment="one row is protected")
    other = {"column": unit, "max_rows": 10}
    return line("privacy_unit", "row", comment=f"if one person can have several rows: {inline(other)}")


def _feature_line(proposal: Proposal) -> str:
    if proposal.role in (UNIT, IDENTIFIER, LEFT_OUT):
        reason = "; ".join(part for part in (proposal.origin, proposal.advice) if part)
        return remark(f"{quote(proposal.column)}: left out, {' '.join(reason.split())}", indent=2)[0]
    # A column without a type is one gap, not a mapping with a gap in it.
    value = GAP if proposal.gaps == ("type",) else proposal.feature
    return line(proposal.column, value, comment=_behind(proposal), indent=2)


def _behind(proposal: Proposal) -> str:
    """Return the comment behind a line: where its domain comes from, what is missing, what else it could be."""
    parts = [proposal.origin, proposal.advice]
    shown = [_alternative(proposal, domain) for domain in proposal.alternatives]
    return "; ".join(part for part in (*parts, *(text for text in shown if len(text) <= _SHORT)) if part)


def _alternative(proposal: Proposal, domain: Domain) -> str:
    if proposal.role == LABEL and domain.get("type") == "numeric":
        return f"or a number: target: {inline({'lower': domain['lower'], 'upper': domain['upper']})}"
    return f"or: {inline(domain)}"
