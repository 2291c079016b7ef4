"""Measure how fast the browser responds to keys in a vault of several thousand memories.

Several queries are typed key by key while searches run. Screen times end when the program has
handled the key and repainted; result times end when the results for the typed text are displayed.
Figures are medians and 95th percentiles in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import corpus
from memvault import open_vault
from memvault.cli.browse.app import MemoryBrowser
from memvault.cli.browse.session import BrowserSession
from memvault.cli.options import GlobalOptions

QUERIES = ("which database do we use", "retry the upload", "who reviews a release")


async def measure(root: Path) -> tuple[list[float], list[float]]:
    """Return the times in ms from each key to the screen, and from each query to its results."""
    options = GlobalOptions()
    options.vault = str(root)
    session = BrowserSession(root, options.caller())
    browser = MemoryBrowser(options, session)
    session.progress = browser.progress
    keys: list[float] = []
    results: list[float] = []
    async with browser.run_test(size=(120, 40)) as pilot:
        await browser.workers.wait_for_complete(list(browser.workers))
        for query in QUERIES:
            for letter in query:
                painted = asyncio.Event()
                begin = time.perf_counter()
                browser.simulate_key("space" if letter == " " else letter)
                browser.screen.call_after_refresh(painted.set)
                await painted.wait()
                keys.append((time.perf_counter() - begin) * 1000)
                await asyncio.sleep(0.08)  # as fast as people type
            begin = time.perf_counter()
            await browser.workers.wait_for_complete(list(browser.workers))
            results.append((time.perf_counter() - begin) * 1000)
            await pilot.press("ctrl+a", "ctrl+k")
            await browser.workers.wait_for_complete(list(browser.workers))
    session.close()
    return keys, results


def main() -> None:
    """Create a vault, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=10_000)
    size = parser.parse_args().size
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        corpus.write(root, size, 1)
        (root / "memvault.toml").write_text("version = 1\n", "utf-8")
        with open_vault(root) as vault:
            vault.recall("anything")
        keys, results = asyncio.run(measure(root))
    high = statistics.quantiles(keys, n=20)[-1]
    print(f"{size:,} memories, {len(keys)} keys")
    print(f"key to screen: median {statistics.median(keys):.1f} ms, 95th percentile {high:.1f} ms")
    print(f"last key to results: median {statistics.median(results):.1f} ms")


if __name__ == "__main__":
    main()
