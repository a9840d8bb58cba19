"""Draws the pictures of a page: the real output of its commands, as SVG.

    python -m examples.tutorial_pictures docs/tutorials/own-table.md

The page's Python and console blocks are run in order in an empty folder. Where a picture (`![…](NAME.svg)`) follows a
console block, all that the block's commands printed is drawn into that file. Noise has no seed, so figures differ from
one drawing to the next.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

#: How many characters wide a picture is.
WIDTH = 122
#: A fenced block with its language, or a picture.
_PART = re.compile(r"^```(\w+)\n(.*?)^```$|^!\[[^\]]*\]\(([^)]+\.svg)\)$", re.MULTILINE | re.DOTALL)
#: Dark text on a light ground, and blue for what is typed.
_THEME = TerminalTheme((250, 250, 250), (40, 40, 40), [(40, 40, 40)] * 4 + [(20, 80, 160)] + [(40, 40, 40)] * 3)


def draw_pictures(page: Path) -> list[Path]:
    """Run the blocks of a page and draw each of its pictures; return the files that were written."""
    pictures = []
    with tempfile.TemporaryDirectory() as folder:
        for target, screen in screens(page.read_text(encoding="utf-8"), Path(folder)):
            picture = page.parent / target
            picture.write_text(svg(screen, picture.stem), encoding="utf-8")
            pictures.append(picture)
    return pictures


def screens(page: str, folder: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each picture's name with the commands of the console block before it and what each printed."""
    printed: list[tuple[str, str]] = []
    names: dict[str, object] = {}
    for language, text, target in _PART.findall(page):
        if language == "python":
            with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
                exec(text, names)  # noqa: S102
        elif language == "console":
            commands = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
            printed = [(command, run_dpsql(command, folder)) for command in commands]
        elif target:
            yield target, printed


def run_dpsql(command: str, folder: Path) -> str:
    """Run a command as it stands on a page; return what it printed, remarks included. One that fails is an error."""
    words = [sys.executable, "-m", "dpsql", *shlex.split(command, comments=True)[1:]]
    surroundings = {**os.environ, "COLUMNS": str(WIDTH), "DPSQL_WHO": "owner", "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        words, cwd=folder, env=surroundings, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command}\n{done.stdout}")
    return done.stdout.rstrip()


def svg(screen: list[tuple[str, str]], name: str) -> str:
    """Return commands and what they printed as a drawing of a terminal; `name` is that of its parts' ids."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for command, printed in screen:
        console.print(Text(f"$ {command}", style="bold blue"))
        console.print(Text(printed))
    console.print()  # or the last line loses what hangs below it
    title = " ".join(screen[0][0].split()[:2])
    drawing = console.export_svg(title=title, theme=_THEME, unique_id=name)
    # Whoever looks at the page would fetch these fonts from a server; any font of equal widths does.
    return re.sub(r"\s*@font-face \{.*?\}", "", drawing, flags=re.DOTALL)


def main() -> None:
    """Draw the pictures of the pages that are named."""
    parser = argparse.ArgumentParser(description="Draw the pictures of a page from the output of its commands.")
    parser.add_argument("pages", nargs="+", type=Path)
    for page in parser.parse_args().pages:
        for picture in draw_pictures(page):
            print(picture)


if __name__ == "__main__":
    main()
