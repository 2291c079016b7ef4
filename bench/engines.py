#!/usr/bin/env python3
"""Measure index engines: upload, recall, edits, and sizes.

    python bench/engines.py [--sizes 1000,10000] [--engines local] [--runs 7] [--patience 60] [--uri
        URI]

The memories are from ``corpus.py``. Each engine gets the same vault. As in ``speed.py``, whole
processes are measured: the first index or push; a recall; an edit and the recall that finds it.
Then the vault is used as if on another machine, which fetches the uploaded data and recalls from
it. Milvus is measured twice, as a milvus-lite file and as a milvus-lite server;
``--uri`` uses another server instead. ``--patience`` is the timeout of an engine in seconds:
milvus-lite needs more than the default, and more than a minute at 100,000.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import corpus
from processes import indexes, machine, memvault, note, prepare_environment, workplace


def size(place: Path) -> float:
    """Return the size of a folder in megabytes."""
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) / 1_000_000


def measured(
    vault: Path, uri: str, patience: int, data: Path, runs: int, queries: list[str]
) -> list[str]:
    """Measure one engine (the local one without ``uri``); return the cells of its row."""
    settings = "version = 1\n"
    if uri:
        settings += f'\n[index]\nengine = "milvus"\nuri = "{uri}"\npatience = {patience}\n'
    (vault / "memvault.toml").write_text(settings, "utf-8")
    here = ("--vault", str(vault))
    first = ("index", "push") if uri else ("recall", "anything")
    began = memvault(*first, *here).seconds
    asked = [memvault("recall", text, *here).seconds for text in queries[:runs]]
    edited = vault / "edited.md"
    found = []
    for number in range(runs):
        edited.write_text(f"A new word: zyx{number}word.\n", "utf-8")
        done = memvault("recall", f"zyx{number}word", "--json", *here)
        assert '"filePath": "edited.md"' in done.output, done.output[:500]
        found.append(done.seconds)
    edited.unlink()
    if uri:
        memvault("index", "push", *here)
    local = size(indexes())
    return [
        f"{began:.1f} s",
        f"{median(asked):.2f} s",
        f"{median(found):.2f} s",
        f"{local:.0f} MB",
        f"{size(data):.0f} MB" if data.exists() else "",
    ]


def followed(place: Path, uri: str, patience: int, runs: int, queries: list[str]) -> list[str]:
    """Measure a remote vault on another machine; return the cells of its row."""
    for name in ("CACHE", "CONFIG", "STATE"):
        os.environ[f"MEMVAULT_{name}"] = str(place / "elsewhere" / name)
    memvault("vaults", "add", "sent", uri, "--patience", str(patience))
    here = ("--vault", "sent")
    first = memvault("list", *here).seconds
    asked = [memvault("recall", text, *here).seconds for text in queries[:runs]]
    kept = size(place / "elsewhere" / "CACHE")
    return [f"{first:.1f} s", f"{median(asked):.2f} s", "", f"{kept:.0f} MB", ""]


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Run milvus-lite as a server; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "milvus_lite", "server", "--data-dir", str(folder)]
    flags = ["--host", "127.0.0.1", "--port", str(port), "--max-workers", "1"]
    process = subprocess.Popen([*command, *flags], stdout=subprocess.DEVNULL)
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Run the measurements, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sizes", default="1000,10000")
    parser.add_argument("--engines", default="local,milvus-lite,its server")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--patience", type=int, default=60)
    parser.add_argument("--uri", default="")
    wished = parser.parse_args()
    print("| memories | engine | first | recall | edit to found | here | there |")
    print("|--:|---|--:|--:|--:|--:|--:|", flush=True)
    engines = ["local", wished.uri] if wished.uri else wished.engines.split(",")
    for count in map(int, wished.sizes.split(",")):
        for engine in engines:
            with workplace(None) as place, ExitStack() as running:
                prepare_environment(place / "cache")
                for name in ("CONFIG", "STATE"):
                    os.environ[f"MEMVAULT_{name}"] = str(place / name)
                vault, data = place / "vault", place / "engine.db"
                note(f"{engine}, {count:,}")
                queries = corpus.write(vault, count, 1)["queries"]
                assert isinstance(queries, list)
                uri = "" if engine == "local" else wished.uri or str(data)
                if engine == "its server":
                    uri = running.enter_context(served(data))
                cells = measured(vault, uri, wished.patience, data, wished.runs, queries)
                print(f"| {count:,} | {engine} | {' | '.join(cells)} |", flush=True)
                if uri:
                    sender = dict(os.environ)
                    cells = followed(place, uri, wished.patience, wished.runs, queries)
                    os.environ.update(sender)
                    print(f"| {count:,} | read elsewhere | {' | '.join(cells)} |", flush=True)
                if wished.uri and uri:
                    memvault("index", "drop", "--vault", str(vault))
    print(f"\n{machine()}")


if __name__ == "__main__":
    main()
