"""The integration with Cursor.

Source: https://cursor.com/docs/hooks, /context/mcp, /context/rules and /context/subagents,
November 2026.
"""

from __future__ import annotations

import json
from typing import Any

from memvault.integrations.integration import (
    HISTORIAN_HEADER,
    OURS,
    SERVER,
    HookEvent,
    Integration,
    OwnedFile,
    SettingsFile,
    SetupContext,
    historian_file,
    hook_entries,
    json_output,
    server_command,
    server_entry,
    unwanted_hooks,
)


def _flat_hook(command: str, seconds: int, matcher: str) -> dict[str, Any]:
    entry = {"command": command, "timeout": seconds}
    return {**entry, "matcher": matcher} if matcher else entry


def _cursor(program: Integration, context: SetupContext) -> list[SettingsFile]:
    folder = program.settings_folder(context)
    files = [
        SettingsFile(
            folder / "mcp.json", (server_entry(program, server_command(program, context)),)
        ),
        SettingsFile(
            folder / "hooks.json",
            hook_entries(program, context),
            {"version": 1},
            unwanted_hooks(program, context),
        ),
        historian_file(program, context, f"{HISTORIAN_HEADER}model: inherit\n"),
    ]
    if context.of_project:  # Cursor does not store the user's rules in a file.
        head = "---\ndescription: The memory of this project\nalwaysApply: true\n---"
        rule = f"{head}\n\n<!-- {OURS} -->\n\n{context.instructions.strip()}\n"
        files.append(SettingsFile(folder / "rules" / f"{SERVER}.mdc", (OwnedFile(rule),)))
    return files


CURSOR = Integration(
    "cursor",
    "Cursor",
    _cursor,
    ".cursor",
    lambda context: context.home / ".cursor",
    "mcpServers",
    {
        "session-start": HookEvent("sessionStart", json_output("additional_context")),
        "prompt": HookEvent(
            "beforeSubmitPrompt", json_output("additional_context", **{"continue": True})
        ),
        "pre-compact": HookEvent("preCompact", json_output("user_message")),
    },
    "open a new chat, and enable the server memvault in Cursor's settings",
    server_root="${workspaceFolder}",
    hook_root=".",  # Cursor runs a project's hooks in the project's folder.
    notice_output=lambda _, text: json.dumps({"additional_context": f"Tell the user: {text}"}),
    hook=_flat_hook,
    # Hooks before a tool can add text for the model only if they stop the tool.
    act_events={
        "after-tool": HookEvent(
            "postToolUse", json_output("additional_context"), matcher="Shell|Write"
        )
    },
)
