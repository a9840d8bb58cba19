"""The ledger: exact budgets, charges before queries, a hash chain and a receipt outside the file."""

from dpsql.ledger.amount import format_delta, format_epsilon, parse_delta, parse_epsilon
from dpsql.ledger.budget import Budget, Share
from dpsql.ledger.charge import KINDS, NEIGHBOURS, Charge, charge_measure
from dpsql.ledger.entry import Entry
from dpsql.ledger.ledger import Ledger
from dpsql.ledger.limits import Limits, Standing, limit_details
from dpsql.ledger.receipt import anchor_path
from dpsql.ledger.transaction import Block

__all__ = [
    "KINDS",
    "NEIGHBOURS",
    "Block",
    "Budget",
    "Charge",
    "Entry",
    "Ledger",
    "Limits",
    "Share",
    "Standing",
    "anchor_path",
    "format_delta",
    "format_epsilon",
    "limit_details",
    "charge_measure",
    "parse_delta",
    "parse_epsilon",
]
