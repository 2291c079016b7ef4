"""People see every result: laid out by its shape, or by a form that names what is there."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest

from memvault.cli import render
from memvault.cli.forms import FORMS
from memvault.cli.help_pages import EXTRA_COMMANDS
from memvault.cli.views import VIEWS
from memvault.tools.core import registry

SOURCES = "".join(
    path.read_text("utf-8")
    for path in Path(render.__file__).parents[1].rglob("*.py")
    if path.name != "forms.py"
)
OWN = {"number", "text"}
"""What the renderer itself adds to a record."""


def plain(name: str, found: dict[str, object]) -> str:
    """Return a result's lines as text."""
    return "\n".join("".join(text for text, _ in line) for line in render.lines(name, found))


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
    assert plain("a_tool_of_tomorrow", found).splitlines() == [
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


@pytest.mark.parametrize("name", FORMS)
def test_a_form_names_what_is_there(name: str) -> None:
    """A form belongs to a tool or command, and each key in it is one that the program writes."""
    tools = {tool.name for tool in registry.all_tools()}
    assert name in tools | EXTRA_COMMANDS.keys() | {"a failure", "vault init", "mcp profiles"}
    fields = {field for _, field, _, _ in Formatter().parse(FORMS[name]) if field}
    fields |= set(re.findall(r"^\*(\S+)", FORMS[name], re.MULTILINE))
    keys = {key for field in fields for key in re.findall(r"\w+", field)}
    views = Path(render.__file__).with_name("forms.py").read_text("utf-8").partition("\n}\n")[2]
    for key in keys - OWN:
        assert f'"{key}"' in SOURCES + (views if name in VIEWS else "") or f"{key}=" in SOURCES
