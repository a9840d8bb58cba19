"""A call in SQL is charged once, however often its result is looked at."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.api.charged_call import ChargedCall, ChargedCalls
from dpsql.api.database import Database
from dpsql.api.shell import Shell
from dpsql.engines.duckdb.engine import Connection
from dpsql.methods.rdt import Rdt
from dpsql.methods.shared import row_evidence
from dpsql.runs import private_evaluation
from tests import tables

TRAIN = "FROM dpsql_train('people', epsilon := 0.5, method := 'rdt', trees := 2, depth := 2"


@pytest.fixture
def con() -> Iterator[Connection]:
    """Open a plain DuckDB connection."""
    connection = duckdb.connect()
    yield connection
    connection.close()


@pytest.fixture
def db(con: Connection) -> Database:
    """Attach dpsql to it, with "people" registered under a cap of 5."""
    attached = dpsql.attach(con, who="ann")
    tables.fill(attached.engine, "people", tables.some_rows())
    attached.register("people", tables.SCHEMA, cap=5)
    return attached


def rows(con: Connection, query: str, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the rows of a query as dictionaries."""
    result = con.execute(query, values or {})
    names = [column[0] for column in result.description or []]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def spent(db: Database, table: str = "people") -> str:
    """Return what all runs on a table have cost."""
    return db.budget(table).spent_text


def test_a_relation_is_looked_at_three_times_and_charged_once(con: Connection, db: Database) -> None:
    """The second and the third look give the row of the first, with a note that nothing was charged."""
    relation = con.sql(f"{TRAIN})")
    first, *others = (relation.fetchall()[0] for _ in range(3))
    assert [row[:-1] for row in others] == [first[:-1]] * 2
    assert first[-1] is None
    assert all("nothing was charged" in row[-1] for row in others)
    assert (spent(db), len(db.models())) == ("0.5", 1)


SAME = {
    "twice in one statement": ["FROM {0} AS a, {0} AS b"],
    "as a prepared statement": ["PREPARE later AS FROM {0}", "EXECUTE later", "EXECUTE later"],
    "as a view": ["CREATE TEMP VIEW v AS FROM {0}", "FROM v", "SELECT model FROM v"],
    "in a transaction that is undone": ["BEGIN", "FROM {0}", "ROLLBACK", "FROM {0}"],
    "with numbers written in another way": ["FROM {0}", "FROM {1}"],
}


@pytest.mark.parametrize("way", SAME)
def test_the_same_call_is_known_however_it_is_made(con: Connection, db: Database, way: str) -> None:
    """It is what is asked that counts, not the text of the statement."""
    calls = [f"dpsql_train('{name}', method := 'rdt', trees := {trees}, depth := 2, epsilon := {epsilon})"
             for name, trees, epsilon in (("people", 2, "0.5"), ("PEOPLE", "'2'", "'0.50'"))]  # fmt: skip
    for statement in SAME[way]:
        con.execute(statement.format(*calls)).fetchall()
    assert (spent(db), len(db.models())) == ("0.5", 1)


@pytest.mark.parametrize("other", ["epsilon := 0.25", "trees := 3", "seed := 2", "name := 'mine'", "batch := NULL"])
def test_another_argument_is_another_call(con: Connection, db: Database, other: str) -> None:
    """Each argument counts, also the name of the model; one that says what is usual says nothing new."""
    given = {"epsilon": "0.5", "method": "'rdt'", "trees": "2", "depth": "2"}
    query = "FROM dpsql_train('people', {})"
    changed = given | dict([other.split(" := ")])
    for arguments in (given, changed, given, changed):
        con.execute(query.format(", ".join(f"{name} := {value}" for name, value in arguments.items()))).fetchall()
    assert len(db.models()) == (1 if "NULL" in other else 2)


def test_again_is_another_run_and_what_the_call_returns_from_then_on(con: Connection, db: Database) -> None:
    """Each `again := true` is charged; without it the call returns the newest of its models."""
    more = ("", ", again := true", "", ", again := true", "")
    models = [rows(con, f"{TRAIN}{each})")[0]["model"] for each in more]
    assert models == ["people_1", "people_2", "people_2", "people_3", "people_3"]
    assert spent(db) == "1.5"


def test_a_comparison_is_charged_once_until_it_says_again(con: Connection, db: Database) -> None:
    """Its models are charged one by one under ids of their own; the same call still finds all of them."""
    for name in ("one", "two"):
        con.execute(f"{TRAIN}, name := '{name}')").fetchall()
    call = "FROM dpsql_compare(['one', 'two'], 'people', epsilon := 0.5{})"
    costs = []
    for more in ("", "", ", again := true", ""):
        assert {row["model"] for row in rows(con, call.format(more))} == {"one", "two"}
        costs.append(spent(db))
    assert costs == ["1.5", "1.5", "2", "2"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("again := NULL", "again must be true or false"),
        ("again := 'soon'", "again must be true or false"),
        ("again := true, request_id := 'r'", "again must be left out where a request_id is given"),
    ],
)
def test_again_is_true_or_false_and_goes_without_a_request_id(
    con: Connection, db: Database, more: str, message: str
) -> None:
    """Anything else is refused before it costs."""
    with pytest.raises(duckdb.Error, match=message):
        rows(con, f"{TRAIN}, {more})")
    assert spent(db) == "0"


def test_a_request_id_stands_beside(con: Connection, db: Database) -> None:
    """A call with a request id of its own is another one than the call without."""
    for more in ("", ", request_id := 'r'", ", request_id := 'r'", ""):
        rows(con, f"{TRAIN}{more})")
    assert (spent(db), len(db.models())) == ("1", 2)


def test_a_table_registered_anew_is_asked_anew(con: Connection, db: Database) -> None:
    """What is known of the table has changed, and so has the call; a cap alone changes nothing."""
    rows(con, f"{TRAIN})")
    db.set_cap("people", 4)
    rows(con, f"{TRAIN})")
    assert spent(db) == "0.5"
    db.register("people", tables.SCHEMA, cap=4, replace=True)
    rows(con, f"{TRAIN})")
    assert spent(db) == "1"


def test_another_person_makes_another_call(con: Connection, db: Database) -> None:
    """Each pays; attaching again under the first name returns what that one has paid for."""
    for who in ("ann", "eve", "ann"):
        dpsql.attach(con, who=who)
        rows(con, f"{TRAIN})")
    assert [share.spent_text for share in db.budget("people").analysts] == ["0.5", "0.5"]


def test_a_database_that_was_opened_anew_knows_no_call(tmp_path: Path) -> None:
    """Another connection is another session: the call is made, and charged, there."""
    tables.on_disk(tmp_path / "data.duckdb", tables.some_rows(), cap=5).close()
    for spent_then in ("0.5", "1"):
        with dpsql.connect(tmp_path / "data.duckdb") as opened, Shell(opened) as shell:
            for _ in range(2):
                assert [answer.error for answer in shell.run(f"{TRAIN})")] == [None]
            assert spent(opened) == spent_then


def test_threads_that_ask_the_same_at_once_pay_once(db: Database) -> None:
    """The second waits for the first, and gets its model."""
    session, start = ChargedCalls(), threading.Barrier(4)
    models: list[str] = []

    def ask() -> None:
        call = ChargedCall("train", ["people"])
        start.wait(30)
        answer = session.make_model(db, call, lambda own_id: db.train("people", trees=2, request_id=own_id))
        models.append(answer.value.name)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert models == ["people_1"] * 4
    assert spent(db) == "1"


def _break(*_: object) -> None:
    raise RuntimeError("broken")


def test_a_failed_run_is_not_charged_twice_unless_that_is_meant(con: Connection, db: Database) -> None:
    """The first error says that the charge stays; the same call then costs nothing and says how to go on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rdt, "train", _break)
        with pytest.raises(duckdb.Error, match=r"charge stays.*again := true"):
            rows(con, f"{TRAIN})")
    with pytest.raises(duckdb.Error, match="charged before .entry 2., and its run failed") as refused:
        rows(con, f"{TRAIN})")
    assert "again := true" in str(refused.value)
    assert spent(db) == "0.5"
    assert rows(con, f"{TRAIN}, again := true)")[0]["model"] == rows(con, f"{TRAIN})")[0]["model"] == "people_1"
    assert spent(db) == "1"


def test_a_refused_call_is_tried_again(con: Connection, db: Database) -> None:
    """What was never charged leaves no trace: with a larger cap the same call trains."""
    call = TRAIN.replace("0.5", "6")
    with pytest.raises(duckdb.Error, match="has 5 of 5 left"):
        rows(con, f"{call})")
    db.set_cap("people", 7)
    assert rows(con, f"{call})")[0]["note"] is None


def test_a_model_that_is_gone_is_not_trained_again_by_itself(con: Connection, db: Database) -> None:
    """The call says that it was charged, and how to go on."""
    rows(con, f"{TRAIN})")
    con.execute("DELETE FROM dpsql.model")
    with pytest.raises(duckdb.Error, match="its model is gone"):
        rows(con, f"{TRAIN})")
    assert spent(db) == "0.5"


def test_a_run_that_stopped_at_its_size_pays_for_it_once(
    con: Connection, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where about no row counts, each look says so, and one size is paid for."""
    for limit in ("FEW_ROWS", "_DEVIATIONS"):  # so high that noise never hides that there are no rows
        monkeypatch.setattr(row_evidence, limit, 10**9)
    con.execute("UPDATE people SET y = 'other'")
    messages = []
    for _ in range(2):
        with pytest.raises(duckdb.Error, match="about no row") as stopped:
            rows(con, "FROM dpsql_train('people')")
        messages.append(str(stopped.value))
    assert messages[0] == messages[1]
    assert spent(db) == "0.03"


def test_an_evaluation_that_failed_is_made_up_for(con: Connection, db: Database) -> None:
    """A training whose evaluation was refused trains nothing on a second look, and measures once it can."""
    con.execute("CREATE TABLE more AS SELECT * FROM people, range(5)")
    db.register("more", tables.SCHEMA, cap=5, holdout="20%", holdout_cap="0.5")
    call = f"{TRAIN.replace('people', 'more')}, evaluate := 0.1)"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private_evaluation, "evaluate_private", _refuse)
        with pytest.raises(duckdb.Error, match="stored and paid for"):
            rows(con, call)
    rows(con, call)
    [row] = rows(con, call)
    assert (row["model"], spent(db, "more"), spent(db, "more:holdout")) == ("more_1", "0.5", "0.1")
    assert len(db.models()) == 1


def _refuse(*_: object, **__: object) -> None:
    raise dpsql.BudgetError("somebody was faster.")


def test_a_charged_evaluation_is_paid_once(con: Connection, db: Database) -> None:
    """The same figures at each look; `again` measures anew; a free one has nothing to do again."""
    rows(con, f"{TRAIN}, name := 'm')")
    call = "FROM dpsql_evaluate('m', 'people', epsilon := 0.25"
    first = rows(con, f"{call})")
    assert rows(con, f"{call.replace('0.25', '0.250')})") == first
    assert spent(db) == "0.75"
    rows(con, f"{call}, again := true)")
    assert spent(db) == "1"
    tables.fill(db.engine, "fresh", tables.some_rows(12))
    with pytest.raises(duckdb.Error, match="again must be given only with epsilon"):
        rows(con, "FROM dpsql_evaluate('m', 'fresh', again := true)")


def test_a_size_is_bought_once_for_all_advice(con: Connection, db: Database) -> None:
    """The advice may be about another epsilon: the size is the same, and paid."""
    rows(con, "FROM dpsql_advise('people', buy := 0.25)")
    rows(con, "FROM dpsql_advise('people', buy := '0.25', epsilon := 2)")
    assert spent(db) == "0.25"
    rows(con, "FROM dpsql_advise('people', buy := 0.25, again := true)")
    assert spent(db) == "0.5"
    with pytest.raises(duckdb.Error, match="again must be given only with buy"):
        rows(con, "FROM dpsql_advise('people', again := true)")


def test_updates_contributions_and_private_labels_are_paid_once(con: Connection, db: Database) -> None:
    """Two looks are one charge for each of them; other new rows under the same name are another call."""
    schema = (
        "{label: 'y', classes: ['no', 'yes'], batch: 'month', features: {x: {type: 'numeric', lower: 0, upper: 10}}}"
    )
    month = "CASE WHEN i % 2 = 0 THEN 'old' ELSE 'new' END"
    con.execute(f"CREATE TABLE sales AS SELECT i % 10 AS x, {month} AS month, 'yes' AS y FROM range(500) AS r(i)")
    con.execute("CREATE TABLE fresh AS SELECT x FROM range(5) AS r(x)")
    rows(con, f"FROM dpsql_register('sales', schema := {schema}, cap := 9)")
    rows(con, "FROM dpsql_train('sales', method := 'rdt', batch := 'old', trees := 2, depth := 2, name := 'm')")
    [shared] = rows(con, "FROM dpsql_export_structure('sales', trees := 2, depth := 2)")
    [trees] = rows(con, "FROM dpsql_structure('sales', trees := 2, depth := 2)")
    acts = {
        "FROM dpsql_update('m', 'new', epsilon := 1{})": {},
        "FROM dpsql_contribute('sales', $text, epsilon := 1{})": {"text": shared["text"]},
        "FROM dpsql_predict_private($text, 'fresh', epsilon := 1{})": {"text": trees["text"]},
    }
    for number, (act, values) in enumerate(acts.items(), start=1):
        before = len(db.models())
        assert rows(con, act.format(""), values) == rows(con, act.format(""), values)
        assert len(db.models()) == before + 1, number
        rows(con, act.format(", again := true"), values)
        assert len(db.models()) == before + 2
    con.execute("UPDATE fresh SET x = 9 - x")
    before = len(db.models())
    rows(con, act.format(""), values)
    assert len(db.models()) == before + 1
