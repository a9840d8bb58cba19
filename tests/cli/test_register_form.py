"""The form of `dpsql register`: on a terminal alone; what each answer does; nothing is changed before a yes."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dpsql.api.database import connect
from dpsql.cli import register_form
from dpsql.cli.main import app
from dpsql.engines.base import Column, TableInfo
from dpsql.errors import DpsqlError, UsageError
from dpsql.owner.drafts.open_questions import BUY, open_questions, read_answer
from dpsql.owner.drafts.proposal import FEATURE, GAP, Proposal
from dpsql.schema import Boolean, Categorical, Hashed, Numeric, Unit
from dpsql.schema.schema_file import load_schema
from tests.tables import run

ROOT = Path(__file__).resolve().parents[2]
TABLE = """
CREATE TABLE visits (person_id BIGINT, email VARCHAR, age INTEGER CHECK (age BETWEEN 0 AND 110), job VARCHAR,
    wage DOUBLE, code INTEGER, ok BOOLEAN, y VARCHAR)
"""
#: Label, classes, job, wage, code, unit, rows of a unit, cap, yes.
ANSWERS = ["y", "no, yes", "clerk, cook", "0..5000", "1, 2", "person_id", "3", "2", "y"]
CTRL_C = "\x03"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working folder with a database that has one table, on what passes for a terminal."""
    with connect(tmp_path / "data.duckdb", create=True) as db:
        run(db.engine, TABLE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPSQL_WHO", "ann")
    monkeypatch.setattr(register_form, "on_terminal", lambda: True)
    return tmp_path


def fill_in(*answers: str, words: tuple[str, ...] = ("--db", "data.duckdb", "--table", "visits")) -> Result:
    """Return what the command gives for these answers; afterwards the input ends."""
    return CliRunner().invoke(app, ["register", *words], input="".join(f"{answer}\n" for answer in answers))


def entries() -> list[str]:
    """Return the events of the ledger."""
    with connect("data.duckdb") as db:
        return [entry.event for entry in db.book.entries()]


def test_answers_make_a_file_and_a_dataset(folder: Path) -> None:
    """What the catalog says is taken, what it does not say is asked, identifiers are left out."""
    result = fill_in(*ANSWERS)
    assert result.exit_code == 0, result.output
    schema = load_schema("visits.yml")
    assert (schema.label, schema.classes, schema.unit) == ("y", ("no", "yes"), Unit("person_id", 3))
    assert schema.features == (
        Numeric("age", 0, 110), Categorical("job", ("clerk", "cook")), Numeric("wage", 0, 5000),
        Categorical("code", ("1", "2")), Boolean("ok"),
    )  # fmt: skip
    with connect("data.duckdb") as db:
        assert db.budget("visits").cap_text == "2"
    assert "catalog: CHECK" in result.stderr
    assert "Public:" in result.stderr
    assert "e^cap" in result.stderr


@pytest.mark.usefixtures("steady_bounds")
def test_bounds_that_nobody_knows_are_bought(folder: Path) -> None:
    """The answer "buy" leaves a gap, which an epsilon of its own fills after the yes."""
    with connect("data.duckdb") as db:
        run(
            db.engine,
            "INSERT INTO visits SELECT range, '', 40, 'cook', 700 + range % 300, 1, true, 'yes' FROM range(5000)",
        )
    answers = [*ANSWERS[:3], "buy", "-", "row", "2", "0.5", "y"]
    result = fill_in(*answers)
    assert result.exit_code == 0, result.output
    (wage,) = (feature for feature in load_schema("visits.yml").features if feature.name == "wage")
    assert isinstance(wage, Numeric)
    assert (wage.lower, wage.upper) == (512, 1024)
    assert load_schema("visits.yml").feature("code") is None
    with connect("data.duckdb") as db:
        assert db.budget("visits").spent_text == "0.5"
    assert "To be bought: the domains of wage," in result.stderr


@pytest.mark.parametrize("count", [4, 6, 7, 8])
def test_nothing_is_bought_before_the_yes(folder: Path, count: int) -> None:
    """An end of the answers leaves no file and no entry."""
    answers = [*ANSWERS[:3], "buy", "-", "row", "2", "0.5", "n"]
    assert fill_in(*answers[:count]).exit_code == 1
    assert fill_in(*answers).exit_code == 1
    assert not (folder / "visits.yml").exists()
    assert entries() == []


def test_everything_can_be_asked(folder: Path) -> None:
    """Without any option the database and the table are questions too; a wrong answer is asked again."""
    result = fill_in("none.duckdb", "data.duckdb", "visit", "visits", *ANSWERS, words=())
    assert result.exit_code == 0, result.output
    assert 'there is no database file "none.duckdb"' in result.stderr
    assert 'Did you mean "visits"?' in result.stderr
    assert entries() == ["register"]


def test_what_is_given_is_not_asked(folder: Path) -> None:
    """Label and cap may stand on the command line."""
    words = ("--db", "data.duckdb", "--table", "visits", "--label", "y", "--cap", "1.5")
    result = fill_in("no, yes", "-", "", "-", "row", "y", words=words)
    assert result.exit_code == 0, result.output
    assert [feature.name for feature in load_schema("visits.yml").features] == ["age", "ok"]


@pytest.mark.parametrize("count", range(len(ANSWERS)))
def test_an_end_of_input_changes_nothing(folder: Path, count: int) -> None:
    """Wherever the answers stop, there is no file, no ledger and no entry."""
    before = (folder / "data.duckdb").read_bytes()
    result = fill_in(*ANSWERS[:count])
    assert result.exit_code == 1
    assert not (folder / "visits.yml").exists()
    assert (folder / "data.duckdb").read_bytes() == before
    assert entries() == []


def test_a_no_changes_nothing(folder: Path) -> None:
    """The last question defaults to no."""
    for last in ("n", ""):
        assert fill_in(*ANSWERS[:-1], last).exit_code == 1
    assert not (folder / "visits.yml").exists()
    assert entries() == []


def test_a_file_is_never_overwritten(folder: Path) -> None:
    """A schema file of the table's name is told before the first question."""
    (folder / "visits.yml").write_text("mine")
    result = fill_in(*ANSWERS)
    assert result.exit_code != 0
    assert isinstance(result.exception, DpsqlError)
    assert "exists, and is not overwritten" in str(result.exception)
    assert (folder / "visits.yml").read_text() == "mine"


def test_a_registered_table_is_told_at_once(folder: Path) -> None:
    """The second time no question is asked."""
    assert fill_in(*ANSWERS).exit_code == 0
    (folder / "visits.yml").unlink()
    result = fill_in(*ANSWERS)
    assert "registered already" in str(result.exception)


def test_a_failed_registration_keeps_the_answers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where registering is refused after all, the file has the answers, and the reason at its end."""

    def fail(*_: object, **__: object) -> None:
        raise UsageError("no")

    monkeypatch.setattr("dpsql.api.database.Database.register", fail)
    result = fill_in(*ANSWERS)
    assert result.exit_code != 0
    assert (folder / "visits.yml").read_text().endswith("# Not registered: no\n")
    assert load_schema("visits.yml").classes == ("no", "yes")
    assert "Your answers are in visits.yml" in result.stderr


def test_answers_that_make_no_schema_are_offered_to_be_kept(folder: Path) -> None:
    """What no single answer shows is found at the end: nothing is registered, and the file keeps what was said."""
    with connect("data.duckdb") as db:
        run(db.engine, "CREATE TABLE bare (x DOUBLE, y VARCHAR)")
    words = ("--db", "data.duckdb", "--table", "bare", "--label", "y", "--cap", "1")
    result = fill_in("no, yes", "-", "row", "y", words=words)
    assert result.exit_code != 0
    assert "features: none is declared" in (folder / "bare.yml").read_text()
    assert "Keep your answers in bare.yml" in result.stderr
    assert entries() == []
    (folder / "bare.yml").unlink()
    assert fill_in("no, yes", "-", "row", "n", words=words).exit_code != 0
    assert not (folder / "bare.yml").exists()


def test_answers_that_a_type_cannot_hold_are_asked_again(folder: Path) -> None:
    """Single numbers, two numbers without a sign between them, no days, numbers beyond the type: each with a reason."""
    with connect("data.duckdb") as db:
        run(db.engine, "CREATE TABLE odd (age BIGINT, small TINYINT, seen DATE, y VARCHAR)")
    answers = ["no, yes", "0", "0 120", "0..120", "1000..2000", "1, 400", "1, 4", "1, 2", "2024-01-01..2024-12-31",
               "row", "y"]  # fmt: skip
    result = fill_in(*answers, words=("--db", "data.duckdb", "--table", "odd", "--label", "y", "--cap", "1"))
    assert result.exit_code == 0, result.output
    assert [feature.name for feature in load_schema("odd.yml").features] == ["age", "small", "seen"]
    assert result.stderr.count("that is a single value") == 2
    for words in ("would fall into one cell", 'can never hold the values "400"', 'can never hold the values "1"'):
        assert words in result.stderr


def test_texts_can_be_bought(folder: Path) -> None:
    """The answer "buy" for a text makes it a hashed category; a purchase beyond the cap is asked again at once."""
    with connect("data.duckdb") as db:
        run(
            db.engine,
            "INSERT INTO visits SELECT range, '', 40, 'cook', 700 + range % 300, 1, true, 'yes' FROM range(5000)",
        )
    result = fill_in(*ANSWERS[:2], "buy", "0..5000", "-", "row", "2", "3", "0.0001", "1", "y")
    assert result.exit_code == 0, result.output
    job = load_schema("visits.yml").feature("job")
    assert isinstance(job, Hashed)
    assert "at most 2, the cap" in result.stderr
    assert "at least 0.001" in result.stderr


def test_a_word_that_is_not_offered_is_no_value(folder: Path) -> None:
    """The answer "buy" for a label, and "boolean" for a text, are refused."""
    result = fill_in("y", "buy", "no, yes", "boolean", *ANSWERS[2:])
    assert result.exit_code == 0, result.output
    assert '"buy" is not offered' in result.stderr
    assert '"boolean" is not offered' in result.stderr


def test_the_unit_is_a_row_unless_a_column_is_named(folder: Path) -> None:
    """Enter means a row, as everywhere else; the noise of another unit is told; the label is no unit."""
    result = fill_in(*ANSWERS[:5], "y", "", "2", "y")
    assert result.exit_code == 0, result.output
    assert load_schema("visits.yml").unit == Unit()
    assert "the noise is m times as large" in result.stderr
    assert "it may be: person_id" in result.stderr
    assert '"y" is the label' in result.stderr


def test_a_feature_that_names_the_unit_is_no_feature_more(folder: Path) -> None:
    """A column with an answer of its own can still be the privacy unit."""
    result = fill_in(*ANSWERS[:5], "code", "2", "2", "y")
    assert result.exit_code == 0, result.output
    schema = load_schema("visits.yml")
    assert schema.unit == Unit("code", 2)
    assert schema.feature("code") is None


def test_a_time_can_be_no_label(folder: Path) -> None:
    """A column whose type can be no label is asked again."""
    with connect("data.duckdb") as db:
        run(db.engine, "CREATE TABLE times (seen TIMESTAMP, ok BOOLEAN, x DOUBLE)")
    words = ("--db", "data.duckdb", "--table", "times", "--cap", "1")
    result = fill_in("seen", "ok", "-", "0..1", "", "y", words=words)
    assert result.exit_code == 0, result.output
    assert '"seen" cannot be the label' in result.stderr


def test_wrong_answers_are_asked_again(folder: Path) -> None:
    """Bounds in the wrong order, one class, words for a number, no whole number, a cap of nothing: each is told."""
    answers = ["nothing", "y", "yes", "no, yes", "clerk, cook", "9..1", "many", "0..9", "1, 2",
               "nobody", "person_id", "0", "3", "-1", "2", "y"]  # fmt: skip
    result = fill_in(*answers)
    assert result.exit_code == 0, result.output
    for words in ("at least two classes", "must be below", "that is none of", "no whole number", "cap must be"):
        assert words in result.stderr


@pytest.mark.parametrize("words", [("--dry-run",), ("--json",), ("--numeric", "age:0:9"), ("--schema", "x.yml")])
def test_other_options_mean_no_form(folder: Path, words: tuple[str, ...]) -> None:
    """Whoever gives a schema, or asks for JSON or a dry run, gets the command as it always was."""
    result = fill_in(*ANSWERS, words=("--db", "data.duckdb", "--table", "visits", *words))
    assert "Public:" not in result.output
    assert result.exit_code != 0
    assert entries() == []


@pytest.mark.parametrize(
    ("words", "message"),
    [((), "Missing option '--db'"), (("--table", "t"), "Missing option '--db'"),
     (("--db", "data.duckdb", "--table", "visits"), "say what all runs")],
)  # fmt: skip
def test_without_a_terminal_it_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    """Nobody is asked in a script: the usage error is what it was."""
    monkeypatch.setattr(register_form, "on_terminal", lambda: False)
    result = fill_in(*ANSWERS, words=words)
    assert message in result.output + str(result.exception)
    assert result.exit_code != 0


def test_buying_is_offered_only_where_something_can_buy() -> None:
    """The seam for bought domains: the answer "buy" is read as a domain of that type, where it is offered."""
    info = TableInfo("t", "main", "t", (Column("x", "DOUBLE", "real"),), "table")
    gap = Proposal("x", FEATURE, {"type": "numeric", "lower": GAP, "upper": GAP})
    [plain], [buyable] = open_questions(info, [gap]), open_questions(info, [gap], can_buy=True)
    assert BUY not in plain.forms
    assert read_answer(buyable, "buy") == {"type": BUY}
    with pytest.raises(UsageError):
        read_answer(plain, "buy")


def test_a_real_terminal(folder: Path) -> None:
    """Through a pseudo-terminal, in a process of its own: the whole form, and Ctrl-C, which changes nothing."""
    output, code = talk(["--db", "data.duckdb", "--table", "visits"], [*ANSWERS[:2], CTRL_C], folder)
    assert code != 0
    assert "Stopped." in output
    assert not (folder / "visits.yml").exists()
    output, code = talk(["--db", "data.duckdb", "--table", "visits"], ANSWERS, folder)
    assert code == 0, output
    assert 'registered "visits" with cap 2' in output
    assert load_schema(folder / "visits.yml").unit == Unit("person_id", 3)


#: Takes the terminal of its name as the one that Ctrl-C comes from, and becomes the command behind it. A shell does
#: that, not a fork of this process: the threads of drivers that other tests loaded can leave a fork hanging for ever.
ON_TERMINAL = ["sh", "-c", 'exec "$@" < "$0" > "$0" 2>&1']


def talk(words: list[str], answers: list[str], folder: Path) -> tuple[str, int]:
    """Return what a process says on a pseudo-terminal when each of its questions gets the next answer."""
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [*ON_TERMINAL, os.ttyname(end), sys.executable, "-m", "dpsql", "register", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"},
        stdin=end,
        stdout=end,
        stderr=end,
        start_new_session=True,
    )
    os.close(end)
    output = b""
    try:
        for answer in answers:
            output += _until_question(terminal)
            if answer == CTRL_C:
                output += _press_ctrl_c(terminal)
            else:
                os.write(terminal, answer.encode() + b"\n")
        output += _read(terminal, seconds=60)
        code = process.wait(60)
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    return output.decode(errors="replace"), code


def _press_ctrl_c(terminal: int) -> bytes:
    """Press it until the process says something: Python misses one that comes between its prompt and its read."""
    output = b""
    for _ in range(20):
        os.write(terminal, CTRL_C.encode())
        for _ in range(6):
            output += _read_part(terminal) or b""
            if output.replace(b"^C", b"").strip():
                return output
    return output


def _until_question(terminal: int) -> bytes:
    """Read until a prompt stands at the end, or the process is gone."""
    output, deadline = b"", time.monotonic() + 60
    while not output.endswith(b": ") and time.monotonic() < deadline:
        part = _read_part(terminal)
        if part is None:
            break
        output += part
    return output


def _read(terminal: int, *, seconds: float) -> bytes:
    """Read until the process closes the terminal."""
    output, deadline = b"", time.monotonic() + seconds
    while time.monotonic() < deadline:
        part = _read_part(terminal)
        if part is None:
            break
        output += part
    return output


def _read_part(terminal: int) -> bytes | None:
    """Return what there is to read, b"" after a moment without anything, None at the end."""
    if not select.select([terminal], [], [], 0.5)[0]:
        return b""
    try:
        return os.read(terminal, 65536) or None
    except OSError:
        return None
