"""Take the screenshots of docs/guide/web.md with Chromium and Playwright."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
OPTIONS = ["--no-sandbox", "--disable-background-networking"]
# render WebGL without a graphics card
OPTIONS += ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
SHOTS = (
    ("web-search", "/?q=why+is+a+file+renamed", "light", (1100, 720), ".results .strong"),
    ("web-memory", "/m/{note}", "dark", (1100, 780), "#local canvas"),
    ("web-map", "/map", "light", (1100, 860), "body[data-arranged]"),
    ("web-overview", "/overview", "light", (1100, 900), "#growth canvas"),
    ("web-phone", "/?q=why+is+a+file+renamed", "dark", (390, 780), ".results .strong"),
)
"""Each picture's name, path, color scheme, size, and the element to wait for."""
NOTE = """---
id: showcase-7k2m9q
tags: [writing]
---

# How notes are rendered

The pages render Obsidian markdown: see [[searching-for-code-names]] and [[keeping-files-safe]].

> [!tip] Callouts keep their color
> They can contain **any** markdown, and [[how-a-question-finds-its-memory|links]].

## Tasks and tables

- [x] choose a database
- [ ] migrate the data

| database | license |
|---|---|
| PostgreSQL | PostgreSQL |
| SQLite | public domain |

## Code

```python
def recall(query: str, limit: int = 5) -> list[str]:
    return [memory.title for memory in search(query)][:limit]  # best first
```

## Footnotes

Revisions are compared by word.[^1]

[^1]: Under *History*, for each revision.
"""


def main() -> None:
    """Serve the sample vault with one more note, and write a screenshot of each page."""
    with tempfile.TemporaryDirectory() as folder:
        vault = Path(folder) / "notes"
        shutil.copytree(ROOT / "sample", vault)
        (vault / "memvault.toml").write_text("version = 1\n", "utf-8")
        (vault / "guides" / "showcase.md").write_text(NOTE, "utf-8")
        environment = {**os.environ, "MEMVAULT_CACHE": f"{folder}/cache", "MEMVAULT_DEEP": "off"}
        command = [sys.executable, "-m", "memvault", "--vault", str(vault), "web"]
        command += ["--port", "0", "--no-open"]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server,
            sync_playwright() as playwright,
        ):
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            try:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
                for shot in SHOTS:
                    _take(browser, address, *shot)
                browser.close()
            finally:
                server.terminate()


def _take(
    browser: Browser, address: str, name: str, path: str, scheme: Any, size: Any, awaited: str
) -> None:
    width, height = size
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(address)
    page.goto(address.partition("/?")[0] + path.format(note="showcase-7k2m9q"))
    page.wait_for_selector(awaited)
    page.wait_for_timeout(1_500)
    page.screenshot(path=PICTURES / f"{name}.png")
    page.close()


if __name__ == "__main__":
    main()
