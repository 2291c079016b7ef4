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


def test_a_tool_without_a_form_is_laid_out_by_its_shape() -> None:
    """Values stand behind their keys, records below theirs, long texts are quoted."""
    found = {
        "success": True,
        "howMany": 2,
        "ready": False,
        "tags": ["a", "b"],
        "settings": {"from": "file", "most": 3},
        "limits": {"day": {"value": 2}, "week": {"value": 9}},
        "unnamed": "",
        "wombats": [
            {"name": "Ann", "age": 3, "story": "dug\nslept", "kin": [{"name": "Bo", "age": 1}]},
            {"name": "Cy", "age": 4},
        ],
        "none": [],
        "message": "That is all",
    }
    assert plain(Template(), found).splitlines() == [
        "how many: 2",
        "ready: no",
        "tags: a, b",
        "settings: from file, most 3",
        "limits:",
        "   day  value 2",
        "   week  value 9",
        "unnamed: –",
        "wombats:",
        "   Ann  age 3",
        "      > dug",
        "      > slept",
        "      kin:",
        "      Bo  age 1",
        "   Cy  age 4",
        "That is all",
    ]


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_names_what_is_there(name: str) -> None:
    """Each key in the view of a tool or command is one that the program writes."""
    template = VIEWS[name].expanded
    fields = {field for _, field, _, _ in Formatter().parse(template) if field}
    fields |= set(re.findall(r"^\*(\S+)", template, re.MULTILINE))
    keys = {key for field in fields for key in re.findall(r"\w+", field)}
    for key in keys - OWN:
        assert f'"{key}"' in SOURCES or f"{key}=" in SOURCES
