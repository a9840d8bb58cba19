"""The methods, one file per paper. `get` finds one by its name, `get_fitting` one that can predict a schema's label."""

from __future__ import annotations

from dpsql.errors import UnknownName, UsageError
from dpsql.methods.auto.auto import Auto
from dpsql.methods.base import Method, Parameter
from dpsql.methods.fs import Fs
from dpsql.methods.id3 import Id3
from dpsql.methods.maxtree import Maxtree
from dpsql.methods.mrf.mrf import Mrf
from dpsql.methods.pte import Pte
from dpsql.methods.rdt import Rdt
from dpsql.methods.rosnam import Rosnam
from dpsql.methods.snr import Snr
from dpsql.methods.spe import Spe
from dpsql.methods.sspe import Sspe
from dpsql.methods.ssrdt import SsRdt
from dpsql.schema import Schema

METHODS: dict[str, Method] = {
    method.name: method
    for method in (Auto(), Rosnam(), Rdt(), Id3(), Snr(), Spe(), Sspe(), Pte(), SsRdt(), Fs(), Maxtree(), Mrf())
}
#: Every parameter of any method: its name -> each method that takes it -> what it is to that method.
PARAMETERS: dict[str, dict[str, Parameter]] = {}
for _method in METHODS.values():
    for _name, _parameter in _method.parameters.items():
        PARAMETERS.setdefault(_name, {})[_method.name] = _parameter
DEFAULT = "auto"
#: The method for numeric targets that a front takes when none is named.
REGRESSION = "rdt"


def get(name: str) -> Method:
    """Return the method of that name, or raise UnknownName with the nearest ones.

    >>> get("rosnam").name
    'rosnam'
    """
    if name not in METHODS:
        raise UnknownName("method", name, METHODS)
    return METHODS[name]


def get_fitting(name: str, schema: Schema) -> Method:
    """Return the method of that name, or raise UsageError when it cannot predict what the schema's label is.

    The default is the best method that we have: for a numeric target that is another one than for classes.
    """
    method = get(REGRESSION if name == DEFAULT and schema.target is not None else name)
    if not schema.has_label:
        raise UsageError(
            "this table has no label: its rows can shape trees for another table, and no more.",
            hint="dpsql train --table LABELLED --method sspe --unlabelled THIS",
        )
    if schema.target is not None and not method.regression:
        able = [candidate.name for candidate in METHODS.values() if candidate.regression]
        raise UsageError(
            f'method "{name}" predicts classes, but the label "{schema.label}" is a number. '
            f"Methods that predict numbers: {', '.join(able)}.",
            hint=f"--method {able[0]}",
        )
    return method
