"""A process of its own that charges where files may not grow, or as an account that may not read the receipt.

shortage.py FILE full BYTES     no file may become longer than so many bytes: what a full disk does to a writer
shortage.py FILE stranger       give up root's rights, then verify

It prints the class and the text of the error.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path

from dpsql.engines.duckdb.open_database import open_file
from dpsql.errors import DpsqlError
from dpsql.ledger import Charge, Ledger

NOBODY = 65534


def main(path: Path, what: str, *rest: str) -> None:
    """Do what was asked for and print how it ended."""
    engine = open_file(path, read_only=what == "stranger")
    ledger = Ledger(engine)
    if what == "stranger":
        os.setuid(NOBODY)
    else:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(rest[0]), resource.RLIM_INFINITY))
    try:
        if what == "stranger":
            print("found", *ledger.verify())
        else:
            ledger.reserve(Charge("full", "adult", "adult", "rdt", {}, 10**9, who="eve"))
            print("charged")
    except DpsqlError as error:
        print(type(error).__name__, error.message)
    sys.stdout.flush()
    os._exit(0)  # nothing is written any more


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
