"""The integration with OpenCode 1.18.

Source: https://opencode.ai/docs/config, /mcp-servers, /plugins and /agents, November 2026.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

from memvault.integrations.integration import (
    ABOUT_HISTORIAN,
    SERVER,
    Event,
    HookEvent,
    Integration,
    OwnedFile,
    SettingsFile,
    SetupContext,
    historian_file,
    instructions_file,
    plain_output,
    server_entry,
)

_PLUGIN = Path(__file__).resolve().parents[1] / "data" / "opencode_plugin.js"
"""The plugin that runs commands on events, which OpenCode itself cannot do."""


def _opencode(program: Integration, context: SetupContext) -> list[SettingsFile]:
    folder = program.settings_folder(context)
    config_folder = context.root if context.of_project else folder
    commented = config_folder / "opencode.jsonc"
    config = commented if commented.is_file() else config_folder / "opencode.json"
    server = {"type": "local", "command": context.server(program.server_root), "enabled": True}
    vault = context.vault_argument(program.hook_root)
    hook = [*context.program, "hook", "EVENT", "--for", program.name, "--vault", vault]
    plugin = opencode_plugin(hook, context.acts)
    header = (
        f"description: {ABOUT_HISTORIAN}\nmode: subagent\n"
        f'permission:\n  "*": deny\n  "{SERVER}_*": allow\n'
    )
    schema = {"$schema": "https://opencode.ai/config.json"}
    return [
        SettingsFile(config, (server_entry(program, server),), schema),
        SettingsFile(folder / "plugins" / f"{SERVER}.js", (OwnedFile(plugin),)),
        historian_file(program, context, header),
        instructions_file(program, context, "AGENTS.md"),
    ]


def opencode_plugin(command: list[str], acts: bool = False) -> str:
    """Return OpenCode's plugin, which runs a command after replacing the word ``EVENT``.

    With ``acts``, it also runs the command after each tool use.
    """
    text = _PLUGIN.read_text("utf-8").replace("COMMAND = []", f"COMMAND = {json.dumps(command)}")
    return text.replace("ACTS = false", "ACTS = true") if acts else text


def _opencode_folder(context: SetupContext) -> Path:
    config = context.user_folder("XDG_CONFIG_HOME", ".config") / "opencode"
    return context.user_folder("OPENCODE_CONFIG_DIR", str(config))


OPENCODE = Integration(
    "opencode",
    "OpenCode",
    _opencode,
    ".opencode",
    _opencode_folder,
    "mcp",
    dict.fromkeys(get_args(Event), HookEvent("", plain_output)),  # The plugin passes the text on.
    "restart opencode",
    server_root=".",  # OpenCode runs servers in the project's folder.
    hook_root=".",
    summary_reads_output=True,
    act_events={"after-tool": HookEvent("", plain_output)},  # The plugin adds it to the output.
    notice_output=lambda _, text: f"Tell the user: {text}",
)
