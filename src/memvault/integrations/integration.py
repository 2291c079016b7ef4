"""Define an integration with a program: its files, hooks and MCP server.

``claude_code``, ``codex``, ``cursor``, ``gemini`` and ``opencode`` define one integration each.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from memvault.integrations.json_edit import JsonEntry
from memvault.integrations.marked_blocks import BlockMarkers
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

Scope = Literal["project", "user"]
Event = Literal[
    "session-start", "prompt", "before-tool", "after-tool", "pre-compact", "stop", "session-end"
]
"""The events on which a program runs ``memvault hook``."""
SERVER = "memvault"
"""The name of the MCP server in every program."""
MARKDOWN = BlockMarkers("<!-- memvault: begin -->", "<!-- memvault: end -->")
TOML = BlockMarkers("# memvault: begin", "# memvault: end")
OURS = "written by memvault setup"
"""The text that marks a whole file as written by memvault."""
HISTORIAN = "historian"
ABOUT_HISTORIAN = (
    "Looks up in memvault what people and agents have learned, and stores new knowledge there. "
    "Use it before choosing a design or investigating an error, and after a decision or a "
    "finding."
)
"""The description of the historian that the program shows to its model."""
HISTORIAN_HEADER = f"name: {HISTORIAN}\ndescription: {ABOUT_HISTORIAN}\n"
_SERVER_ARGUMENTS = ["mcp", "--vault"]
_SHELL_SAFE = lazy_pattern(r"\$[\w./ -]+")


class SetupContext(NamedTuple):
    """The target folders of a setup, and the command, vault and instructions to use there.

    ``root`` is the project's folder, and ``home`` is the user's home folder. ``program`` is the
    command that starts memvault. ``instructions`` and ``historian`` are prompts for models.
    ``reading`` maps the names of the server's read-only tools to command names. If ``captures`` is
    set, hooks also import each session as an episode. If ``acts`` is set, hooks also recall
    memories that mention the file or command of a tool use.
    """

    scope: Scope
    root: Path
    home: Path
    environ: Mapping[str, str]
    program: tuple[str, ...]
    vault: Path
    instructions: str
    historian: str
    reading: Mapping[str, str] = {}
    captures: bool = False
    acts: bool = False

    @property
    def of_project(self) -> bool:
        """Whether the setup is for one project only."""
        return self.scope == "project"

    def user_folder(self, variable: str, name: str) -> Path:
        """Return one of the user's folders, which an environment variable can override."""
        value = self.environ.get(variable, "")
        return Path(value) if Path(value).is_absolute() else self.home / name

    def server(self, root: str | None) -> list[str]:
        """Return the MCP server's command; ``root`` replaces the project's folder in it."""
        return [*self.program, *_SERVER_ARGUMENTS, self.vault_argument(root)]

    def hook(self, event: Event, program: str, root: str | None, options: str = "") -> str:
        """Return the shell command of a hook; ``root`` replaces the project's folder in it.

        The command succeeds even if memvault cannot be run, so it never blocks the program.
        """
        vault_path = self.vault_argument(root)
        variable = vault_path.startswith("$")
        if variable and not _SHELL_SAFE.fullmatch(vault_path):  # A shell would interpret it.
            vault_path, variable = str(self.vault), False
        vault = f'"{vault_path}"' if variable else shlex.quote(vault_path)
        line = shlex.join(self.program)
        return f"{line} hook {event} --for {program} --vault {vault}{options} || true"

    def vault_argument(self, root: str | None) -> str:
        """Return the vault's path, to be used with ``--vault``.

        A project's files may be shared, so if the vault is in the project, or contains it, the path
        is relative to ``root``. Git worktrees that lack the vault then find it in the main one.
        """
        if root is None or not self.of_project:
            return str(self.vault)
        if not (self.vault.is_relative_to(self.root) or self.root.is_relative_to(self.vault)):
            return str(self.vault)
        path = Path(os.path.relpath(self.vault, self.root)).as_posix()
        return root if path == "." else path if root == "." else f"{root}/{path}"


class MarkedBlock(NamedTuple):
    """A block of text between two markers in a file that others also edit.

    A file that contains ``unless`` but no block yet is left unchanged.
    """

    text: str
    marks: BlockMarkers
    unless: str = ""


class OwnedFile(NamedTuple):
    """A file written completely by memvault."""

    text: str


SettingsEdit = JsonEntry | MarkedBlock | OwnedFile


class SettingsFile(NamedTuple):
    """A file and memvault's parts of it; ``base`` has other entries for a new JSON file.

    ``unwanted`` contains parts of a setup with other options, which are removed.
    """

    path: Path
    parts: tuple[SettingsEdit, ...]
    base: Mapping[str, Any] = {}
    unwanted: tuple[JsonEntry, ...] = ()


class HookEvent(NamedTuple):
    """A program's name for an event, the format of the hook's output, and a matcher."""

    name: str
    output: Callable[[str, str], str]
    matcher: str = ""


def plain_output(_: str, text: str) -> str:
    """Return text unchanged, for an event whose output is plain text."""
    return text


def json_output(key: str, **fields: Any) -> Callable[[str, str], str]:
    """Return a function that formats a JSON object with ``fields``, and the text under ``key``."""
    return lambda _, text: json.dumps({**fields, key: text})


def context_output(name: str, text: str) -> str:
    """Return JSON that adds text to the model's input, in Claude Code's format."""
    return json.dumps({"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}})


BLOCK_OUTPUT = json_output("reason", decision="block")
MESSAGE_OUTPUT = json_output("systemMessage")
"""The output for an event at which the program shows text only to the user."""


def nested_hook(command: str, seconds: int, matcher: str) -> dict[str, Any]:
    """Return a hook in the format of Claude Code and Codex: a matcher and a list of commands."""
    entry = {"type": "command", "command": command, "timeout": seconds}
    return {**({"matcher": matcher} if matcher else {}), "hooks": [entry]}


class Integration(NamedTuple):
    """The integration with an agent program.

    Its settings are in ``folder`` of a project or in ``user_folder``, and ``server_key`` is the key
    of its MCP servers. ``server_root`` and ``hook_root`` replace the project's folder in the
    commands of the server and of hooks; None means the folder's path. ``hook`` formats a hook.
    ``notice_output`` formats a message to the user at the start of a session. Output before
    compaction becomes part of the summary if ``summary_reads_output``; otherwise only the user sees
    it. At ``capture_events`` its hooks pass the transcript of the session, which is
    then imported. At ``act_events`` its hooks recall memories about a tool use.
    """

    name: str
    title: str
    files_of: Callable[[Integration, SetupContext], list[SettingsFile]]
    folder: str
    user_folder: Callable[[SetupContext], Path]
    server_key: str
    events: Mapping[Event, HookEvent]
    next_step: str
    server_root: str | None = None
    hook_root: str | None = None
    hook: Callable[[str, int, str], dict[str, Any]] = nested_hook
    notice_output: Callable[[str, str], str] = MESSAGE_OUTPUT
    summary_reads_output: bool = False
    capture_events: Mapping[Event, HookEvent] = {}
    act_events: Mapping[Event, HookEvent] = {}

    def files(self, context: SetupContext) -> list[SettingsFile]:
        """Return the files that the program reads, with memvault's parts of them."""
        return self.files_of(self, context)

    def settings_folder(self, context: SetupContext) -> Path:
        """Return the folder of the program's settings in a project, or of the user."""
        return context.root / self.folder if context.of_project else self.user_folder(context)

    def hook_output(self, event: Event, text: str) -> str:
        """Return text in the format that the program reads at an event.

        Raises:
            KeyError: the program has no such event.
        """
        name, output, _ = {**self.capture_events, **self.act_events, **self.events}[event]
        return output(name, text)


def hook_entries(program: Integration, context: SetupContext) -> tuple[JsonEntry, ...]:
    """Return the entries of a program's hooks."""
    capturing = program.capture_events if context.captures else {}
    acting = program.act_events if context.acts else {}
    return tuple(
        JsonEntry(
            ("hooks", hook_event.name),
            program.hook(
                context.hook(
                    event,
                    program.name,
                    program.hook_root,
                    " --capture" if event in capturing else "",
                ),
                10 if event == "session-start" else 5,  # The hook's own time limit is much shorter.
                hook_event.matcher,
            ),
            is_hook(event, program.name),
            listed=True,
        )
        for event, hook_event in {**capturing, **acting, **program.events}.items()
    )


def unwanted_hooks(program: Integration, context: SetupContext) -> tuple[JsonEntry, ...]:
    """Return the hooks for capturing sessions and for tool uses that were not requested."""
    capturing = {} if context.captures else program.capture_events
    acting = {} if context.acts else program.act_events
    return tuple(
        JsonEntry(("hooks", hook_event.name), {}, is_hook(event, program.name), listed=True)
        for event, hook_event in {**capturing, **acting}.items()
        if event not in program.events
    )


def server_entry(program: Integration, value: dict[str, Any]) -> JsonEntry:
    """Return the entry of the MCP server, which runs ``mcp --vault``."""
    return JsonEntry((program.server_key, SERVER), value, _is_server)


def server_command(program: Integration, context: SetupContext) -> dict[str, Any]:
    """Return the command of the MCP server in the format of most programs."""
    command, *arguments = context.server(program.server_root)
    return {"command": command, "args": arguments}


def instructions_file(program: Integration, context: SetupContext, name: str) -> SettingsFile:
    """Return a project or user file with the instructions as a marked block."""
    folder = context.root if context.of_project else program.settings_folder(context)
    block = MarkedBlock(context.instructions, MARKDOWN, "memvault recall")
    return SettingsFile(folder / name, (block,))


def historian_file(program: Integration, context: SetupContext, header: str) -> SettingsFile:
    """Return the historian's file: markdown with a header for the program."""
    text = f"---\n{header}---\n\n<!-- {OURS} -->\n\n{context.historian.strip()}\n"
    path = program.settings_folder(context) / "agents" / f"{HISTORIAN}.md"
    return SettingsFile(path, (OwnedFile(text),))


def is_hook(event: Event, program: str) -> Callable[[Any], bool]:
    """Return a predicate for list items written by setup that contain nothing else."""
    marker = f"hook {event} --for {program}"

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


def _is_server(value: Any) -> bool:
    """Return whether setup wrote the entry of a server.

    If so, its command ends with ``mcp --vault`` and a path, and has no options for an agent.
    """
    if not isinstance(value, dict):
        return False
    command, arguments = value.get("command"), value.get("args")
    command_line = arguments if isinstance(arguments, list) else command
    return isinstance(command_line, list) and command_line[-3:-1] == _SERVER_ARGUMENTS
