"""The methods, one file per paper. `get` finds one by its name."""

from __future__ import annotations

from dpsql.errors import UnknownName
from dpsql.methods.base import Method
from dpsql.methods.id3 import Id3
from dpsql.methods.rdt import Rdt
from dpsql.methods.rosnam import Rosnam
from dpsql.methods.snr import Snr

METHODS: dict[str, Method] = {method.name: method for method in (Rosnam(), Rdt(), Id3(), Snr())}
DEFAULT = "rosnam"


def get(name: str) -> Method:
    """Return the method of that name, or raise UnknownName with the nearest ones.

    >>> get("rosnam").name
    'rosnam'
    """
    if name not in METHODS:
        raise UnknownName("method", name, METHODS)
    return METHODS[name]
