"""What pyspark has no public call for: a few reaches into Java, here and nowhere else.

A Spark Connect session has no Java on this side. It has a public `cloneSession`; it shows no plan, and a clone's
checkpoints are not found again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext, StorageLevel
from pyspark.sql import SparkSession


def running_context() -> Any | None:
    """Return the context that this process runs, in whatever thread; `getActiveSession` knows one thread alone."""
    return SparkContext._active_spark_context


def clone(session: Any) -> Any:
    """Return a session that sees the temporary views of another as they are now; `newSession` sees none."""
    if not hasattr(session, "_jsparkSession"):
        return session.cloneSession()
    return SparkSession(session.sparkContext, session._jsparkSession.cloneSession())


def query_plan(frame: Any) -> Any | None:
    """Return a frame's analysed plan, None where it is on a server."""
    return frame._jdf.queryExecution().analyzed() if hasattr(frame, "_jdf") else None


def roots(leaf: Any) -> list[str]:
    """Return the folders and files that a leaf of a plan reads, as URLs; [] for one that reads none."""
    name = leaf.getClass().getSimpleName()
    if name == "HiveTableRelation":
        return [str(leaf.tableMeta().location().toString())]
    if name != "LogicalRelation" or leaf.relation().getClass().getSimpleName() != "HadoopFsRelation":
        return []
    paths = leaf.relation().location().rootPaths()
    return [str(paths.apply(place).toString()) for place in range(paths.size())]


def memory_of(session: Any, leaf: Any) -> str:
    """Return what tells the data that a leaf of a plan holds in this application's memory; "" for any other leaf."""
    name = leaf.getClass().getSimpleName()
    if name in ("LogicalRDD", "ExternalRDD"):
        number = leaf.rdd().id()
    elif name == "LocalRelation":
        number = session._jvm.java.lang.System.identityHashCode(leaf.data())
    else:
        return ""
    return f"memory {session.sparkContext.applicationId}.{name}.{number}"


def store(frame: Any) -> Any:
    """Return the frame after all its rows were computed and stored, in memory as far as they fit, or none of them."""
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    stored = False
    try:
        frame.write.format("noop").mode("overwrite").save()
        stored = True
    finally:
        if not stored:
            frame.unpersist(blocking=False)
    return frame


def copy_rows(frame: Any) -> Any:
    """Return a frame of these rows that are never computed again: a worker lost with them ends the statement.

    On a Spark Connect server they are computed again, from the same parts of the same files.
    """
    return frame.localCheckpoint() if hasattr(frame, "_jdf") else store(frame)


def forget(frame: Any) -> None:
    """Let the rows of a fixed frame go, before anything else happens; `unpersist` does not find a checkpoint's."""
    if hasattr(frame, "_jdf"):
        frame._jdf.logicalPlan().rdd().unpersist(True)
    else:
        frame.unpersist(blocking=True)


#: Formats in which a row starts where the file says, and not where a reader takes it to.
_COLUMNAR = ("ParquetFileFormat", "OrcFileFormat")
#: Leaves of a plan that read no files, and whose rows stand in the plan itself or follow from it.
_FIXED = ("LocalRelation", "Range", "OneRowRelation")


def plan_leaves(plan: Any) -> Iterator[Any]:
    """Yield what a plan reads, subqueries included."""
    for query in (plan, *members(plan.subqueriesAll())):
        yield from members(query.collectLeaves())


def file_format(leaf: Any) -> str:
    """Return the format of the files that a leaf of a plan reads; "" where it reads no files."""
    relation = leaf.relation() if leaf.getClass().getSimpleName() == "LogicalRelation" else None
    if relation is None or relation.getClass().getSimpleName() != "HadoopFsRelation":
        return ""
    return str(relation.fileFormat().getClass().getSimpleName())


def is_text(leaf: Any) -> bool:
    """Whether a leaf of a plan reads files of text: CSV, JSON and the like."""
    return file_format(leaf) not in ("", *_COLUMNAR)


def file_facts(frame: Any) -> tuple[tuple[Any, ...], ...] | None:
    """Return facts about the files that a frame reads, which differ once one of the files has changed.

    None where a file is gone or cannot be seen from here, and where the frame reads other things than files.
    """
    read = query_plan(frame)
    if read is None:
        return None
    if not all(file_format(leaf) in _COLUMNAR or leaf.nodeName().split(" ")[0] in _FIXED for leaf in plan_leaves(read)):
        return None
    session = frame.sparkSession
    settings = session._jsparkSession.sessionState().newHadoopConf()
    try:
        return tuple(_facts(session._jvm, settings, file) for file in sorted(frame.inputFiles()))
    except (OSError, Py4JJavaError):
        return None


def _facts(jvm: Any, settings: Any, file: str) -> tuple[Any, ...]:
    if file.startswith("file:"):
        facts = os.stat(unquote(urlsplit(file).path))
        return file, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))
    status = path.getFileSystem(settings).getFileStatus(path)
    return file, status.getModificationTime(), status.getLen()


def members(sequence: Any) -> Iterator[Any]:
    """Yield the members of a Scala sequence."""
    for place in range(sequence.size()):
        yield sequence.apply(place)
