"""Behavior shared by all front ends: calling tools and masking secrets."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import memvault
from conftest import Run, write
from made_secrets import made
from memvault import open_vault
from memvault.__main__ import main
from memvault.anthropic.memory_tool import MemoryFiles
from memvault.call import Call, Caller
from memvault.command_table import TOOLS
from memvault.results import ToolResult
from memvault.tools.core import invoke, registry
from memvault.tools.core.registry import Tool
from memvault.tools.vault import memory_show
from memvault.web.addresses import ServedAddresses
from memvault.web.session import WebSession
from memvault.workspace import Workspace
from tool_calls import over_mcp

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


def test_tools_are_called_through_typed_functions() -> None:
    """Outside ``tools``, only generated methods call a tool by a name mypy cannot check."""
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
    """Register two tools that are missing from the command table; return them by name."""
    tools = {**registry._TOOLS}
    monkeypatch.setattr(registry, "_TOOLS", tools)
    monkeypatch.setattr(registry, "_GROUPS", {**registry._GROUPS})
    for function in (toy, lost):
        registry.ToolGroup("vault").tool(f"try {function.__name__}")(function)
    return tools


@pytest.mark.parametrize("line", [["try", "toy"], ["call", "toy"]], ids=" ".join)
def test_tool_missing_from_command_table_is_reported(
    registered: dict[str, Tool], line: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a checkout, a tool missing from the command table asks for ``make docs``."""
    assert main([*line, "--vault", str(folder)]) == 2
    shown = "".join(capsys.readouterr())
    assert "The table of commands is out of date: " in shown
    assert "make docs" in shown


def test_missing_result_type_is_reported(registered: dict[str, Tool]) -> None:
    """The error contains the tool, the type and the module where the type must be defined."""
    with pytest.raises(TypeError, match=r"^lost returns Lost, .* in .*test_front_ends or memvault"):
        print(registered["lost"].result_type)


def test_every_tool_appears_in_a_test() -> None:
    """Every tool, by its name, command or Python method, appears in some test file."""
    folder = Path(__file__).parent
    files = [*folder.glob("test_*.py"), *(folder / "transcripts").rglob("*.md")]
    texts = "\n".join(file.read_text("utf-8") for file in files if file != Path(__file__))
    for command in TOOLS:
        method = re.sub(r"[ -]", "_", command.words)
        names = (command.tool, f"memvault {command.words}", f'"{command.words}"', f".{method}(")
        assert any(name in texts for name in names), command.tool


KIND = "GitHub token"
FrontEnd = Callable[[Path, Run], object]


def in_workspace(root: Path, work: Callable[[Workspace], object]) -> object:
    """Return a function's result for a vault opened in this process."""
    workspace = Workspace(root)
    try:
        return work(workspace)
    finally:
        workspace.close()


def in_python(root: Path, name: str, **arguments: object) -> object:
    """Return a tool's result in Python."""
    with open_vault(root) as opened:
        return opened.call(name, **arguments)


def in_browser(root: Path, _: Run) -> object:
    """Return how the pages show the memory: its text, and as a search result."""
    session = WebSession(root)
    try:
        html = session.read("deploy-1", ServedAddresses("/x")).text.html
        assert (KIND in html) == (KIND in str(session.search("deploy job secret")))
        return html
    finally:
        session.close()


def by_claude(root: Path, _: Run) -> object:
    """Return how Anthropic's memory tool shows the memory."""
    files = MemoryFiles(root, folder="")
    try:
        return files.run("view", {"path": "/memories/deploy.md"})
    finally:
        files.close()


def default_caller(root: Path, _: Run) -> object:
    """Return the result for a caller with default settings."""
    return in_workspace(
        root, lambda opened: invoke.run(opened, Caller(), memory_show, name="deploy-1")
    )


def hook(root: Path, run: Run) -> object:
    """Return the memories that a hook adds to a prompt."""
    return run("hook", "prompt", stdin='{"prompt": "which secret does the deploy job read"}').out


MASKING: dict[str, FrontEnd] = {
    "MCP": lambda root, _: over_mcp(root, "memory_show", {"memId": "deploy-1"}),
    "call_tool over MCP": lambda root, _: over_mcp(
        root, "call_tool", {"toolName": "memory_show", "parameters": {"memId": "deploy-1"}}
    ),
    "web": in_browser,
    "Claude": by_claude,
    "hook": hook,
    "a new front end": default_caller,
    "shell, listing": lambda _, run: run("context", "which secret does the deploy job read").out,
    "Python, listing": lambda root, _: in_python(root, "context", task="deploy job secret"),
}
"""Front ends that mask secrets unless the memory's header allows them."""
REVEALING: dict[str, FrontEnd] = {
    "shell, requested text": lambda _, run: run("show", "deploy-1").out,
    "Python, requested text": lambda root, _: in_python(root, "memory_show", memId="deploy-1"),
}
"""Front ends that return a text unchanged to the person who requests it."""


@pytest.mark.parametrize("front_end", [*MASKING, *REVEALING])
@pytest.mark.parametrize("header", ["", "secrets: allowed\n"], ids=["secret", "allowed"])
def test_front_ends_mask_secrets_by_the_same_rule(
    folder: Path, run: Run, header: str, front_end: str
) -> None:
    """All front ends use the same rule to decide whether a memory's secret is masked."""
    value, said = made(KIND)
    text = f"# Deploy\n\nThe deploy job reads this secret every night: {said}\n"
    write(folder, "deploy.md", f"---\nid: deploy-1\n{header}---\n\n{text}")
    shown = str({**MASKING, **REVEALING}[front_end](folder, run))
    is_masked = front_end in MASKING and not header
    assert (value in shown, f"[masked: {KIND}]" in shown) == (not is_masked, is_masked)
