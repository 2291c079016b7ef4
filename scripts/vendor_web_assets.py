#!/usr/bin/env python3
"""Bundle the JavaScript libraries of the web pages into the package; needs npm and its registry."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "scripts" / "web_assets"
TARGET = ROOT / "src" / "memvault" / "web" / "assets" / "vendor"
LICENSES = "LICENSES.txt"
STYLES = {"uplot.css": "uplot/dist/uPlot.min.css"}


def digest() -> str:
    """Return the digest of the files that determine the bundles."""
    sources = sorted(path for path in SOURCE.iterdir() if path.suffix in (".js", ".json"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def main() -> None:
    """Install the locked packages in a temporary folder, bundle them, and copy their licenses."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "web_assets"
        shutil.copytree(SOURCE, work)
        for command in (["npm", "ci", "--ignore-scripts"], ["npm", "run", "build"]):
            subprocess.run(command, cwd=work, check=True)
        shutil.rmtree(TARGET, ignore_errors=True)
        TARGET.mkdir()
        for bundle in (work / "build").glob("*.js"):
            shutil.copyfile(bundle, TARGET / bundle.name)
        for name, path in STYLES.items():
            shutil.copyfile(work / "node_modules" / path, TARGET / name)
        (TARGET / LICENSES).write_text(_licenses(work), "utf-8")


def _licenses(work: Path) -> str:
    """Return the name, version and license text of each bundled package."""
    inputs = json.loads((work / "build" / "meta.json").read_text("utf-8"))["inputs"]
    paths = [path.split("/") for path in inputs if path.startswith("node_modules/")]
    names = {"/".join(path[1 : 3 if path[1].startswith("@") else 2]) for path in paths}
    parts = [f"Bundled by scripts/vendor_web_assets.py from sources with the digest {digest()}.\n"]
    for name in sorted(names):
        package = work / "node_modules" / name
        about = json.loads((package / "package.json").read_text("utf-8"))
        (text,) = [path for path in package.iterdir() if path.name.upper().startswith("LICENSE")]
        title = f"{name} {about['version']} ({about['license']})"
        parts.append(f"\n{title}\n{'-' * len(title)}\n{text.read_text('utf-8').strip()}\n")
    return "".join(parts)


if __name__ == "__main__":
    main()
