"""A plugin of dbt-duckdb: dpsql can be called in the SQL of every dbt model and test.

    # profiles.yml
    plugins:
      - module: dpsql.api.dbt_plugin

dbt-duckdb makes one connection to the database and a cursor for each model. The connection is attached once; dpsql's
macros are temporary, so each cursor gets its own. The class has what dbt-duckdb asks of a plugin, without its base
class, so that nothing of dbt is needed to import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.api.duckdb_sql import attach, macro_statements
from dpsql.engines.duckdb.engine import Connection
from dpsql.errors import UnknownName

_SETTINGS = ("who",)


class Plugin:
    """Attaches dpsql to dbt's connection. `config: {who: NAME}` in the profile is the name in the ledger."""

    def __init__(self, name: str, plugin_config: Mapping[str, Any], credentials: object = None) -> None:
        own = plugin_config if credentials is None else _without_settings(plugin_config, credentials)
        for setting in own:
            if setting not in _SETTINGS:
                raise UnknownName("setting of the dbt plugin", setting, _SETTINGS)
        self.name = name
        self.creds = credentials
        self._who = own.get("who")

    def update_connection_config(self, creds: object, config: dict[str, Any]) -> None:
        """Change nothing: any connection will do."""

    def configure_connection(self, conn: Connection) -> None:
        """Make dpsql's functions known to the database that was opened."""
        attach(conn, who=None if self._who is None else str(self._who))

    def configure_cursor(self, cursor: Connection) -> None:
        """Create dpsql's macros for one cursor."""
        for statement in macro_statements():
            cursor.execute(statement)


def _without_settings(config: Mapping[str, Any], credentials: object) -> dict[str, Any]:
    """Return a plugin's own configuration: dbt-duckdb puts DuckDB's settings beside it."""
    settings = getattr(credentials, "settings", None) or {}
    return {name: value for name, value in config.items() if name not in settings}
