"""Every engine against the protocols, for the type checker: nothing here is called."""

from __future__ import annotations

from dpsql.engines.base import Engine, Transaction, Workspace
from dpsql.engines.chdb import engine as chdb_engine
from dpsql.engines.chdb.vocabulary import ChdbVocabulary
from dpsql.engines.chdb.workspace import ChdbWorkspace
from dpsql.engines.duckdb import open_database as duckdb_opening
from dpsql.engines.duckdb.cursor import DuckDBTransaction, DuckDBWorkspace
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.lists import DuckDBLists
from dpsql.engines.duckdb.vocabulary import DuckDBVocabulary
from dpsql.engines.postgres import engine as postgres_engine
from dpsql.engines.postgres.cursor import PostgresTransaction, PostgresWorkspace
from dpsql.engines.postgres.vocabulary import PostgresRowByRow, PostgresVocabulary
from dpsql.engines.spark import engine as spark_engine
from dpsql.engines.spark.cursor import SparkWorkspace
from dpsql.engines.spark.vocabulary import SparkVocabulary
from dpsql.engines.spec import EngineModule
from dpsql.ledger.transaction import Block
from dpsql.spelling import Lists, RowByRow, Vocabulary


def modules() -> list[EngineModule]:
    """The modules that specs name."""
    return [chdb_engine, duckdb_opening, postgres_engine, spark_engine]


def engines(
    first: chdb_engine.ChdbEngine,
    second: DuckDBEngine,
    third: postgres_engine.PostgresEngine,
    fourth: spark_engine.SparkEngine,
) -> list[Engine]:
    """The engines themselves."""
    return [first, second, third, fourth]


def workspaces(
    first: ChdbWorkspace, second: DuckDBWorkspace, third: PostgresWorkspace, fourth: SparkWorkspace
) -> list[Workspace]:
    """Their workspaces."""
    return [first, second, third, fourth]


def transactions(first: DuckDBTransaction, second: PostgresTransaction, third: Block) -> list[Transaction]:
    """Their transactions, and the ledger's."""
    return [first, second, third]


def vocabularies() -> list[Vocabulary]:
    """Their words."""
    return [ChdbVocabulary(), DuckDBVocabulary(), PostgresVocabulary(), SparkVocabulary()]


def parts() -> tuple[Lists, RowByRow]:
    """Parts of their words."""
    return DuckDBLists(), PostgresRowByRow()
