"""Claude Code: ``.mcp.json``, hooks in its settings, a sub-agent, ``CLAUDE.md``.

Formats of November 2026, version 2.1: https://code.claude.com/docs/en/hooks, /mcp and /sub-agents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from memvault.clients.client import (
    ABOUT_HISTORIAN,
    HISTORIAN,
    SERVER,
    AgentProgram,
    ClientFile,
    Event,
    SetupContext,
    hooks_entries,
    in_hook_output,
    instructions,
    markdown_agent,
    server_entry,
)
from memvault.command_table import TOOLS

_NAME = "claude-code"
_EVENTS: Mapping[Event, str] = {
    "session-start": "SessionStart",
    "prompt": "UserPromptSubmit",
    "pre-compact": "PreCompact",
    "stop": "Stop",
}
_TOOLS = tuple(command.tool for command in TOOLS if command.core)
"""Tools that the MCP server offers; the tools of a sub-agent have to be listed by name."""


def _files(context: SetupContext) -> list[ClientFile]:
    user = context.folder("CLAUDE_CONFIG_DIR", ".claude")
    folder = context.root / ".claude" if context.of_project else user
    servers = context.root / ".mcp.json"
    if not context.of_project:
        moved = user != context.home / ".claude"
        servers = (user if moved else context.home) / ".claude.json"
    command, *arguments = context.server(".")
    entry = {"type": "stdio", "command": command, "args": arguments}
    tools = ", ".join(f"mcp__{SERVER}__{name}" for name in _TOOLS)
    header = f"name: {HISTORIAN}\ndescription: {ABOUT_HISTORIAN}\ntools: {tools}\n"
    hooks = hooks_entries(_NAME, context, "$CLAUDE_PROJECT_DIR", _EVENTS)
    return [
        ClientFile(servers, (server_entry("mcpServers", entry),)),
        ClientFile(folder / "settings.json", hooks),
        markdown_agent(context, folder / "agents" / f"{HISTORIAN}.md", header),
        instructions(context, (context.root if context.of_project else folder) / "CLAUDE.md"),
    ]


def hook_output(event: Event, text: str) -> str:
    """Return the output that Claude Code reads; before compaction, text goes into its summary."""
    if event == "stop":
        return json.dumps({"decision": "block", "reason": text})
    return text if event == "pre-compact" else in_hook_output(_EVENTS, event, text)


CLIENT = AgentProgram(
    _NAME,
    "Claude Code",
    _files,
    hook_output,
    "start claude anew; of a project's server it asks once whether you trust it",
)
