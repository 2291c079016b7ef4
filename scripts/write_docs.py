#!/usr/bin/env python3
"""Write what is generated from the program: docs, the table of commands; ``--check`` compares."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from memvault.tools.core import reference

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TABLE = ROOT / "src" / "memvault" / "command_table.py"


def generated() -> dict[Path, str]:
    """Return each generated file's path and what it must hold."""
    document = json.dumps(reference.schema_document(), indent=2, ensure_ascii=False)
    return {
        DOCS / "reference.md": reference.markdown(),
        DOCS / "tools.schema.json": f"{document}\n",
    }


def stale() -> list[tuple[Path, str]]:
    """Return the generated files that are not what they must be, and what they must be."""
    return [
        (path, text)
        for path, text in generated().items()
        if not path.is_file() or path.read_text("utf-8") != text
    ]


def main() -> int:
    """Write what differs; with ``--check`` name it and return 1."""
    if "--check" in sys.argv[1:]:
        found = [(TABLE, "")] if TABLE.read_text("utf-8") != reference.command_table() else stale()
        for path, _ in found:
            print(f"{path.relative_to(ROOT)} is not what the program says; run make docs")
        return 1 if found else 0
    if TABLE.read_text("utf-8") != reference.command_table():
        TABLE.write_text(reference.command_table(), "utf-8")
        print(f"wrote {TABLE.relative_to(ROOT)}")
        return subprocess.run([sys.executable, __file__], check=False).returncode
    for path, text in stale():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
