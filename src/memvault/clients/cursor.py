"""Cursor: ``mcp.json``, ``hooks.json``, a sub-agent, a rule.

Formats of November 2026: https://cursor.com/docs/agent/hooks, /context/mcp, /context/rules and
/context/subagents. The rules of a user are not stored in a file, so instructions are only written
for a project.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from memvault.clients.client import (
    ABOUT_HISTORIAN,
    HISTORIAN,
    OURS,
    SECONDS,
    SERVER,
    AgentProgram,
    ClientFile,
    Event,
    OwnedFile,
    SetupContext,
    is_hook,
    markdown_agent,
    server_entry,
)
from memvault.clients.json_edit import JsonEntry

_NAME = "cursor"
_EVENTS: Mapping[Event, str] = {
    "session-start": "sessionStart",
    "prompt": "beforeSubmitPrompt",
    "pre-compact": "preCompact",
}


def _files(context: SetupContext) -> list[ClientFile]:
    folder = (context.root if context.of_project else context.home) / ".cursor"
    command, *arguments = context.server("${workspaceFolder}")
    server = server_entry("mcpServers", {"command": command, "args": arguments})
    hooks = tuple(
        JsonEntry(
            ("hooks", name),
            # Cursor runs a project's hooks in the project's folder.
            {"command": context.hook(event, _NAME, "."), "timeout": SECONDS[event]},
            is_hook(event, _NAME),
            listed=True,
        )
        for event, name in _EVENTS.items()
    )
    header = f"name: {HISTORIAN}\ndescription: {ABOUT_HISTORIAN}\nmodel: inherit\n"
    files = [
        ClientFile(folder / "mcp.json", (server,)),
        ClientFile(folder / "hooks.json", hooks, {"version": 1}),
        markdown_agent(context, folder / "agents" / f"{HISTORIAN}.md", header),
    ]
    if context.of_project:
        head = "---\ndescription: The memory of this project\nalwaysApply: true\n---"
        rule = f"{head}\n\n<!-- {OURS} -->\n\n{context.instructions.strip()}\n"
        files.append(ClientFile(folder / "rules" / f"{SERVER}.mdc", (OwnedFile(rule),)))
    return files


def hook_output(event: Event, text: str) -> str:
    """Return the output that Cursor reads; before compaction, text is only shown to the user."""
    if event == "pre-compact":
        return json.dumps({"user_message": text})
    more = {"continue": True} if event == "prompt" else {}
    return json.dumps({**more, "additional_context": text})


CLIENT = AgentProgram(
    _NAME,
    "Cursor",
    _files,
    hook_output,
    "open a new chat; Cursor's settings switch the server memvault on",
)
