"""People see every result: laid out by its shape, or by a form that names what is there."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest

import memvault
from memvault.cli.registry import all_commands
from memvault.tools.core import render
from memvault.tools.core.registry import all_tools
from memvault.tools.core.render import Template

SOURCE = Path(memvault.__file__).parent
SOURCES = "".join(path.read_text("utf-8") for path in SOURCE.rglob("*.py"))
OWN = {"number", "text"}
"""What the renderer itself adds to a record."""
VIEWS = {tool.command: tool.view for tool in all_tools()}
VIEWS |= {command.words: command.view for command in all_commands()}


def plain(view: Template, found: dict[str, object]) -> str:
    """Return a result's lines as text."""
    return "\n".join("".join(text for text, _ in line) for line in render.lines(view, found))


def test_a_result_without_a_view_is_laid_out_as_for_a_model() -> None:
    """People see what a model reads, without what goes without saying; the message comes last."""
    told = {"ready": False, "wombats": [{"name": "Ann", "story": "dug\nslept"}]}
    found = {"success": True, "message": "That is all", "none": [], **told, "warnings": ["x"]}
    assert plain(Template(), found) == f"{render.text(told)}\nThat is all"


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_names_what_is_there(name: str) -> None:
    """Each key in the view of a tool or command is one that the program writes."""
    template = VIEWS[name].expanded
    fields = {field for _, field, _, _ in Formatter().parse(template) if field}
    fields |= set(re.findall(r"^\*(\S+)", template, re.MULTILINE))
    keys = {key for field in fields for key in re.findall(r"\w+", field)}
    for key in keys - OWN:
        assert f'"{key}"' in SOURCES or f"{key}=" in SOURCES
