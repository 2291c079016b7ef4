"""What all front ends have in common: how they call tools, and how secrets are masked."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import memvault
from memvault.command_table import TOOLS

SOURCE = Path(memvault.__file__).parent
GENERATED = {SOURCE / "library" / name for name in ("vault.py", "async_vault.py")}


def named_calls(file: Path) -> Iterator[str]:
    """Yield the calls in a module that pass the exact name of a tool."""
    names = {command.tool for command in TOOLS if command.tool.count("_")}
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            for argument in node.args:
                if isinstance(argument, ast.Constant) and argument.value in names:
                    yield f"{file.relative_to(SOURCE)}:{node.lineno} {argument.value}"


def test_tools_are_called_by_their_functions() -> None:
    """Outside of ``tools``, only generated methods call a tool by a name that mypy cannot check."""
    files = {*SOURCE.rglob("*.py")} - {*(SOURCE / "tools").rglob("*.py")} - GENERATED
    assert [call for file in sorted(files) for call in named_calls(file)] == []
