#!/usr/bin/env python3
"""Write the generated files: docs, and the command table; ``--check`` only compares."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import integration_plugins
import performance_page
import python_library
from memvault import command_table
from memvault.cli import complete
from memvault.cli import registry as cli_registry
from memvault.doctor import doctor
from memvault.mcp import profiles
from memvault.settings import vault_settings
from memvault.settings.table import Section
from memvault.settings.user_settings import UserSettings
from memvault.tools.core import agent_guide, reference, registry

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LIBRARY = ROOT / "src" / "memvault" / "library"
GUIDE = DOCS / "guide" / "settings.md"
TEMPLATE = """\
# Settings of this vault. Every line except `version` is optional. To change a setting,
# remove the `#` before it, and before the [section] above it.

version = 1
ignore = ["README.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md"]

"""


def generated() -> dict[Path, str]:
    """Return each generated file's path and expected content."""
    document = json.dumps(reference.schema_document(), indent=2, ensure_ascii=False)
    doctor_page = (DOCS / "reference/doctor.md").read_text("utf-8")
    mcp_page = (DOCS / "reference/mcp.md").read_text("utf-8")
    figures = performance_page.load()
    performance = (DOCS / "development/performance.md").read_text("utf-8")
    for name, part in performance_page.page_parts(figures).items():
        performance = with_part(performance, name, part)
    readme = (ROOT / "README.md").read_text("utf-8")
    return {
        DOCS / "development/modules.md": module_page(),
        ROOT / "README.md": with_part(readme, "speed", performance_page.readme_lines(figures)),
        DOCS / "development/performance.md": performance,
        DOCS / "reference/doctor.md": with_part(doctor_page, "codes", doctor.markdown_table()),
        DOCS / "reference/tools.md": reference.markdown(cli_registry.find_command),
        DOCS / "reference/tools.schema.json": f"{document}\n",
        DOCS / "reference/mcp.md": with_part(mcp_page, "profiles", profile_table()),
        GUIDE: with_settings(GUIDE.read_text("utf-8")),
        ROOT / "vault-template" / "memvault.toml": vault_template(),
        complete.FILE: complete.table(),
        ROOT / "vault-template" / "AGENTS.md": agent_guide.agents_page(),
        LIBRARY / "vault.py": python_library.vault_source(),
        LIBRARY / "async_vault.py": python_library.async_vault_source(),
        **integration_plugins.files(ROOT),
    }


def with_part(page: str, name: str, part: str) -> str:
    """Return a page with generated text inserted between the markers of its part ``name``."""
    begin = f"<!-- {name}: written by `make docs` -->\n"
    head, _, rest = page.partition(begin)
    _, end, tail = rest.partition("<!-- end -->\n")
    return f"{head}{begin}\n{part}\n\n{end}{tail}"


def module_page() -> str:
    """Return a page that lists every module by package, with the first line of its docstring."""
    lines = [
        "# Modules",
        "",
        "Every module with its summary. [ARCHITECTURE.md](../../ARCHITECTURE.md) has the layers.",
        "Written by `make docs`.",
    ]
    source = ROOT / "src" / "memvault"
    for init in sorted(source.rglob("__init__.py")):
        package = init.parent.relative_to(source.parent)
        lines += ["", f"## {'.'.join(package.parts)}", "", summary(init), ""]
        lines += [
            f"- [`{path.stem}`](../../src/{package.as_posix()}/{path.name}): {summary(path)}"
            for path in sorted(init.parent.glob("*.py"))
            if path != init
        ]
    return "\n".join(lines).rstrip() + "\n"


def summary(module: Path) -> str:
    """Return the first line of a module's docstring, as markdown."""
    docstring = ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""
    return docstring.partition("\n")[0].replace("``", "`")


def profile_table() -> str:
    """Return the table of MCP tool profiles with their token counts."""
    rows = ["| profile | tools | tokens | |", "|---|--:|--:|---|"]
    rows += [
        f"| `{entry['name']}` | {entry['count']} | {entry['tokens']:,} | {entry['heading']} |"
        for entry in profiles.table()["profiles"]
    ]
    return "\n".join(rows)


def with_settings(page: str) -> str:
    """Return a page with the vault's and the user's settings as TOML, each between two markers."""
    for name, defaults in (("vault", vault_settings.DEFAULTS), ("user", UserSettings())):
        text = "\n".join(toml(defaults)).strip()
        page = with_part(page, f"{name} settings", f"```toml\n{text}\n```")
    return page


def vault_template() -> str:
    """Return the settings file of a new vault, in which all but two settings are commented out."""
    given = tomllib.loads(TEMPLATE)
    lines = [
        line if line.startswith("# ") or not line else f"# {line}"
        for line in toml(vault_settings.DEFAULTS, given)
    ]
    return TEMPLATE + "\n".join(lines) + "\n"


def toml(section: Section, given: Mapping[str, Any] = {}) -> list[str]:
    """Return settings as TOML, with the value and purpose of each that is not ``given``.

    An example replaces an empty value, or a value that no file can set.
    """
    lines: list[str] = []
    tables: list[str] = []
    for key, row in section.rows().items():
        if isinstance(row, Section):
            summary = (inspect.getdoc(row) or "").partition("\n")[0]
            tables += ["", f"# {summary.replace('``', '').rstrip('.')}", f"[{key}]", *toml(row)]
        elif row.about and key not in given:
            value = row.example or row.default
            if isinstance(value, list) and isinstance(value[0], dict):
                tables += ["", f"# {row.about}", f"[[{key}]]"]
                tables += [f"{name} = {json.dumps(entry)}" for name, entry in value[0].items()]
            else:
                items = (
                    {f"{key}.{name}": entry for name, entry in value.items()}
                    if isinstance(value, dict)
                    else {key: value}
                )
                lines += [
                    f"{f'{name} = {json.dumps(entry)}':25} # {row.about}"
                    for name, entry in items.items()
                ]
    return lines + tables


def main() -> int:
    """Write outdated files; with ``--check`` print their names and return 1."""
    check = "--check" in sys.argv[1:]
    try:
        for _, tool in registry.load_all():
            assert tool.result_type
    except TypeError as error:
        sys.exit(str(error))
    rows = [*cli_registry.command_table(), *reference.command_table()]
    table = "".join("\t".join(row) + "\n" for row in rows)
    if command_table.FILE.read_text("utf-8") != table:
        if check:
            return _stale(command_table.FILE)
        command_table.FILE.write_text(table, "utf-8")
        print(f"wrote {command_table.FILE.name}")
        return subprocess.run([sys.executable, __file__], check=False).returncode
    for path, text in generated().items():
        if not path.is_file() or path.read_text("utf-8") != text:
            if check:
                return _stale(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            print(f"wrote {path.name}")
    return 0


def _stale(path: Path) -> int:
    print(f"{path.name} is out of date; run make docs")
    return 1


if __name__ == "__main__":
    sys.exit(main())
