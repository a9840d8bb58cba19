"""How Sphinx builds these pages as a site: `make docs`, or `sphinx-build -W --keep-going -b html docs FOLDER`."""

import tomllib
from pathlib import Path

_PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "dpsql"
author = "The dpsql authors"
copyright = f"{author}, Apache-2.0"  # noqa: A001  Sphinx asks for this name
version = release = _PROJECT["version"]

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3  # `page.md#a-heading` leads to the same place here and where the pages are read as files

html_theme = "furo"
html_title = f"dpsql {version}"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["style"]
html_css_files = ["site.css"]
pygments_style = "friendly"
pygments_dark_style = "github-dark"
