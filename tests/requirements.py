"""What `DPSQL_REQUIRE` may name, and the packages that each needs: a required one that is missing stops the tests."""

from __future__ import annotations

import importlib.util

#: name: its extra, and the packages without which its tests are skipped.
PACKAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "postgres": ("test-postgres", ("psycopg",)),
    "spark": ("test-spark", ("pyspark", "pyarrow", "grpc")),
    "clickhouse": ("test-chdb", ("chdb", "pyarrow")),
    "mariadb": ("test", ()),
    "older-duckdb": ("test", ()),
    "export": ("test-export", ("onnx", "onnxruntime")),
    "peers": ("test-peers", ("opendp", "dp_accounting", "sklearn", "ibis")),
    "dbt": ("test-dbt", ()),  # in an environment of its own: tests/dbt_place.py
    "notebooks": ("test-notebooks", ("nbclient", "nbformat", "ipykernel")),
    "docs": ("docs", ("sphinx", "myst_parser", "furo")),
}


def missing_packages(required: str) -> list[str]:
    """Return a sentence for each name in a list such as "postgres,spark" that is unknown or lacks a package.

    >>> missing_packages("postgress")[0].partition(" Known")[0]
    'DPSQL_REQUIRE: "postgress" is unknown.'
    """
    sentences = []
    for name in required.replace(",", " ").split():
        if name not in PACKAGES:
            sentences.append(f'DPSQL_REQUIRE: "{name}" is unknown. Known: {", ".join(PACKAGES)}.')
            continue
        extra, packages = PACKAGES[name]
        sentences += [
            f"DPSQL_REQUIRE: {name} needs {package}, which is not installed. Try: pip install -e '.[{extra}]'"
            for package in packages
            if importlib.util.find_spec(package) is None
        ]
    return sentences
