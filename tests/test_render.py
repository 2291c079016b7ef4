"""People see every result in a readable layout: by its structure, or by a custom view."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest

import memvault
from conftest import Run, succeeded, write
from memvault.cli.registry import all_commands
from memvault.tools.core import render
from memvault.tools.core.registry import all_tools
from memvault.tools.core.render import Template

SOURCE = Path(memvault.__file__).parent
SOURCES = "".join(path.read_text("utf-8") for path in SOURCE.rglob("*.py"))
OWN = {"number", "text"}
"""Fields that the renderer adds to a record."""
VIEWS = {tool.command: tool.view for tool in all_tools()}
VIEWS |= {command.words: command.view for command in all_commands()}


def plain(view: Template, found: dict[str, object]) -> str:
    """Return a result's lines as text."""
    return "\n".join("".join(text for text, _ in line) for line in render.lines(view, found))


def test_render_without_view_shows_readable_keys() -> None:
    """People see the model's data with readable keys and values; the message comes last."""
    wombats = [{"isTame": True, "petName": "Ann", "story": "dug\nslept"}]
    told = {"messageId": "m1", "ready": False, "left": [], "sizes": {}, "wombats": wombats}
    found = {"success": True, **told, "warnings": ["x"]}
    assert plain(Template(), found).split("\n") == [
        *("message id: m1", "ready: no", "left: –", "sizes: –", "wombats:", "- is tame: yes"),
        *("  pet name: Ann", "  story:", "    dug", "    slept"),
    ]
    assert render.text(found).startswith("messageId: m1\nready: false\nleft: []\nsizes: {}")
    assert plain(Template(), {"none": [], "message": "That is all"}) == "That is all"


def test_render_status_has_one_line_per_part(run: Run, folder: Path) -> None:
    """Each part of a vault's status is one line."""
    shown = succeeded(run("status")).out.splitlines()
    assert len(shown) <= 15
    assert {"vault", "memories", "index", "static vectors", "transformer"} <= {
        line.partition(":")[0] for line in shown
    }


def test_render_status_is_readable(run: Run, folder: Path) -> None:
    """Sizes have units, default settings are omitted, and waiting events show their age."""
    write(folder, "memvault.toml", 'version = 1\nlanguage = "german"\n')
    write(folder, "a.md", "Text. " * 300_000)
    header = "type: talk\ntimestamp: 2026-01-31T12:00:00.000Z\nfrom: bob\ntalkId: 7"
    write(folder, "agents/main/inbox/asked.md", f"---\n{header}\n---\n\nReady?\n")
    shown = dict(
        line.split(": ", 1) for line in succeeded(run("status")).out.splitlines() if ": " in line
    )
    assert shown["memories"].split("  ")[:2] == ["1", "1.8 MB"]
    assert shown["events"].startswith("1 waiting since 2026-01-31")
    assert shown["settings"] == "language german"
    assert shown["static vectors"] == "builtin, 1 pending, at the next recall"
    found = succeeded(run("status", "--json")).json
    assert found["sizes"]["memories"] == 1_800_000
    assert found["events"] == {"waiting": 1, "since": "2026-01-31T12:00:00.000Z"}


def test_render_uses_singular_for_one() -> None:
    """A count of one has the singular noun, and every other number the plural."""
    view = Template("{n:token|tokens}")
    assert [plain(view, {"n": n}) for n in (0, 1, 2, 1.0, 0.5)] == [
        *("0 tokens", "1 token", "2 tokens", "1 token", "0.5 tokens")
    ]


@pytest.mark.parametrize("name", VIEWS)
def test_render_view_keeps_its_indentation(name: str) -> None:
    """A view that does not begin with a newline loses only the indentation of the source."""
    head, _, below = VIEWS[name].text.partition("\n")
    margins = [len(line) - len(line.lstrip()) for line in below.split("\n") if line.strip()]
    assert not head or not margins or min(margins) % 4 == 0


def test_render_view_with_leading_newline_keeps_indentation() -> None:
    """The lines below the first stay indented."""
    assert plain(Template("\n{a}\n   {b}"), {"a": "x", "b": "y"}) == "x\n   y"


@pytest.mark.parametrize("name", VIEWS)
def test_render_views_use_only_existing_keys(name: str) -> None:
    """Each key in the view of a tool or command is one that the program writes."""
    template = VIEWS[name].expanded
    fields = {field for _, field, _, _ in Formatter().parse(template) if field}
    fields |= set(re.findall(r"^\*(\S+)", template, re.MULTILINE))
    keys = {key for field in fields for key in re.findall(r"\w+", field)}
    for key in keys - OWN:
        assert f'"{key}"' in SOURCES or f"{key}=" in SOURCES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see **the** [CI job](https://a.example/b?c=d)", "see the CI job"),
        ('a [[Note]], [[folder/Note|an alias]] and ![x](a.png "T")', "a Note, an alias and x"),
        ("at https://a.example/d/abcdefgh/overview?orgId=1 now", "at https://a.example/… now"),
        ("at https://a.example/short now", "at https://a.example/short now"),
        (
            "==new== ~~old~~ `**kwargs` 2**3**4 snake__case",
            "new old `**kwargs` 2**3**4 snake__case",
        ),
        ("- [ ] a task, [x](y", "- [ ] a task, [x](y"),
        ("[Go](https://a.example/Go_(game)) is old", "Go is old"),
    ],
)
def test_render_passage_omits_markdown_marks_and_addresses(text: str, expected: str) -> None:
    """A passage shows link text without addresses, omits marks, and shortens long URLs."""
    assert render.passage(text) == expected


def test_render_recall_explains_scores_as_a_table(run: Run, folder: Path) -> None:
    """``--explain`` prints the parts of a score, largest first, and their sum, in columns."""
    write(folder, "wombat.md", "# Wombat\n\nThe wombat digs burrows.")
    printed = succeeded(run("recall", "wombat burrows", "--explain")).out.splitlines()
    rows = [line.split() for line in printed if re.fullmatch(r"   \w+ +-?\d\.\d{4}", line)]
    *parts, (name, total) = rows
    values = [float(value) for _, value in parts]
    assert name == "score"
    assert values == sorted(values, key=abs, reverse=True)
    assert sum(values) == pytest.approx(float(total), abs=0.001)
    assert any(line.startswith("   dates: created") for line in printed)
