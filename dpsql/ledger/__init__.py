"""The ledger: exact budgets, charges before queries, a hash chain and a receipt outside the file."""

from dpsql.ledger.amount import format_delta, format_epsilon, parse_delta, parse_epsilon
from dpsql.ledger.anchor import anchor_path
from dpsql.ledger.block import Block
from dpsql.ledger.budget import Budget, Share
from dpsql.ledger.charge import KINDS, NEIGHBOURS, Charge, measure
from dpsql.ledger.entry import Entry
from dpsql.ledger.ledger import Ledger

__all__ = [
    "KINDS",
    "NEIGHBOURS",
    "Block",
    "Budget",
    "Charge",
    "Entry",
    "Ledger",
    "Share",
    "anchor_path",
    "format_delta",
    "format_epsilon",
    "measure",
    "parse_delta",
    "parse_epsilon",
]
