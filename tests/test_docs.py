"""The documents say what the program does."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from memvault import __all__ as public
from memvault import __version__
from memvault.cli.help_pages import everything, overview
from memvault.command_table import HELP_GROUPS, visible_commands
from memvault.tools.core import registry

ROOT = Path(__file__).resolve().parents[1]


def test_the_reference_is_what_the_program_says() -> None:
    """The reference page and the schema are never older than the program."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "write_docs.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_every_test_says_what_a_user_can_rely_on() -> None:
    """Each test in this project has a docstring of one sentence."""
    missing = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name.startswith("test_"):
                text = ast.get_docstring(node)
                if not text or not text.strip().endswith("."):
                    missing.append(f"{path.name}::{node.name}")
    assert not missing


def test_the_first_page_of_help_fits_a_terminal() -> None:
    """It has 35 lines at most, none wider than 80, and says how to see all commands."""
    lines = overview().splitlines()
    assert len(lines) <= 35
    assert max(map(len, lines)) <= 80
    assert any("help --all" in line for line in lines)


def test_help_names_every_command() -> None:
    """No command is hidden from the page of all of them."""
    page = everything()
    for command in visible_commands():
        assert page.count(f"\n  {command.words} ") == 1, command.words
        assert command.summary in page
    for tool in registry.all_tools():
        assert re.search(rf"^  {tool.command} ", page, re.MULTILINE), tool.command


def test_the_changelog_names_this_version() -> None:
    """A reader of the changelog finds the version that is installed."""
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_links_between_the_documents_lead_somewhere() -> None:
    """No link from one page of the documentation to another is broken."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")]
    link = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in link.findall(page.read_text("utf-8"))
        if not (page.parent / target).exists()
    ]
    assert not broken


def test_public_names_exist() -> None:
    """Whatever ``memvault`` says it offers can be imported from it."""
    import memvault

    for name in public:
        assert hasattr(memvault, name)


def test_each_promise_has_its_test() -> None:
    """Each promise of the pages on security and reliability has a test, and no test another."""
    pages = (ROOT / "docs/guarantees" / f"{name}.md" for name in ("security", "reliability"))
    promised = [
        promise
        for page in pages
        for promise in re.findall(r"^\| ([SR]\d+) \|", page.read_text("utf-8"), re.MULTILINE)
    ]
    assert len(promised) == len(set(promised)) > 140
    shown = {
        promise
        for path in (ROOT / "tests").glob("test_*.py")
        for marks in re.findall(r"mark\.promise\(([^)]*)\)", path.read_text("utf-8"))
        for promise in re.findall(r'"(\w+)"', marks)
    }
    assert shown == set(promised)


def test_the_pages_stay_short() -> None:
    """README, each guide and ARCHITECTURE fit into one sitting."""
    limits = {ROOT / "README.md": 1_200, ROOT / "ARCHITECTURE.md": 1_200}
    limits |= dict.fromkeys((ROOT / "docs" / "guide").glob("*.md"), 900)
    assert len(limits) > 10
    long = {
        page.name: words
        for page, limit in limits.items()
        if (words := len(page.read_text("utf-8").split())) > limit
    }
    assert not long


def test_a_class_name_means_one_thing() -> None:
    """No two classes of the package have the same name, so that a search finds one of them."""
    places: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path.name)
    assert len(places) > 200
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


_WRITERS = {
    "files/atomic.py": "the one way to write",
    "files/target.py": "the same for files outside of vaults",
    "files/lock.py": "a lock's file, never through a link",
    "index/folder.py": "the same",
    "index/vectors/vector_file.py": "rows in the index's own folder",
    "index/embedding_worker.py": "the priority of its session, in /proc",
    "index/local/analysis_pool.py": "a pipe to the process that writes",
    "cli/shutdown.py": "the empty device",
    "cli/daemon/server.py": "the empty device",
    "server/audit.py": "the file that --audit names",
    "mcp/stdio.py": "the empty device",
    "importers/database.py": "a temporary file, into which a database in a zip is unpacked",
    "importers/reader_process.py": "a pipe to the process that imports",
}
"""Modules that may open a file for writing, and what for."""


def _writes(tree: ast.AST) -> list[int]:
    """Return the lines on which a file may be opened for writing, or made."""
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
def test_there_is_one_way_to_write() -> None:
    """No other module opens files for writing, or makes temporary ones with a name to guess."""
    found = {
        path.relative_to(ROOT / "src" / "memvault").as_posix()
        for path in (ROOT / "src" / "memvault").rglob("*.py")
        if _writes(ast.parse(path.read_text("utf-8")))
    }
    only_read = {
        "files/plain_files.py",
        "vault_tools/fingerprint.py",
        "files/walk.py",
        "vault/reader.py",
    }
    only_read |= {
        "cli/daemon/client.py",
        "cli/daemon/peer_check.py",
        "files/inotify.py",
        "importers/source.py",
    }
    assert found <= _WRITERS.keys() | only_read, found
    assert "files/atomic.py" in found


def test_install_commands_work_from_a_checkout() -> None:
    """No page and no hint installs memvault from PyPI, where the package is not."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "plugins").rglob("*.md")]
    sources = (ROOT / "src/memvault").rglob("*.py")
    by_name = re.compile(r"(pip|pipx|uv tool) install (?:--?[\w-]+ )*'?memvault\b")
    texts = {path: path.read_text("utf-8") for path in (*pages, *sources)}
    assert not [path for path, text in texts.items() if by_name.search(text)]


def test_help_lists_each_command_once_in_groups_that_fit_a_screen() -> None:
    """No command is listed twice, and no group has more than 15."""
    groups = Counter(row.group for row in visible_commands())
    assert {name: count for name, count in groups.items() if count > 15} == {}
    assert groups.keys() <= HELP_GROUPS.keys()
    listed = re.findall(r"^  ([a-z][a-z -]*?)  ", everything(), re.MULTILINE)
    assert sorted(listed) == sorted({row.words for row in visible_commands()})
    for words in ("today", "capture", "tasks", "browse", "import", "review", "web"):
        assert re.search(rf"^  {words}\b", overview(), re.MULTILINE)
