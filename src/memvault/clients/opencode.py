"""OpenCode: its ``opencode.json``, a plugin, a sub-agent, ``AGENTS.md``.

Formats of November 2026, version 1.18: https://opencode.ai/docs/config, /mcp-servers, /plugins and
/agents. OpenCode cannot run commands on events, so a plugin of a few lines runs them.
"""

from __future__ import annotations

import json
from pathlib import Path

from memvault.clients.client import (
    ABOUT_HISTORIAN,
    HISTORIAN,
    OURS,
    SERVER,
    AgentProgram,
    ClientFile,
    Event,
    OwnedFile,
    SetupContext,
    instructions,
    markdown_agent,
    server_entry,
)

_NAME = "opencode"
_SCHEMA = {"$schema": "https://opencode.ai/config.json"}
_PLUGIN = """\
// %(ours)s; memvault setup opencode --remove takes it away.
// Whatever goes wrong in here, OpenCode goes on without it.
import { spawn } from "node:child_process"

const COMMAND = %(command)s
const LONGEST = 6000

const ask = (event, given, cwd) =>
  new Promise((resolve) => {
    try {
      const [program, ...words] = COMMAND.map((word) => (word === "EVENT" ? event : word))
      const child = spawn(program, words, { cwd, stdio: ["pipe", "pipe", "ignore"] })
      const timer = setTimeout(() => child.kill("SIGKILL"), LONGEST)
      const done = (text) => (clearTimeout(timer), resolve(text.trim()))
      let said = ""
      child.stdout.on("data", (piece) => (said += piece))
      child.on("error", () => done(""))
      child.on("close", () => done(said))
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(given))
    } catch {
      resolve("")
    }
  })

export const Memvault = async ({ directory }) => {
  const begun = new Map()
  const recalled = new Map()
  return {
    "chat.message": async (input, output) => {
      const session = input.sessionID
      const parts = output.parts.filter((part) => part.type === "text" && !part.synthetic)
      const prompt = parts.map((part) => part.text).join("\\n")
      const start = begun.get(session) ?? ask("session-start", { cwd: directory }, directory)
      const [known, fits] = await Promise.all([start, ask("prompt", { prompt }, directory)])
      begun.set(session, known)
      recalled.set(session, fits)
    },
    "experimental.chat.system.transform": async (input, output) => {
      for (const text of [begun.get(input.sessionID), recalled.get(input.sessionID)])
        if (text) output.system.push(text)
    },
    "experimental.session.compacting": async (input, output) => {
      const text = await ask("pre-compact", {}, directory)
      if (text) output.context.push(text)
    },
  }
}
"""


def _files(context: SetupContext) -> list[ClientFile]:
    base = context.folder("XDG_CONFIG_HOME", ".config")
    user = context.folder("OPENCODE_CONFIG_DIR", str(base / "opencode"))
    folder = context.root / ".opencode" if context.of_project else user
    server = {"type": "local", "command": context.server(None), "enabled": True}
    config = _config(context.root if context.of_project else user)
    hook = [*context.program, "hook", "EVENT", "--for", _NAME, "--vault", str(context.vault)]
    plugin = _PLUGIN % {"ours": OURS, "command": json.dumps(hook)}
    header = (
        f"description: {ABOUT_HISTORIAN}\nmode: subagent\n"
        f'permission:\n  "*": deny\n  "{SERVER}_*": allow\n'
    )
    return [
        ClientFile(config, (server_entry("mcp", server),), _SCHEMA),
        ClientFile(folder / "plugins" / f"{SERVER}.js", (OwnedFile(plugin),)),
        markdown_agent(context, folder / "agents" / f"{HISTORIAN}.md", header),
        instructions(context, (context.root if context.of_project else user) / "AGENTS.md"),
    ]


def _config(folder: Path) -> Path:
    """Return the settings file: ``opencode.jsonc`` if it exists, else ``opencode.json``."""
    with_comments = folder / "opencode.jsonc"
    return with_comments if with_comments.is_file() else folder / "opencode.json"


def hook_output(event: Event, text: str) -> str:  # noqa: ARG001  # same signature for every program
    """Return the text itself, which the plugin passes on."""
    return text


CLIENT = AgentProgram(_NAME, "OpenCode", _files, hook_output, "start opencode anew")
