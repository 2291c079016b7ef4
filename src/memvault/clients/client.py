"""Data model of the setup of an agent program: its files and their contents."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from memvault.clients.json_edit import JsonEntry
from memvault.clients.marked_blocks import BlockMarkers

Scope = Literal["project", "user"]
Event = Literal["session-start", "prompt", "pre-compact", "stop", "session-end"]
"""The events for which a program runs ``memvault hook``."""
SERVER = "memvault"
"""The name of the MCP server in every program."""
MARKDOWN = BlockMarkers("<!-- memvault: begin -->", "<!-- memvault: end -->")
TOML = BlockMarkers("# memvault: begin", "# memvault: end")
OURS = "written by memvault setup"
"""The text that marks a file as written by memvault as a whole."""
HISTORIAN = "historian"
_SERVER_ARGUMENTS = ["mcp", "--vault"]
_SHELL_SAFE = re.compile(r"\$[\w./ -]+")
ABOUT_HISTORIAN = (
    "Looks up what people and agents have learned before, and keeps what is learned now, in "
    "memvault. Use it before a design is chosen or an error looked into, and when something was "
    "decided or found out."
)
"""When to ask the historian; the program shows this description to its model."""
SECONDS: Mapping[Event, int] = {
    event: 10 if event == "session-start" else 5 for event in get_args(Event)
}
"""How many seconds a program waits for a hook, which ends by itself long before."""


class SetupContext(NamedTuple):
    """Where to set up a program, and the command, vault and texts to use there.

    ``root`` is the project's folder, ``home`` the user's; ``program`` is the command that starts
    memvault; ``instructions`` and ``historian`` are texts for models.
    """

    scope: Scope
    root: Path
    home: Path
    environ: Mapping[str, str]
    program: tuple[str, ...]
    vault: Path
    instructions: str
    historian: str

    @property
    def of_project(self) -> bool:
        """Whether the setup is for one project only."""
        return self.scope == "project"

    def folder(self, variable: str, *names: str) -> Path:
        """Return a folder of the user, which an environment variable may override."""
        value = self.environ.get(variable, "")
        return Path(value) if Path(value).is_absolute() else self.home.joinpath(*names)

    def server(self, root: str | None) -> list[str]:
        """Return the command of the MCP server; ``root`` stands for the project in an argument."""
        return [*self.program, *_SERVER_ARGUMENTS, self._named(root)]

    def hook(self, event: Event, client: str, root: str | None) -> str:
        """Return the shell command of a hook; ``root`` stands for the project in it.

        The command succeeds even if memvault cannot be run, so that it never blocks the program.
        """
        vault_path = self._named(root)
        variable = vault_path.startswith("$")
        if variable and not _SHELL_SAFE.fullmatch(vault_path):  # a shell would interpret it
            vault_path, variable = str(self.vault), False
        vault = f'"{vault_path}"' if variable else shlex.quote(vault_path)
        line = shlex.join(self.program)
        return f"{line} hook {event} --for {client} --vault {vault} || true"

    def _named(self, root: str | None) -> str:
        """Return the path of the vault, relative to ``root`` if it is inside the project."""
        if root is None or not self.of_project or not self.vault.is_relative_to(self.root):
            return str(self.vault)
        below = self.vault.relative_to(self.root).as_posix()
        return root if below == "." else below if root == "." else f"{root}/{below}"


class MarkedBlock(NamedTuple):
    """A block of text between two markers in a file that others edit too.

    A file that contains ``unless``, but no block yet, is left unchanged.
    """

    text: str
    marks: BlockMarkers
    unless: str = ""


class OwnedFile(NamedTuple):
    """A file that memvault owns as a whole."""

    text: str


Part = JsonEntry | MarkedBlock | OwnedFile


class ClientFile(NamedTuple):
    """A file and its parts; ``base`` holds other entries of a JSON file that setup creates."""

    path: Path
    parts: tuple[Part, ...]
    base: Mapping[str, Any] = {}


class AgentProgram(NamedTuple):
    """An agent program: its name, its files, its hook output and the user's next step."""

    name: str
    title: str
    files: Callable[[SetupContext], list[ClientFile]]
    answer: Callable[[Event, str], str]
    next_step: str


def hooks_entries(
    client: str,
    context: SetupContext,
    root: str | None,
    events: Mapping[Event, str],
    unit: int = 1,
    only: Mapping[Event, str] = {},
) -> tuple[JsonEntry, ...]:
    """Return the hooks in the form that Claude Code, Codex and Gemini CLI use.

    ``events`` maps each event to the program's name for it, ``only`` maps an event to the matcher
    that restricts it, and ``unit`` is how many of the program's units of time make up a second.
    """
    return tuple(
        JsonEntry(
            ("hooks", name),
            {
                **({"matcher": only[event]} if event in only else {}),
                "hooks": [
                    {
                        "type": "command",
                        "command": context.hook(event, client, root),
                        "timeout": SECONDS[event] * unit,
                    }
                ],
            },
            is_hook(event, client),
            listed=True,
        )
        for event, name in events.items()
    )


def is_hook(event: Event, client: str) -> Callable[[Any], bool]:
    """Return a predicate for a list item that setup wrote and that contains nothing else."""
    marker = f"hook {event} --for {client}"

    def is_own(item: Any) -> bool:
        if not isinstance(item, dict):
            return False
        hooks = item.get("hooks", [item])
        commands = [
            entry.get("command") if isinstance(entry, dict) else None
            for entry in (hooks if isinstance(hooks, list) else [])
        ]
        return bool(commands) and all(
            isinstance(command, str) and f" {marker} " in f" {command} " for command in commands
        )

    return is_own


def server_entry(keys: str, value: dict[str, Any]) -> JsonEntry:
    """Return the entry of the MCP server below a key: a server that runs ``mcp --vault``."""
    return JsonEntry((keys, SERVER), value, _is_server)


def _is_server(value: Any) -> bool:
    """Return whether setup wrote the entry of a server.

    Its command then ends with ``mcp --vault`` and a path, and names no agent.
    """
    if not isinstance(value, dict):
        return False
    command, arguments = value.get("command"), value.get("args")
    command_line = arguments if isinstance(arguments, list) else command
    return isinstance(command_line, list) and command_line[-3:-1] == _SERVER_ARGUMENTS


def instructions(context: SetupContext, path: Path) -> ClientFile:
    """Return the instructions as a marked block of a program's file of instructions."""
    return ClientFile(path, (MarkedBlock(context.instructions, MARKDOWN, "memvault recall"),))


def markdown_agent(context: SetupContext, path: Path, header: str) -> ClientFile:
    """Return the historian as a markdown file with a header for its program."""
    text = f"---\n{header.strip()}\n---\n\n<!-- {OURS} -->\n\n{context.historian.strip()}\n"
    return ClientFile(path, (OwnedFile(text),))


def in_hook_output(names: Mapping[Event, str], event: Event, text: str) -> str:
    """Return JSON that adds a text to what the model reads.

    The format originates from Claude Code; other programs have adopted it.
    """
    return json.dumps(
        {"hookSpecificOutput": {"hookEventName": names[event], "additionalContext": text}}
    )
