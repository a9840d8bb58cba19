"""Brings an older ledger to the present format: once, in one transaction, on a ledger that holds together.

The upgrade is an event of the chain itself, so that it is proved with everything before it. Hashes of older events stay
as they are: they cover labels, not column names (`chain.HASHED`).

From 1 to 2: the column of amounts is named `amount`, writers queue by `turn`, and a registration identifies its table
by the database's own identity of it. Format 1 identified tables by name alone, so the table that bears the name at the
moment of the upgrade is taken for the registered one, as that format would have done. A table that can no longer be
identified is left without an identity: no run reads it before its owner has registered it anew.

From 2 to 3: no table changes. A registration may have a hold-out, whose units older code would train on, and a cap may
be that of all analysts without one of their own, which older code would not hold them to.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from dpsql.engines import sql_files
from dpsql.engines.base import Engine, TableInfo
from dpsql.errors import UsageError
from dpsql.ledger import formats
from dpsql.ledger.chain import Event, parse_json_column
from dpsql.ledger.charge import canonical_json
from dpsql.ledger.transaction import Block

#: The file of `sql/upgrade/` that leads to each format, and perhaps one more of that name for a dialect.
STEPS = {2: "0002_amounts.sql", 3: "0003_hold_outs.sql"}
#: Who made the event: nobody asked for it.
WHO = "dpsql"
#: The identity of a registered table that can no longer be identified: no table has it.
LOST_IDENTITY = "unknown since the upgrade"


def upgrade(into: Block, engine: Engine) -> None:
    """Bring the ledger of an open block to the present format. Does nothing where another writer did it meanwhile."""
    before = into.state.replayed.format
    if before == formats.LEDGER:
        return
    for number in range(before + 1, formats.LEDGER + 1):
        for statement in _statements(STEPS[number], engine.own_dialect):
            into.run(statement)
    formats.record_parts(into)
    formats.record(into, "ledger", formats.LEDGER)
    details = {"from": before, "to": formats.LEDGER}
    into.append(Event(0, "upgrade", 0, who=WHO, details=canonical_json("details", details)))
    if before == formats.FIRST:
        _identify_tables(into, engine)


def _statements(name: str, dialect: str) -> list[str]:
    """Return the statements of an upgrade, and those that only this dialect has."""
    own = f"{dialect}/upgrade/{name}"
    return sql_files.statements(f"upgrade/{name}") + (sql_files.statements(own) if sql_files.exists(own) else [])


def _identify_tables(into: Block, engine: Engine) -> None:
    """Register every dataset anew, as it stands, with the identity of its table."""
    last = {event.dataset: event for event in into.registrations()}
    for event in last.values():
        details = parse_json_column(event.details)
        if isinstance(details.get("base"), str):
            account = into.state.replayed.accounts[event.dataset, event.kind]
            new = canonical_json("details", details | _identities(into, engine, event.table_name, details["base"]))
            into.append(dataclasses.replace(event, entry_id=0, cap=account.cap, details=new, who=WHO))


def _identities(into: Block, engine: Engine, table: str, base: str) -> dict[str, Any]:
    """Return where a dataset's table is, and how the database identifies the stored table behind it."""
    shown, stored = _find(engine, table), _find_stored(engine, base)
    if stored is None:
        schema, _, name = base.partition(".")
        described: dict[str, Any] = {"schema": schema, "table": name, "identity": LOST_IDENTITY, "rows": []}
    else:  # identified even where its view is gone: its rows have this budget, whatever the table is called later
        identified = engine.identify(into, stored)
        described = {
            "schema": identified.schema,
            "table": identified.table,
            "identity": identified.identity,
            "rows": sorted(identified.rows),
        }
    place = [described["schema"], described["table"]] if shown is None else [shown.schema, shown.table]
    return {"place": place, "base": described}


def _find(engine: Engine, name: str) -> TableInfo | None:
    """Return what the catalog says of a table, or None where no table or several have that name."""
    try:
        return engine.table(name)
    except UsageError:
        return None


def _find_stored(engine: Engine, base: str) -> TableInfo | None:
    """Return the stored table that format 1 wrote down as "schema.table"; None where no table or several fit.

    Either name may have dots of its own.
    """
    words = base.split(".")
    names = ((".".join(words[:length]), ".".join(words[length:])) for length in range(1, len(words)))
    tables = [info for schema, name in names if (info := engine.table(name, schema=schema)) is not None]
    return tables[0] if len(tables) == 1 and tables[0].kind == "table" else None
