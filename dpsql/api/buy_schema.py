"""Registers a plain table without a schema file: what the catalog does not say is bought, hashed or left out.

    draft ──▶ wishes ──▶ register, with nothing said yet ──▶ charge and buy ──▶ complete the draft ──▶ register anew

Bounds of numbers and the size are bought in pure epsilon, and so are the classes of a label, among a public list of
words. With a delta, lists of texts are bought too. Without one, a text becomes a hashed category, and the cells of its
hash that are in use are bought. What can be neither is left out, and the completed draft says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dpsql.engines.base import TableInfo
from dpsql.engines.type_limits import type_limits
from dpsql.errors import ParameterError, SchemaError, UnknownName, UsageError
from dpsql.kernel.datasets.dataset import LABEL_FAMILIES, TARGET_FAMILIES, Dataset
from dpsql.kernel.datasets.hold_out import dealing_columns
from dpsql.kernel.datasets.possible_values import possible_texts
from dpsql.kernel.datasets.untyped_columns import UNTYPED
from dpsql.kernel.plan import Plan
from dpsql.ledger.amount import format_delta, parse_delta
from dpsql.ledger.odds import note_large
from dpsql.notebook_html import Readable
from dpsql.owner.draft_schema import Draft, DraftRequest
from dpsql.owner.drafts.proposal import BOUGHT, FEATURE, GAP, LABEL, LEFT_OUT, UNIT, Proposal
from dpsql.owner.rehearse_registration import check_purchase_fits, rehearse_registration
from dpsql.owner.resolve_table import resolve_table
from dpsql.runs.buy_domains import Wishes, bought_domains, buy_domains, plan_domains, set_aside
from dpsql.runs.noisy_domains import CODES, WORDS, NoisyDomains, Reach
from dpsql.schema import HASH_CELLS, WIDE_HASH_CELLS, Dated, Schema, Unit
from dpsql.schema.dated import DEFAULT_UNITS
from dpsql.schema.plain_values import plain_features
from dpsql.trees.magnitude_grid import MISSING

if TYPE_CHECKING:
    from dpsql.api.database import Database

#: A label has these words as its classes only if about this share of the rows has one of them.
ENOUGH = 0.8
#: A column of a file without types counts as numbers if about this share of its cells can be read as numbers.
MOSTLY = 0.5
#: The origin of a domain that the owner wrote down.
_DECLARED = "declared"


@dataclass(frozen=True, kw_only=True)
class PurchaseRequest:
    """What an owner asks for who registers a table without a schema file.

    `draft` names the label, and what a draft may use beside the catalog. `classes` (a list, or a mapping from stored
    texts to words), `target` and `features` are domains that the owner declares, and `left_out` names columns that are
    no features; what all these leave open is bought for `epsilon`, and lists of texts too where a `delta` is given.
    `unit` is the privacy unit, and `more` are further keys of the schema.
    """

    table: str
    epsilon: object
    delta: object | None = None
    draft: DraftRequest = field(default_factory=DraftRequest)
    classes: Sequence[object] | Mapping[Any, Any] = ()
    target: tuple[float, float] | None = None
    features: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    unit: Unit = field(default_factory=Unit)
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def plain_unit(self) -> dict[str, Any]:
        """The privacy unit as a schema declares it, where it is not a row."""
        unit = self.unit
        return {} if unit.column is None else {"privacy_unit": {"column": unit.column, "max_rows": unit.max_rows}}


@dataclass(frozen=True, repr=False)
class BoughtSchema(Readable):
    """A table that was registered without a schema file: the dataset, the completed draft, and what was bought.

    `domains` is None where nothing had to be bought.
    """

    dataset: Dataset
    draft: Draft
    domains: NoisyDomains | None

    def __str__(self) -> str:
        return self.draft.text


@dataclass(frozen=True, repr=False)
class PlannedPurchase(Readable):
    """What registering a table without a schema file would ask and cost; `plan` is None where nothing is bought.

    `schema` is the one under which the table waits for the purchase, and `likely` that under which it is registered in
    the end, with stand-ins for what is bought. `is_bought_already` says that an earlier purchase answers all.
    """

    draft: Draft
    wishes: Wishes
    schema: Schema | None
    plan: Plan | None
    likely: Schema
    is_bought_already: bool = False

    def __str__(self) -> str:
        bought = "\n".join(f"  {name}: {what}" for name, what in self.purposes.items())
        cost = "Nothing has to be bought." if self.plan is None else str(self.plan)
        return f"{cost}\n{bought}" if bought else cost

    @property
    def purposes(self) -> dict[str, str]:
        """What is to be bought, hashed or left out, by column."""
        kinds = dict.fromkeys(self.wishes.columns_with_bounds, "bounds are bought")
        kinds |= dict.fromkeys(self.wishes.texts, "common values are bought")
        kinds |= dict.fromkeys(self.wishes.hashed, "hashed, and the cells in use are bought")
        if self.wishes.label:
            kinds[self.wishes.label] = "the label; its classes are looked for among common words"
        for proposal in self.draft.proposals:
            if proposal.role == LABEL and proposal.column not in kinds:
                kinds[proposal.column] = f"the label; {proposal.origin or 'known'}"
            elif proposal.column not in kinds and proposal.is_used:
                kinds[proposal.column] = proposal.origin or "known"
            elif proposal.column not in kinds:
                kinds[proposal.column] = f"left out: {proposal.origin or proposal.advice}"
        return kinds


def plan_purchase(database: Database, request: PurchaseRequest, *, look_up: bool = False) -> PlannedPurchase:
    """Return what is to be bought for a table, and what that costs. Reads no row, charges nothing.

    What registration would refuse in the end is refused here, as far as the catalog tells it. Only with `look_up` are
    values looked up that the request declares public, which is an act of its own; else the draft has stand-ins.
    """
    draft = _with_declarations(database.draft_of(request.table, request.draft, look_up=look_up), request)
    info = database.engine.table(draft.table)
    assert info is not None, "a draft is of a table"
    label = next((proposal for proposal in draft.proposals if proposal.role == LABEL), None)
    if label is None or request.draft.label is None:
        hint = "--label COLUMN" if label is None else f"--label {label.column}"
        raise UsageError("a label is needed: the column to predict.", hint=hint)
    _check_label_type(info, label.column)
    wishes = _wishes(draft, info, with_delta=request.delta is not None)
    likely = _likely_schema(draft, label, wishes, request)
    resolve_table(database.engine, draft.table, likely)
    if wishes.is_empty:
        return PlannedPurchase(draft, wishes, None, None, likely)
    if not wishes.texts and request.delta is not None:
        raise ParameterError("delta", allowed="left out: no column needs a list of texts", given=request.delta)
    known = [proposal for proposal in draft.proposals if proposal.role == FEATURE and not proposal.gaps]
    features = {proposal.column: dict(proposal.feature) for proposal in known}
    schema = wishes.schema(request.unit, plain_features(features))
    plan = plan_domains(wishes, request.unit, epsilon=request.epsilon, delta=request.delta)
    return PlannedPurchase(draft, wishes, schema, plan, likely)


def _check_label_type(info: TableInfo, name: str) -> None:
    """Refuse a label of a type that is neither predicted as a class nor as a number."""
    column = info.column(name)
    if column is not None and column.family not in (*LABEL_FAMILIES, *TARGET_FAMILIES, UNTYPED):
        raise SchemaError(
            f'the label "{name}" is {column.type}; a label is text, an integer, a boolean, or a number to predict.',
            hint="another --label, or a view that makes text of it",
        )


def rehearse_purchase(database: Database, purchase: PlannedPurchase, *, cap: object, **options: Any) -> bool:
    """Raise what registering by a purchase would refuse; return whether something is left to be bought.

    `options` are further arguments of `Database.register`. Nothing is written, and no row is read.
    """
    table = purchase.draft.table
    earlier = rehearse_registration(database.engine, database.book, table, purchase.likely, cap=cap, **options)
    known = None if earlier is None else bought_domains(database.engine, database.book, earlier)
    if purchase.plan is None or (known is not None and _covers(known, purchase.wishes)):
        return False
    _check_dealing_columns(purchase, earlier, holdout=options.get("holdout"))
    if purchase.plan.promise.approximate is not None:
        allowed = bool(options.get("allow_large"))
        note_large("buy", purchase.plan.nano_epsilon, allow_large=allowed, table=table)
    else:
        check_purchase_fits(database.book, table, earlier, cap=cap, costs=purchase.plan.nano_epsilon)
    return True


def _check_dealing_columns(purchase: PlannedPurchase, earlier: Dataset | None, *, holdout: object | None) -> None:
    """Refuse a hold-out whose rows a label would deal that is yet to be bought, where features are to be public.

    The label stands among the features until its classes are bought, so that it would deal rows to the two datasets.
    Where labels alone are private it must not, and once the purchase is paid the division cannot change.
    """
    columns: tuple[str, ...] = ()
    if earlier is not None and earlier.hold_out is not None:
        columns = earlier.hold_out.columns
    elif holdout is not None and purchase.schema is not None:
        columns = dealing_columns(purchase.schema)
    if purchase.likely.public_features and purchase.likely.label in columns:
        raise UsageError(
            f'the label "{purchase.likely.label}" would deal rows to the hold-out while its classes are bought, and '
            "where features are public it must not.",
            hint="--class VALUE for each class; or leave out the hold-out, or public features",
        )


def register_by_buying(database: Database, request: PurchaseRequest, *, cap: object, **options: Any) -> BoughtSchema:
    """Register a table, buy what its draft lacks, and register it anew under the completed draft.

    `options` are further arguments of `Database.register`. Where the same was bought before, and what followed was
    refused, it is not bought again.
    """
    completed, domains = complete_by_buying(database, request, cap=cap, **options)
    if domains is not None:
        options["replace"] = True
    options["allow_large"] = True  # a large cap was warned of before
    return _finish(database, request, completed, domains, cap=cap, **options)


def complete_by_buying(
    database: Database, request: PurchaseRequest, *, cap: object, **options: Any
) -> tuple[Draft, NoisyDomains | None]:
    """Register a table under a schema that says nothing yet, buy what its draft lacks, and return the completed draft.

    Where nothing has to be bought, nothing is registered, and there are no domains.
    """
    if request.draft.values_are_public:  # what can be refused is refused before a row is read
        rehearse_purchase(database, plan_purchase(database, request), cap=cap, **options)
        options["allow_large"] = True  # a large cap was warned of now
    purchase = plan_purchase(database, request, look_up=True)
    rehearse_purchase(database, purchase, cap=cap, **options)
    if purchase.plan is None or purchase.schema is None:
        return replace(purchase.draft, proposals=_complete(purchase.draft, None, None)), None
    table = purchase.draft.table
    dataset = database.register(table, purchase.schema, cap=cap, **{**options, "allow_large": True})
    domains = bought_domains(database.engine, database.book, dataset)
    if domains is None or not _covers(domains, purchase.wishes):
        if request.delta is not None and "approximate" not in database.book.kinds(dataset.payer):
            exact = parse_delta(request.delta)
            half = format_delta(set_aside(exact, purchase.wishes))
            database.set_cap(
                table, request.epsilon, kind="approximate", delta=exact, selection_delta=half, allow_large=True
            )  # a large price was warned of before
        domains = buy_domains(
            database.engine,
            database.book,
            dataset,
            purchase.wishes,
            epsilon=request.epsilon,
            delta=request.delta,
            who=database.who,
        )
    proposals = _complete(purchase.draft, domains, database.engine.table(table))
    return replace(purchase.draft, proposals=proposals, bought_rows=domains.rows), domains


def _with_declarations(draft: Draft, request: PurchaseRequest) -> Draft:
    """Return a draft with the domains that the owner declares in the place of those that it proposes."""
    known = {proposal.column.lower() for proposal in draft.proposals}
    for name in request.features:
        if name.lower() not in known:
            raise UnknownName(
                f'column in table "{draft.table}" called', name, [each.column for each in draft.proposals]
            )
    declared = {name.lower(): dict(feature) for name, feature in request.features.items()}
    left_out = {name.lower() for name in request.left_out}
    proposals = []
    for proposal in draft.proposals:
        if proposal.role == LABEL and proposal.column.lower() in declared:
            raise SchemaError(
                f'the label "{proposal.column}" is also declared as a feature.', hint="leave out one of the two"
            )
        if proposal.role == LABEL and (request.classes or request.target):
            feature: dict[str, Any] = {"values": request.classes}
            if request.target:
                feature = {"type": "numeric", "lower": request.target[0], "upper": request.target[1]}
            proposal = Proposal(proposal.column, LABEL, feature, origin=_DECLARED)
        elif proposal.role != LABEL and proposal.column.lower() in left_out:
            proposal = Proposal(proposal.column, LEFT_OUT, origin="by the owner")
        elif proposal.column.lower() in declared:
            proposal = Proposal(proposal.column, FEATURE, declared[proposal.column.lower()], origin=_DECLARED)
        elif request.unit.column is not None and proposal.column.lower() == request.unit.column.lower():
            proposal = Proposal(proposal.column, UNIT, origin="the privacy unit")
        proposals.append(proposal)
    unit = request.plain_unit.get("privacy_unit")
    return replace(draft, proposals=tuple(proposals), unit=unit, more=dict(request.more))


def _likely_schema(draft: Draft, label: Proposal, wishes: Wishes, request: PurchaseRequest) -> Schema:
    """Return the schema under which a table will be registered, with stand-ins in the place of what is bought.

    A stand-in is a domain that every column of its type can have, so what is refused is what the owner declared.
    """
    known = [proposal for proposal in draft.proposals if proposal.role == FEATURE and not proposal.gaps]
    stand_ins = wishes.schema(request.unit, ()).to_dict()["features"] if not wishes.is_empty else {}
    features = {name: feature for name, feature in stand_ins.items() if name != label.column}
    features |= {proposal.column: dict(proposal.feature) for proposal in known}
    if not features:
        raise SchemaError("no column is left that could be a feature.", hint="write a schema file: dpsql schema draft")
    declared: dict[str, Any] = {"label": label.column, **request.more, **request.plain_unit, "features": features}
    if label.column in wishes.columns_with_bounds:
        declared["target"] = {"lower": -1, "upper": 1}
    elif label.feature.get("type") == "numeric":
        declared["target"] = {"lower": label.feature["lower"], "upper": label.feature["upper"]}
    else:
        declared["classes"] = ["0", "1"] if label.gaps else label.feature["values"]
    return Schema.from_dict(declared)


def _finish(
    database: Database,
    request: PurchaseRequest,
    draft: Draft,
    domains: NoisyDomains | None,
    *,
    cap: object,
    **options: Any,
) -> BoughtSchema:
    """Register a table under a completed draft."""
    label = next(proposal for proposal in draft.proposals if proposal.role == LABEL)
    if label.gaps:
        spent = "" if domains is None else f" Epsilon {domains.epsilon} is spent (entry {domains.entry})."
        raise SchemaError(
            f'the classes of "{label.column}" stay unknown: {label.advice}.{spent}',
            hint="ask again with --class VALUE for each class and --replace; what was bought is not bought again",
        )
    declared: dict[str, Any] = {"label": label.column, **request.more}
    if label.feature.get("type") == "numeric":
        declared["target"] = {"lower": label.feature["lower"], "upper": label.feature["upper"]}
    else:
        declared["classes"] = label.feature["values"]
    declared |= request.plain_unit
    if domains is not None:
        declared.setdefault("rows", domains.rows)
    if draft.looked_up:
        declared["looked_up"] = list(draft.looked_up)
    declared["features"] = {
        proposal.column: dict(proposal.feature) for proposal in draft.proposals if proposal.role == FEATURE
    }
    if not declared["features"]:
        raise SchemaError("no column is left that could be a feature.", hint="write a schema file: dpsql schema draft")
    dataset = database.register(draft.table, declared, cap=cap, **options)
    return BoughtSchema(dataset, draft, domains)


def _wishes(draft: Draft, info: TableInfo, *, with_delta: bool) -> Wishes:
    """Return what has to be bought: missing bounds, lists of texts with a delta or cells of hashes, label's classes."""
    numbers: list[str] = []
    moments: list[tuple[str, str]] = []
    texts: list[str] = []
    hashed: list[str] = []
    label: str | None = None
    words: tuple[str, ...] = WORDS
    for proposal in draft.proposals:
        if not (proposal.is_used and proposal.gaps):
            continue
        column = info.column(proposal.column)
        family = column.family if column else ""
        kind = proposal.feature.get("type")
        if kind in DEFAULT_UNITS:
            moments.append((proposal.column, str(kind)))
        elif {"lower", "upper"} & set(proposal.gaps) or proposal.gaps == ("type",):
            numbers.append(proposal.column)
        elif with_delta and family in ("text", "untyped"):
            texts.append(proposal.column)
        elif proposal.role == LABEL:
            label = proposal.column
            words = possible_texts(column, CODES if family == "integer" else WORDS) if column else WORDS
        else:
            hashed.append(proposal.column)
    return Wishes(tuple(numbers), tuple(texts), label, tuple(moments), words, tuple(hashed))


def _covers(domains: NoisyDomains, wishes: Wishes) -> bool:
    """Whether what was bought before answers all that is wished for."""
    numbers = set(wishes.columns_with_bounds) <= set(domains.magnitudes)
    texts = set(wishes.texts) <= set(domains.asked) and set(wishes.hashed) <= set(domains.hashes)
    label = not wishes.label or (domains.label == wishes.label and set(wishes.words) <= set(domains.words))
    return numbers and texts and label


def _complete(draft: Draft, domains: NoisyDomains | None, info: TableInfo | None) -> tuple[Proposal, ...]:
    """Return the proposals of a draft with what was bought in the place of their gaps."""
    return tuple(
        _with_bought(proposal, domains, _reach(proposal, info)) if proposal.is_used and proposal.gaps else proposal
        for proposal in draft.proposals
    )


def _reach(proposal: Proposal, info: TableInfo | None) -> Reach:
    """Return which numbers a column can hold, by its type; dates and times have the years 1 to 9999."""
    kind = str(proposal.feature.get("type"))
    if kind in DEFAULT_UNITS:
        years = Dated(proposal.column, "0001-01-01", "9999-12-31", kind=kind)
        return Reach(years.lower, years.upper)
    column = info.column(proposal.column) if info else None
    if column is None:
        return Reach()
    limits, is_whole = type_limits(column), column.family == "integer"
    if limits.least is None or limits.most is None:
        return Reach(is_whole=is_whole)
    return Reach(float(limits.least), float(limits.most), is_whole)


def _with_bought(proposal: Proposal, domains: NoisyDomains | None, reach: Reach) -> Proposal:
    """Return one proposal with the domain that follows from what was bought, hashed, or left out with the reason."""
    if domains is None:
        return _as_hashed(proposal)
    cells = domains.hash_cells(proposal.column) if proposal.column in domains.hashes else ()
    origin = f"{BOUGHT}, entry {domains.entry}"
    name, is_label = proposal.column, proposal.role == LABEL
    if name in domains.magnitudes and not (proposal.gaps == ("type",) and not _is_number(domains, name)):
        bounds = domains.bounds(name, reach)
        if bounds is None:
            return _left_out(proposal, "too few of its numbers stand out of the noise, or all are zero")
        known = {bound: value for bound, value in proposal.feature.items() if value is not GAP}
        feature = _with_bounds(name, known, bounds)
        if feature is None:
            return _left_out(proposal, "its dates are beyond the years 1 to 9999")
        return replace(proposal, feature=feature, origin=origin, advice="", alternatives=())
    values = domains.classes() if is_label and domains.words else domains.texts(name)
    if is_label:
        return _label_with_classes(proposal, values, domains, origin)
    if values:
        feature = {"type": "categorical", "values": list(values)}
        return replace(proposal, feature=feature, origin=origin, advice="", alternatives=())
    if cells:
        feature = {"type": "hashed", "cells": WIDE_HASH_CELLS, "listed": list(cells)}
        return replace(proposal, feature=feature, origin=origin, advice="", alternatives=())
    return _as_hashed(proposal)


def _as_hashed(proposal: Proposal) -> Proposal:
    """Return a feature whose values nobody has listed as a hashed category."""
    feature = {"type": "hashed", "cells": HASH_CELLS}
    return replace(proposal, feature=feature, origin="hashed: its values are not known", advice="", alternatives=())


def _with_bounds(name: str, known: Mapping[str, Any], bounds: tuple[float, float]) -> dict[str, Any] | None:
    """Return a feature with bounds, as far as they were not known; those of dates and times as texts.

    Bounds of dates are cut off at the years 1 and 9999: far dates (infinity, 9999-12-31 for "no end") are beyond, once
    they are rounded to powers of two. None where nothing is left between them.
    """
    feature = {"type": "numeric", "lower": bounds[0], "upper": bounds[1], **known}
    if feature["type"] not in DEFAULT_UNITS:
        return feature
    years = Dated(name, "0001-01-01", "9999-12-31", kind=feature["type"])
    lower, upper = (min(max(years.number(feature[bound]), years.lower), years.upper) for bound in ("lower", "upper"))
    return Dated(name, lower, upper, kind=feature["type"]).declaration() if lower < upper else None


def _label_with_classes(proposal: Proposal, values: tuple[str, ...], domains: NoisyDomains, origin: str) -> Proposal:
    """Return a label with the classes that were bought, or with its gap and the reason for it."""
    if len(values) < 2:
        return replace(proposal, advice="fewer than two of its values stand out of the noise")
    if domains.words and domains.share_of_classes(values) < ENOUGH:
        return replace(proposal, advice="most rows have a value that is none of the words that were looked for")
    return replace(proposal, feature={"values": list(values)}, origin=origin, advice="", alternatives=())


def _left_out(proposal: Proposal, reason: str) -> Proposal:
    """Return a feature as left out; a label keeps its gap, with the reason."""
    if proposal.role == LABEL:
        return replace(proposal, advice=reason)
    return Proposal(proposal.column, LEFT_OUT, origin=reason)


def _is_number(domains: NoisyDomains, name: str) -> bool:
    """Whether most cells of a column without a type can be read as numbers."""
    cells = domains.magnitudes[name]
    return cells[MISSING] < MOSTLY * max(1, sum(cells))
