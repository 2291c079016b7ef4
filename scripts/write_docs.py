#!/usr/bin/env python3
"""Write what is generated from the program: docs, the table of commands; ``--check`` compares."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from memvault import command_table
from memvault.cli import completion
from memvault.cli.examples import EXAMPLES
from memvault.doctor import doctor
from memvault.mcp import profiles
from memvault.tools.core import agent_guide, reference

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def generated() -> dict[Path, str]:
    """Return each generated file's path and what it must hold."""
    document = json.dumps(reference.schema_document(), indent=2, ensure_ascii=False)
    return {
        DOCS / "doctor.md": with_part("doctor.md", "codes", doctor.markdown_table()),
        DOCS / "reference.md": reference.markdown(EXAMPLES),
        DOCS / "tools.schema.json": f"{document}\n",
        DOCS / "mcp.md": with_part("mcp.md", "profiles", profile_table()),
        completion.FILE: completion.table(),
        ROOT / "vault-template" / "AGENTS.md": agent_guide.agents_page(),
    }


def with_part(page: str, name: str, part: str) -> str:
    """Return a page of docs/ with the generated text between the marks of its part ``name``."""
    begin = f"<!-- {name}: written by `make docs` -->\n"
    head, _, rest = (DOCS / page).read_text("utf-8").partition(begin)
    _, end, tail = rest.partition("<!-- end -->\n")
    return f"{head}{begin}\n{part}\n\n{end}{tail}"


def profile_table() -> str:
    """Return the table of what each profile of tools over MCP costs."""
    rows = ["| profile | tools | tokens | |", "|---|--:|--:|---|"]
    rows += [
        f"| `{entry['name']}` | {entry['count']} | {entry['tokens']:,} | {entry['heading']} |"
        for entry in profiles.table()["profiles"]
    ]
    return "\n".join(rows)


def main() -> int:
    """Write what differs; with ``--check`` name it and return 1."""
    check = "--check" in sys.argv[1:]
    if command_table.FILE.read_text("utf-8") != reference.command_table():
        if check:
            return _stale(command_table.FILE)
        command_table.FILE.write_text(reference.command_table(), "utf-8")
        print(f"wrote {command_table.FILE.name}")
        return subprocess.run([sys.executable, __file__], check=False).returncode
    for path, text in generated().items():
        if not path.is_file() or path.read_text("utf-8") != text:
            if check:
                return _stale(path)
            path.write_text(text, "utf-8")
            print(f"wrote {path.name}")
    return 0


def _stale(path: Path) -> int:
    print(f"{path.name} is not what the program says; run make docs")
    return 1


if __name__ == "__main__":
    sys.exit(main())
