"""Commands do not import modules that they do not need."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import sampled, some_of, sooner_or_later, write
from loaded_modules import all_loaded
from memvault import open_vault

NEVER = {
    *("fastembed", "onnxruntime", "huggingface_hub", "requests", "watchdog", "dateparser"),
    *("mcp", "mcp_types", "pydantic", "anyio", "jsonschema", "pygls", "lsprotocol"),
    "kingfisher_sdk",
}
"""Modules that no plain command needs."""
PERSON = {"rich", "markdown_it", "pygments", "tqdm"}
"""Modules that are needed only for a terminal."""
VECTORS = {"numpy", "tokenizers"}
WORDS = {"whoosh", "py_rust_stemmers"}
FILES = {"sqlite3", "yaml", "frontmatter", "tomllib", "tomlkit"}
LINE = {"typer", "click"}
SLOW = {"asyncio", "multiprocessing", "concurrent", "http", "ssl", "email", "unittest"}
"""Parts of the standard library that are slow to load and that memvault does not use."""


def made(root: Path) -> Path:
    """Make a vault whose index is complete and current."""
    write(root, "memvault.toml", "version = 1\n")
    for number in range(3):
        write(root, f"n{number}.md", f"---\ntags: [x]\n---\n\n# Note {number}\n\nThe wombat.\n")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_CACHE_HOME", str(root.parent))
        with open_vault(root) as vault:
            assert vault.call("memory_recall", query="wombat")["count"] == 3
            time.sleep(1.1)  # files edited within the last second are read again
            assert vault.call("memory_recall", query="wombat")["count"] == 3
    return root


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with a tool and a complete, up-to-date index; tests may add to it."""
    root = made(tmp_path_factory.mktemp("kept") / "vault")
    write(root, "tools/x.md", "---\nname: x\ndescription: x\ncommand: [x]\n---\n")
    return root


@pytest.fixture
def current(tmp_path: Path) -> Path:
    """A private vault with a complete and current index."""
    return made(tmp_path / "vault")


def loaded(folder: Path, *arguments: str) -> set[str]:
    """Run a command in a fresh process; return the top-level modules that it loaded."""
    return {name.split(".")[0] for name in all_loaded(folder, *arguments)}


def among(found: set[str], *unwanted: set[str]) -> list[str]:
    """Return the loaded modules that should not be loaded."""
    return sorted(found & set().union(*unwanted))


PLAIN = NEVER | PERSON | SLOW
NO_INDEX = PLAIN | VECTORS | WORDS | {"sqlite3"}
HELP = NEVER | PERSON | VECTORS | WORDS | FILES
UNWANTED = {
    "--version | -V | --help | -h | ": NO_INDEX | FILES | LINE,
    "recall --help | model list --help | call --help | init --help | mcp --help": HELP,
    "types | list | show 'Note 1'": PLAIN | VECTORS | WORDS,
    "list --tags x --filter \"type == 'context'\" --json | call memory_list | recall --all | "
    "restore | recall x --mode tag | episode recent | procedure store dig 'Use paws' | "
    "skills categories | recall wombat --mode keyword": PLAIN | VECTORS,
    "recall wombat --mode hybrid | recall wombat --mode vector | "
    "fact store 'The wombat digs'": PLAIN,
    "inbox peek | inbox push hook | talk agent bob Hello | space enter team | wait for time:0 | "
    "space read --space team": NO_INDEX,
    "memories set k=v | memories get | memories delete k | goals set g 'Ship it' | "
    "goals get": NO_INDEX | {"cronsim", "zoneinfo"},
    "plans set p 'Do it' --cron '0 9 * * *' | plans get": NO_INDEX,
    "episode store --action 'Fed the wombat' | tools list | "
    "tools untrust x | call get_available_tools": NO_INDEX,
    "remember New 'A bilby.' | recall bilby | status": NEVER | PERSON,
}
"""Commands, in the order in which they run, and modules that none of them may load."""


@sampled(1)
def test_commands_import_only_needed_libraries(indexed: Path, subtests: pytest.Subtests) -> None:
    """Commands do not load modules that they do not need, such as the index or a model."""
    for lines, unwanted in UNWANTED.items():
        for line in some_of(lines.split(" | "), every=8):
            with subtests.test(line=line):
                assert among(loaded(indexed, *shlex.split(line)), unwanted) == []


def test_recall_imports_only_stop_words_from_whoosh(indexed: Path) -> None:
    """Whoosh writes the index; reading it needs none of its modules."""
    for mode in ("keyword", "hybrid"):
        found = all_loaded(indexed, "recall", "wombat", "--mode", mode)
        assert {name for name in found if name.startswith("whoosh.")} <= {
            "whoosh.lang",
            "whoosh.lang.stopwords",
        }


@pytest.mark.parametrize("event", ["prompt", "session-start", "stop", "nothing"])
def test_hook_imports_only_modules_for_its_event(indexed: Path, event: str) -> None:
    """A hook does not load command-line code, nor a session-end hook the index."""

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


def test_active_list_reads_only_the_state_file(current: Path) -> None:
    """Listing or evicting unchanged memories does not load index, vector or terminal code."""
    assert among(loaded(current, "load", "Note 1"), NEVER, PERSON, WORDS) == []
    for command in (["active", "--json"], ["evict", "Note 1"], ["active"]):
        assert among(loaded(current, *command), NEVER, PERSON, VECTORS, WORDS, SLOW) == []


def test_library_imports_no_more_than_the_command_line(indexed: Path) -> None:
    """Importing memvault and opening a vault load no library before a tool is called."""
    code = "import sys, json, memvault; memvault.open_vault('.'); print(json.dumps([*sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=indexed, capture_output=True, text=True, check=True
    )
    found = {name.split(".")[0] for name in json.loads(done.stdout)}
    assert among(found, NEVER, PERSON, VECTORS, WORDS, FILES, LINE) == []


def test_importing_memvault_does_not_import_submodules() -> None:
    """Importing memvault is cheap; opening a vault loads the rest."""
    code = "import sys, memvault; print(*[name for name in sys.modules if 'memvault' in name])"
    line = [sys.executable, "-c", code]
    assert subprocess.run(line, capture_output=True, text=True, check=True).stdout == "memvault\n"


BUDGET = {
    "recall wombat": 121,
    "inbox peek": 78,
    "goals set g Ship": 79,
    "remember New Bilby": 138,
}
"""The maximum number of memvault's modules that a command loads on a small indexed vault.

All run on one vault in this order; the last one creates a memory.
"""


def test_command_imports_few_of_our_own_modules(current: Path, subtests: pytest.Subtests) -> None:
    """A plain command imports at most a fixed number of modules, which only decreases."""
    for command, most in BUDGET.items():
        with subtests.test(command=command):
            loads = all_loaded(current, *command.split())
            found = {name for name in loads if name.startswith("memvault")}
            assert len(found) <= most, sorted(found)
