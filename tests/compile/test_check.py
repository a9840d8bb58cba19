"""The second lock: aggregates over a public grid pass, everything else is refused."""

from __future__ import annotations

import numpy as np
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.compile.check import COMMON_FUNCTIONS, NotAggregate, check_cached_rows, check_statement
from dpsql.compile.count import histograms as splits
from dpsql.compile.count import leaves as counts
from dpsql.compile.count.leaves import Part, Slice
from dpsql.engines.chdb.vocabulary import ChdbVocabulary
from dpsql.engines.duckdb.vocabulary import DuckDBVocabulary
from dpsql.engines.postgres.vocabulary import PostgresVocabulary
from dpsql.engines.spark.vocabulary import SparkVocabulary
from dpsql.schema import Schema
from dpsql.spelling import Vocabulary
from dpsql.trees.grid import axes
from tests.compile.running import KEYS
from tests.rows import any_forest, schemas, source_of

WORDS = DuckDBVocabulary()
VOCABULARIES: list[Vocabulary] = [ChdbVocabulary(), WORDS, PostgresVocabulary(), SparkVocabulary()]

ALLOWED = {
    "counts by leaf": "SELECT node AS leaf, class, COUNT(*) AS rows FROM t GROUP BY node, class",
    "one count": "SELECT COUNT(*) AS rows FROM main.people",
    "a filtered count": "SELECT COUNT(*) AS rows FROM main.people WHERE age < 30",
    "a sum of zeros and ones": "SELECT SUM(CASE WHEN age < 30 THEN 1 ELSE 0 END) AS rows FROM main.people",
    "a power that stays a double": "SELECT COUNT(*) FROM main.people WHERE EXP(LEAST(GREATEST(x, -300.0e0), 0)) < 0.5",
    "a logarithm of what is above 0": "SELECT COUNT(*) FROM main.people WHERE LN(GREATEST(x, 0.001)) < 0.5",
    "a count of rows by their largest score": (
        "WITH w AS (SELECT row, MAX(score) AS best FROM main.people GROUP BY row) "
        "SELECT COUNT(CASE WHEN best = 1 THEN 1 END) AS right_0 FROM w"
    ),
    "a cast count": "SELECT CAST(COUNT(*) AS BIGINT) AS rows FROM main.people",
}

REFUSED = {
    "a power that can overflow": "SELECT COUNT(*) FROM main.people WHERE EXP(x) < 0.5",
    "a power that can underflow": "SELECT COUNT(*) FROM main.people WHERE EXP(LEAST(x, 0)) < 0.5",
    "a power up to 1": "SELECT COUNT(*) FROM main.people WHERE EXP(LEAST(GREATEST(x, -300.0e0), 1)) < 0.5",
    "a power up to a column": "SELECT COUNT(*) FROM main.people WHERE EXP(LEAST(x, y)) < 0.5",
    "a logarithm of anything": "SELECT COUNT(*) FROM main.people WHERE LN(x) < 0.5",
    "a logarithm of 0": "SELECT COUNT(*) FROM main.people WHERE LN(GREATEST(x, 0)) < 0.5",
    "raw rows": "SELECT age FROM main.people",
    "star": "SELECT * FROM main.people",
    "star beside a count": "SELECT *, COUNT(*) FROM main.people",
    "group by a column": "SELECT age, COUNT(*) FROM main.people GROUP BY age",
    "a column under a key's name": "SELECT age AS node, COUNT(*) FROM main.people GROUP BY age",
    "group by a hidden column": "SELECT node, COUNT(*) FROM main.people GROUP BY node, age",
    "group by a hidden expression": "SELECT node, COUNT(*) FROM main.people GROUP BY node, age % 2",
    "group by position": "SELECT node, COUNT(*) FROM main.people GROUP BY 1",
    "group by all": "SELECT node, COUNT(*) FROM main.people GROUP BY ALL",
    "rollup": "SELECT node, COUNT(*) FROM main.people GROUP BY ROLLUP (node)",
    "cube": "SELECT node, COUNT(*) FROM main.people GROUP BY CUBE (node)",
    "grouping sets": "SELECT node, COUNT(*) FROM main.people GROUP BY GROUPING SETS ((node), ())",
    "a key without its group": "SELECT node, COUNT(*) FROM main.people",
    "having": "SELECT node, COUNT(*) FROM main.people GROUP BY node HAVING COUNT(*) > 5",
    "qualify": "SELECT node, COUNT(*) FROM main.people GROUP BY node QUALIFY ROW_NUMBER() OVER (PARTITION BY node) = 1",
    "min": "SELECT MIN(age) FROM main.people",
    "max": "SELECT MAX(age) FROM main.people",
    "max of each leaf": "SELECT node, MAX(age) FROM main.people GROUP BY node",
    "max beside a count": "SELECT COUNT(*) AS rows, MAX(age) AS largest FROM main.people",
    "max under a cast": "SELECT CAST(MAX(age) AS BIGINT) AS rows FROM main.people",
    "sum of a max": "WITH w AS (SELECT MAX(age) AS m FROM main.people) SELECT SUM(m) FROM w",
    "max as a key": "WITH w AS (SELECT MAX(age) AS m FROM main.people) SELECT m, COUNT(*) FROM w GROUP BY m",
    "average": "SELECT AVG(age) FROM main.people",
    "median": "SELECT MEDIAN(age) FROM main.people",
    "quantile": "SELECT QUANTILE_CONT(age, 0.5) FROM main.people",
    "any value": "SELECT ANY_VALUE(age) FROM main.people",
    "first": "SELECT FIRST(age) FROM main.people",
    "sum of a column": "SELECT SUM(salary) FROM main.people",
    "sum of a wide case": "SELECT SUM(CASE WHEN age < 30 THEN 1000 ELSE 0 END) FROM main.people",
    "sum of a case without else": "SELECT SUM(CASE WHEN age < 30 THEN salary END) FROM main.people",
    "string_agg": "SELECT STRING_AGG(name, ',') FROM main.people",
    "array_agg": "SELECT ARRAY_AGG(name) FROM main.people",
    "histogram": "SELECT HISTOGRAM(age) FROM main.people",
    "approximate count": "SELECT APPROX_COUNT_DISTINCT(name) FROM main.people",
    "count distinct": "SELECT COUNT(DISTINCT name) FROM main.people",
    "distinct": "SELECT DISTINCT node, COUNT(*) FROM main.people GROUP BY node",
    "distinct inside": "WITH x AS (SELECT DISTINCT name FROM main.people) SELECT COUNT(*) FROM x",
    "order": "SELECT node, COUNT(*) FROM main.people GROUP BY node ORDER BY COUNT(*)",
    "limit": "SELECT node, COUNT(*) FROM main.people GROUP BY node LIMIT 1",
    "limit inside": "SELECT COUNT(*) FROM (SELECT * FROM main.people LIMIT 10)",
    "offset": "SELECT COUNT(*) FROM main.people OFFSET 1",
    "sample": "SELECT COUNT(*) FROM main.people TABLESAMPLE 10%",
    "union": "SELECT COUNT(*) FROM main.people UNION ALL SELECT age FROM main.people",
    "union inside": "WITH x AS (SELECT a FROM main.p UNION ALL SELECT a FROM main.p) SELECT COUNT(*) FROM x",
    "except inside": "WITH x AS (SELECT a FROM main.p EXCEPT SELECT a FROM q) SELECT COUNT(*) FROM x",
    "self join": "SELECT COUNT(*) FROM main.people AS a JOIN main.people AS b ON a.city = b.city",
    "second table": "SELECT COUNT(*) FROM main.people AS a JOIN main.visits AS b ON a.id = b.id",
    "subquery as a result": "SELECT (SELECT age FROM main.people) AS leaf, COUNT(*) FROM t",
    "window": "SELECT COUNT(*) OVER (PARTITION BY age) FROM main.people",
    "arithmetic on a count": "SELECT COUNT(*) + MAX(age) FROM main.people",
    "unknown function": "SELECT COUNT(*) FROM main.people WHERE secret_function(age)",
    "failing function": "SELECT COUNT(*) FROM main.people WHERE ERROR(name)",
    "random": "SELECT COUNT(*) FROM main.people WHERE RANDOM() < 0.5",
    "regular expression": "SELECT COUNT(*) FROM main.people WHERE REGEXP_MATCHES(name, 'a')",
    "file": "SELECT COUNT(*) FROM READ_CSV('people.csv')",
    "unnest": "SELECT COUNT(*) FROM main.people, UNNEST(tags)",
    "insert": "INSERT INTO t SELECT COUNT(*) FROM main.people",
    "create": "CREATE TABLE t AS SELECT COUNT(*) AS n FROM main.people",
    "update": "UPDATE main.people SET age = 0",
    "delete": "DELETE FROM main.people",
    "drop": "DROP TABLE main.people",
    "set": "SET threads = 1",
    "copy": "COPY main.people TO 'stolen.csv'",
}


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_an_aggregate_passes(name: str) -> None:
    """A count over a public grid is let through."""
    query = sqlglot.parse_one(ALLOWED[name], dialect="duckdb")
    assert check_statement(query, WORDS) is None


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_anything_else_is_refused(name: str) -> None:
    """A query that could show more than counts on a public grid is refused."""
    with pytest.raises(NotAggregate):
        check_statement(sqlglot.parse_one(REFUSED[name], dialect="duckdb"), WORDS)


MAP = "SELECT COUNT(*) FROM main.people WHERE try_element_at(map({}), a) < 1"


def test_a_map_of_constants_passes_where_there_are_maps() -> None:
    """A map of a row's own values could have a key twice, and fail; no other database of ours has maps at all."""
    constants, values = (sqlglot.parse_one(MAP.format(pairs), dialect="duckdb") for pairs in ("'a', 1", "a, b"))
    assert check_statement(constants, SparkVocabulary()) is None
    for query, vocabulary in ((values, SparkVocabulary()), (constants, WORDS), (values, WORDS)):
        with pytest.raises(NotAggregate, match="function"):
            check_statement(query, vocabulary)


@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=lambda words: words.dialect)
def test_functions_of_another_database_are_refused(vocabulary: Vocabulary) -> None:
    """Each function that one vocabulary declares passes in its own statements, and in no other's unless shared."""
    for function in sorted(frozenset().union(*(other.functions for other in VOCABULARIES)) - {"map"}):
        call = exp.Anonymous(this=function.upper(), expressions=[exp.column("a")])
        query = exp.select("COUNT(*)").from_("main.people").where(exp.LT(this=call, expression=exp.Literal.number(1)))
        if function in vocabulary.functions:
            assert check_statement(query, vocabulary) is None
            continue
        with pytest.raises(NotAggregate, match=f"function {function} is not on the list"):
            check_statement(query, vocabulary)


def test_no_vocabulary_allows_an_aggregate_or_a_random_number() -> None:
    """What a database declares is total and works on one row: nothing of the kind that the guard is there to refuse."""
    aggregates = {cls.sql_names()[0].lower() for cls in exp.ALL_FUNCTIONS if issubclass(cls, exp.AggFunc)}
    forbidden = aggregates | {"rand", "random", "error", "raise_error", "sleep", "read_csv", "query"}
    for vocabulary in VOCABULARIES:
        assert not vocabulary.functions & forbidden
        assert not vocabulary.functions & COMMON_FUNCTIONS


@settings(max_examples=12)
@given(
    schema=st.booleans().flatmap(lambda unit: schemas(most=12, unit=unit)),
    shared=st.booleans(),
    part=st.sampled_from([Part(), Part(1, 3)]),
    seed=st.integers(0, 2**32 - 1),
)
@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=lambda words: words.dialect)
def test_every_built_statement_passes(
    vocabulary: Vocabulary, schema: Schema, shared: bool, part: Part, seed: int
) -> None:
    """Whatever the database, the schema, the forest and the part: what the compiler builds is an aggregate."""
    forest = any_forest(axes(schema), trees=3, depth=2, seed=seed)
    source, trees = source_of(schema), Slice(shared, 1, 7)
    at_nodes = counts.rows_at_nodes(source, forest, vocabulary, KEYS, trees, part)
    waiting = counts.walk_on("kept_0", forest, 1, vocabulary)
    asks = splits.Asks.of(np.zeros((forest.leaves, 1), np.int64))
    built = [
        counts.leaf_counts(source, forest, vocabulary, KEYS, trees, part),
        counts.row_count(source, vocabulary, KEYS, part),
        splits.histograms(*at_nodes, len(forest.axes), asks, by_class=True),
        splits.histograms(*at_nodes, len(forest.axes), asks, by_class=False),
        splits.histograms(*waiting, len(forest.axes), asks, by_class=True),
        counts.count_by_leaf(*waiting),
    ]
    assert [check_statement(statement.query, vocabulary) for statement in built] == [None] * 6
    assert (
        check_cached_rows(
            counts.rows_at_nodes_statement(source, forest, vocabulary, KEYS, trees, part).query, vocabulary
        )
        is None
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT node, class, age FROM depth_1",
        "SELECT node, class, word_0 + 1 AS word_0 FROM depth_1",
        "SELECT node, COUNT(*) AS class FROM depth_1 GROUP BY node",
        "SELECT node, class FROM depth_1 ORDER BY node",
        "SELECT node, class FROM main.people, main.people AS again",
        "SELECT kept_0.node, kept_1.class FROM kept_0, kept_1",
        "SELECT node, class FROM read_csv('people.csv')",
        "DELETE FROM people",
    ],
)
def test_only_nodes_classes_and_words_can_be_kept(query: str) -> None:
    """Rows that wait for the next statement hold what routing needs, and nothing that could be told apart by more."""
    with pytest.raises(NotAggregate):
        check_cached_rows(sqlglot.parse_one(query, dialect="duckdb"), WORDS)
