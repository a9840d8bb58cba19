"""The commands of `dpsql`, by who uses them and in the order of use: where each is defined, and its line of help.

`dpsql --help` and the completion of commands read this list and load no command. A test compares each line with what
the command says of itself, the first sentence of its help, and keeps it within 80 columns.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.cli.late_group import ListedCommand, Sections

SECTIONS: Sections = {
    "Start": {
        "demo": ListedCommand("start_commands:demo", "Make a database of made-up people, train on it and predict"),
        "shell": ListedCommand("start_commands:shell", "Talk SQL to a database in which dpsql can be called"),
        "methods": ListedCommand(
            "method_commands:methods_command", "List the methods and when to use which; NAME shows one"
        ),
        "completion": ListedCommand(
            "completion_commands:completion_command", "Print the script that lets a shell complete words"
        ),
        "doctor": ListedCommand("server_commands:doctor", "Look a database over: rights, tables, ledger, clock"),
    },
    "Owner (says what is private, and what it may cost)": {
        "init": ListedCommand("server_commands:init_command", "Prepare a PostgreSQL database: schema, roles, rights"),
        "schema": ListedCommand("owner_commands:schema_group", "Propose schema files"),
        "add-ids": ListedCommand("owner_commands:add_ids", "Give every row a random id, for tables without a key"),
        "register": ListedCommand(
            "register_commands:register_command", "Register a private table under a public schema and a cap"
        ),
        "budget": ListedCommand(
            "owner_commands:budget_command", "Show what is spent and what is left; as owner, set a cap"
        ),
        "ledger": ListedCommand("ledger_commands:ledger", "Show who spent what, and check that nothing was changed"),
    },
    "Analyst (trains, and looks at what came of it)": {
        "advise": ListedCommand(
            "advise_commands:advise_command", "Say before anything is spent whether epsilon is worth it"
        ),
        "train": ListedCommand("train_commands:train_command", "Train a private forest on a registered table"),
        "update": ListedCommand("party_commands:update_command", "Add a new batch of rows to a model of counts"),
        "models": ListedCommand("housekeeping_commands:models", "List the stored models; drop, rename or tag one"),
        "show": ListedCommand("model_commands:show", "Show a model: its certificate, and one tree drawn as text"),
        "explain": ListedCommand(
            "explain_commands:explain_command", "Show what a model learned, or the SQL of a training run"
        ),
        "evaluate": ListedCommand(
            "evaluate_commands:evaluate_command", "Measure a model on a table: accuracy, AUC, calibration"
        ),
        "compare": ListedCommand(
            "compare_commands:compare_command", "Measure several models on the same rows, side by side"
        ),
    },
    "Share (scores rows, hands models over)": {
        "predict": ListedCommand("model_commands:predict", "Score new rows, in the database or from a file"),
        "sql": ListedCommand("model_commands:sql", "Print SQL that predicts: a SELECT, a view or a macro"),
        "export": ListedCommand("export_commands:export", "Write a model to a file: JSON, SQL for a database, ONNX"),
        "import": ListedCommand("model_commands:import_", "Store a model from a JSON file"),
    },
    "Research (several parties, single batches, measurements)": {
        "party": ListedCommand("party_commands:party", "Train one model with several parties, passing on no rows"),
        "structure": ListedCommand(
            "label_commands:label_request_command", "Write down what trees will look like, for predict --private"
        ),
        "bench": ListedCommand("bench_commands:bench", "Measure dpsql on this machine: accuracy, speed, start-up"),
    },
}

#: Environment variables, and what each is for.
VARIABLES: Mapping[str, str] = {
    "DPSQL_DB": "The database, where --db is left out",
    "DPSQL_LEDGER": "Where the ledger is, where --ledger is left out",
    "DPSQL_WHO": "Your name in the ledger, where --as is left out",
    "DPSQL_CACHE": "A folder in which method mrf keeps the strategies that it found",
    "NO_COLOR": "Set to anything, it keeps colour out of what is shown on a terminal",
}
