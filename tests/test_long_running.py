"""A long-running process does not leak files, memory or threads over thousands of calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, write

pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")

from http_client import Served, named, token
from mcp_client import Raw

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="needs Linux's /proc to count what is open"
)
RECALLS = int(os.environ.get("MEMVAULT_RECALLS", "60"))
"""The number of recalls over each transport; ``make soak`` runs 3,000."""
LIMITED = ("sh", "-c", 'ulimit -n 90 && exec "$@"', "sh")
"""Starts a program that may open at most 90 files."""
SEGMENTS = 12
"""The keyword index's variable number of files."""
NOTE = "---\nid: {0}-7k2m9q\ntitle: {0}\nmemory_type: fact\n---\n\n{1}\n"
Asks = Callable[..., dict[str, Any]]


class Held:
    """A process's resources: open files, maps of vectors, threads, and private memory in kB."""

    def __init__(self, number: int) -> None:
        self._place = Path(f"/proc/{number}")

    def files(self) -> int:
        return len(os.listdir(self._place / "fd"))

    def maps(self) -> int:
        return (self._place / "maps").read_text("utf-8").count("/vectors/rows-")

    def threads(self) -> int:
        return len(os.listdir(self._place / "task"))

    def memory(self) -> int:
        lines = (self._place / "status").read_text("utf-8").splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "VmPTE")))


def soak(folder: Path, held: Held, ask: Asks) -> None:
    """Recall repeatedly while people edit files and agents remember."""
    before = (0, 0, 0)
    memory = 0
    for number in range(RECALLS):
        if number % 5 == 1:
            write(folder, "fact/tea.md", NOTE.format("tea", f"Green tea, cup {number}."))
        if number % 7 == 2:
            title, text = f"Note {number % 50}", f"The kettle holds {number} cups."
            assert ask("memory_remember", title=title, content=text)["success"]
        found = ask("memory_recall", query=f"how many cups of tea, {number}")
        assert found["success"], (number, found)
        assert number == 0 or found["count"], number
        if number == RECALLS // 2:
            before, memory = (held.files(), held.maps(), held.threads()), held.memory()
    after = (held.files(), held.maps(), held.threads())
    assert after[0] <= before[0] + SEGMENTS, (before, after)
    assert all(now <= then + 2 for now, then in zip(after[1:], before[1:], strict=True))
    assert held.maps() <= 2
    assert held.memory() < memory + 24_000, (memory, held.memory())


@pytest.mark.promise("R66")
def test_stdio_server_leaks_nothing_over_many_calls(folder: Path) -> None:
    """Many recalls and writes over stdio do not increase open files, threads or memory."""
    with Raw(folder, LIMITED) as server:
        count = 0

        def ask(tool: str, **arguments: Any) -> dict[str, Any]:
            nonlocal count
            count += 1
            server.call(count, tool, **arguments)
            while (answer := server.receive()).get("id") != count:
                pass
            structured: dict[str, Any] = answer["result"]["structuredContent"]
            return structured

        soak(folder, Held(server.process.pid), ask)


@pytest.mark.usefixtures("folder")
def test_http_server_leaks_nothing_over_many_calls(tmp_path: Path, run: Run) -> None:
    """Many recalls and writes over HTTP do not increase open files, threads or memory."""
    team = named(run, "team", tmp_path / "team")
    given = token(run, "ann", "team", "write")
    options = ("--tools", "all", "--rate", "10000", "--audit", os.devnull)
    with Served(*options, prefix=LIMITED) as server:

        def ask(tool: str, **arguments: Any) -> dict[str, Any]:
            return dict(server.result(given, tool, **arguments))

        soak(team, Held(server.process.pid), ask)


MANY_VAULTS = """
import gc, json, os, sys, threading
from pathlib import Path
from memvault import open_vault

def own():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

def recalled(vault, answers, number):
    found = vault.call("memory_recall", query="what does the zebra eat")
    answers[number] = [(entry["title"], entry["score"]) for entry in found["memories"]]

gc.disable()  # nothing may wait for a collection
folders = sorted(Path(sys.argv[1]).iterdir())
first, *others = [open_vault(folder) for folder in folders]
answers = {}
recalled(first, answers, 0)
alone = own()
threads = [
    threading.Thread(target=recalled, args=(vault, answers, number))
    for number, vault in enumerate(others, 1)
]
for thread in threads: thread.start()
for thread in threads: thread.join()
together = own()
tables = open("/proc/self/maps").read().count("table.npy")
for vault in (first, *others): vault.close()
left = open("/proc/self/maps").read()
print(json.dumps({
    "answers": [answers[number] for number in sorted(answers)],
    "more": together - alone,
    "tables": tables,
    "left": left.count("table.npy") + left.count("/vectors/rows-"),
}))
"""


@pytest.mark.usefixtures("deep_now")
def test_vaults_in_one_process_share_models(tmp_path: Path) -> None:
    """Eight vaults open in one process load each model once and release it when closed."""
    for number in range(8):
        write(tmp_path, f"vaults/v{number}/memvault.toml", "version = 1\n")
        for name in ("grass", "leaves"):
            write(tmp_path, f"vaults/v{number}/{name}.md", f"# {name}\n\nThe zebra eats {name}.\n")
    line = [sys.executable, "-c", MANY_VAULTS, str(tmp_path / "vaults")]
    ran = subprocess.run(line, capture_output=True, check=True, timeout=120)
    told = json.loads(ran.stdout)
    assert len(told["answers"]) == 8
    assert all(answer == told["answers"][0] for answer in told["answers"])
    assert (told["tables"], told["left"]) == (1, 0)
    assert told["more"] < 120_000  # kB; a separate model takes 50,000
