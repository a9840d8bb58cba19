"""Drafts a schema file: a proposal for each column, from the catalog and from what the owner names as public.

What no source says is left as `???` with a comment. Loading a draft with such gaps fails, and the error names what is
missing. The limits of an integer type are not proposed as bounds: they are public, but far too wide to be of use.

The sources, the first of which wins (`drafts/proposal.py`): values that the owner had looked up, a code book, keys of
the catalog, its types and constraints, public code tables, names of identifiers, column comments, a public sample, and
last the column's type, which knows every column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dpsql.engines.base import Column, ColumnNote, Engine, TableInfo
from dpsql.engines.files.table_files import file_identities
from dpsql.errors import ParameterError, UnknownName
from dpsql.ledger import Ledger
from dpsql.notebook_html import Readable
from dpsql.owner.drafts import catalog_sources
from dpsql.owner.drafts.code_book import CodeBook, code_book_source, names_passed_over, read_code_book
from dpsql.owner.drafts.draft_text import draft_text
from dpsql.owner.drafts.identifier_names import unit_rank
from dpsql.owner.drafts.owner_lookup import Lookup, check_columns, look_up_values, lookup_source, rehearsed_source
from dpsql.owner.drafts.proposal import (
    GAP,
    IDENTIFIER,
    LABEL,
    UNIT,
    Domain,
    Proposal,
    Source,
    first_proposal,
    with_role,
)
from dpsql.owner.drafts.public_sample import read_sample, sample_source
from dpsql.owner.drafts.public_tables import check_public_file
from dpsql.schema.schema_file import Placeholder

#: Columns of these names are taken for the label.
_LABELS = ("label", "class", "target", "y")
_EXAMPLE_TARGET = {"type": "numeric", "lower": 0, "upper": 100}


@dataclass(frozen=True)
class DraftRequest:
    """What a draft may use beside the catalog, each named by the owner.

    `like` is a public sample: a file, or a table of the database that is not private. `dictionary` is a code book.
    `public_tables` are code tables whose values may be read. `values_are_public` are columns of the table itself whose
    list of values the owner declares public knowledge: their distinct values are read from the rows, once, for the
    owner, and the ledger says so.
    """

    label: str | None = None
    like: str | Path | None = None
    dictionary: str | Path | None = None
    public_tables: Sequence[str] = ()
    values_are_public: Sequence[str] = ()


@dataclass(frozen=True, repr=False)
class Draft(Readable):
    """A drafted schema: a proposal for each column, in the table's order, and the same as a file to complete.

    `looked_up` are columns whose values were looked up, by ledger entry `entry`. `unit` is the privacy unit that was
    answered, None where the file proposes one. `bought_rows` is the noisy number of rows, where domains were bought.
    `more` are further keys of the schema that the owner declared, and `notes` what was passed over in a code book.
    """

    table: str
    proposals: tuple[Proposal, ...]
    looked_up: tuple[str, ...] = ()
    entry: int | None = field(default=None, compare=False)
    unit: Domain | None = field(default=None, hash=False)
    bought_rows: int | None = None
    more: Domain = field(default_factory=dict, hash=False)
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The schema file in YAML, with `???` where its owner has to fill in something."""
        return draft_text(
            self.table,
            self.proposals,
            looked_up=self.looked_up,
            entry=self.entry,
            unit=self.unit,
            bought_rows=self.bought_rows,
            more=self.more,
            notes=self.notes,
        )

    @property
    def gaps(self) -> tuple[str, ...]:
        """The label and features that still lack something."""
        return tuple(proposal.column for proposal in self.proposals if proposal.is_used and proposal.gaps)

    def to_dict(self) -> dict[str, Any]:
        """Return the draft as plain values."""
        return {
            "table": self.table,
            "proposals": [proposal.to_dict() for proposal in self.proposals],
            "looked_up": list(self.looked_up),
            "notes": list(self.notes),
        }


def draft_schema(
    engine: Engine,
    ledger: Ledger,
    table: str,
    request: DraftRequest = DraftRequest(),
    *,
    who: str = "",
    look_up: bool = True,
    more_sources: Sequence[Source] = (),
) -> Draft:
    """Return a schema for the owner to complete. Reads the catalog, and what the request names; nothing else.

    Without a label in the request, a single column called label, class, target or y is taken. `who` is whose act the
    ledger records where values are looked up; without `look_up` none are, and stand-ins take their places.
    `more_sources` are asked after all others but the type alone.
    """
    info = engine.table(table)
    if info is None:
        raise UnknownName("table", table, engine.tables())
    label = _label(info, request.label)
    notes = engine.column_notes(info)
    book = None if request.dictionary is None else _code_book(engine, ledger, info, Path(request.dictionary))
    sources = [] if book is None else [code_book_source(book, info)]
    sources += [*_public_sources(engine, ledger, info, notes, request), *more_sources]
    sources.append(catalog_sources.type_source(notes))
    keys = {name for name, note in notes.items() if note.unique}
    lookup: Lookup | None = None
    if not look_up:
        sources.insert(0, rehearsed_source(check_columns(info, _columns_to_look_up(request), keys)))
    elif _columns_to_look_up(request):  # last: nothing that is wrong elsewhere follows it
        lookup = look_up_values(engine, ledger, info, request.values_are_public, keys=keys, who=who)
        sources.insert(0, lookup_source(lookup))
    proposals = [_proposal(sources, column, is_label=column is label) for column in info.columns]
    columns = tuple(lookup.values) if lookup else ()
    passed_over = () if book is None else tuple(names_passed_over(book, info))
    draft = Draft(info.name, _with_unit(info, notes, proposals), columns, lookup.entry if lookup else None)
    return replace(draft, notes=passed_over)


def _public_sources(
    engine: Engine, ledger: Ledger, info: TableInfo, notes: catalog_sources.Notes, request: DraftRequest
) -> list[Source]:
    """Return the sources that read the catalog and what the owner calls public, in their order."""
    sources: list[Source] = [
        catalog_sources.key_source(notes),
        catalog_sources.constraint_source(info, engine.dialect),
        catalog_sources.code_table_source(engine, ledger, info, notes, request.public_tables),
        catalog_sources.name_source(notes),
        catalog_sources.comment_source(notes),
    ]
    if request.like is not None:
        sources.append(sample_source(read_sample(engine, ledger, info, request.like), str(request.like)))
    return sources


def _code_book(engine: Engine, ledger: Ledger, info: TableInfo, path: Path) -> CodeBook:
    """Return the code book in a file, unless the drafted table or a registered one reads that file."""
    if path.is_file():
        check_public_file(engine, ledger, info, str(path), file_identities([path]))
    return read_code_book(path)


def _columns_to_look_up(request: DraftRequest) -> Sequence[str]:
    if isinstance(request.values_are_public, str):
        raise ParameterError("values_are_public", allowed="a list of columns", given=request.values_are_public)
    return request.values_are_public


def _label(info: TableInfo, label: str | None) -> Column | None:
    if label is not None:
        column_to_predict = info.column(label)
        if column_to_predict is None:
            raise UnknownName("column", label, [column.name for column in info.columns])
        return column_to_predict
    guesses = [column for column in info.columns if column.name.lower() in _LABELS]
    return guesses[0] if len(guesses) == 1 else None


def _proposal(sources: Sequence[Source], column: Column, *, is_label: bool) -> Proposal:
    proposal = first_proposal(sources, column)
    assert proposal is not None, "the last source knows every column"
    return _as_label(column, proposal) if is_label else proposal


def _as_label(column: Column, proposal: Proposal) -> Proposal:
    """Return the proposal of a label: a list of classes, or the bounds of a number where its type is real.

    A list that a whole proposal has as an alternative does for a label too: integers of a sample.
    """
    if not proposal.is_used and proposal.role != IDENTIFIER:
        return Proposal(column.name, LABEL, {"values": GAP}, origin=proposal.origin, advice="this type can be no label")
    feature = dict(proposal.feature)
    if feature.get("type") == "boolean":
        return Proposal(column.name, LABEL, {"values": ["false", "true"]}, origin=proposal.origin)
    if column.family == "real":
        return with_role(replace(proposal, alternatives=()), LABEL)
    lists = [domain["values"] for domain in (feature, *proposal.alternatives) if "values" in domain]
    values = GAP if proposal.gaps or not lists else lists[0]
    if not isinstance(values, Placeholder) and len(values) > 1:
        return Proposal(column.name, LABEL, {"values": values}, origin=proposal.origin, advice=proposal.advice)
    advice = 'all values of the label, as in ["no", "yes"]'
    if column.family == "text":
        return Proposal(column.name, LABEL, {"values": GAP}, advice=advice)
    target = {**_EXAMPLE_TARGET, **{name: value for name, value in feature.items() if name in ("lower", "upper")}}
    target = {
        name: _EXAMPLE_TARGET[name] if isinstance(value, Placeholder) else value for name, value in target.items()
    }
    return Proposal(column.name, LABEL, {"values": GAP}, (target,), advice=advice)


def _with_unit(info: TableInfo, notes: catalog_sources.Notes, proposals: Sequence[Proposal]) -> tuple[Proposal, ...]:
    """Return the proposals with the likeliest privacy unit among them: an identifier that several rows can share."""
    ranks = {
        proposal.column: unit_rank(column)
        for proposal, column in zip(proposals, info.columns, strict=True)
        if proposal.role == IDENTIFIER and not notes.get(column.name, ColumnNote()).unique
    }
    best = min(ranks, key=lambda name: ranks[name], default=None)
    if best is None or ranks[best] > 1:
        return tuple(proposals)
    return tuple(with_role(proposal, UNIT) if proposal.column == best else proposal for proposal in proposals)
