"""What is set up for a program that people talk to an agent in: its files, and what goes there."""

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
"""What a program runs ``memvault hook`` for."""
SERVER = "memvault"
"""What the MCP server is called in every program."""
MARKDOWN = BlockMarkers("<!-- memvault: begin -->", "<!-- memvault: end -->")
TOML = BlockMarkers("# memvault: begin", "# memvault: end")
OURS = "written by memvault setup"
"""What a file says that is memvault's as a whole."""
HISTORIAN = "historian"
_SERVES = ["mcp", "--vault"]
_PLAIN = re.compile(r"\$[\w./ -]+")
ABOUT_HISTORIAN = (
    "Looks up what people and agents have learned before, and keeps what is learned now, in "
    "memvault. Use it before a design is chosen or an error looked into, and when something was "
    "decided or found out."
)
"""When the historian should be asked, as the program tells its model."""
SECONDS: Mapping[Event, int] = {
    event: 10 if event == "session-start" else 5 for event in get_args(Event)
}
"""How long a program waits for a hook, which ends itself long before."""


class SetupContext(NamedTuple):
    """Where to set up, and what to name there.

    ``root`` is the project's folder, ``home`` the user's; ``program`` is how
    memvault is started; ``instructions`` and ``historian`` are texts for models.
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
        """Whether it is set up for a project alone."""
        return self.scope == "project"

    def folder(self, variable: str, *names: str) -> Path:
        """Return a folder of the user's own, which a variable may say is another one."""
        named = self.environ.get(variable, "")
        return Path(named) if Path(named).is_absolute() else self.home.joinpath(*names)

    def server(self, root: str | None) -> list[str]:
        """Return the command that serves MCP; ``root`` stands for the project in an argument."""
        return [*self.program, *_SERVES, self._named(root)]

    def hook(self, event: Event, client: str, root: str | None) -> str:
        """Return a shell's line for a hook; ``root`` stands for the project in one.

        Where memvault cannot be run at all, that is no reason to stop anything.
        """
        named = self._named(root)
        variable = named.startswith("$")
        if variable and not _PLAIN.fullmatch(named):  # a shell would read more into it
            named, variable = str(self.vault), False
        vault = f'"{named}"' if variable else shlex.quote(named)
        line = shlex.join(self.program)
        return f"{line} hook {event} --for {client} --vault {vault} || true"

    def _named(self, root: str | None) -> str:
        """Return the vault's path, from the project's folder where it lies in there."""
        if root is None or not self.of_project or not self.vault.is_relative_to(self.root):
            return str(self.vault)
        below = self.vault.relative_to(self.root).as_posix()
        return root if below == "." else below if root == "." else f"{root}/{below}"


class MarkedBlock(NamedTuple):
    """A text between two marks in a file that others write too.

    Where the file says ``unless`` already, it needs no block.
    """

    text: str
    marks: BlockMarkers
    unless: str = ""


class OwnedFile(NamedTuple):
    """A file that is memvault's as a whole."""

    text: str


Part = JsonEntry | MarkedBlock | OwnedFile


class ClientFile(NamedTuple):
    """A file, and what goes into it; ``base`` is what else a JSON file holds from its start."""

    path: Path
    parts: tuple[Part, ...]
    base: Mapping[str, Any] = {}


class AgentProgram(NamedTuple):
    """A program: its name, its files, what it is answered, what its user is to do next."""

    name: str
    title: str
    files: Callable[[SetupContext], list[ClientFile]]
    answer: Callable[[Event, str], str]
    next_step: str


def hooks_entries(
    client: str,
    place: SetupContext,
    root: str | None,
    events: Mapping[Event, str],
    unit: int = 1,
    only: Mapping[Event, str] = {},
) -> tuple[JsonEntry, ...]:
    """Return the hooks as Claude Code, Codex and Gemini CLI want them.

    ``events`` has the program's name of each event, ``only`` which of its kind count,
    ``unit`` its parts of a second.
    """
    return tuple(
        JsonEntry(
            ("hooks", name),
            {
                **({"matcher": only[event]} if event in only else {}),
                "hooks": [
                    {
                        "type": "command",
                        "command": place.hook(event, client, root),
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
    """Return what knows a hook again that was set up, and holds nothing else."""
    wanted = f"hook {event} --for {client}"

    def own(item: Any) -> bool:
        if not isinstance(item, dict):
            return False
        inner = item.get("hooks", [item])
        commands = [
            entry.get("command") if isinstance(entry, dict) else None
            for entry in (inner if isinstance(inner, list) else [])
        ]
        return bool(commands) and all(
            isinstance(command, str) and f" {wanted} " in f" {command} " for command in commands
        )

    return own


def server_entry(keys: str, value: dict[str, Any]) -> JsonEntry:
    """Return the MCP server as an entry below a key: one that runs ``mcp --vault``."""
    return JsonEntry((keys, SERVER), value, _is_server)


def _is_server(value: Any) -> bool:
    """Say whether a server was set up: its command ends as those do, and names no agent."""
    if not isinstance(value, dict):
        return False
    command, arguments = value.get("command"), value.get("args")
    words = arguments if isinstance(arguments, list) else command
    return isinstance(words, list) and words[-3:-1] == _SERVES


def instructions(place: SetupContext, path: Path) -> ClientFile:
    """Return the block of instructions in a program's file of such."""
    return ClientFile(path, (MarkedBlock(place.instructions, MARKDOWN, "memvault recall"),))


def markdown_agent(place: SetupContext, path: Path, header: str) -> ClientFile:
    """Return the historian as a markdown file with a header of its program's."""
    text = f"---\n{header.strip()}\n---\n\n<!-- {OURS} -->\n\n{place.historian.strip()}\n"
    return ClientFile(path, (OwnedFile(text),))


def in_hook_output(names: Mapping[Event, str], event: Event, text: str) -> str:
    """Return what adds a text to what the model reads, in the form that Claude Code began."""
    return json.dumps(
        {"hookSpecificOutput": {"hookEventName": names[event], "additionalContext": text}}
    )
