"""Messages contain commands in backticks, and are rendered for callers that use tools."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import write
from memvault.call import LOCAL
from memvault.command_table import COMMANDS
from memvault.errors import Verbatim
from memvault.tools.core import messages, registry

SOURCE = Path(messages.__file__).parents[2]
_WORDS = "|".join(sorted((row.words for row in COMMANDS), reverse=True))
_COMMAND = re.compile(rf"\bmemvault (?:--vault \S+ )?(?:{_WORDS})(?![\w-])")
_SPAN = re.compile(r"`[^`]*`|```.*?```", re.DOTALL)
_MARKS = (
    "written by memvault setup",
    "made by memvault graph",
    "memvault recall",
    "memvault git init",
)
"""Markers that memvault writes and detects, and commands for programs."""


def _skipped(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the docstrings of functions that are not tools, and the examples of commands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "examples":
            yield node.value
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "command":
            yield from node.args
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            decorators = [ast.unparse(entry) for entry in getattr(node, "decorator_list", ())]
            if not any(re.match(r"(?:\w+\.tool|command|check)\(", text) for text in decorators):
                yield body[0]
            yield from (part for part in body[1:] if isinstance(part, ast.Expr) and _is_text(part))


def _is_text(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def messages_in(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string of a module that may be shown as a message."""
    tree = ast.parse(file.read_text("utf-8"))
    left_out = {id(part) for top in _skipped(tree) for part in ast.walk(top)}
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.JoinedStr):
            left_out |= {id(part) for part in ast.walk(node)}
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_messages_have_commands_in_backticks() -> None:
    """Every memvault command in a message, hint or help text is in backticks."""
    bare = [
        f"{file.relative_to(SOURCE)}:{line}: {text}"
        for file in sorted(SOURCE.rglob("*.py"))
        for line, text in messages_in(file)
        if _COMMAND.search(_SPAN.sub("", text)) and text not in _MARKS
    ]
    assert not bare, "\n".join(bare)


@pytest.mark.promise("R111")
@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("`memvault list` shows all", "`memory_list` shows all"),
        ("`memvault list --limit 5`", "`memory_list(limit=5)`"),
        ("`memvault list --limit N`", "`memory_list(limit)`"),
        (
            "`memvault undo --list` and `--keep-changed`",
            "`memory_undo(list=true)` and `keepChanged`",
        ),
        ("`memvault undo ab12`", "`memory_undo(change=ab12)`"),
        ("`memvault show MEMORY --section 'A b'`", "`memory_show(memId, section='A b')`"),
        ("`memvault procedure outcome roll --success`", "`update_success_rate(procedureName=roll"),
        ("`memvault trash list`", "`trash_list`"),
        ("needs `MEMORY` or `--section`", "needs `memId` or `section`"),
        ("memvault list and --limit", "memvault list and --limit"),
        ("There is no memory '`memvault list`'", "There is no memory '`memvault list`'"),
        ("`memvault doctor --fix`", "`vault_doctor(fix=true)`"),
        ("`memvault model use auto`", "`memvault model use auto`"),
        ("`memvault import FILE`", "`memvault import FILE`"),
        ("`git rm --cached`", "`git rm --cached`"),
    ],
)
def test_messages_render_replaces_commands_with_tools(text: str, rendered: str) -> None:
    """Commands in backticks become tools and keys; other text and quoted names are unchanged."""
    assert messages.render(text, registry.find("memory_show"), LOCAL).startswith(rendered)


def test_messages_render_leaves_file_names_unchanged(folder: Path) -> None:
    """A command in a file's name is data, even between spaces; one in the hint is rendered."""
    for name in ("`memvault undo`.md", "notes/a `memvault undo --list` b c.md"):
        write(folder, name, "x\n")
        said = f"{name} cannot be read: `memvault list` shows all, also the other {name}, and more"
        shown = messages.render(said, None, LOCAL, folder)
        assert shown == said.replace("`memvault list`", "`memory_list`")


def test_messages_render_leaves_custom_tool_output_unchanged() -> None:
    """The output of a vault's custom tool is unchanged."""
    said = Verbatim("run `memvault list` in the other repository")
    assert messages.render(said, None, LOCAL) == said


@pytest.mark.parametrize("text", ["{}:3 is broken", "({})", "see [{}]: no", "in {}", "{}:3:4)."])
def test_messages_render_leaves_file_names_in_punctuation_unchanged(
    folder: Path, text: str
) -> None:
    """A command in a file's name is data, even next to punctuation or a line number."""
    for name in ("notes/x `memvault undo`.md", "notes/x `memvault undo`"):
        write(folder, name, "x\n")
        said = text.format(name)
        assert messages.render(said, None, LOCAL, folder) == said
