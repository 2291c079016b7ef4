"""Generate the plugins that agent programs install from a clone.

Formats of November 2026: Claude Code's marketplaces and plugins
(https://code.claude.com/docs/en/plugins-reference, /plugin-marketplaces), Gemini CLI's extensions
(https://geminicli.com/docs/extensions/reference), OpenCode's plugins
(https://opencode.ai/docs/plugins). Each plugin starts ``memvault`` from ``PATH`` in the project's
folder, where it uses the nearest vault or ``MEMVAULT_VAULT``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memvault import __version__
from memvault.integrations import claude_code, integration, opencode
from memvault.integrations.integration import SERVER, Integration
from memvault.integrations.programs import PROGRAMS
from memvault.tools.core import agent_guide

ABOUT = "Memory in a folder of markdown: recalls at each prompt, remembers decisions"
OWNER = {"name": "The authors of memvault"}
_SERVER = {"command": "memvault", "args": ["mcp"]}


def files(root: Path) -> dict[Path, str]:
    """Return the path and the text of each file of the plugins below the project's folder."""
    plugins = root / "plugins"
    found = {root / ".claude-plugin" / "marketplace.json": _json(_marketplace())}
    found |= {plugins / "claude-code" / name: text for name, text in _claude_code().items()}
    found |= {plugins / "gemini" / name: text for name, text in _gemini().items()}
    found[plugins / "opencode" / "memvault.js"] = _opencode()
    return found


def _json(value: dict[str, Any]) -> str:
    return f"{json.dumps(value, indent=2, ensure_ascii=False)}\n"


def _marketplace() -> dict[str, Any]:
    entry = {"name": SERVER, "source": "./plugins/claude-code", "description": ABOUT}
    return {"name": SERVER, "description": ABOUT, "owner": OWNER, "plugins": [entry]}


def _hooks(program: Integration) -> dict[str, Any]:
    """Return the hooks of a program, which locate the vault from the working directory."""
    return {
        "hooks": {
            its.name: [
                program.hook(
                    f"memvault hook {event} --for {program.name} || true",
                    10 if event == "session-start" else 5,
                    its.matcher,
                )
            ]
            for event, its in program.events.items()
        }
    }


def _historian(header: str) -> str:
    return f"---\n{header}---\n\n{agent_guide.historian_prompt().strip()}\n"


def _claude_code() -> dict[str, str]:
    manifest = {
        "name": SERVER,
        "version": __version__,
        "description": ABOUT,
        "author": OWNER,
        "license": "MIT",
        "keywords": ["memory", "markdown", "recall"],
    }
    # A plugin's server gets a name composed of the plugin's name and its own.
    tools = ", ".join(
        f"mcp__plugin_{SERVER}_{SERVER}__{name}" for name in claude_code.HISTORIAN_TOOLS
    )
    return {
        ".claude-plugin/plugin.json": _json(manifest),
        ".mcp.json": _json({"mcpServers": {SERVER: _SERVER}}),
        "hooks/hooks.json": _json(_hooks(PROGRAMS["claude-code"])),
        "agents/historian.md": _historian(f"{integration.HISTORIAN_HEADER}tools: {tools}\n"),
        "skills/memvault/SKILL.md": agent_guide.claude_skill(),
    }


def _gemini() -> dict[str, str]:
    manifest = {
        "name": SERVER,
        "version": __version__,
        "description": ABOUT,
        "mcpServers": {SERVER: _SERVER},
        "contextFileName": "GEMINI.md",
    }
    header = f"{integration.HISTORIAN_HEADER}kind: local\ntools:\n  - mcp_{SERVER}_*\n"
    return {
        "gemini-extension.json": _json(manifest),
        "GEMINI.md": f"{agent_guide.instructions().strip()}\n",
        "hooks/hooks.json": _json(_hooks(PROGRAMS["gemini"])),
        "agents/historian.md": _historian(header),
    }


def _opencode() -> str:
    command = ["memvault", "hook", "EVENT", "--for", "opencode"]
    text = opencode.opencode_plugin(command)
    _, _, rest = text.partition("\n")
    return f"// Made by `make docs` from memvault's own plugin; do not edit.\n{rest}"
