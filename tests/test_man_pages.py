"""Manual pages, which a wheel installs with the program."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

import man_pages
from memvault.command_table import COMMANDS

PAGES = man_pages.pages()
_REQUEST = re.compile(r"^[.'](\w*)", re.MULTILINE)


def test_man_page_exists_for_each_command() -> None:
    """``man memvault`` lists each command, and each has a page with summary and examples."""
    assert {"memvault.1", "memvault-recall.1", "memvault-tag-rename.1"} <= PAGES.keys()
    assert len(PAGES) == len({command.words for command in COMMANDS}) + 1
    for command in COMMANDS:
        page = PAGES[f"memvault-{command.words.replace(' ', '-')}.1"]
        assert f"\\fBmemvault {command.words}\\fP" in page.replace("\\-", "-")
        assert f"\\fB{command.words}\\fP" in PAGES["memvault.1"].replace("\\-", "-")
        assert ".SH EXAMPLES\n.nf\n" in page


def test_man_page_text_is_not_a_troff_request() -> None:
    """A line of a page is a man(7) request only if the page intends it."""
    used = {name for page in PAGES.values() for name in _REQUEST.findall(page)}
    assert used == {"TH", "SH", "TP", "PP", "nf", "fi"}
    assert "MEMVAULT_RESIDENT" in PAGES["memvault.1"]


def test_man_pages_format_without_warnings() -> None:
    """``groff`` formats the pages as man(1) does, without a warning."""
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is missing")
    for name in ("memvault.1", "memvault-recall.1"):
        done = subprocess.run(
            [groff, "-man", "-Tutf8", "-ww", "-Kutf8"],
            input=PAGES[name].encode(),
            capture_output=True,
            check=True,
        )
        assert done.stderr == b""
        plain = re.sub(rb".\x08", b"", done.stdout).decode()
        assert "NAME\n" in plain
        assert "memvault(1)" in plain.lower()
