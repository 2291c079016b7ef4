"""The integration with Claude Code 2.1.

Source: https://code.claude.com/docs/en/hooks, /mcp and /sub-agents, November 2026.
"""

from __future__ import annotations

from functools import partial
from operator import eq

from memvault.command_table import TOOLS
from memvault.integrations.integration import (
    BLOCK_OUTPUT,
    HISTORIAN_HEADER,
    SERVER,
    HookEvent,
    Integration,
    SettingsFile,
    SetupContext,
    context_output,
    historian_file,
    hook_entries,
    instructions_file,
    plain_output,
    server_command,
    server_entry,
    unwanted_hooks,
)
from memvault.integrations.json_edit import JsonEntry

HISTORIAN_TOOLS = tuple(command.tool for command in TOOLS if command.core)
"""Tools of the MCP server; Claude Code requires the name of each tool that a subagent may use."""


def _claude_code(program: Integration, context: SetupContext) -> list[SettingsFile]:
    folder = program.settings_folder(context)
    servers = context.root / ".mcp.json"
    if not context.of_project:
        moved = folder != context.home / program.folder
        servers = (folder if moved else context.home) / ".claude.json"
    tools = ", ".join(f"mcp__{SERVER}__{name}" for name in HISTORIAN_TOOLS)
    return [
        SettingsFile(
            servers, (server_entry(program, {"type": "stdio", **server_command(program, context)}),)
        ),
        SettingsFile(
            folder / "settings.json",
            (*hook_entries(program, context), *_permissions(context)),
            unwanted=unwanted_hooks(program, context),
        ),
        historian_file(program, context, f"{HISTORIAN_HEADER}tools: {tools}\n"),
        instructions_file(program, context, "CLAUDE.md"),
    ]


def _permissions(context: SetupContext) -> tuple[JsonEntry, ...]:
    """Return the rules that let Claude Code read memories without asking.

    https://code.claude.com/docs/en/permissions documents them.
    """
    rules = [f"mcp__{SERVER}__{name}" for name in context.reading]
    if context.program == ("memvault",):
        rules += [f"Bash(memvault {command}:*)" for command in context.reading.values()]
    return tuple(
        JsonEntry(("permissions", "allow"), rule, partial(eq, rule), listed=True) for rule in rules
    )


CLAUDE_CODE = Integration(
    "claude-code",
    "Claude Code",
    _claude_code,
    ".claude",
    lambda context: context.user_folder("CLAUDE_CONFIG_DIR", ".claude"),
    "mcpServers",
    {
        "session-start": HookEvent("SessionStart", context_output),
        "prompt": HookEvent("UserPromptSubmit", context_output),
        "pre-compact": HookEvent("PreCompact", plain_output),
        "stop": HookEvent("Stop", BLOCK_OUTPUT),
    },
    "restart Claude Code; it asks once whether you trust a project's server",
    server_root=".",
    hook_root="$CLAUDE_PROJECT_DIR",
    summary_reads_output=True,
    capture_events={
        "pre-compact": HookEvent("PreCompact", plain_output),
        "session-end": HookEvent("SessionEnd", plain_output),
    },
    act_events={
        "before-tool": HookEvent(
            "PreToolUse", context_output, matcher="Bash|Edit|MultiEdit|NotebookEdit|Write"
        ),
        "after-tool": HookEvent("PostToolUseFailure", context_output, matcher="Bash"),
    },
)
