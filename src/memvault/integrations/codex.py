"""The integration with Codex 0.169.

Source: https://developers.openai.com/codex/config-reference, /hooks and /subagents, November 2026.
"""

from __future__ import annotations

import json

from memvault.integrations.integration import (
    ABOUT_HISTORIAN,
    BLOCK_OUTPUT,
    HISTORIAN,
    MESSAGE_OUTPUT,
    OURS,
    SERVER,
    TOML,
    HookEvent,
    Integration,
    MarkedBlock,
    OwnedFile,
    SettingsFile,
    SetupContext,
    context_output,
    hook_entries,
    instructions_file,
    unwanted_hooks,
)

_CODEX_TOOLS = """\
sandbox_mode = "read-only"
web_search = "disabled"

[features]
shell_tool = false
unified_exec = false
"""
"""Settings that limit an agent to the servers' tools: no shell, file changes or web search."""


def _codex(program: Integration, context: SetupContext) -> list[SettingsFile]:
    folder = program.settings_folder(context)
    command, *arguments = context.server(program.server_root)
    table = (
        f"[{program.server_key}.{SERVER}]\n"
        f"command = {_toml_text(command)}\nargs = {_toml_text(arguments)}\n"
    )
    agent = (
        f"# {OURS}\nname = {_toml_text(HISTORIAN)}\ndescription = {_toml_text(ABOUT_HISTORIAN)}\n"
        f"developer_instructions = {_toml_text(context.historian)}\n{_CODEX_TOOLS}"
    )
    return [
        SettingsFile(folder / "config.toml", (MarkedBlock(table, TOML),)),
        SettingsFile(
            folder / "hooks.json",
            hook_entries(program, context),
            unwanted=unwanted_hooks(program, context),
        ),
        SettingsFile(folder / "agents" / f"{HISTORIAN}.toml", (OwnedFile(agent),)),
        instructions_file(program, context, "AGENTS.md"),
    ]


def _toml_text(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False)  # For these values, JSON is also valid TOML.


CODEX = Integration(
    "codex",
    "Codex",
    _codex,
    ".codex",
    lambda context: context.user_folder("CODEX_HOME", ".codex"),
    "mcp_servers",
    {
        "session-start": HookEvent("SessionStart", context_output),
        "prompt": HookEvent("UserPromptSubmit", context_output),
        "pre-compact": HookEvent("PreCompact", MESSAGE_OUTPUT),
        "stop": HookEvent("Stop", BLOCK_OUTPUT),
    },
    "restart Codex, allow the hooks with /hooks, and trust the project",
    server_root=".",  # Codex runs servers and hooks in the folder in which it was started.
    hook_root=".",
    capture_events={  # Codex has no hook at the end of a session, but runs a hook after each turn.
        "pre-compact": HookEvent("PreCompact", MESSAGE_OUTPUT),
        "stop": HookEvent("Stop", BLOCK_OUTPUT),
    },
    act_events={
        "before-tool": HookEvent("PreToolUse", context_output, matcher="Bash|apply_patch"),
        "after-tool": HookEvent("PostToolUse", context_output, matcher="Bash"),
    },
)
