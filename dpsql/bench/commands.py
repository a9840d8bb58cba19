"""All commands of the bench, for `dpsql bench` and for `python -m dpsql.bench`."""

from __future__ import annotations

from dpsql.bench.accuracy_commands import accuracy_command
from dpsql.bench.engine_commands import engines
from dpsql.bench.forms import forms
from dpsql.bench.speed_commands import counts_command, growth, noise, scoring_command
from dpsql.bench.start_up_commands import start_command

COMMANDS = (accuracy_command, counts_command, forms, growth, noise, scoring_command, engines, start_command)
