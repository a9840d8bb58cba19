"""What pyspark has no public call for: four reaches into Java, here and nowhere else.

A Spark Connect session has no Java on this side. It has a public `cloneSession`; a plan is not to be had there, and a
clone's checkpoints are not found again.
"""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext, StorageLevel
from pyspark.sql import SparkSession


def running() -> Any | None:
    """Return the context that this process runs, in whatever thread; `getActiveSession` knows one thread alone."""
    return SparkContext._active_spark_context


def clone(session: Any) -> Any:
    """Return a session that sees the temporary views of another as they are now; `newSession` sees none."""
    if not hasattr(session, "_jsparkSession"):
        return session.cloneSession()
    return SparkSession(session.sparkContext, session._jsparkSession.cloneSession())


def plan(frame: Any) -> Any | None:
    """Return a frame's analysed plan, None where it is on a server."""
    return frame._jdf.queryExecution().analyzed() if hasattr(frame, "_jdf") else None


def stored(frame: Any) -> Any:
    """Return the frame after all its rows were worked out and stored, in memory as far as they fit."""
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    frame.write.format("noop").mode("overwrite").save()
    return frame


def fixed(frame: Any) -> Any:
    """Return a frame of these rows that are never worked out again: a worker lost with them ends the statement.

    On a Spark Connect server they are worked out again, from the same parts of the same files.
    """
    return frame.localCheckpoint() if hasattr(frame, "_jdf") else stored(frame)


def forget(frame: Any) -> None:
    """Let the rows of a fixed frame go, before anything else happens; `unpersist` does not find a checkpoint's."""
    if hasattr(frame, "_jdf"):
        frame._jdf.logicalPlan().rdd().unpersist(True)
    else:
        frame.unpersist(blocking=True)
