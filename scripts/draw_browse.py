"""Draw the screenshot of the browser for docs/guide/browse.md from the sample vault."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from pathlib import Path

from memvault.cli.browse.app import MemoryBrowser
from memvault.cli.browse.session import BrowserSession
from memvault.cli.options import GlobalOptions

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "pictures" / "browse.svg"
QUERY = "why is a file renamed"


async def draw(vault: Path) -> str:
    """Return the screen after a query as SVG, without references to web fonts."""
    options = GlobalOptions()
    options.vault = str(vault)
    session = BrowserSession(vault, options.caller())
    browser = MemoryBrowser(options, session, QUERY)
    async with browser.run_test(size=(110, 26)) as pilot:
        for _ in range(3):
            await browser.workers.wait_for_complete(list(browser.workers))
            await pilot.pause()
        svg = browser.export_screenshot(title="memvault browse")
    session.close()
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def main() -> None:
    """Write the image."""
    with tempfile.TemporaryDirectory() as folder:
        vault = Path(folder) / "notes"
        shutil.copytree(ROOT / "sample", vault)
        (vault / "memvault.toml").write_text("version = 1\n", "utf-8")
        os.environ["MEMVAULT_CACHE"] = f"{folder}/cache"
        PICTURE.write_text(asyncio.run(draw(vault)), "utf-8")


if __name__ == "__main__":
    main()
