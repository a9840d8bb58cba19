"""Commands that take long, on a terminal: how far they are, and Ctrl-C, in a process of their own."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from dpsql.api.database import connect
from dpsql.schema import Numeric, Schema

pty = pytest.importorskip("pty")
ROOT = Path(__file__).resolve().parents[2]
#: Seconds in which any of these processes says something new, or has failed.
PATIENCE = 120
#: Takes the terminal of its name as the one that Ctrl-C comes from (see test_register_form.py).
ON_TERMINAL = ["sh", "-c", 'exec "$@" < "$0" > "$0" 2>&1']
ROWS = (
    "SELECT random() * 100 AS a, random() AS b, CASE WHEN random() < 0.3 THEN 'yes' ELSE 'no' END AS y FROM range({})"
)
TRAIN = ("train", "--db", "data.duckdb", "--table", "t", "--epsilon", "0.5")
CTRL_C = b"\x03"
#: A statement that says when it is done, and one of minutes.
LONG = "SELECT 40 + 2 AS ready; SELECT sum(x.a * y.b) FROM t x, t y;"


def fill(folder: Path, rows: int) -> None:
    """Make a database with a registered table."""
    with duckdb.connect(str(folder / "data.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t AS {ROWS.format(rows)}")
    with connect(folder / "data.duckdb") as db:
        db.register("t", Schema("y", ("yes", "no"), (Numeric("a", 0, 100), Numeric("b", 0, 1)), rows=rows), cap=5)


class Talk:
    """A command on a pseudo-terminal."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._terminal, end = pty.openpty()
        self.output = b""
        self.process = subprocess.Popen(
            [*ON_TERMINAL, os.ttyname(end), sys.executable, "-m", "dpsql", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "150", "NO_COLOR": "1"},
            stdin=end,
            stdout=end,
            stderr=end,
            start_new_session=True,
        )
        os.close(end)

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)

    def press(self, key: bytes) -> None:
        """Press a key."""
        os.write(self._terminal, key)

    def until(self, words: str) -> None:
        """Read until words were printed."""
        deadline = time.monotonic() + PATIENCE
        while words not in self.text:
            part = self._read(deadline)
            assert part, self.text
            self.output += part

    def end(self) -> int:
        """Read to the end, and return the exit code."""
        deadline = time.monotonic() + PATIENCE
        while part := self._read(deadline):
            self.output += part
        return self.process.wait(PATIENCE)

    @property
    def text(self) -> str:
        """What was printed, without what moves the cursor."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.output.decode(errors="replace"))

    def _read(self, deadline: float) -> bytes:
        """Return what is printed next, b"" at the end."""
        if not select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return b""
        try:
            return os.read(self._terminal, 65536)
        except OSError:
            return b""


def states(folder: Path) -> list[str]:
    """Return how each charge of the ledger stands; the ledger must be sound."""
    with connect(folder / "data.duckdb") as db:
        assert db.verify() == []
        return [entry.state for entry in db.book.entries() if entry.state]


def test_a_terminal_shows_steps_share_and_time(tmp_path: Path) -> None:
    """While it trains: which step of how many, how much is done, and for how long; at last the result alone."""
    fill(tmp_path, 200_000)
    with Talk(tmp_path, *TRAIN, "--method", "spe", "--trees", "2", "--depth", "3") as talk:
        talk.until('training on "t": step 2 of 2, counts')
        assert talk.end() == 0
    assert re.search(r"step 1 of 2, splits .* 0% 0:00:\d\d", talk.text)
    assert re.search(r"step 2 of 2, counts .* 75% 0:00:\d\d", talk.text)
    assert "200" not in talk.text.replace("--", "")  # no number of rows
    assert 'Model "t_1": spe' in talk.text


@pytest.mark.parametrize("presses", [1, 4])
def test_ctrl_c_on_a_terminal_says_what_stays_charged(tmp_path: Path, presses: int) -> None:
    """It ends with 130, however often it is pressed, and the entry is lost."""
    fill(tmp_path, 2_000_000)
    with Talk(tmp_path, *TRAIN, "--method", "rdt", "--trees", "100", "--depth", "8") as talk:
        talk.until("step 1 of 1, counts")
        for _ in range(presses):
            talk.press(CTRL_C)
        assert talk.end() == 130
    assert "Stopped. Epsilon 0.5 stays charged (entry 2, lost)." in talk.text
    assert states(tmp_path) == ["lost"]


def test_ctrl_c_in_the_shell_stops_the_statement(tmp_path: Path) -> None:
    """A statement of minutes ends, and so does a training that SQL calls, whose charge is named."""
    fill(tmp_path, 2_000_000)
    for sql, words in (
        (LONG, "Stopped. Nothing was charged."),
        ("FROM dpsql_train('t', method := 'rdt', trees := 100, depth := 8)", "Stopped. Epsilon 1 stays charged"),
    ):
        anchor = tmp_path / "data.duckdb.anchor"
        before = anchor.read_bytes()
        with Talk(tmp_path, "shell", "--db", "data.duckdb", "-c", sql) as talk:
            deadline = time.monotonic() + PATIENCE
            while "train" in sql and anchor.read_bytes() == before and time.monotonic() < deadline:
                select.select([], [], [], 0.05)
            if "train" not in sql:
                talk.until("42")
            talk.process.send_signal(signal.SIGINT)
            assert talk.end() == 130, talk.text
        assert words in talk.text
    assert states(tmp_path) == ["lost"]


def test_ctrl_c_in_a_talk_with_the_shell_ends_the_statement_alone(tmp_path: Path) -> None:
    """The shell says what stays charged, and asks for the next statement."""
    fill(tmp_path, 2_000_000)
    with Talk(tmp_path, "shell", "--db", "data.duckdb") as talk:
        talk.until("dpsql> ")
        talk.press(LONG.encode() + b"\r")
        talk.until("42")
        talk.press(CTRL_C)
        talk.until("Stopped. Nothing was charged.")
        before = (tmp_path / "data.duckdb.anchor").read_bytes()
        talk.press(b"FROM dpsql_train('t', method := 'rdt', trees := 100, depth := 8);\r")
        deadline = time.monotonic() + PATIENCE
        while (tmp_path / "data.duckdb.anchor").read_bytes() == before and time.monotonic() < deadline:
            select.select([], [], [], 0.05)
        talk.press(CTRL_C)
        talk.until("Stopped. Epsilon 1 stays charged (entry 2, lost).")
        talk.press(b"SELECT 6 * 7 AS answer;\r.quit\r")
        assert talk.end() == 0, talk.text
    assert re.search(r"answer\s.*\s42\s", talk.text, re.DOTALL)
    assert states(tmp_path) == ["lost"]


def test_ctrl_c_stops_a_prediction(tmp_path: Path) -> None:
    """Nothing is charged, and no table is left."""
    fill(tmp_path, 1000)
    with connect(tmp_path / "data.duckdb") as db:
        db.train("t", method="rdt", trees=100, depth=8, name="m")
        with db.engine.transaction() as transaction:
            transaction.run(f"CREATE TABLE fresh AS {ROWS.format(3_000_000)}")
    words = ("predict", "--db", "data.duckdb", "--model", "m", "--table", "fresh", "--into", "scored")
    with Talk(tmp_path, *words) as talk:
        talk.until("scoring fresh")
        select.select([], [], [], 0.5)
        talk.press(CTRL_C)
        assert talk.end() == 130, talk.text
    assert "Stopped. Nothing was charged." in talk.text
    with connect(tmp_path / "data.duckdb") as db:
        assert "scored" not in db.engine.tables()
