"""Which columns name or describe a single person, by their names and types: they are no features.

A name alone decides nothing for a type that it does not fit: `email BOOLEAN` says whether there is one.
"""

from __future__ import annotations

import re

from dpsql.engines.base import Column

#: Families of types that can hold an identifier of each kind.
_TEXTS = ("text", "untyped")
_NUMBERS = ("text", "untyped", "integer")
_KEYS = ("text", "untyped", "integer", "other")
#: Who can have several rows: such an identifier is proposed as privacy unit before others.
_PEOPLE = frozenset(
    [
        "person",
        "patient",
        "user",
        "customer",
        "client",
        "member",
        "subject",
        "account",
        "household",
        "employee",
        "student",
        "respondent",
        "participant",
        "individual",
        "citizen",
        "insured",
        "applicant",
        "visitor",
        "player",
        "driver",
        "donor",
        "owner",
        "subscriber",
    ]
)
#: What a number or a name must be of, in order to point to a person.
_NUMBERED = _PEOPLE | frozenset(
    [
        "invoice",
        "order",
        "ticket",
        "passport",
        "policy",
        "card",
        "serial",
        "social",
        "insurance",
        "contract",
        "case",
        "record",
        "file",
        "tax",
        "license",
        "national",
    ]
)
#: What a phone is called, also with a number behind it: `tel_nr`.
_PHONES = frozenset(["phone", "telephone", "tel", "mobile", "fax"])
_NAMED = _PEOPLE | frozenset(
    ["first", "last", "family", "given", "full", "middle", "maiden", "doctor", "contact", "nick"]
)
#: Words of which one, as the last word of a column's name, says what the column holds.
_LAST_WORDS = (
    (
        "an identifier",
        _KEYS,
        frozenset(["id", "ids", "uuid", "guid", "key", "keys", "ssn", "mrn", "iban", "imei", "vin"]),
    ),
    ("an e-mail address", _TEXTS, frozenset(["email", "emails", "mail"])),
    ("a phone number", _NUMBERS, _PHONES | frozenset(["phonenumber"])),
    ("an address", _TEXTS, frozenset(["address", "addr", "street"])),
    ("a zip code", _NUMBERS, frozenset(["zip", "zipcode", "postcode", "postalcode", "plz"])),
    (
        "a name",
        _TEXTS,
        frozenset(["surname", "firstname", "lastname", "forename", "fullname", "username", "nickname", "login"]),
    ),
    (
        "free text",
        _TEXTS,
        frozenset(
            [
                "comment",
                "comments",
                "note",
                "notes",
                "description",
                "remark",
                "remarks",
                "message",
                "body",
                "freetext",
                "narrative",
                "memo",
                "bio",
                "text",
                "url",
                "link",
                "website",
            ]
        ),
    ),
)
_LAST_TWO = {
    ("e", "mail"): ("an e-mail address", _TEXTS),
    ("email", "address"): ("an e-mail address", _TEXTS),
    ("zip", "code"): ("a zip code", _NUMBERS),
    ("post", "code"): ("a zip code", _NUMBERS),
    ("postal", "code"): ("a zip code", _NUMBERS),
    ("id", "number"): ("an identifier", _KEYS),
}


def name_words(name: str) -> list[str]:
    """Return the words of a column's name, in lower case.

    >>> name_words("patientId"), name_words("Date-of birth_2"), name_words("paid")
    (['patient', 'id'], ['date', 'of', 'birth', '2'], ['paid'])
    """
    return re.findall(r"[^\W_]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())


def why_identifier(column: Column) -> str | None:
    """Return what a column holds of a single person, by its name and type; None where they do not tell.

    >>> [why_identifier(Column(name, "VARCHAR", "text")) for name in ("email", "zip_code", "city", "patient_name")]
    ['an e-mail address', 'a zip code', None, 'a name']
    >>> why_identifier(Column("email", "BOOLEAN", "boolean")) is None
    True
    """
    if column.type.lower() == "uuid":
        return "an identifier"
    words = name_words(column.name)
    if not words:
        return None
    kind, families = _kind(words)
    return kind if column.family in families else None


def _kind(words: list[str]) -> tuple[str | None, tuple[str, ...]]:
    """Return what a name says, and the families of types for which that holds."""
    before, last = words[-2] if len(words) > 1 else "", words[-1]
    if (before, last) in _LAST_TWO:
        return _LAST_TWO[before, last]
    for kind, families, last_words in _LAST_WORDS:
        if last in last_words:
            return kind, families
    if last in ("number", "no", "nr", "num") and before in _PHONES:
        return "a phone number", _NUMBERS
    if last in ("number", "no", "nr", "num") and before in _NUMBERED:
        return "an identifier", _KEYS
    if last == "name" and (not before or before in _NAMED):
        return "a name", _TEXTS
    return None, ()


def unit_rank(column: Column) -> int:
    """Return how well a column would do as privacy unit: 0 for a person's identifier, 1 for others, 2 for no key.

    >>> [unit_rank(Column(name, "BIGINT", "integer")) for name in ("person_id", "visit_id", "zip")]
    [0, 1, 2]
    """
    words = name_words(column.name)
    if why_identifier(column) != "an identifier":
        return 2
    return 0 if _PEOPLE & set(words) else 1
