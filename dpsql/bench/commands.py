"""All commands of the bench, for `dpsql bench` and for `python -m dpsql.bench`."""

from __future__ import annotations

from dpsql.bench.accuracy_commands import accuracy
from dpsql.bench.engine_commands import engines
from dpsql.bench.speed_commands import counts, growth, noise

COMMANDS = (accuracy, counts, growth, noise, engines)
