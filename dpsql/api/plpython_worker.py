"""dpsql inside a PostgreSQL server: the half that works, in a process of its own beside the caller's.

`dpsql/api/plpython_caller.py` starts it for one call, as the server's own user, and speaks with it in lines of JSON.
Two kinds of acts are done here:

- what is charged: the kernel connects back to the server as the owner role. A charge is on disk before the first row
  is read, and the caller's ROLLBACK, settings, search path and temporary objects have no say in any of it. First it
  proves that it has reached the very server and database that it was called from.
- what is free: statements are built here and run in the caller's own session, under the caller's rights. No connection
  is made, and the owner's password is not read.

Exact counts, keys and the password live in this process alone, and end with it. When the caller cancels, or its
process is gone, this one stops: the statement that runs is cancelled, the charge is marked lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

#: How long making a plan may take inside the server, in seconds.
PLANNING = 30
#: The most effort that a search for one strategy may take there: a few seconds on a usual machine.
SEARCHING = 15
#: Seconds after which a process that was told to stop ends, whatever it is doing.
_LAST = 10
_CASES = ("now", "twice_rows", "twice_epsilon", "fewer_rows", "smaller_epsilon")
#: PR_SET_PDEATHSIG of Linux.
_DEATH_SIGNAL = 1
#: How a call that was charged before is charged once more.
_TRAIN_AGAIN = """options => '{"again": true}' runs it anew, for another charge"""
_OTHER_REQUEST = "request_id => 'ANOTHER' runs it anew, for another charge"
Rows = list[dict[str, Any]]


def run_worker() -> None:
    """Do what the caller's process asks for on standard input, and answer on standard output."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whatever prints: nobody hears it
    signal.signal(signal.SIGINT, _stop)
    request = json.loads(sys.stdin.readline())
    _end_with(request["pid"])
    reply: dict[str, Any]
    try:
        reply = _answer_rows(request, answers)
    except KeyboardInterrupt:
        os._exit(1)
    with contextlib.suppress(OSError):  # nobody listens any more
        answers.write(json.dumps(reply, default=_plain_number) + "\n")
        answers.flush()
    os._exit(0)


def _answer_rows(request: dict[str, Any], answers: IO[str]) -> dict[str, Any]:
    """Return rows, or an error in our own words."""
    from dpsql.api.sql_hints import POSTGRES_FORM, sql_hint
    from dpsql.engines.interruption import never_hold_interrupts
    from dpsql.errors import DpsqlError, NoRowsWarning

    never_hold_interrupts()  # `_stop` has a timer to set, whatever is under way
    act = ACTS[request["act"]]
    try:
        _check_given(request["act"], request["values"])
        with _open_as_caller(answers) if request["act"] in FREE else _open_as_owner(request) as db:
            with warnings.catch_warnings(record=True) as issued:
                warnings.simplefilter("always", NoRowsWarning)
                rows = act(db, **request["values"], **_session_of(request))
            return {"rows": rows, "notes": [str(note.message) for note in issued if note.category is NoRowsWarning]}
    except DpsqlError as error:
        return {"error": error.message, "hint": sql_hint(error.hint, POSTGRES_FORM) or ""}
    except Exception:  # noqa: BLE001  the border to the server: what passes it is shown to anyone
        return {"error": "dpsql could not finish; why is withheld.", "hint": "ask again; if it stays so, report it"}


# What is done.


def answer_train(db: Any, named: dict[str, Any], options: str | None, session: str) -> Rows:
    """Train under a charged budget and describe the new model in one row; the same call again charges nothing."""
    from dpsql.api.charged_call import ChargedCall, ChargedCalls, asked_of_training
    from dpsql.runs import train as training
    from dpsql.runs.arguments import with_options
    from dpsql.runs.private_evaluation import evaluation_of_training
    from dpsql.runs.train import TrainRequest, parse_flag

    values = with_options(named, _parse_options(options))
    again = parse_flag("again", values.pop("again", False))
    request = TrainRequest.of(values.pop("table"), values)
    request = replace(request, parameters=_limit_search(request.method, dict(request.parameters)))
    call = ChargedCall("train", asked_of_training(db, request), request.request_id, again)

    def train(request_id: str) -> Any:
        own = replace(request, request_id=request_id)
        return training.train(db.engine, db.book, own, who=db.who, planning=_limit_planning())

    def is_complete(model: Any) -> bool:
        return request.evaluate is None or evaluation_of_training(model) is not None

    calls = ChargedCalls(session, way_on=_TRAIN_AGAIN)
    model = calls.make_model(db, call, train, is_complete=is_complete).value
    budget, forest = db.budget(request.table, model.certificate.get("kind", "pure")), model.released.forest
    return [
        {
            "model": model.name,
            "method_used": model.method,
            "trees": forest.trees,
            "depth": forest.depth,
            "leaves": forest.leaves,
            "epsilon_spent": model.certificate["epsilon"],
            "neighbours": model.certificate["neighbours"],
            "spent": budget.spent_text,
            "left": budget.left_text,
        }
    ]


def answer_evaluate(db: Any, model: str, table: str, epsilon: str | None, request_id: str | None, session: str) -> Rows:
    """Measure a model on a registered private table, for epsilon; the same call again charges nothing."""
    from dpsql.api.charged_call import ChargedCall, ChargedCalls, asked_of_evaluation
    from dpsql.errors import ParameterError

    if epsilon is None:
        raise ParameterError("epsilon", allowed="given; dpsql.evaluate(model, table) reads for free", given=None)
    call = ChargedCall("evaluate", asked_of_evaluation(db, model, table, epsilon), request_id)

    def measure(own_id: str) -> Any:
        return db.evaluate(model, table, epsilon=epsilon, request_id=own_id)

    return _figure_rows(ChargedCalls(session, way_on=_OTHER_REQUEST).make(db, call, measure).value.to_dict())


def answer_evaluate_free(db: Any, model: str, table: str) -> Rows:
    """Measure a model on a table that the caller reads, as the caller."""
    return _figure_rows(db.evaluate(model, table).to_dict())


def answer_advise(
    db: Any, table: str, epsilon: str, rows: int | None, buy: str | None, request_id: str | None, session: str
) -> Rows:
    """Advise on a registered table: one row for the case as it is and for each other case."""
    from dpsql.api.charged_call import ChargedCall, ChargedCalls, asked_of_purchase

    def advise(own_id: str | None) -> dict[str, Any]:
        advice: dict[str, Any] = db.advise(table, epsilon=epsilon, rows=rows, buy=buy, request_id=own_id).to_dict()
        return advice

    if buy is None:
        with _limit_planning():
            advice = advise(request_id)
    else:
        call = ChargedCall("advise", asked_of_purchase(db, table, buy), request_id)
        advice = ChargedCalls(session, way_on=_OTHER_REQUEST).make(db, call, advise).value
    cases = [(name.replace("_", " "), advice[name]) for name in _CASES if advice[name] is not None]
    cases += [("if so many rows", outlook) for outlook in advice["by_size"]]
    names = ("rows", "epsilon", "trees", "depth", "expected_gain", "method", "verdict")
    return [{"case": case, **{name: figures[name] for name in names}} for case, figures in cases]


def answer_register(db: Any, **given: Any) -> Rows:
    """Register a table for its owner and describe the dataset in one row."""
    from dpsql.api.owner_sql import OwnerCalls

    return OwnerCalls(lambda: db).register(_owner_words(given, _OF_REGISTER))


def answer_set_cap(db: Any, **given: Any) -> Rows:
    """Set a cap for the owner and describe the budget in one row."""
    from dpsql.api.owner_sql import OwnerCalls

    return OwnerCalls(lambda: db).set_cap(_owner_words(given, ()))


def answer_verify(db: Any) -> Rows:
    """Return what in the ledger does not hold, or one row that says that it is sound."""
    from dpsql.api.owner_sql import OwnerCalls

    return OwnerCalls(lambda: db).verify({})


#: What the options of a registration may name: nothing that is a file of the server's machine, and nothing that reads
#: rows without a charge. `schema` is a JSON object, never the name of a file, for the same reason.
_OF_REGISTER = (
    "no_cap", "buy", "delta", "unit", "label", "classes", "target", "features", "lost_runs", "least_epsilon", "holdout",
    "holdout_cap", "allow_large", "view", "public", "share_budget",
)  # fmt: skip


def _owner_words(given: dict[str, Any], allowed: Sequence[str]) -> dict[str, str | None]:
    """Return the arguments of an owner's act as the acts take them: each as JSON; refuse options that are not allowed.

    A NULL for the schema or the cap of a registration says that there is none, and the act refuses that where no
    other argument says the same.
    """
    from dpsql.errors import ParameterError, UnknownName

    options = _parse_options(given.pop("options", None))
    for name in options:
        if name not in allowed:
            raise UnknownName("option", name, allowed)
    if given.get("schema") is not None and not isinstance(json.loads(given["schema"]), dict):
        raise ParameterError("schema", allowed="a JSON object with label, classes and features", given="another value")
    words: dict[str, str | None] = {}
    for name, value in {**given, **options}.items():
        if value is None and name in ("schema", "cap") and allowed:
            continue
        is_json = name == "schema"
        words[name] = value if value is None or is_json else json.dumps(value)
    if Path(str(options.get("view", ""))).suffix == ".sql":
        raise ParameterError("view", allowed="the text of a query", given="the name of a file")
    return words


def answer_check(db: Any) -> Rows:
    """Do nothing. An answer shows that this process starts and that the owner role can log in."""
    return [{"database": repr(db)}]


ACTS: dict[str, Callable[..., Rows]] = {
    "train": answer_train,
    "evaluate": answer_evaluate,
    "evaluate_free": answer_evaluate_free,
    "advise": answer_advise,
    "register": answer_register,
    "set_cap": answer_set_cap,
    "verify": answer_verify,
    "check": answer_check,
}
#: What may be charged: the same call in one session is charged once.
CHARGED = frozenset({"train", "evaluate", "advise"})
#: What the owner alone may have done. The functions are the owner's to call, and the worker looks once more.
OWNERS = frozenset({"register", "set_cap", "verify"})
#: What reads with the caller's rights and nothing else.
FREE = frozenset({"evaluate_free"})


def _session_of(request: dict[str, Any]) -> dict[str, str]:
    """Return what an act that may be charged is told of the caller's session."""
    return {"session": request["session"]} if request["act"] in CHARGED else {}


#: The arguments that no call goes without, and what SQL calls them.
_NEEDED = {"model": "model", "table": "table_name", "epsilon": "epsilon", "method": "method"}
#: Where an act can do without one of them, or says itself what is wrong.
_OPTIONAL = {"evaluate": {"epsilon"}}


def _check_given(act: str, values: dict[str, Any]) -> None:
    """Refuse a NULL where a value is needed."""
    from dpsql.errors import ParameterError

    arguments = values.get("named", values)
    for name, spelled in _NEEDED.items():
        if name in arguments and arguments[name] is None and name not in _OPTIONAL.get(act, ()):
            raise ParameterError(spelled, allowed="given", given="NULL")


def _figure_rows(evaluation: dict[str, Any]) -> Rows:
    bounds = evaluation.get("intervals", {})
    return [
        {"figure": figure, "value": value, "low": low, "high": high}
        for figure, value in evaluation.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and figure != "ledger_entry"
        for low, high in [bounds.get(figure, (None, None))]
    ]


# Whose rights it is done with.


@contextlib.contextmanager
def _open_as_owner(request: dict[str, Any]) -> Iterator[Any]:
    """Open this very server and database as the owner role, or say that it is a copy."""
    from dpsql.api.database import Database
    from dpsql.engines.postgres import loopback
    from dpsql.engines.postgres.way_back import connect_back
    from dpsql.errors import DatabaseError

    threading.Thread(target=_watch, daemon=True).start()
    copied = DatabaseError(
        "this database is a copy, or was restored or moved: its functions have no way back to it.",
        hint="a superuser runs dpsql init --plpython on it; its ledger is as old as the copy",
    )
    try:
        password = loopback.read_secret(request["folder"], request["system"], request["owner"])
    except loopback.NoSecret:
        raise copied from None
    engine = connect_back(request, password)
    if engine is None:
        raise copied
    with Database(engine, who=request["who"]) as db:
        if request["act"] in OWNERS:
            _check_owner(db, request["who"])
        yield db


def _check_owner(db: Any, who: str) -> None:
    """Refuse whoever logged in as neither the owner role, nor a member of it, nor a superuser."""
    from dpsql.errors import DatabaseError

    with db.engine.transaction() as transaction:
        (answer,) = transaction.rows("SELECT pg_has_role(CAST(? AS name), current_user, 'MEMBER') AS allowed", (who,))
    if not answer["allowed"]:
        raise DatabaseError("this is for the owner of the tables alone.", hint="log in as the owner role")


@contextlib.contextmanager
def _open_as_caller(answers: IO[str]) -> Iterator[Any]:
    """Open the caller's own session: a statement goes out as a line, and its result comes in as a line."""
    from dpsql.api.database import Database
    from dpsql.engines.postgres.way_back import through_caller

    def ask(message: dict[str, Any]) -> dict[str, Any]:
        answers.write(json.dumps(message) + "\n")
        answers.flush()
        line = sys.stdin.readline()
        if not line:
            raise KeyboardInterrupt  # the caller is gone
        answer: dict[str, Any] = json.loads(line)
        return answer

    with Database(through_caller(ask), who="") as db:
        yield db


# How it stops.


def _stop(*_: object) -> None:
    """Stop once: what is under way ends as for Ctrl-C, and the process ends soon after, whatever happens."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, _LAST)
    raise KeyboardInterrupt


def _end_with(caller: int) -> None:
    """Have this process told to stop when the caller's ends; and let it be the first to go when memory runs out."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump of this process would hold exact counts
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGINT)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    if os.getppid() != caller:
        os._exit(1)


def _watch() -> None:
    """Wait until the caller closes its end, then stop as for Ctrl-C."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGINT)


@contextlib.contextmanager
def _limit_planning() -> Iterator[None]:
    """Give up on a plan that takes too long: an analyst's options must not keep the server busy."""
    from dpsql.errors import ParameterError

    def give_up(*_: object) -> None:
        raise ParameterError(
            "options",
            allowed=f"such that a plan is found within {PLANNING} seconds inside the server",
            given="larger",
            hint="fewer trees, ensembles or cells; nothing was charged",
        )

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PLANNING)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _plain_number(value: Any) -> Any:
    """Return a NumPy number as a number of Python's own."""
    return value.item()


def _parse_options(text: str | None) -> dict[str, Any]:
    """Return a method's own parameters; PL/Python hands JSON over as text."""
    from dpsql.errors import ParameterError
    from dpsql.ledger.json_text import parse

    try:
        options = parse(text) if isinstance(text, str) else text or {}
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise ParameterError("options", allowed="an object of the method's own parameters", given="another value")
    return options


def _limit_search(method: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return a method's parameters with `effort`, where the method has it, limited to `SEARCHING`."""
    from dpsql import methods

    effort = parameters.get("effort", SEARCHING)
    if "effort" not in methods.get(method).parameters or not isinstance(effort, int):
        return parameters
    return parameters | {"effort": min(effort, SEARCHING)}
