"""The methods, one file or package per `--method`. `get` finds one by its name, `get_fitting` one that fits a schema.

A new method is a new file: the class in `NAME.py`, or in `NAME/NAME.py`, is the method NAME, and nothing else lists it.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from dpsql.errors import UnknownName, UsageError
from dpsql.methods.base import Method, Parameter
from dpsql.schema import Schema

DEFAULT = "auto"
#: What methods share; these modules define none.
_NOT_METHODS = ("base", "shared")


def _load_method(module: pkgutil.ModuleInfo) -> Method:
    """Return the method that a module of this package defines."""
    path = f"{__name__}.{module.name}" + (f".{module.name}" if module.ispkg else "")
    (own_class,) = (
        value
        for value in vars(import_module(path)).values()
        if isinstance(value, type) and Method in value.__mro__ and value.__module__ == path
    )
    method: Method = own_class()
    return method


#: Every method by its name, the default first.
METHODS: dict[str, Method] = {
    method.name: method
    for method in sorted(
        (_load_method(module) for module in pkgutil.iter_modules(__path__) if module.name not in _NOT_METHODS),
        key=lambda method: (method.name != DEFAULT, method.name),
    )
}
#: Every parameter of any method: its name -> each method that takes it -> what it is to that method.
PARAMETERS: dict[str, dict[str, Parameter]] = {}
for _method in METHODS.values():
    for _name, _parameter in _method.parameters.items():
        PARAMETERS.setdefault(_name, {})[_method.name] = _parameter
#: The method for numeric targets that a front takes when none is named.
REGRESSION = "rdt"


def get(name: str) -> Method:
    """Return the method of that name, or raise UnknownName with the nearest ones.

    >>> get("rosnam").name
    'rosnam'
    """
    if name not in METHODS:
        raise UnknownName("method", name, METHODS, hint="dpsql methods")
    return METHODS[name]


def get_fitting(name: str, schema: Schema) -> Method:
    """Return the method of that name, or raise UsageError when it cannot predict what the schema's label is.

    The default is the best method that we have: for a numeric target that is another one than for classes.
    """
    method = get(REGRESSION if name == DEFAULT and schema.target is not None else name)
    if not schema.has_label:
        raise UsageError(
            "this table has no label: its rows can shape trees for another table, and no more.",
            hint="register it again with its label (--label COLUMN --replace), or let its rows shape other trees: "
            "dpsql train --table LABELLED --method sspe --unlabelled THIS",
        )
    if schema.target is not None and not method.regression:
        able = [candidate.name for candidate in METHODS.values() if candidate.regression]
        raise UsageError(
            f'method "{name}" predicts classes, but the label "{schema.label}" is a number. '
            f"Methods that predict numbers: {', '.join(able)}.",
            hint=f"--method {able[0]}",
        )
    return method
