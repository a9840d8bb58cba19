"""SQL that predicts with a model: a SELECT, a view, a table macro, a scalar macro. Plain SQL over the model tables."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from dpsql.compile.predict.nesting import nest_ctes
from dpsql.compile.predict.votes import OWN_COLUMNS, predictions, scalar_prediction, stored_parts
from dpsql.compile.rows import Source, table_reference
from dpsql.compile.vocabulary import Vocabulary
from dpsql.errors import ParameterError, UnknownName, UsageError
from dpsql.kernel.datasets.dataset import fit_features, registration_of
from dpsql.kernel.datasets.untyped_columns import typed_expressions, types_read
from dpsql.models.model import ReleasedModel
from dpsql.models.score import public_table
from dpsql.schema import Dated, Numeric, Schema

#: The forms of the SQL.
FORMS = ("select", "view", "table_macro", "macro")
#: Names that the statement uses itself; a macro's parameter of the same name would replace them.
_RESERVED = frozenset(
    (
        "node",
        "class",
        "ticket",
        "leaf",
        "weight",
        "score",
        "best",
        "level",
        "model_id",
        "word",
        "shift",
        "child",
        "row",
        "split",
        "roots",
        "start",
        "scores",
        "winner",
        "vote",
        "dpsql",
        "model_node",
        "model_leaf",
        "model",
        "dpsql_words",
        "dpsql_scores",
        "number",
        "votes",
        "ways",
        "way",
        "planes",
        "nodes",
        "voices",
    )
)
#: Names with numbers that the statement uses itself.
_NUMBERED = re.compile("(word|plane|depth|level)_[0-9]+(_[0-9]+)?")


def render_scoring(
    model: ReleasedModel, form: str, *, table: str, name: str | None = None, probabilities: bool = False
) -> str:
    """Return pretty-printed SQL of one form, in the dialect of the model's database."""
    if form not in FORMS:
        raise ParameterError("form", allowed=f"one of {', '.join(FORMS)}", given=form)
    if model.database is None or model.model_id is None:
        raise ParameterError(
            "model", allowed="stored in a database", given=model.name, hint="dpsql import --from FILE, then dpsql sql"
        )
    if probabilities and (form == "macro" or model.schema.target is not None):
        raise ParameterError(
            "probabilities", allowed="asked of a form that gives rows, of a model of classes", given=form
        )
    engine = model.database.engine
    if engine.own_dialect != engine.dialect:
        raise UsageError(
            f'model "{model.name}" lies with the ledger, where SQL of {engine!r} cannot read it.',
            hint=f"dpsql predict --into TABLE, or dpsql export --dialect {engine.dialect}",
        )
    vocabulary = engine.vocabulary
    if form == "table_macro" and not vocabulary.macros:
        raise ParameterError("form", allowed="select, view or macro: this database has no macros", given=form)
    own_name = name or default_name(model, form)
    expression = statement(model, form, table, own_name, vocabulary, probabilities=probabilities)
    return expression.sql(vocabulary.dialect, pretty=True)


def create(model: ReleasedModel, form: str, *, table: str, name: str | None, probabilities: bool) -> str:
    """Create a view or macro that predicts, and return its SQL.

    It never replaces a table, a registered view or a built-in function; a view shows public rows alone.
    """
    if form == "select":
        raise UsageError("a SELECT cannot be created.", hint="--form view, table_macro or macro")
    text = render_scoring(model, form, table=table, name=name, probabilities=probabilities)
    assert model.database is not None
    engine, own_name = model.database.engine, name or default_name(model, form)
    if form == "view":
        fit_features(public_table(model.database, table), model.schema)
        existing = engine.table(own_name)
        if existing is not None and existing.kind == "table":
            raise ParameterError("name", allowed="new; a table of that name exists", given=own_name)
        if registration_of(model.database.book, own_name) is not None:
            raise ParameterError("name", allowed="new; a registered view has that name", given=own_name)
    elif engine.is_built_in(own_name):
        raise ParameterError("name", allowed="new; a built-in function has that name", given=own_name)
    with engine.transaction() as transaction:
        transaction.run(text)
    return text


def default_name(model: ReleasedModel, form: str) -> str:
    """Return the name of a model's view or macro when the caller gives none."""
    return {"view": f"{model.name}_scored", "table_macro": f"{model.name}_score"}.get(form, f"{model.name}_predict")


def statement(
    model: ReleasedModel, form: str, table: str, name: str, vocabulary: Vocabulary, *, probabilities: bool = False
) -> exp.Expr:
    """Return the statement of one form as an expression."""
    forest = model.released.forest
    parts = stored_parts(int(model.model_id or 0), model.released)
    if form == "macro":
        schema = _parameter_schema(model.schema)
        body: exp.Expr = scalar_prediction(Source(schema, table_reference("unused"), {}), forest, parts, vocabulary)
        if not vocabulary.macros:
            return _function(_home(model, name), schema, body, vocabulary.dialect)
        return _macro(name, [feature.name for feature in schema.features], body)
    argument = _free("source_table", _names(model.schema))
    relation = exp.Anonymous(this="query_table", expressions=[exp.column(argument)]) if form == "table_macro" else None
    query = predictions(
        _source_of_table(model, table),
        forest,
        parts,
        vocabulary,
        keys=_columns(model, table, vocabulary),
        result="prediction",
        nat=model.released.nat,
        probabilities=probabilities,
        relation=relation,
    )
    if form == "select":
        return query
    if form == "view":
        place = table_reference(name) if vocabulary.macros else _home(model, name)
        return exp.Create(this=place, kind="VIEW", replace=True, expression=query)
    return _macro(name, [argument], nest_ctes(query), table=True)


def _macro(name: str, parameters: list[str], body: exp.Expr, *, table: bool = False) -> exp.Expr:
    signature = exp.UserDefinedFunction(
        this=table_reference(name),
        expressions=[exp.to_identifier(parameter, quoted=True) for parameter in parameters],
        wrapped=True,
    )
    returns = exp.ReturnsProperty(this=exp.Schema(this=exp.var("TABLE")), is_table=True)
    properties = exp.Properties(expressions=[returns]) if table else None
    return exp.Create(this=signature, kind="MACRO", replace=True, properties=properties, expression=body)


def _function(name: exp.Table, schema: Schema, body: exp.Expr, dialect: str) -> exp.Expr:
    """Return a function in SQL, for a database without macros; numbers are doubles, dates are timestamps."""
    kinds = {feature.name: "DOUBLE" if isinstance(feature, Numeric) else "TEXT" for feature in schema.features}
    kinds |= {feature.name: "TIMESTAMP" for feature in schema.features if isinstance(feature, Dated)}
    parameters = [
        exp.ColumnDef(this=exp.to_identifier(parameter, quoted=True), kind=exp.DataType.build(kind))
        for parameter, kind in kinds.items()
    ]
    returns = exp.DataType.build("TEXT" if schema.target is None else "DOUBLE")
    properties = [
        exp.ReturnsProperty(this=returns),
        exp.LanguageProperty(this=exp.var("sql")),
        exp.StabilityProperty(this=exp.Literal.string("STABLE")),
    ]
    return exp.Create(
        this=exp.UserDefinedFunction(this=name, expressions=parameters, wrapped=True),
        kind="FUNCTION",
        replace=True,
        properties=exp.Properties(expressions=properties),
        expression=exp.Heredoc(this=exp.select(body).sql(dialect, pretty=True), tag="dpsql"),
    )


def _home(model: ReleasedModel, name: str) -> exp.Table:
    """Return a name in the schema where users create their own tables and views."""
    assert model.database is not None
    return table_reference(name, model.database.engine.home)


def _parameter_schema(schema: Schema) -> Schema:
    """Return the schema in which features whose names a macro cannot have as parameters are renamed."""
    taken = _names(schema)
    renamed = []
    for feature in schema.features:
        if feature.name.lower() in _RESERVED or _NUMBERED.fullmatch(feature.name.lower()):
            feature = replace(feature, name=_free(f"feature_{feature.name}", taken))
            taken.add(feature.name.lower())
        renamed.append(feature)
    return replace(schema, features=tuple(renamed))


def _names(schema: Schema) -> set[str]:
    names = [schema.label, schema.unit.column, schema.partition, *(feature.name for feature in schema.features)]
    return {name.lower() for name in names if name is not None}


def _free(name: str, taken: set[str]) -> str:
    """Return the name, lengthened until no column has it."""
    while name.lower() in taken:
        name += "_"
    return name


def _columns(model: ReleasedModel, table: str, vocabulary: Vocabulary) -> list[str] | None:
    """Return the names of all columns where `SELECT *` cannot leave out our own; the table must then exist."""
    if vocabulary.star_except or model.database is None:
        return None
    info = model.database.engine.table(table)
    if info is None:
        raise UnknownName("table", table, model.database.engine.tables())
    return [column.name for column in info.columns]


def _source_of_table(model: ReleasedModel, table: str) -> Source:
    """Return the source of a table's rows; a table that exists is read by its columns' types and in its own schema."""
    info = model.database.engine.table(table) if model.database is not None else None
    if model.database is None or info is None:
        return Source(model.schema, table_reference(table), {})
    taken = [name for name in OWN_COLUMNS if info.column(name) is not None]
    if taken:
        raise ParameterError("table", allowed=f'without a column named "{taken[0]}"', given=info.name)
    schema = None if info.schema == model.database.engine.implicit_schema else info.schema
    read, types = typed_expressions(info, model.schema), types_read(info, model.schema)
    return Source(model.schema, table_reference(info.table, schema), read, types=types)
