"""What all front ends have in common: how they call tools, and how secrets are masked."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import memvault
from memvault.__main__ import main
from memvault.call import Call
from memvault.command_table import TOOLS
from memvault.results import ToolResult
from memvault.tools.core import registry
from memvault.tools.core.registry import Tool

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


def toy(call: Call) -> ToolResult:
    """Return nothing."""
    return {}


def lost(call: Call) -> Lost:  # type: ignore[name-defined] # noqa: F821
    """Return a result of a type that does not exist."""
    return {}


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> dict[str, Tool]:
    """Register two tools that the table of commands does not have; return them by name."""
    tools = {**registry._TOOLS}
    monkeypatch.setattr(registry, "_TOOLS", tools)
    monkeypatch.setattr(registry, "_GROUPS", {**registry._GROUPS})
    for function in (toy, lost):
        registry.ToolGroup("vault").tool(f"try {function.__name__}")(function)
    return tools


@pytest.mark.parametrize("line", [["try", "toy"], ["call", "toy"]], ids=" ".join)
def test_tool_missing_from_the_table_is_reported(
    registered: dict[str, Tool], line: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a checkout, a tool without a row in the table of commands asks for ``make docs``."""
    assert main([*line, "--vault", str(folder)]) == 2
    shown = "".join(capsys.readouterr())
    assert "The table of commands is out of date: " in shown
    assert "make docs" in shown


def test_result_type_that_does_not_exist_is_reported(registered: dict[str, Tool]) -> None:
    """The error names the tool, the type and where the type must be."""
    with pytest.raises(TypeError, match=r"^lost returns Lost, .* in .*test_front_ends or memvault"):
        print(registered["lost"].result_type)


def test_each_tool_is_named_in_a_test() -> None:
    """A new tool needs a test: some file names the tool, its command or its Python method."""
    folder = Path(__file__).parent
    files = [*folder.glob("test_*.py"), *(folder / "transcripts").rglob("*.md")]
    texts = "\n".join(file.read_text("utf-8") for file in files if file != Path(__file__))
    for command in TOOLS:
        method = re.sub(r"[ -]", "_", command.words)
        names = (command.tool, f"memvault {command.words}", f'"{command.words}"', f".{method}(")
        assert any(name in texts for name in names), command.tool
