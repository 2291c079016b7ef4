"""Configuration of the documentation site, which ``make docs`` builds with Sphinx, MyST and Furo.

The source folder is the repository's root, so that the links between README, docs and transcripts
work on the site as they do in a checkout.
"""

from __future__ import annotations

import re
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1] / "src" / "memvault" / "__init__.py"
_VERSION = re.search(r'^__version__ = "(.+)"', _PACKAGE.read_text("utf-8"), re.MULTILINE)

project = "memvault"
author = "The authors of memvault"
copyright = author  # noqa: A001  # the name that Sphinx reads
version = release = _VERSION[1] if _VERSION else ""

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/**.md",
    "tests/transcripts/*.md",
    "bench/**.md",
    "training/README.md",
    "packaging/README.md",
    "tests/integrations/README.md",
]
exclude_patterns = ["**/.*", "build"]
suppress_warnings = ["myst.header"]  # a generated page begins with a comment

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block"]  # image sizes
highlight_language = "none"

html_theme = "furo"
html_title = f"memvault {version}"
html_copy_source = False
html_show_sphinx = False
html_additional_pages = {"index": "to_start.html"}
templates_path = ["site"]
