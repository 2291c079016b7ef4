"""Codex: a table in ``config.toml``, ``hooks.json``, an agent, ``AGENTS.md``.

Formats of November 2026, version 0.169: https://developers.openai.com/codex/config-reference,
/hooks and /subagents, and the schemas in codex-rs/hooks/schema of its repository.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from memvault.clients.client import (
    ABOUT_HISTORIAN,
    HISTORIAN,
    OURS,
    SERVER,
    TOML,
    AgentProgram,
    ClientFile,
    Event,
    MarkedBlock,
    OwnedFile,
    SetupContext,
    hooks_entries,
    in_hook_output,
    instructions,
)

_NAME = "codex"
_EVENTS: Mapping[Event, str] = {
    "session-start": "SessionStart",
    "prompt": "UserPromptSubmit",
    "pre-compact": "PreCompact",
    "stop": "Stop",
}
_MCP_TOOLS_ONLY = """\
sandbox_mode = "read-only"
web_search = "disabled"

[features]
shell_tool = false
unified_exec = false
"""
"""Settings that leave an agent the servers' tools, and none to run, write or search the web."""


def _files(context: SetupContext) -> list[ClientFile]:
    user = context.folder("CODEX_HOME", ".codex")
    folder = context.root / ".codex" if context.of_project else user
    command, *arguments = context.server(None)
    # For these values, JSON strings are also basic strings of TOML.
    table = (
        f"[mcp_servers.{SERVER}]\ncommand = {_toml_text(command)}\nargs = {_toml_text(arguments)}\n"
    )
    agent = (
        f"# {OURS}\nname = {_toml_text(HISTORIAN)}\ndescription = {_toml_text(ABOUT_HISTORIAN)}\n"
        f"developer_instructions = {_toml_text(context.historian)}\n{_MCP_TOOLS_ONLY}"
    )
    return [
        ClientFile(folder / "config.toml", (MarkedBlock(table, TOML),)),
        ClientFile(folder / "hooks.json", hooks_entries(_NAME, context, None, _EVENTS)),
        ClientFile(folder / "agents" / f"{HISTORIAN}.toml", (OwnedFile(agent),)),
        instructions(context, (context.root if context.of_project else folder) / "AGENTS.md"),
    ]


def _toml_text(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False)


def hook_output(event: Event, text: str) -> str:
    """Return the output that Codex reads; before compaction, text is only shown to the user."""
    if event == "stop":
        return json.dumps({"decision": "block", "reason": text})
    if event == "pre-compact":
        return json.dumps({"systemMessage": text})
    return in_hook_output(_EVENTS, event, text)


CLIENT = AgentProgram(
    _NAME,
    "Codex",
    _files,
    hook_output,
    "start codex anew; /hooks there lets the hooks run, and a project has to be trusted",
)
