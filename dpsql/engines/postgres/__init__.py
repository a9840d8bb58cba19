"""PostgreSQL: the engine, its catalog, its words, its wall around analysts."""

from __future__ import annotations

from urllib.parse import urlsplit

from dpsql.engines.spec import EngineSpec


def hide_password(url: str) -> str:
    """Return a URL without what follows the user's name and without its settings, all else as it is.

    >>> hide_password("postgresql://ann:secret@host/data?password=secret")
    'postgresql://ann@host/data'
    """
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{hosts}{parts.path}"


SPEC = EngineSpec(
    name="postgres",
    title="PostgreSQL",
    module="dpsql.engines.postgres.engine",
    drivers=("psycopg",),
    prefixes=("postgresql://", "postgres://"),
    packages="psycopg",
    behind_ibis=True,
    hide_secrets=hide_password,
)
