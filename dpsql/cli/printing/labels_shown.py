"""What `dpsql predict` does with labels: shows the first, writes them to a file or a table, or prints them as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dpsql.api.database import Database
from dpsql.cli.options import DatabaseTarget
from dpsql.cli.printing.output import note, print_json, print_json_rows, print_table, say, show_progress
from dpsql.cli.written_files import new_place
from dpsql.errors import QueryFailed
from dpsql.models.score import predict_table
from dpsql.models.score_chunks import SCORING_MEMORY, predict_chunks, write_predictions
from dpsql.models.usable_model import Model

#: The rows that are scored and shown where nothing else is asked for.
_SHOWN = 20


@dataclass(frozen=True)
class Display:
    """What to show of each row, and where; at most one of `probabilities`, `decision` and `top` is given.

    `decision` has the arguments of `predict` that say how labels follow from probabilities.
    """

    key: str | None
    probabilities: bool
    decision: Mapping[str, Mapping[str, float]]
    top: int | None
    into: str | None
    to: str | None
    as_json: bool

    @property
    def options(self) -> list[str]:
        """The options that say what to show of each row."""
        given: dict[str, object] = {"--key": self.key, "--probabilities": self.probabilities or None}
        given |= {f"--{name.replace('_', '-')}": numbers for name, numbers in self.decision.items()}
        given |= {"--top": self.top}
        return [option for option, value in given.items() if value is not None]

    def open_and_show(self, target: DatabaseTarget, model: Callable[[Database], Model], data: str | Path) -> None:
        """Open the database with little memory and show labels by a model; rows so wide that it is too little get more.

        What is written is there as a whole or not at all, so that it can be written once more.
        """
        printed_as_it_comes = self.as_json and self.into is None and self.to is None
        try:
            self._open(target, model, data, None if printed_as_it_comes else SCORING_MEMORY)
        except QueryFailed as error:
            if printed_as_it_comes or not error.out_of_memory:
                raise
        else:
            return
        self._open(target, model, data, None)

    def _open(
        self, target: DatabaseTarget, model: Callable[[Database], Model], data: str | Path, memory: str | None
    ) -> None:
        with target.open(writes=self.into is not None, memory_limit=memory) as database:
            self.show(model(database), data)

    def show(self, model: Model, data: str | Path) -> None:
        """Score rows and show them as was asked."""
        if self.probabilities:
            model.check_classes()
        if self.top is not None:
            model.check_top(self.top)
        ways: dict[str, Any] = {
            "key": self.key,
            "probabilities": self.probabilities,
            "decision": model.decision(**self.decision),
            "top": self.top or 0,
        }
        if self.to is not None:
            self._write(model, data, self.to, ways)
        elif self.into is not None:
            with show_progress(f"scoring {data}"):
                predict_table(model, data, into=self.into, **ways)
            self._tell({"model": model.name, "into": self.into}, f'Scored rows are in table "{self.into}".')
        elif self.as_json:
            print_json_rows(map(_plain_rows, predict_chunks(model, data, **ways)))
        else:
            with show_progress(f"scoring {data}"):
                first = predict_table(model, data, into=None, **ways, limit=_SHOWN + 1)
            assert first is not None
            _print_first(first)

    def _write(self, model: Model, data: str | Path, to: str, ways: dict[str, Any]) -> None:
        with show_progress(f"scoring {data}") as tell, new_place(to) as place:
            rows = write_predictions(
                model, data, place, **ways, on_rows=lambda done: tell(f"scoring {data}: {done:,} rows")
            )
        note(f"Wrote {rows} predictions to {to}.")
        if self.as_json:
            print_json({"model": model.name, "to": to, "rows": rows})

    def _tell(self, values: dict[str, Any], sentence: str) -> None:
        if self.as_json:
            print_json(values)
        else:
            say(sentence)


def _plain_rows(scored: pd.DataFrame) -> list[dict[Any, Any]]:
    return scored.astype(object).where(scored.notna(), None).to_dict("records")


def _print_first(scored: pd.DataFrame) -> None:
    """Print the first rows; one more than is shown was scored, to see whether there are more."""
    rows = [list(row.values()) for row in _plain_rows(scored.head(_SHOWN))]
    print_table(None, [str(name) for name in scored.columns], rows)
    if len(scored) > _SHOWN:
        note(f"The first {_SHOWN} of more rows. All of them: --to FILE, --into TABLE, or --json.")
