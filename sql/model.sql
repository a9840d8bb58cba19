-- Released models as plain tables. Everything here is public: a model is safe to publish.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

CREATE SCHEMA IF NOT EXISTS dpsql;

CREATE TABLE IF NOT EXISTS dpsql.format (
    part    VARCHAR NOT NULL PRIMARY KEY,
    number  INTEGER NOT NULL
);
INSERT INTO dpsql.format (part, number)
SELECT 'model', 1 WHERE NOT EXISTS (SELECT 1 FROM dpsql.format WHERE part = 'model');

-- One row per model, with the certificate that says what it cost and for whom it is private.
CREATE TABLE IF NOT EXISTS dpsql.model (
    model_id    INTEGER NOT NULL PRIMARY KEY,
    name        VARCHAR NOT NULL UNIQUE,
    method      VARCHAR NOT NULL,
    table_name  VARCHAR NOT NULL,               -- the private table it was trained on
    trees       INTEGER NOT NULL,
    depth       INTEGER NOT NULL,
    leaves      INTEGER NOT NULL,
    epsilon     VARCHAR NOT NULL,               -- exact decimal
    created_at  VARCHAR NOT NULL,               -- UTC, ISO 8601
    digest      VARCHAR NOT NULL,               -- SHA-256 of structure and weights
    entry_id    BIGINT,                         -- the ledger entry; NULL for an imported model
    schema      VARCHAR NOT NULL,               -- JSON
    certificate VARCHAR NOT NULL                -- JSON
);

-- The splits, level by level. Nodes of a level are numbered over all trees; a root's number is its tree's.
-- A node reads six bits of a packed word; bit p of the child's offset is the cell's bit in plane_p.
CREATE TABLE IF NOT EXISTS dpsql.model_node (
    model_id INTEGER  NOT NULL,
    level    SMALLINT NOT NULL,
    node     INTEGER  NOT NULL,
    axis     SMALLINT NOT NULL,                 -- -1: a leaf reached early, which passes everything on
    arity    UTINYINT NOT NULL,
    word     SMALLINT NOT NULL,
    shift    UTINYINT NOT NULL,
    child    INTEGER  NOT NULL,                 -- the first child's number on the next level
    plane_0  UBIGINT  NOT NULL,
    plane_1  UBIGINT  NOT NULL,
    plane_2  UBIGINT  NOT NULL,
    plane_3  UBIGINT  NOT NULL,
    plane_4  UBIGINT  NOT NULL,
    plane_5  UBIGINT  NOT NULL
);

-- What each leaf says: a vote of so much weight for a class. A leaf has at least one row.
CREATE TABLE IF NOT EXISTS dpsql.model_leaf (
    model_id INTEGER  NOT NULL,
    leaf     INTEGER  NOT NULL,
    class    SMALLINT NOT NULL,
    weight   BIGINT   NOT NULL
);
