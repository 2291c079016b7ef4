"""Gemini CLI: its ``settings.json``, a sub-agent, ``GEMINI.md``.

Formats of November 2026, version 0.61: https://geminicli.com/docs/hooks/reference,
/reference/configuration and /core/subagents.
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

_NAME = "gemini"
_EVENTS: Mapping[Event, str] = {
    "session-start": "SessionStart",
    "prompt": "BeforeAgent",
    "pre-compact": "PreCompress",
    "session-end": "SessionEnd",
}


def _files(context: SetupContext) -> list[ClientFile]:
    folder = (context.root if context.of_project else context.home) / ".gemini"
    command, *arguments = context.server(".")
    server = server_entry("mcpServers", {"command": command, "args": arguments})
    # It runs the hooks of automatic compression at every prompt, before it checks the size.
    only: Mapping[Event, str] = {"pre-compact": "manual"}
    hooks = hooks_entries(_NAME, context, "$GEMINI_PROJECT_DIR", _EVENTS, 1_000, only)
    header = (
        f"name: {HISTORIAN}\ndescription: {ABOUT_HISTORIAN}\nkind: local\n"
        f"tools:\n  - mcp_{SERVER}_*\n"
    )
    return [
        ClientFile(folder / "settings.json", (server, *hooks)),
        markdown_agent(context, folder / "agents" / f"{HISTORIAN}.md", header),
        instructions(context, (context.root if context.of_project else folder) / "GEMINI.md"),
    ]


def hook_output(event: Event, text: str) -> str:
    """Return the output that Gemini CLI reads.

    Before compaction and at the end of a session, text is only shown to the user.
    """
    if event in ("pre-compact", "session-end"):
        return json.dumps({"systemMessage": text})
    return in_hook_output(_EVENTS, event, text)


CLIENT = AgentProgram(
    _NAME,
    "Gemini CLI",
    _files,
    hook_output,
    "start gemini anew; a project's servers, hooks and agents work in a trusted folder only",
)
