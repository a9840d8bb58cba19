"""A database with private tables: register, plan, train, predict, evaluate, in the words of the command line."""

from __future__ import annotations

import getpass
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from dpsql.advice.advise import Recommendation, advise_table, plan_advice
from dpsql.advice.tune import Tuning, tune
from dpsql.api import ledger_tables
from dpsql.api.buy_schema import (
    BoughtSchema,
    PlannedPurchase,
    PurchaseRequest,
    complete_by_buying,
    plan_purchase,
    register_by_buying,
    rehearse_purchase,
)
from dpsql.api.method_descriptions import MethodDescription, describe_method, method_table
from dpsql.api.progress_display import Listener, show_or_call
from dpsql.engines.base import Engine, Health
from dpsql.engines.open_engine import open_engine
from dpsql.errors import ParameterError, UsageError
from dpsql.kernel.datasets.dataset import Dataset, look_at_dataset
from dpsql.kernel.plan import Plan
from dpsql.ledger import Budget, Ledger
from dpsql.models import housekeeping, store
from dpsql.models.evaluate import evaluate
from dpsql.models.release_store import MODELS
from dpsql.models.usable_model import Model
from dpsql.owner import register as registration
from dpsql.owner.doctor import examine
from dpsql.owner.draft_schema import Draft, DraftRequest, draft_schema
from dpsql.owner.postgres_roles import PreparedServer, prepare_server
from dpsql.owner.resolve_table import read_query
from dpsql.owner.row_ids import add_row_ids
from dpsql.runs import label_rows, parties
from dpsql.runs import train as training
from dpsql.runs.arguments import takes_request
from dpsql.runs.compare import Comparison, compare, compare_private, compared_table, plan_comparison
from dpsql.runs.label_rows import ALL_ROWS, LabelRequest
from dpsql.runs.private_evaluation import charged_table, evaluate_private, plan_evaluation
from dpsql.runs.show_sql import Explanation, show_sql
from dpsql.runs.train import TrainRequest
from dpsql.runs.update import update
from dpsql.schema import Schema


def connect(
    target: Any,
    *,
    create: bool = False,
    read_only: bool = False,
    wait: float = 2.0,
    who: str | None = None,
    ledger: str | Path | None = None,
    attach: Sequence[str | Path] = (),
    memory_limit: str | None = None,
) -> Database:
    """Open a DuckDB file, files of Parquet and CSV, a server by its URL, or what a connection of yours is connected to.

    `target` is a path, `postgresql://…`, `spark://…`, `chdb://…`, a connection of DuckDB, psycopg or Ibis, a Session of
    chDB, or a SparkSession (also of Spark Connect). What dpsql opens is hardened and locked down; a DuckDB connection
    of your own cannot be: `Database.weaknesses()` says what it leaves open. Files have their ledger beside them, in
    `dpsql_ledger.duckdb`, or in the file that `ledger` names; that of Spark and chDB is where `ledger` says, and that
    of a DuckDB file that you cannot write, too. `attach` are other DuckDB files, each FILE or NAME=FILE, whose tables
    are called NAME.TABLE. `memory_limit`, such as "512MB", is what a DuckDB that dpsql opens may take of memory; more
    than that is spilled to disk. `who` is the name that ledger entries carry; by default the login name, or the
    environment variable DPSQL_WHO.
    """
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait < math.inf:
        raise ParameterError("wait", allowed="a number of seconds from 0", given=wait)
    engine = open_engine(
        target, create=create, read_only=read_only, wait=wait, ledger=ledger, attach=attach, memory_limit=memory_limit
    )
    return Database(engine, who=who)


def login() -> str:
    """Return the name to put into the ledger when none is given."""
    return os.environ.get("DPSQL_WHO") or getpass.getuser()


class Database:
    """A database that dpsql works in. Each method has a command of the same name and the same words."""

    def __init__(self, engine: Engine, *, who: str | None = None) -> None:
        self.engine = engine
        self.book = Ledger(engine)
        self.who = who or login()

    def __repr__(self) -> str:
        return f"<dpsql.Database {self.engine!r}>"

    def __reduce__(self) -> NoReturn:
        raise UsageError("a Database is a connection: it cannot be pickled or copied.", hint="connect(…) again there")

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the database go (a connection of your own stays open)."""
        self.engine.close()

    def weaknesses(self) -> list[str]:
        """Return what this connection leaves open that one opened by dpsql would not; [] when nothing."""
        return self.engine.weaknesses()

    def doctor(self) -> list[Health]:
        """Look the database over: driver, version, rights, registered tables, ledger, clock. Changes nothing."""
        return examine(self.engine, self.book)

    # The owner's acts.

    def init(
        self,
        *,
        owner: str = "dpsql_owner",
        analyst: str = "dpsql_analyst",
        tables: Sequence[str] = (),
        plpython: bool = False,
        python_path: str | None = None,
        secret_folder: str | None = None,
        keep_statistics: bool = False,
    ) -> PreparedServer:
        """Prepare a PostgreSQL database, as a superuser: schema, roles, grants, and perhaps functions that train."""
        return prepare_server(
            self.engine,
            owner=owner,
            analyst=analyst,
            tables=tables,
            plpython=plpython,
            path=python_path,
            secret_folder=secret_folder,
            keep_statistics=keep_statistics,
            who=self.who,
        )

    def register(
        self,
        table: str,
        schema: Schema | Mapping[str, Any] | str | Path,
        *,
        cap: object | None,
        entry: str | None = None,
        replace: bool = False,
        lost_runs: int | None = None,
        least_epsilon: object | None = None,
        holdout: object | None = None,
        holdout_cap: object | None = None,
        allow_large: bool = False,
        view: str | Path | None = None,
        unit: str | None = None,
        public: Sequence[str] = (),
        share_budget: bool = False,
    ) -> Dataset:
        """Register a private table under a public schema and a cap on epsilon.

        A run costs at least `least_epsilon`, and from `lost_runs` unfinished runs on further ones wait for you.
        `holdout`, such as "10%" or 0.1, is a share of the units that no model is trained on: the dataset
        "TABLE:holdout", with a budget of its own up to `holdout_cap` (the same cap unless given), for evaluations.
        A cap above 20 is refused unless `allow_large` says that it is meant.
        `view` is a query over several private tables, as text or as the Path of its file: the dataset is then called
        `table`, `unit` is its unit's column, and `public` are tables that it joins and that are public. With
        `share_budget` it pays from the budget that the same rows have already, and `cap` is None.
        """
        dataset = registration.register_table(
            self.engine,
            self.book,
            table,
            schema,
            cap=cap,
            who=self.who,
            entry=entry,
            replace=replace,
            lost_runs=lost_runs,
            least_epsilon=least_epsilon,
            holdout=holdout,
            holdout_cap=holdout_cap,
            allow_large=allow_large,
            view=read_query(view) if isinstance(view, Path) else view,
            unit=unit,
            public=public,
            share_budget=share_budget,
        )
        MODELS.install(self.engine)
        return dataset

    def draft(
        self,
        table: str,
        *,
        label: str | None = None,
        like: str | Path | None = None,
        dictionary: str | Path | None = None,
        public_tables: Sequence[str] = (),
        values_are_public: Sequence[str] = (),
        buy: object | None = None,
        delta: object | None = None,
        cap: object | None = None,
    ) -> Draft:
        """Return a proposal for each column, from the catalog and what you name as public; `text` is a schema file.

        `like` is a public sample (a file, or a table that is not private), `dictionary` a code book, `public_tables`
        are code tables. The distinct values of the columns `values_are_public` are read from the rows: you declare the
        list public knowledge, the ledger says so, and every certificate of a model of this table says so too.

        With `buy` the table is registered under `cap`, and what is still open is bought for that epsilon: bounds and,
        with a `delta`, lists of texts. Register it anew (`replace=True`) under the completed file.
        """
        request = DraftRequest(label, like, dictionary, public_tables, values_are_public)
        if buy is None:
            if cap is not None or delta is not None:
                raise ParameterError("cap", allowed="given only with buy", given=cap if delta is None else delta)
            return self.draft_of(table, request)
        if cap is None:
            raise ParameterError("cap", allowed="given with buy: the table is registered to be charged", given=cap)
        purchase = PurchaseRequest(table=table, epsilon=buy, delta=delta, draft=request)
        return complete_by_buying(self, purchase, cap=cap)[0]

    def draft_of(self, table: str, request: DraftRequest, *, look_up: bool = True) -> Draft:
        """Return the draft that a request asks for; without `look_up` no values are looked up for it."""
        return draft_schema(self.engine, self.book, table, request, who=self.who, look_up=look_up)

    def plan_purchase(
        self, table: str, *, buy: object, delta: object | None = None, cap: object | None = None, **given: Any
    ) -> PlannedPurchase:
        """Return what `buy_schema` would ask and cost. Reads no row, charges nothing.

        With a `cap` everything is refused that `buy_schema` would refuse before it charges.
        """
        own = {name: given.pop(name) for name in list(given) if name in _OF_REGISTER}
        purchase = plan_purchase(self, _purchase(table, buy, delta, given))
        if cap is None:
            return purchase
        is_open = rehearse_purchase(self, purchase, cap=cap, **own)
        return replace(purchase, is_bought_already=purchase.plan is not None and not is_open)

    def buy_schema(
        self, table: str, *, cap: object, buy: object, delta: object | None = None, **given: Any
    ) -> BoughtSchema:
        """Register a table without a schema file; what the catalog and you do not say is bought for epsilon `buy`.

        `label`, `classes`, `target`, `features` and `unit` are what you declare, and `like`, `dictionary`,
        `public_tables` and `values_are_public` what a draft may use. With a `delta` lists of texts are bought too;
        without one, texts become hashed categories whose cells in use are bought. All other arguments are those of
        `register`.
        """
        own = {name: given.pop(name) for name in list(given) if name in _OF_REGISTER}
        return register_by_buying(self, _purchase(table, buy, delta, given), cap=cap, **own)

    def add_row_ids(self, table: str, *, column: str = "dpsql_id") -> None:
        """Give every row of a table a random id of its own, to name as `partition` in its schema."""
        add_row_ids(self.engine, table, column)

    def set_cap(
        self,
        table: str,
        cap: object | None,
        *,
        analyst: str | None = None,
        default_analyst: bool = False,
        kind: str = "pure",
        delta: object | None = None,
        selection_delta: object | None = None,
        allow_large: bool = False,
    ) -> Budget:
        """Set a dataset's cap, one analyst's cap under it, or that of all analysts without one; return the budget.

        Kind "label" is a budget of its own, for methods that protect labels alone, where features are public. So is
        kind "approximate", for runs with a delta: all of them together are then (cap, delta)-private.
        `selection_delta` is the part of delta that buying lists of values may use up.
        """
        return registration.set_table_cap(
            self.engine,
            self.book,
            table,
            cap,
            who=self.who,
            analyst=analyst,
            default_analyst=default_analyst,
            kind=kind,
            delta=delta,
            selection_delta=selection_delta,
            allow_large=allow_large,
        )

    def set_limits(self, table: str, *, lost_runs: int | None = None, least_epsilon: object | None = None) -> Budget:
        """Set how many runs may stay unfinished, the least charge of a run, or both, and return the budget."""
        return registration.set_table_limits(
            self.engine, self.book, table, who=self.who, lost_runs=lost_runs, least_epsilon=least_epsilon
        )

    def accept_runs(self, table: str) -> Budget:
        """Accept a table's lost and unfinished runs, after you have looked into them; further runs go on."""
        return registration.accept_table_runs(self.engine, self.book, table, who=self.who)

    def accept(self) -> None:
        """Take the ledger as it stands for the truth, after a restored backup or a lost receipt."""
        self.book.accept(self.who)

    # Before a run.

    def advise(
        self,
        table: str,
        *,
        epsilon: object = 1,
        rows: int | None = None,
        buy: object | None = None,
        majority: float | None = None,
        request_id: str | None = None,
    ) -> Recommendation:
        """Return which method to take, its noise, and whether epsilon is worth spending. Free, and reads no row.

        The size is the declared one, the least noisy one bought, or your own guess, `rows`. With `buy` a noisy size is
        bought for that epsilon first: charged, in the ledger, and kept. `majority` is your guess of the largest class's
        share.
        """
        return advise_table(
            self.engine,
            self.book,
            table,
            epsilon=epsilon,
            rows=rows,
            buy=buy,
            majority=majority,
            who=self.who,
            request_id=request_id,
        )

    def tune(self, table: str, method: str, *, epsilon: object = 1, rows: int | None = None) -> Tuning:
        """Return the noise on leaves and votes over a grid of settings, one of them picked. Free, and reads no row."""
        return tune(look_at_dataset(self.engine, self.book, table).schema, method, epsilon=epsilon, rows=rows)

    def plan_advice(self, table: str, *, buy: object) -> Plan:
        """Return what buying a table's size for `advise` would ask and cost. Reads no row, charges nothing."""
        return plan_advice(self.engine, self.book, table, buy=buy)

    # A run.

    @takes_request(names_release=False)
    def plan(self, table: str, **arguments: Any) -> Plan:
        """Return what training would ask and cost. Reads no row, charges nothing."""
        return training.plan(self.engine, self.book, TrainRequest.of(table, arguments))

    @takes_request(names_release=False)
    def plans_by_size(self, table: str, **arguments: Any) -> tuple[tuple[int, Plan], ...]:
        """Return what would follow after buying a size, for a few likely sizes; () where none is bought. Free."""
        return training.plans_by_size(self.engine, self.book, TrainRequest.of(table, arguments))

    @takes_request(names_release=True, progress=None)
    def train(self, table: str, *, progress: Listener = None, **arguments: Any) -> Model:
        """Train a forest under a charged budget, on the whole table or one batch of it, store it, and return it.

        With `delta` the run is (epsilon, delta)-private and pays from a budget of kind "approximate". `progress` is a
        function that is called with a `dpsql.Progress` at each step; True shows them, in a notebook too.
        """
        request = TrainRequest.of(table, arguments)
        with show_or_call(progress):
            return training.train(self.engine, self.book, request, who=self.who).within(self)

    def update(
        self,
        model: str | Model,
        batch: str,
        *,
        epsilon: object | None = None,
        name: str | None = None,
        request_id: str | None = None,
        progress: Listener = None,
    ) -> Model:
        """Add a new batch's noisy counts to a model of counts, charged on that batch alone; return a new model."""
        earlier = self.model(model) if isinstance(model, str) else model
        with show_or_call(progress):
            return update(
                self.engine, self.book, earlier, batch, epsilon=epsilon, name=name, who=self.who, request_id=request_id
            ).within(self)

    def export_structure(self, table: str, **parameters: Any) -> str:
        """Return the public trees that several parties count in, as JSON text. Reads no row."""
        return parties.export_shared_trees(self.engine, self.book, table, parameters=parameters)

    def contribute(
        self,
        table: str,
        structure: str | Path,
        *,
        epsilon: object = 1,
        name: str | None = None,
        request_id: str | None = None,
        progress: Listener = None,
    ) -> Model:
        """Count this party's rows in a shared structure, under this database's ledger; return the noisy counts."""
        with show_or_call(progress):
            return parties.contribute(
                self.engine,
                self.book,
                table,
                structure,
                epsilon=epsilon,
                name=name,
                who=self.who,
                request_id=request_id,
            ).within(self)

    @takes_request(names_release=False, leaf=0)
    def explain(self, table: str, *, leaf: int = 0, **arguments: Any) -> Explanation:
        """Return the SQL that training would run: one leaf in readable form, and the one statement for all."""
        return show_sql(self.engine, self.book, TrainRequest.of(table, arguments), leaf=leaf)

    # Methods and models.

    def methods(self) -> pd.DataFrame:
        """List the methods: what each is, and when to use it; the default first. Needs no database."""
        return method_table()

    def method(self, name: str) -> MethodDescription:
        """Describe a method: what it is, when to use it, its parameters."""
        return describe_method(name)

    def models(self, *, tag: str | None = None) -> pd.DataFrame:
        """Return the stored models, one row each; with `tag` ("stage=live", or a word) those that carry it."""
        return housekeeping.model_table(self.engine, tag=tag)

    def model(self, name: str) -> Model:
        """Return a stored model by its name."""
        return store.load_model(self.engine, name).within(self)

    def drop_model(self, name: str, *, force: bool = False) -> None:
        """Drop a stored model; its charge stays. `force` drops one that views or macros read."""
        housekeeping.drop_model(self.engine, name, who=self.who, force=force)

    def rename_model(self, name: str, new: str) -> Model:
        """Give a stored model another name and return it; views and macros made from it stay as they are."""
        housekeeping.rename_model(self.engine, name, new)
        return self.model(new)

    def tag_model(self, name: str, *tags: str, remove: bool = False) -> list[str]:
        """Write tags (words, or NAME=VALUE) on a stored model, or `remove` them; return those that it has then."""
        return housekeeping.tag_model(self.engine, name, tags, remove=remove)

    def add(self, model: Model | str | Path, *, name: str | None = None) -> Model:
        """Store a model from elsewhere: a Model, or the JSON file of one."""
        loaded = model if isinstance(model, Model) else Model.from_json(model)
        return store.add(self.engine, replace(loaded, name=name or loaded.name)).within(self)

    def evaluate(
        self,
        model: str | Model,
        data: str | pd.DataFrame,
        *,
        epsilon: object | None = None,
        request_id: str | None = None,
        progress: Listener = None,
    ) -> Any:
        """Measure a model on a public table or a DataFrame, for free; on a private registered table for `epsilon`.

        Returns an `Evaluation`, or a `NumericEvaluation` where the label is a number. On private rows figures come
        from noisy counts and have `intervals`. A repeated `request_id` gives the same figures and charges nothing.
        """
        measured = self.model(model) if isinstance(model, str) else model.within(self)
        if epsilon is None:
            if request_id is not None:
                raise ParameterError("request_id", allowed="given only with epsilon", given=request_id)
            return evaluate(measured, data)
        table = charged_table(self.engine, self.book, data)
        with show_or_call(progress):
            return evaluate_private(
                self.engine, self.book, measured, table, epsilon=epsilon, who=self.who, request_id=request_id
            )

    def compare(
        self,
        models: Sequence[str | Model],
        data: str | pd.DataFrame,
        *,
        epsilon: object | None = None,
        request_id: str | None = None,
    ) -> Comparison:
        """Measure several models on the same rows: free on public ones, on a private table for `epsilon` in all."""
        measured = self._models(models)
        if epsilon is None:
            if request_id is not None:
                raise ParameterError("request_id", allowed="given only with epsilon", given=request_id)
            return compare(measured, data)
        return compare_private(
            self.engine, self.book, measured, data, epsilon=epsilon, who=self.who, request_id=request_id
        )

    def plan_comparison(self, models: Sequence[str | Model], table: str, *, epsilon: object) -> tuple[Plan, str]:
        """Return what a comparison on a private table would ask and cost, and who pays. Charges nothing."""
        measured = self._models(models)
        plan = plan_comparison(self.engine, self.book, measured, table, epsilon=epsilon)
        return plan, compared_table(self.engine, self.book, measured, table)

    def _models(self, models: Sequence[str | Model]) -> list[Model]:
        if isinstance(models, str):
            raise ParameterError("models", allowed="a list of two or more models", given=models)
        return [self.model(model) if isinstance(model, str) else model.within(self) for model in models]

    # Labels for new rows, straight from a private table.

    def structure(self, table: str, **parameters: Any) -> LabelRequest:
        """Return what the trees of a matrix random forest would look like. Reads no row, charges nothing."""
        return label_rows.label_request(self, table, parameters)

    def plan_batch(
        self, structure: LabelRequest | str | Path, data: str | Path, *, epsilon: object = 1, trees_see: str = ALL_ROWS
    ) -> tuple[Plan, str]:
        """Return what labelling a batch would ask and cost, and the table that pays. Charges nothing."""
        return label_rows.plan_labels(self, structure, data, epsilon=epsilon, trees_see=trees_see)

    def predict_private(
        self,
        structure: LabelRequest | str | Path,
        data: str | Path,
        *,
        epsilon: object = 1,
        trees_see: str = ALL_ROWS,
        name: str | None = None,
        request_id: str | None = None,
        progress: Listener = None,
    ) -> Model:
        """Label a batch of new rows under a charged budget; `predict` of the returned model reads them, for free.

        Trees see "all" rows of the private table, or disjoint "parts" of them.
        """
        with show_or_call(progress):
            return label_rows.predict_private(
                self,
                structure,
                data,
                epsilon=epsilon,
                who=self.who,
                trees_see=trees_see,
                name=name,
                request_id=request_id,
            ).within(self)

    def plan_evaluation(self, model: str | Model, table: str, *, epsilon: object) -> Plan:
        """Return what an evaluation on a private registered table would ask and cost. Reads no row, charges nothing."""
        measured = self.model(model) if isinstance(model, str) else model.within(self)
        paying = charged_table(self.engine, self.book, table)
        return plan_evaluation(self.engine, self.book, measured, paying, epsilon=epsilon)

    # The ledger.

    def ledger(self, table: str | None = None) -> pd.DataFrame:
        """Return the ledger's entries, one row each, oldest first."""
        return ledger_tables.entry_table(self.engine, self.book, table)

    def budget(self, table: str, kind: str = "pure") -> Budget:
        """Return a table's cap, what is spent and what is left, of one kind."""
        return ledger_tables.table_budget(self.engine, self.book, table, kind)

    def spent_on(self, table: str, batch: str | None = None, kind: str = "pure") -> int:
        """Return what the rows of a batch (or of the whole table) have lost so far, in nano-epsilon (or nano-rho)."""
        return ledger_tables.spent_on(self.engine, self.book, table, batch, kind)

    def budgets(self) -> list[Budget]:
        """Return the budgets of all registered tables, of every kind that was opened."""
        return ledger_tables.budgets(self.book)

    def verify(self) -> list[str]:
        """Return one sentence for each thing in the ledger that does not hold; [] when it is sound."""
        return self.book.verify()


#: The arguments of `buy_schema` that it hands on to `register`.
_OF_REGISTER = ("replace", "lost_runs", "least_epsilon", "holdout", "holdout_cap", "allow_large")


def _purchase(table: str, buy: object, delta: object | None, given: dict[str, Any]) -> PurchaseRequest:
    """Return a request from named arguments; those of a draft go into the draft's own request."""
    names = [argument.name for argument in fields(DraftRequest)]
    draft = DraftRequest(**{name: given.pop(name) for name in names if name in given})
    return PurchaseRequest(table=table, epsilon=buy, delta=delta, draft=draft, **given)
