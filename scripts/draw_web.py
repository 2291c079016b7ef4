"""Take the screenshots of docs/guide/web.md from the sample vault with Chromium and Playwright."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"


def main() -> None:
    """Serve the sample vault, and write screenshots of the search and the map."""
    with tempfile.TemporaryDirectory() as folder:
        vault = Path(folder) / "notes"
        shutil.copytree(ROOT / "sample", vault)
        (vault / "memvault.toml").write_text("version = 1\n", "utf-8")
        environment = {**os.environ, "MEMVAULT_CACHE": f"{folder}/cache", "MEMVAULT_DEEP": "off"}
        command = [sys.executable, "-m", "memvault", "--vault", str(vault), "web"]
        command += ["--port", "0", "--no-open"]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server,
            sync_playwright() as playwright,
        ):
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
            page = browser.new_page(viewport={"width": 1000, "height": 620})
            page.goto(address)
            page.fill("#q", "why is a file renamed")
            page.wait_for_selector(".results .strong")
            page.screenshot(path=PICTURES / "web-search.png")
            page.goto(f"{address.partition('/?')[0]}/map")
            page.wait_for_selector("body[data-ready]")
            page.screenshot(path=PICTURES / "web-map.png")
            browser.close()
            server.terminate()


if __name__ == "__main__":
    main()
