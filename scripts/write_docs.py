#!/usr/bin/env python3
"""Write the generated part of docs/ from the program; ``--check`` only compares."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from memvault.tools import reference

DOCS = Path(__file__).resolve().parents[1] / "docs"


def generated() -> dict[Path, str]:
    """Return each generated file's path and what it must hold."""
    document = json.dumps(reference.schema_document(), indent=2, ensure_ascii=False)
    return {
        DOCS / "reference.md": reference.markdown(),
        DOCS / "tools.schema.json": f"{document}\n",
    }


def main() -> int:
    """Write what differs; with ``--check`` name it and return 1."""
    stale = [
        path
        for path, text in generated().items()
        if not path.is_file() or path.read_text("utf-8") != text
    ]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"docs/{path.name} is not what the program says; run make docs")
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(generated()[path], "utf-8")
        print(f"wrote docs/{path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
