"""Measure other programs that search a folder of markdown, in the same run as memvault.

Each program is looked up as ``NAME/bin/NAME`` in the folder of virtual environments that
performance.py gets as ``--peers``, and in PATH; missing programs are omitted. No embedding model is
downloaded: peers with keyword search are measured with it, and for the others only the start is
measured.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from processes import machine, note, process, started, variables
from speed import Vault
from table import Finished, summary

SIZE = 1_000
_ROUNDS = 7


class Peer(NamedTuple):
    """A program and its command lines.

    The command lines have the placeholders ``{vault}`` and ``{index}`` for folders, ``{query}`` for
    a question, ``{any}`` for its words joined by OR, and ``{word}`` for its longest word.
    """

    name: str
    program: str
    does: str
    indexing: tuple[tuple[str, ...], ...] = ()
    search: tuple[str, ...] = ()
    start: tuple[str, ...] = ("--help",)

    @property
    def lines(self) -> list[tuple[str, ...]]:
        """Return all command lines, each of which begins with a program's name."""
        return [
            (self.program, *self.start),
            *self.indexing,
            *([self.search] if self.search else []),
        ]


_OWN = ("memvault", "recall", "{query}", "--vault", "{vault}")
PEERS = (
    Peer("memvault", "memvault", "words and vectors", (_OWN,), _OWN),
    Peer("memvault, keyword", "memvault", "words", (_OWN,), (*_OWN, "--mode", "keyword")),
    Peer(
        "ripgrep",
        "rg",
        "greps the files for one word",
        search=("rg", "--files-with-matches", "--glob", "*.md", "{word}", "{vault}"),
    ),
    Peer(
        "recoll",
        "recollq",
        "Xapian",
        indexing=(("recollindex", "-c", "{index}"),),
        search=("recollq", "-c", "{index}", "-o", "-n", "10", "{query}"),
        start=("-h",),
    ),
    Peer(
        "sqlite-utils",
        "sqlite-utils",
        "SQLite FTS5",
        indexing=(
            (
                *("sqlite-utils", "insert-files", "{index}/db", "notes", "{vault}", "--text"),
                *("--silent", "--pk", "path", "-c", "path:path", "-c", "content:content"),
            ),
            (
                "sqlite-utils",
                "enable-fts",
                "{index}/db",
                "notes",
                "content",
                "--tokenize",
                "porter",
            ),
        ),
        search=(
            *("sqlite-utils", "search", "{index}/db", "notes", "{any}"),
            *("-c", "path", "--limit", "10"),
        ),
    ),
    Peer(
        "markdown-vault-mcp",
        "markdown-vault-mcp",
        "SQLite FTS5, vectors off",
        indexing=(("markdown-vault-mcp", "index", "--source-dir", "{vault}"),),
        search=("markdown-vault-mcp", "search", "--source-dir", "{vault}", "{word}"),
    ),
    Peer("mdvault", "mdvault", "FTS5 and vectors; start only"),
    Peer("memsearch", "memsearch", "Milvus Lite and vectors; start only"),
    Peer("basic-memory", "basic-memory", "FTS5 and vectors; start only"),
)


def found(folder: Path) -> dict[str, list[str]]:
    """Return the start of a command line for each program that is installed."""
    commands = {"memvault": started()}
    for program in {line[0] for peer in PEERS for line in peer.lines} - {*commands}:
        own = folder / program / "bin" / program
        path = str(own) if own.exists() else shutil.which(program)
        if path:
            commands[program] = [path]
    return commands


def filled(line: Iterable[str], folders: Mapping[str, str], query: str) -> list[str]:
    """Return a command line with its placeholders replaced by folders and a question."""
    words = re.findall(r"\w+", query)
    values = {"query": query, "any": " OR ".join(words), "word": max(words, key=len)}
    return [part.format_map({**folders, **values}) for part in line]


def measured(vault: Vault, folder: Path, place: Path) -> dict[str, Any]:
    """Measure all installed programs on a vault; return medians in ms and peaks in MB."""
    commands = found(folder)
    peers = [peer for peer in PEERS if all(line[0] in commands for line in peer.lines)]
    queries = vault.corpus["queries"]

    def run(peer: Peer, line: tuple[str, ...], query: str) -> Finished:
        index = place / peer.name
        program, *rest = filled(line, {"vault": str(vault.folder), "index": str(index)}, query)
        with variables(
            HOME=str(index),
            MEMVAULT_CACHE=str(index),
            MARKDOWN_VAULT_MCP_INDEX_PATH=str(index / "db"),
        ):
            return process([*commands[program], *rest], codes=(0, 1))

    done: dict[str, dict[str, list[Finished]]] = {peer.name: {} for peer in peers}
    for peer in peers:
        note(f"peers: {peer.name}, first index")
        (place / peer.name).mkdir(parents=True)
        (place / peer.name / "recoll.conf").write_text(f"topdirs = {vault.folder}\n", "utf-8")
        if peer.indexing:
            steps = [run(peer, line, queries[0]) for line in peer.indexing]
            done[peer.name]["index"] = [together(steps)]
    passes = []
    for turn in range(_ROUNDS + 1):
        note(f"peers: round {turn} of {_ROUNDS}")
        passes.append(process([sys.executable, "-c", "pass"]))
        for peer in peers:
            lines = {"start": (peer.program, *peer.start), "search": peer.search}
            for what, line in lines.items():
                if line:
                    ended = run(peer, line, queries[turn])
                    if turn:  # the first round compiles Python modules
                        done[peer.name].setdefault(what, []).append(ended)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "pass": summary(passes),
        "programs": [
            {
                "name": peer.name,
                "does": peer.does,
                **{what: summary(runs) for what, runs in done[peer.name].items()},
            }
            for peer in peers
        ],
    }


def together(steps: list[Finished]) -> Finished:
    """Combine consecutive processes into one measurement."""
    seconds, cpu = sum(step.seconds for step in steps), sum(step.cpu for step in steps)
    return Finished(seconds, cpu, max(step.peak for step in steps), "")
