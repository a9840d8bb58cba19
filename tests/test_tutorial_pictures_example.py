"""`examples/tutorial_pictures.py` draws what a page's commands print."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.tutorial_pictures import draw_pictures

PAGE = """
```python
from pathlib import Path

Path("rows.csv").write_text("a,b" + chr(10) + "1,2" + chr(10))
```

```console
$ dpsql {command}
```

![a picture](drawn.svg)
"""


def test_a_picture_has_the_command_and_what_it_printed(tmp_path: Path) -> None:
    """Commands run in the folder of the page's Python blocks, and nothing is fetched from a server."""
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(command="schema draft --db rows.csv --table rows"))
    assert draw_pictures(page) == [tmp_path / "drawn.svg"]
    drawing = (tmp_path / "drawn.svg").read_text()
    assert "schema&#160;draft" in drawing
    assert "privacy_unit" in drawing
    assert "@font-face" not in drawing
    assert not (tmp_path / "rows.csv").exists()


def test_a_command_that_fails_draws_nothing(tmp_path: Path) -> None:
    """A picture never shows an error that the page does not speak of."""
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(command="models --db nowhere.duckdb"))
    with pytest.raises(SystemExit, match=r"nowhere\.duckdb"):
        draw_pictures(page)
    assert not (tmp_path / "drawn.svg").exists()
