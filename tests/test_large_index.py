"""A large index: the processes that build it, and the memory used to read it."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import is_alive, soak_only, until, write
from memvault import Vault, open_vault
from memvault.index.local.sqlite_file import _BATCH_ROWS
from memvault.index.protocol import COMPLETE
from memvault.workspace import Workspace

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")

MANY = 3_100
"""More files than one process analyzes alone."""
WORKER = b"memvault.index.local.analysis_pool"
QUERIES = ("wombat 7 burrow", "Wie tief gräbt der Wombat?", "z1234", "who digs at night")
ASK = """
import json, os, sys
root, executable, processors = sys.argv[1:]
sys.executable = executable or sys.executable
os.sched_setaffinity(0, {*sorted(os.sched_getaffinity(0))[: int(processors)]})
from memvault import open_vault
with open_vault(root) as vault:
    found = [
        [
            (hit["memId"], {**hit["why"]["parts"], "recency": 0})  # which depends on the time
            for hit in vault.call("memory_recall", query=query, limit=9, explain=True)["memories"]
        ]
        for query in QUERIES
    ]
    print(json.dumps([found, vault.call("vault_status")["memories"]]))
"""
TWO = len(os.sched_getaffinity(0)) > 1 if sys.platform == "linux" else False
several = pytest.mark.skipif(not TWO, reason="needs two processors")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault of many short memories in two languages, and some in neither."""
    root = tmp_path_factory.mktemp("large") / "vault"
    write(root, "memvault.toml", "version = 1\n")
    for number in range(MANY):
        if number % 3 == 0:
            text = f"The wombat {number} digs a burrow at night, and sleeps in it by day."
        elif number < 600:
            text = f"z{number} wombat"
        else:
            text = f"Der Wombat {number} gräbt nachts einen Bau und schläft darin am Tag."
        write(root, f"facts/{number:04}.md", f"# Note {number}\n\n{text}\n")
    write(root, "facts/broken.md", b"---\ntitle: [\n---\n\xff\xfe wombat\n")
    return root


def environment(cache: Path) -> dict[str, str]:
    """Return the environment of a process with a private index folder.

    Matrix products are computed in one thread, because several threads add in a different order.
    """
    own = {"MEMVAULT_CACHE": str(cache), "MEMVAULT_DEEP": "off", "OPENBLAS_NUM_THREADS": "1"}
    return {**os.environ, **own}


def answers(root: Path, cache: Path, executable: str = "", processors: int = 2) -> str:
    """Index a vault from scratch in a fresh process; return its answers."""
    script = f"QUERIES = {QUERIES!r}\n{ASK}"
    command = [sys.executable, "-c", script, str(root), executable, str(processors)]
    done = subprocess.run(
        command, env=environment(cache), capture_output=True, text=True, check=True
    )
    assert not done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def expected(large: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The answers of an index built by a single process."""
    found = answers(large, tmp_path_factory.mktemp("one") / "cache", processors=1)
    assert json.loads(found)[1] == MANY + 1
    return found


@several
def test_index_is_the_same_with_any_number_of_helpers(
    large: Path, expected: str, tmp_path: Path
) -> None:
    """Hits, their order and their scores do not depend on the number of processors."""
    assert answers(large, tmp_path / "cache") == expected


@soak_only
@several
@pytest.mark.parametrize("executable", ["/bin/false", "/nowhere/python", "echo"])
def test_index_works_without_helpers(
    large: Path, expected: str, tmp_path: Path, executable: str
) -> None:
    """If helpers cannot start, or another program starts in their place, indexing still works."""
    if not executable.startswith("/nowhere"):
        python = tmp_path / "python3"
        python.write_text(f"#!/bin/sh\nexec {executable} nothing\n")
        python.chmod(0o700)
        executable = str(python)
    assert answers(large, tmp_path / "cache", executable) == expected


@pytest.fixture
def indexing(large: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has begun to index the vault, with helper processes."""
    command = [sys.executable, "-m", "memvault", "--vault", str(large), "reindex"]
    process = subprocess.Popen(
        command,
        env=environment(tmp_path / "cache"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    until(lambda: helpers(process.pid))
    yield process
    process.kill()
    process.communicate()


def helpers(number: int) -> list[int]:
    """Return the processes that analyze files for another."""
    children = Path(f"/proc/{number}/task/{number}/children").read_text("ascii").split()
    return [int(one) for one in children if WORKER in Path(f"/proc/{one}/cmdline").read_bytes()]


@soak_only
@several
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_index_helpers_exit_with_their_parent(
    large: Path, expected: str, tmp_path: Path, indexing: subprocess.Popen[bytes], sent: int
) -> None:
    """A kill or Ctrl-C silently stops all helpers, and the next indexing continues."""
    known = helpers(indexing.pid)
    os.killpg(indexing.pid, sent) if sent == signal.SIGINT else indexing.send_signal(sent)
    _, said = indexing.communicate()
    assert b"Traceback" not in said
    until(lambda: not any(map(is_alive, known)))
    assert answers(large, tmp_path / "cache") == expected


@soak_only
@several
def test_index_survives_killed_helper(
    large: Path, expected: str, tmp_path: Path, indexing: subprocess.Popen[bytes]
) -> None:
    """The work of a killed helper is done by the process that started it."""
    for helper in helpers(indexing.pid):
        os.kill(helper, signal.SIGKILL)
    printed, said = indexing.communicate()
    assert indexing.returncode == 0, said
    assert f"Indexed {MANY + 1} memories".encode() in printed
    assert answers(large, tmp_path / "cache") == expected


BATCHES = 4
COUNTING: list[tuple[str, dict[str, Any]]] = [
    ("vault_status", {}),
    ("vault_stats", {}),
    ("tag_list", {}),
    ("memory_list_types", {}),
    ("memory_list", {"memoryType": "fact", "limit": 2}),
    ("memory_list", {"sort": "title", "limit": 2}),
    ("memory_list", {"memoryType": "fatc"}),
    ("memory_orphans", {"limit": 2}),
    ("memory_random", {}),
    ("memory_recall", {"isAll": True, "memoryType": "fact", "limit": 2}),
    ("list_skill_categories", {}),
    ("list_tasks", {}),
    ("git_status", {}),
]
"""Tools that return a few memories or counts of all memories, and their arguments."""


class Heavy(NamedTuple):
    """A vault whose records are much larger than a batch, and the size of all records in bytes."""

    vault: Vault
    size: int


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heavy]:
    """A vault of memories with long headers, which the index reads in several batches."""
    root = tmp_path_factory.mktemp("heavy") / "vault"
    write(root, "memvault.toml", "version = 1\n")
    words = ", ".join(f"w{number}" for number in range(100))
    header = f"---\nmemory_type: fact\ntags: [a/b, c]\nwords: [{words}]\n---\n\n"
    for number in range(BATCHES * _BATCH_ROWS):
        write(root, f"{number}.md", f"{header}# Note {number}\n")
    with closing(Workspace(root)) as workspace:
        view = workspace.index.refresh(False, COMPLETE)
        size = traced_peak(lambda: list(view.records()))
    with open_vault(root) as vault:
        yield Heavy(vault, size)


@pytest.mark.parametrize(("name", "arguments"), COUNTING)
def test_listing_does_not_store_all_memories(
    heavy: Heavy, name: str, arguments: dict[str, Any]
) -> None:
    """Counts and short listings read the memories in batches of limited size."""
    heavy.vault.call(name, **arguments)  # imports modules
    assert traced_peak(lambda: heavy.vault.call(name, **arguments)) < heavy.size / 2


def traced_peak(action: Callable[[], object]) -> int:
    """Return the peak memory use of an action in bytes."""
    gc.collect()
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
