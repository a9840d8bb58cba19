"""What an owner declares about a private table: features with public domains, the label, the privacy unit.

A schema consists of plain values and knows nothing of any database. `schema.py` has the rules, `plain_values.py` reads
and writes the values as they stand in a file, `schema_file.py` reads YAML and JSON.
"""

from dpsql.schema.dated import Dated
from dpsql.schema.features import (
    CELLS,
    DEFAULT_STEPS,
    MAX_VALUES,
    Boolean,
    Categorical,
    Feature,
    Numeric,
    Target,
    category_text,
    check_name,
    finite_number,
    whole_number,
)
from dpsql.schema.hashed import HASH_CELLS, HASH_DIGITS, WIDE_HASH_CELLS, Hashed, hashed_cell
from dpsql.schema.schema import Schema
from dpsql.schema.unit import Unit

__all__ = [
    "CELLS",
    "MAX_VALUES",
    "DEFAULT_STEPS",
    "HASH_CELLS",
    "HASH_DIGITS",
    "WIDE_HASH_CELLS",
    "Boolean",
    "Categorical",
    "Dated",
    "Feature",
    "Hashed",
    "Numeric",
    "Schema",
    "Target",
    "Unit",
    "category_text",
    "check_name",
    "finite_number",
    "hashed_cell",
    "whole_number",
]
