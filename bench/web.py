"""Measure the pages of ``memvault web``, the map, and the static site in a vault of a given size.

Searches are also measured while the map and the review list are computed. Pages are requested in
process. The first figure includes opening the vault, the second one is the median of nine requests.
``review``, ``graph`` and ``export --to site`` are whole processes. Seconds are wall time. Sizes are
in megabytes.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from starlette.testclient import TestClient

import corpus
from memvault import open_vault
from memvault.web.access import Access
from memvault.web.app import application
from memvault.web.session import WebSession
from memvault.web.slow_worker import SlowWorker

HOST = "127.0.0.1:8421"
ROUNDS = 9


def measure_pages(root: Path, mem_id: str) -> None:
    """Print the milliseconds of each page: the first request, and the median of the next ones."""
    session = WebSession(root)
    access = Access.random()
    app = application(session, access, ("127.0.0.1", 8421))
    pages = {
        "newest": "/",
        "search": "/results?q=which+database+do+we+use",
        "memory": f"/m/{mem_id}",
        "tags": "/tags",
        "overview": "/overview",
        "what needs a person": "/review",
        "map": "/map.json",
    }
    with TestClient(app, base_url=f"http://{HOST}") as client:
        client.get(access.first)
        for name, path in pages.items():
            times = []
            for _ in range(ROUNDS + 1):
                begin = time.perf_counter()
                answer = client.get(f"{access.base}{path}")
                times.append((time.perf_counter() - begin) * 1_000)
                assert answer.status_code == 200, (path, answer.status_code)
            median = statistics.median(times[1:])
            print(f"{name}: first {times[0]:.0f} ms, then {median:.0f} ms")
    session.close()


def measure_beside(root: Path) -> None:
    """Print the milliseconds of searches, alone and while the map and the review are computed."""
    session = WebSession(root, SlowWorker(root))

    def searched() -> float:
        begin = time.perf_counter()
        session.search("which database do we use")
        return (time.perf_counter() - begin) * 1_000

    searched()
    alone = statistics.median(searched() for _ in range(ROUNDS))
    for name, work in (("map", session.map), ("review", session.review)):
        working = threading.Thread(target=work)
        working.start()
        times = []
        while working.is_alive():
            times.append(searched())
        working.join()
        beside = f"median {statistics.median(times):.0f} ms, at most {max(times):.0f} ms"
        print(f"search beside the {name}: {beside}; alone {alone:.0f} ms")
    session.close()


def measure_review(root: Path) -> None:
    """Print the seconds of ``review`` in new processes, and after a memory has changed."""
    command = [sys.executable, "-m", "memvault", "--vault", str(root), "review"]
    times = []
    for number in range(3):
        if number == 2:
            next(root.rglob("*.md")).write_text("# Changed\n\nIt has another text.\n", "utf-8")
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(f"{time.perf_counter() - begin:.1f} s")
    print(f"review: first {times[0]}, again {times[1]}, after a change {times[2]}")


def measure_command(root: Path, *words: str) -> None:
    """Print the seconds of a command, and the size of the file or folder it wrote."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "memvault", "--vault", str(root), *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - begin
    target = Path(words[1])
    files = [target] if target.is_file() else [file for file in target.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files) / 1_000_000
    print(f"{' '.join((words[0], *words[2:]))}: {seconds:.1f} s, {size:.1f} MB")


def main() -> None:
    """Create a vault, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=10_000)
    size = parser.parse_args().size
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "vault"
        corpus.write(root, size, 1)
        (root / "memvault.toml").write_text("version = 1\n", "utf-8")
        with open_vault(root) as vault:
            vault.call("vault_reindex")
            first = vault.call("memory_list", limit=1)["memories"][0]["memId"]
        measure_review(root)
        measure_pages(root, first)
        measure_beside(root)
        measure_command(root, "graph", str(Path(folder) / "map.html"))
        measure_command(root, "export", str(Path(folder) / "site"), "--to", "site")


if __name__ == "__main__":
    main()
