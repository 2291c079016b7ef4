"""The settings that setup writes start a server in the same way as the client program."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from conftest import Run, only_with, sampled, succeeded, write

pytestmark = only_with("mcp", extra="mcp")


@sampled(3)
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("claude-code", ".mcp.json"),
        ("gemini", ".gemini/settings.json"),
        ("opencode", "opencode.json"),
    ],
)
def test_setup_command_starts_a_server(
    name: str, file: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that setup writes starts a server with the core tools of the right vault."""
    from mcp import Client, StdioServerParameters

    project = tmp_path / "project"
    write(project, "notes/memvault.toml", "version = 1\n")
    line = f'#!/bin/sh\nexec "{sys.executable}" -m memvault "$@"\n'
    write(tmp_path, "bin/memvault", line).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    succeeded(run("setup", name, "--vault", str(project / "notes"), "--yes", cwd=project))
    settings = json.loads((project / file).read_text("utf-8"))
    entry = settings.get("mcp", settings.get("mcpServers"))["memvault"]
    whole = entry["command"]
    program, *words = whole if isinstance(whole, list) else [whole, *entry["args"]]
    server = StdioServerParameters(
        command=program, args=words, cwd=str(project), env=dict(os.environ)
    )

    async def talking() -> None:
        async with asyncio.timeout(60), Client(server) as client:
            offered = await client.list_tools()
            assert {tool.name for tool in offered.tools} >= {"memory_recall", "memory_remember"}
            text = {"title": "Zebras", "content": "They sleep."}
            assert not (await client.call_tool("memory_remember", text)).is_error

    asyncio.run(talking())
    assert len([*(project / "notes").rglob("zebras*.md")]) == 1
