"""The protocol's own inspector works with the server and finds no problem in its tools.

The inspector is a Node program, which no test downloads: ``MEMVAULT_INSPECTOR`` is the command that
starts it, as installed by ``npm install @modelcontextprotocol/inspector`` in
``node_modules/.bin/mcp-inspector``. ``make programs`` runs this test, and fails without it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import write

INSPECTOR = os.environ.get("MEMVAULT_INSPECTOR", "")


def inspected(folder: Path, *options: str, tools: str = "core") -> subprocess.CompletedProcess[str]:
    """Return the inspector's output about a server of a vault."""
    assert INSPECTOR, "MEMVAULT_INSPECTOR is not set to the MCP inspector's command"
    server = [sys.executable, "-m", "memvault", "mcp", "--vault", str(folder), "--tools", tools]
    given = [
        word
        for name, value in os.environ.items()
        if name.startswith(("MEMVAULT_", "XDG_", "PYTHON"))
        for word in ("-e", f"{name}={value}")
    ]
    line = [INSPECTOR, "--cli", *given, *server, *options]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)


def answered(folder: Path, *options: str) -> Any:
    """Return an answer that the inspector displays."""
    done = inspected(folder, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("tools", "least"), [("all", 51), ("core", 8)])
def test_mcp_inspector_schemas_suit_every_client(folder: Path, tools: str, least: int) -> None:
    """No tool in any profile has a schema that a model provider might reject."""
    done = inspected(folder, "--method", "tools/list", "--strict", tools=tools)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    assert len(json.loads(done.stdout)["tools"]) >= least


def test_mcp_inspector_lists_and_reads_everything(folder: Path) -> None:
    """Tools, prompts, memories and lists are also available to the inspector's client."""
    write(folder, "a.md", "---\nid: a-1\nmemory_type: fact\n---\n\n# The zebra sleeps\n")
    tool = ["--method", "tools/call", "--tool-name", "memory_recall", "--tool-arg", "query=zebra"]
    found = answered(folder, *tool)
    assert found["structuredContent"]["memories"][0]["memId"] == "a-1"
    assert "memId: a-1" in found["content"][0]["text"]
    assert answered(folder, "--method", "resources/list")["resources"][0]["name"] == "a-1"
    read = answered(folder, "--method", "resources/read", "--uri", "memvault://type/fact")
    assert "The zebra sleeps" in read["contents"][0]["text"]
    prompt = ["--prompt-name", "recall-first", "--prompt-args", "task=roof"]
    asked = answered(folder, "--method", "prompts/get", *prompt)
    assert "roof" in asked["messages"][0]["content"]["text"]


def test_mcp_inspector_receives_tool_errors(folder: Path) -> None:
    """The inspector receives the error and exits with an error."""
    tool = ["--method", "tools/call", "--tool-name", "memory_show", "--tool-arg", "memId=none"]
    done = inspected(folder, *tool)
    assert done.returncode != 0
    assert "There is no memory 'none'" in done.stdout + done.stderr
