"""The integration with Gemini CLI 0.61.

Source: https://geminicli.com/docs/hooks/reference, /reference/configuration and /core/subagents,
November 2026.
"""

from __future__ import annotations

from typing import Any

from memvault.integrations.integration import (
    HISTORIAN_HEADER,
    MESSAGE_OUTPUT,
    SERVER,
    HookEvent,
    Integration,
    SettingsFile,
    SetupContext,
    context_output,
    historian_file,
    hook_entries,
    instructions_file,
    nested_hook,
    server_command,
    server_entry,
    unwanted_hooks,
)


def _nested_hook_in_milliseconds(command: str, seconds: int, matcher: str) -> dict[str, Any]:
    return nested_hook(command, seconds * 1_000, matcher)


def _gemini(program: Integration, context: SetupContext) -> list[SettingsFile]:
    entries = (
        server_entry(program, server_command(program, context)),
        *hook_entries(program, context),
    )
    header = f"{HISTORIAN_HEADER}kind: local\ntools:\n  - mcp_{SERVER}_*\n"
    return [
        SettingsFile(
            program.settings_folder(context) / "settings.json",
            entries,
            unwanted=unwanted_hooks(program, context),
        ),
        historian_file(program, context, header),
        instructions_file(program, context, "GEMINI.md"),
    ]


GEMINI = Integration(
    "gemini",
    "Gemini CLI",
    _gemini,
    ".gemini",
    lambda context: context.home / ".gemini",
    "mcpServers",
    {
        "session-start": HookEvent("SessionStart", context_output),
        "prompt": HookEvent("BeforeAgent", context_output),
        # Hooks for automatic compression run at every prompt, before Gemini CLI checks the size.
        "pre-compact": HookEvent("PreCompress", MESSAGE_OUTPUT, matcher="manual"),
        "session-end": HookEvent("SessionEnd", MESSAGE_OUTPUT),
    },
    "restart Gemini CLI in a trusted folder, where a project's servers, hooks and agents work",
    server_root=".",
    hook_root="$GEMINI_PROJECT_DIR",
    hook=_nested_hook_in_milliseconds,
    capture_events={
        "pre-compact": HookEvent("PreCompress", MESSAGE_OUTPUT, matcher="manual"),
        "session-end": HookEvent("SessionEnd", MESSAGE_OUTPUT),
    },
    # Hooks before a tool cannot add text for the model.
    act_events={
        "after-tool": HookEvent(
            "AfterTool", context_output, matcher="run_shell_command|write_file|replace"
        )
    },
)
