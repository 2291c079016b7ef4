"""Help, public names, and the single module that writes files."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from memvault import __all__ as public
from memvault.cli.help_pages import all_commands_page, overview
from memvault.command_table import HELP_GROUPS, visible_commands
from memvault.tools.core import registry

ROOT = Path(__file__).resolve().parents[1]


def test_help_first_page_fits_terminal() -> None:
    """The page has at most 35 lines of 80 characters and explains how to list all commands."""
    lines = overview().splitlines()
    assert len(lines) <= 35
    assert max(map(len, lines)) <= 80
    assert any("help --all" in line for line in lines)


def test_help_lists_every_command() -> None:
    """The page of all commands lists every command."""
    page = all_commands_page()
    for command in visible_commands():
        assert page.count(f"\n  {command.words} ") == 1, command.words
        assert command.summary in " ".join(page.split())
    for tool in registry.all_tools():
        assert re.search(rf"^  {tool.command} ", page, re.MULTILINE), tool.command


def test_public_names_exist() -> None:
    """Every public name that ``memvault`` lists can be imported from it."""
    import memvault

    for name in public:
        assert hasattr(memvault, name)


_WRITERS = {
    "files/atomic.py": "the one way to write",
    "files/target.py": "the same for files outside of vaults",
    "files/lock.py": "a lock's file, never through a link",
    "index/folder.py": "the same",
    "index/keyword/segment.py": "segments in the index's own folder",
    "index/vectors/vector_file.py": "rows in the index's own folder",
    "index/embedding_worker.py": "the priority of its session, in /proc",
    "cli/shutdown.py": "the empty device",
    "cli/daemon/server.py": "the empty device",
    "server/audit.py": "the file that --audit names",
    "process.py": "the empty device, and pipes between memvault's own processes",
    "importers/database.py": "a temporary file, into which a database in a zip is unpacked",
}
"""Modules that may open a file for writing, and the purpose."""


def _writes(tree: ast.AST) -> list[int]:
    """Return the lines on which a file may be opened for writing or created."""
    lines = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        texts = [
            entry.value
            for entry in (*node.args, *(word.value for word in node.keywords))
            if isinstance(entry, ast.Constant) and isinstance(entry.value, str)
        ]
        base = getattr(getattr(node.func, "value", None), "id", "")
        mode = name in ("open", "fdopen") and any(set(text) & set("wax+") for text in texts[-1:])
        if name in ("write_text", "write_bytes", "touch", "mkstemp", "mkdtemp") or (
            mode or (base == "os" and name == "open")
        ):
            lines.append(node.lineno)
    return lines


@pytest.mark.promise("S35")
def test_only_one_module_writes_files() -> None:
    """No other module opens files for writing or creates temporary files with guessable names."""
    found = {
        path.relative_to(ROOT / "src" / "memvault").as_posix()
        for path in (ROOT / "src" / "memvault").rglob("*.py")
        if _writes(ast.parse(path.read_text("utf-8")))
    }
    only_read = {
        "files/plain_files.py",
        "vault_tools/fingerprint.py",
        "files/walk.py",
        "vault/scan.py",
    }
    only_read |= {
        "cli/daemon/client.py",
        "cli/daemon/peer_check.py",
        "files/inotify.py",
        "importers/source.py",
    }
    assert found <= _WRITERS.keys() | only_read, found
    assert "files/atomic.py" in found


def test_help_lists_each_command_once_in_small_groups() -> None:
    """Every command is listed once, and no group has more than 15."""
    groups = Counter(row.group for row in visible_commands())
    assert {name: count for name, count in groups.items() if count > 15} == {}
    assert groups.keys() <= HELP_GROUPS.keys()
    listed = re.findall(r"^  ([a-z][a-z -]*?)  ", all_commands_page(), re.MULTILINE)
    assert sorted(listed) == sorted({row.words for row in visible_commands()})
    for words in ("today", "capture", "tasks", "browse", "import", "review", "web"):
        assert re.search(rf"^  {words}\b", overview(), re.MULTILINE)
