"""What pyspark has no public call for: four reaches into Java, here and nowhere else.

A Spark Connect session has no Java on this side. It has a public `cloneSession` and lets rows go by itself; a plan is
not to be had there.
"""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
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


def forget(frame: Any) -> None:
    """Let a checkpoint's rows go, before anything else happens; `unpersist` does not find them."""
    if hasattr(frame, "_jdf"):
        frame._jdf.logicalPlan().rdd().unpersist(True)
