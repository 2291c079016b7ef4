"""What a command does not need is not loaded: a list of modules, not a stopwatch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import sooner_or_later, write
from memvault import open_vault

LISTING = """
import json, sys
before = set(sys.modules)
from memvault.__main__ import main
code = main(sys.argv[1:])
sys.stdout.flush()
print(json.dumps([code, sorted(set(sys.modules) - before)]), file=sys.stderr)
"""

NEVER = {
    *("fastembed", "onnxruntime", "huggingface_hub", "requests", "watchdog", "dateparser"),
    *("mcp", "mcp_types", "pydantic", "anyio", "jsonschema"),
    "kingfisher_sdk",
}
"""What no plain command needs."""
PERSON = {"rich", "markdown_it", "pygments", "tqdm"}
"""What only a terminal needs."""
VECTORS = {"numpy", "tokenizers"}
WORDS = {"whoosh", "py_rust_stemmers"}
FILES = {"sqlite3", "yaml", "frontmatter", "tomllib", "tomlkit"}
LINE = {"typer", "click"}
SLOW = {"asyncio", "multiprocessing", "concurrent", "http", "ssl", "email", "unittest"}
"""Parts of the standard library that take long to load and that nothing here is made of."""


def made(root: Path) -> Path:
    """Make a vault whose index is complete and current."""
    write(root, "memvault.toml", "version = 1\n")
    for number in range(3):
        write(root, f"n{number}.md", f"---\ntags: [x]\n---\n\n# Note {number}\n\nThe wombat.\n")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_CACHE_HOME", str(root.parent))
        with open_vault(root) as vault:
            assert vault.call("memory_recall", query="wombat")["count"] == 3
            time.sleep(1.1)  # what was edited within the last second is read once more
            assert vault.call("memory_recall", query="wombat")["count"] == 3
    return root


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault whose index is complete and current; tests may add to it."""
    return made(tmp_path_factory.mktemp("kept") / "vault")


@pytest.fixture
def current(tmp_path: Path) -> Path:
    """A vault of the test's own, whose index is complete and current."""
    return made(tmp_path / "vault")


def all_loaded(folder: Path, *arguments: str) -> set[str]:
    """Run a command in a fresh process; return all modules that it loaded."""
    done = subprocess.run(
        [sys.executable, "-c", LISTING, *arguments],
        cwd=folder,
        env={**os.environ, "XDG_CACHE_HOME": str(folder.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done
    code, names = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done
    return set(names)


def loaded(folder: Path, *arguments: str) -> set[str]:
    """Run a command in a fresh process; return the top-level modules that it loaded."""
    return {name.split(".")[0] for name in all_loaded(folder, *arguments)}


def among(found: set[str], *unwanted: set[str]) -> list[str]:
    """Name what was loaded of what should not be."""
    return sorted(found & set().union(*unwanted))


@pytest.mark.parametrize("argument", ["--version", "-V", "--help", "-h", ""])
def test_the_first_page_loads_nothing(indexed: Path, argument: str) -> None:
    """Version and help come without any library, not even the command line's."""
    found = loaded(indexed, *([argument] if argument else []))
    assert among(found, NEVER, PERSON, VECTORS, WORDS, FILES, LINE, SLOW) == []


@pytest.mark.parametrize("command", ["recall", "model list", "call", "init", "mcp"])
def test_a_commands_help_loads_no_more_than_the_command_line(indexed: Path, command: str) -> None:
    """The help of a command loads neither the index nor the files' libraries."""
    found = loaded(indexed, *command.split(), "--help")
    assert among(found, NEVER, PERSON, VECTORS, WORDS, FILES) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["types"],
        ["list"],
        ["list", "--tags", "x", "--filter", "type == 'context'", "--json"],
        ["show", "Note 1"],
        ["call", "memory_list"],
        ["recall", "x", "--mode", "tag"],
        ["recall", "--all"],
        ["restore"],
    ],
    ids=" ".join,
)
def test_looking_at_memories_needs_no_vectors(indexed: Path, arguments: list[str]) -> None:
    """On a current index, types, list, show and recall by tag load no vectors and no terminal."""
    assert among(loaded(indexed, *arguments), NEVER, PERSON, VECTORS, SLOW) == []


@pytest.mark.parametrize("arguments", [["types"], ["list"], ["show", "Note 1"]], ids=" ".join)
def test_looking_at_memories_needs_no_keyword_index(indexed: Path, arguments: list[str]) -> None:
    """On a current index, types, list and show are answered from the manifest and the files."""
    assert among(loaded(indexed, *arguments), WORDS) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["inbox", "peek"],
        ["inbox", "push", "hook"],
        ["talk", "agent", "bob", "Hello"],
        ["space", "enter", "team"],
        ["space", "read", "--space", "team"],
        ["wait", "for", "time:0"],
    ],
    ids=" ".join,
)
def test_talking_needs_no_index_and_no_watcher(indexed: Path, arguments: list[str]) -> None:
    """Inboxes, talk and spaces load neither index nor vectors, and nothing to watch folders."""
    if "read" in arguments:
        loaded(indexed, "space", "enter", "team")
    found = loaded(indexed, *arguments)
    assert among(found, NEVER, PERSON, VECTORS, WORDS, SLOW, {"sqlite3"}) == []


@pytest.mark.parametrize("event", ["prompt", "session-start", "stop", "nothing"])
def test_a_hook_loads_what_its_event_asks(indexed: Path, event: str) -> None:
    """A hook, which runs at each prompt, loads no command line; an end loads no index either."""

    def asked() -> str:
        line = [sys.executable, "-X", "importtime", "-m", "memvault", "hook", event]
        done = subprocess.run(
            [*line, "--for", "codex"],
            cwd=indexed,
            env={**os.environ, "XDG_CACHE_HOME": str(indexed.parent)},
            input='{"prompt": "wombat", "cwd": "/tmp/wombat"}',
            capture_output=True,
            text=True,
            check=True,
        )
        return f"{done.stderr}\n{done.stdout}" if says == ("wombat" in done.stdout) else ""

    says = event in ("prompt", "session-start")
    lines = sooner_or_later(asked).splitlines()
    found = {line.rpartition("|")[2].strip().split(".")[0] for line in lines}
    assert among(found, NEVER, PERSON, LINE, SLOW) == []
    if event in ("stop", "nothing"):
        assert among(found, VECTORS, WORDS, {"sqlite3"}) == []


@pytest.mark.parametrize("mode", ["keyword", "hybrid", "vector"])
def test_a_recall_loads_what_it_asks(indexed: Path, mode: str) -> None:
    """A keyword recall loads no vectors; with the built-in embedder nothing loads a model."""
    found = loaded(indexed, "recall", "wombat", "--mode", mode)
    assert among(found, NEVER, PERSON, SLOW) == []
    if mode == "keyword":
        assert among(found, VECTORS) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["memories", "set", "k=v"],
        ["memories", "get"],
        ["memories", "delete", "k"],
        ["goals", "set", "g", "Ship it"],
        ["goals", "get"],
        ["plans", "set", "p", "Do it", "--cron", "0 9 * * *"],
        ["plans", "get"],
    ],
    ids=" ".join,
)
def test_an_agents_state_needs_no_index(indexed: Path, arguments: list[str]) -> None:
    """Key-values, goals and plans load neither side of the index, and no terminal."""
    found = loaded(indexed, *arguments)
    assert among(found, NEVER, PERSON, VECTORS, WORDS, {"sqlite3"}, SLOW) == []
    if arguments[0] != "plans":
        assert among(found, {"cronsim", "zoneinfo"}) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["episode", "store", "--action", "Fed the wombat"],
        ["fact", "store", "The wombat digs"],
        ["tools", "list"],
        ["tools", "untrust", "x"],
        ["call", "get_available_tools"],
    ],
    ids=" ".join,
)
def test_what_needs_no_index_loads_none(indexed: Path, arguments: list[str]) -> None:
    """Storing an episode or a fact, listing tools and trusting them are quick."""
    found = loaded(indexed, *arguments)
    assert among(found, NEVER, PERSON, VECTORS, WORDS, {"sqlite3"}, SLOW) == []


@pytest.mark.parametrize(
    "arguments",
    [["episode", "recent"], ["procedure", "store", "dig", "Use paws"], ["skills", "categories"]],
    ids=" ".join,
)
def test_listing_experience_needs_no_vectors(indexed: Path, arguments: list[str]) -> None:
    """Episodes of the last days, procedures by name and the tree of skills need no vectors."""
    assert among(loaded(indexed, *arguments), NEVER, PERSON, VECTORS, SLOW) == []


def test_remembering_and_indexing_load_no_model(indexed: Path) -> None:
    """Writing, and indexing what was written, load neither a model's runtime nor a terminal."""
    assert among(loaded(indexed, "remember", "New", "A bilby."), NEVER, PERSON) == []
    write(indexed, "more.md", "# More\n\nThe numbat.\n")
    assert among(loaded(indexed, "recall", "numbat"), NEVER, PERSON) == []
    assert among(loaded(indexed, "status"), NEVER, PERSON) == []


def test_the_active_set_is_listed_from_a_small_file(current: Path) -> None:
    """Listing and evicting what has not changed load neither index nor vectors nor a terminal."""
    assert among(loaded(current, "load", "Note 1"), NEVER, PERSON, WORDS) == []
    for command in (["active", "--json"], ["evict", "Note 1"], ["active"]):
        assert among(loaded(current, *command), NEVER, PERSON, VECTORS, WORDS, SLOW) == []


def test_the_library_loads_as_little_as_the_command_line(indexed: Path) -> None:
    """Importing memvault and opening a vault load no library before a tool is called."""
    code = "import sys, json, memvault; memvault.open_vault('.'); print(json.dumps([*sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=indexed, capture_output=True, text=True, check=True
    )
    found = {name.split(".")[0] for name in json.loads(done.stdout)}
    assert among(found, NEVER, PERSON, VECTORS, WORDS, FILES, LINE) == []


BUDGET = {
    "recall wombat": 105,
    "inbox peek": 65,
    "goals set g Ship": 60,
    "remember New Bilby": 110,
}
"""How many of memvault's own modules a command may load on a small vault whose index is current.

The order is that in which they are tried on one vault: what makes a memory is the last.
"""


def test_a_command_loads_few_of_our_own_modules(current: Path, subtests: pytest.Subtests) -> None:
    """A plain command stays within a number of modules, which is lowered as they get fewer."""
    for command, most in BUDGET.items():
        with subtests.test(command=command):
            loads = all_loaded(current, *command.split())
            found = {name for name in loads if name.startswith("memvault")}
            assert len(found) <= most, sorted(found)
