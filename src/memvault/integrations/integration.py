"""The agent programs that memvault can set up: a row for each, and the files that it reads.

Formats of November 2026: Claude Code 2.1 (https://code.claude.com/docs/en/hooks, /mcp and
/sub-agents), Codex 0.169 (https://developers.openai.com/codex/config-reference, /hooks and
/subagents), OpenCode 1.18 (https://opencode.ai/docs/config, /mcp-servers, /plugins and /agents),
Gemini CLI 0.61 (https://geminicli.com/docs/hooks/reference, /reference/configuration and
/core/subagents), Cursor (https://cursor.com/docs/agent/hooks, /context/mcp, /context/rules and
/context/subagents).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from memvault.command_table import TOOLS
from memvault.integrations.json_edit import JsonEntry, JsonStrings
from memvault.integrations.marked_blocks import BlockMarkers

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
_ABOUT_HISTORIAN = (
    "Looks up what people and agents have learned before, and keeps what is learned now, in "
    "memvault. Use it before a design is chosen or an error looked into, and when something was "
    "decided or found out."
)
"""When to ask the historian; the program shows this description to its model."""
HISTORIAN_HEADER = f"name: {HISTORIAN}\ndescription: {_ABOUT_HISTORIAN}\n"
HISTORIAN_TOOLS = tuple(command.tool for command in TOOLS if command.core)
"""Tools that the MCP server offers; Claude Code has to list the tools of a sub-agent by name."""
_SERVER_ARGUMENTS = ["mcp", "--vault"]
_SHELL_SAFE = re.compile(r"\$[\w./ -]+")
_PLUGIN = Path(__file__).resolve().parents[1] / "data" / "opencode_plugin.js"
"""OpenCode cannot run commands on events, so a plugin of a few lines runs them."""
_CODEX_TOOLS = """\
sandbox_mode = "read-only"
web_search = "disabled"

[features]
shell_tool = false
unified_exec = false
"""
"""Settings that leave an agent the servers' tools, and none to run, write or search the web."""


class SetupContext(NamedTuple):
    """Where to set up a program, and the command, vault and texts to use there.

    ``root`` is the project's folder, ``home`` the user's; ``program`` is the command that starts
    memvault; ``instructions`` and ``historian`` are texts for models; ``reading`` are the tools
    that the server offers and that change nothing, with the words of their commands. If it
    ``captures``, hooks also import each session as an episode.
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

    @property
    def of_project(self) -> bool:
        """Whether the setup is for one project only."""
        return self.scope == "project"

    def user_folder(self, variable: str, name: str) -> Path:
        """Return a folder of the user, which an environment variable may override."""
        value = self.environ.get(variable, "")
        return Path(value) if Path(value).is_absolute() else self.home / name

    def server(self, root: str | None) -> list[str]:
        """Return the command of the MCP server; ``root`` stands for the project in an argument."""
        return [*self.program, *_SERVER_ARGUMENTS, self._named(root)]

    def hook(self, event: Event, program: str, root: str | None, more: str = "") -> str:
        """Return the shell command of a hook; ``root`` stands for the project in it.

        ``more`` are further options.

        The command succeeds even if memvault cannot be run, so that it never blocks the program.
        """
        vault_path = self._named(root)
        variable = vault_path.startswith("$")
        if variable and not _SHELL_SAFE.fullmatch(vault_path):  # a shell would interpret it
            vault_path, variable = str(self.vault), False
        vault = f'"{vault_path}"' if variable else shlex.quote(vault_path)
        line = shlex.join(self.program)
        return f"{line} hook {event} --for {program} --vault {vault}{more} || true"

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


Part = JsonEntry | JsonStrings | MarkedBlock | OwnedFile


class ClientFile(NamedTuple):
    """A file and its parts; ``base`` holds other entries of a JSON file that setup creates.

    ``unwanted`` are parts of a setup with other options, which are removed.
    """

    path: Path
    parts: tuple[Part, ...]
    base: Mapping[str, Any] = {}
    unwanted: tuple[JsonEntry, ...] = ()


class HookEvent(NamedTuple):
    """A program's name of an event, the form of the output that it reads then, and a matcher."""

    name: str
    output: Callable[[str, str], str]
    matcher: str = ""


def _text(_: str, text: str) -> str:
    return text


def _fields(key: str, **more: Any) -> Callable[[str, str], str]:
    """Return the form of a JSON object that has the text under a key, after others."""
    return lambda _, text: json.dumps({**more, key: text})


def _context(name: str, text: str) -> str:
    """Return JSON that adds a text to what the model reads, in a form that others adopted too."""
    return json.dumps({"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}})


_BLOCK = _fields("reason", decision="block")
_MESSAGE = _fields("systemMessage")
"""The program only shows the text to the user."""


def _nested_hook(command: str, seconds: int, matcher: str) -> dict[str, Any]:
    entry = {"type": "command", "command": command, "timeout": seconds}
    return {**({"matcher": matcher} if matcher else {}), "hooks": [entry]}


def _nested_hook_in_milliseconds(command: str, seconds: int, matcher: str) -> dict[str, Any]:
    return _nested_hook(command, seconds * 1_000, matcher)


def _flat_hook(command: str, seconds: int, _: str) -> dict[str, Any]:
    return {"command": command, "timeout": seconds}


class AgentProgram(NamedTuple):
    """An agent program: a row of the table.

    Its settings are in ``folder`` of a project or in ``user_folder``, and ``server_key`` holds its
    MCP servers. ``server_root`` and ``hook_root`` stand for the project's folder in the commands of
    the server and of hooks; None is for its path. ``hook`` returns the form of a hook. Output
    before compaction goes into the summary if ``summary_reads_output``, else only to the user. At
    ``capture_events`` its hooks name the record of the session, which is then imported.
    """

    name: str
    title: str
    files_of: Callable[[AgentProgram, SetupContext], list[ClientFile]]
    folder: str
    user_folder: Callable[[SetupContext], Path]
    server_key: str
    events: Mapping[Event, HookEvent]
    next_step: str
    server_root: str | None = None
    hook_root: str | None = None
    hook: Callable[[str, int, str], dict[str, Any]] = _nested_hook
    summary_reads_output: bool = False
    capture_events: Mapping[Event, HookEvent] = {}

    def files(self, context: SetupContext) -> list[ClientFile]:
        """Return the files that the program reads, with memvault's parts of them."""
        return self.files_of(self, context)

    def settings_folder(self, context: SetupContext) -> Path:
        """Return the folder of the program's settings in a project, or of the user."""
        return context.root / self.folder if context.of_project else self.user_folder(context)

    def hook_output(self, event: Event, text: str) -> str:
        """Return a text in the form that the program reads at an event.

        Raises:
            KeyError: the program has no such event.
        """
        name, output, _ = {**self.capture_events, **self.events}[event]
        return output(name, text)


def _hooks(program: AgentProgram, context: SetupContext) -> tuple[JsonEntry, ...]:
    capturing = program.capture_events if context.captures else {}
    return tuple(
        JsonEntry(
            ("hooks", its.name),
            program.hook(
                context.hook(
                    event,
                    program.name,
                    program.hook_root,
                    " --capture" if event in capturing else "",
                ),
                10 if event == "session-start" else 5,  # a hook ends by itself long before
                its.matcher,
            ),
            _is_hook(event, program.name),
            listed=True,
        )
        for event, its in {**capturing, **program.events}.items()
    )


def _unwanted_hooks(program: AgentProgram, context: SetupContext) -> tuple[JsonEntry, ...]:
    """Return the hooks that only a setup that captures sessions has, if this one does not."""
    if context.captures:
        return ()
    return tuple(
        JsonEntry(("hooks", its.name), {}, _is_hook(event, program.name), listed=True)
        for event, its in program.capture_events.items()
        if event not in program.events
    )


def _server(program: AgentProgram, value: dict[str, Any]) -> JsonEntry:
    """Return the entry of the MCP server, a server that runs ``mcp --vault``."""
    return JsonEntry((program.server_key, SERVER), value, _is_server)


def _command(program: AgentProgram, context: SetupContext) -> dict[str, Any]:
    command, *arguments = context.server(program.server_root)
    return {"command": command, "args": arguments}


def _instructions(program: AgentProgram, context: SetupContext, name: str) -> ClientFile:
    """Return the instructions as a marked block of a file of the project or the user."""
    folder = context.root if context.of_project else program.settings_folder(context)
    block = MarkedBlock(context.instructions, MARKDOWN, "memvault recall")
    return ClientFile(folder / name, (block,))


def _historian(program: AgentProgram, context: SetupContext, header: str) -> ClientFile:
    """Return the historian as a markdown file with a header for the program."""
    text = f"---\n{header}---\n\n<!-- {OURS} -->\n\n{context.historian.strip()}\n"
    path = program.settings_folder(context) / "agents" / f"{HISTORIAN}.md"
    return ClientFile(path, (OwnedFile(text),))


def _is_hook(event: Event, program: str) -> Callable[[Any], bool]:
    """Return a predicate for a list item that setup wrote and that contains nothing else."""
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

    Its command then ends with ``mcp --vault`` and a path, and names no agent.
    """
    if not isinstance(value, dict):
        return False
    command, arguments = value.get("command"), value.get("args")
    command_line = arguments if isinstance(arguments, list) else command
    return isinstance(command_line, list) and command_line[-3:-1] == _SERVER_ARGUMENTS


def _claude_code(program: AgentProgram, context: SetupContext) -> list[ClientFile]:
    folder = program.settings_folder(context)
    servers = context.root / ".mcp.json"
    if not context.of_project:
        moved = folder != context.home / program.folder
        servers = (folder if moved else context.home) / ".claude.json"
    tools = ", ".join(f"mcp__{SERVER}__{name}" for name in HISTORIAN_TOOLS)
    return [
        ClientFile(servers, (_server(program, {"type": "stdio", **_command(program, context)}),)),
        ClientFile(
            folder / "settings.json",
            (*_hooks(program, context), *_permissions(context)),
            unwanted=_unwanted_hooks(program, context),
        ),
        _historian(program, context, f"{HISTORIAN_HEADER}tools: {tools}\n"),
        _instructions(program, context, "CLAUDE.md"),
    ]


def _permissions(context: SetupContext) -> tuple[JsonStrings, ...]:
    """Return the rules that let Claude Code read memories without asking.

    Its rules are documented at https://code.claude.com/docs/en/permissions.
    """
    rules = [f"mcp__{SERVER}__{name}" for name in context.reading]
    if context.program == ("memvault",):
        rules += [f"Bash(memvault {words}:*)" for words in context.reading.values()]
    return (JsonStrings(("permissions", "allow"), tuple(rules)),) if rules else ()


def _codex(program: AgentProgram, context: SetupContext) -> list[ClientFile]:
    folder = program.settings_folder(context)
    command, *arguments = context.server(program.server_root)
    table = (
        f"[{program.server_key}.{SERVER}]\n"
        f"command = {_toml_text(command)}\nargs = {_toml_text(arguments)}\n"
    )
    agent = (
        f"# {OURS}\nname = {_toml_text(HISTORIAN)}\ndescription = {_toml_text(_ABOUT_HISTORIAN)}\n"
        f"developer_instructions = {_toml_text(context.historian)}\n{_CODEX_TOOLS}"
    )
    return [
        ClientFile(folder / "config.toml", (MarkedBlock(table, TOML),)),
        ClientFile(folder / "hooks.json", _hooks(program, context)),
        ClientFile(folder / "agents" / f"{HISTORIAN}.toml", (OwnedFile(agent),)),
        _instructions(program, context, "AGENTS.md"),
    ]


def _toml_text(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False)  # also TOML, for these values


def _opencode(program: AgentProgram, context: SetupContext) -> list[ClientFile]:
    folder = program.settings_folder(context)
    place = context.root if context.of_project else folder
    commented = place / "opencode.jsonc"
    config = commented if commented.is_file() else place / "opencode.json"
    server = {"type": "local", "command": context.server(program.server_root), "enabled": True}
    hook = [*context.program, "hook", "EVENT", "--for", program.name, "--vault", str(context.vault)]
    plugin = opencode_plugin(hook)
    header = (
        f"description: {_ABOUT_HISTORIAN}\nmode: subagent\n"
        f'permission:\n  "*": deny\n  "{SERVER}_*": allow\n'
    )
    schema = {"$schema": "https://opencode.ai/config.json"}
    return [
        ClientFile(config, (_server(program, server),), schema),
        ClientFile(folder / "plugins" / f"{SERVER}.js", (OwnedFile(plugin),)),
        _historian(program, context, header),
        _instructions(program, context, "AGENTS.md"),
    ]


def opencode_plugin(command: list[str]) -> str:
    """Return OpenCode's plugin, which runs a command whose word ``EVENT`` is the event."""
    return _PLUGIN.read_text("utf-8").replace("COMMAND = []", f"COMMAND = {json.dumps(command)}")


def _opencode_folder(context: SetupContext) -> Path:
    config = context.user_folder("XDG_CONFIG_HOME", ".config") / "opencode"
    return context.user_folder("OPENCODE_CONFIG_DIR", str(config))


def _gemini(program: AgentProgram, context: SetupContext) -> list[ClientFile]:
    entries = (_server(program, _command(program, context)), *_hooks(program, context))
    header = f"{HISTORIAN_HEADER}kind: local\ntools:\n  - mcp_{SERVER}_*\n"
    return [
        ClientFile(program.settings_folder(context) / "settings.json", entries),
        _historian(program, context, header),
        _instructions(program, context, "GEMINI.md"),
    ]


def _cursor(program: AgentProgram, context: SetupContext) -> list[ClientFile]:
    folder = program.settings_folder(context)
    files = [
        ClientFile(folder / "mcp.json", (_server(program, _command(program, context)),)),
        ClientFile(folder / "hooks.json", _hooks(program, context), {"version": 1}),
        _historian(program, context, f"{HISTORIAN_HEADER}model: inherit\n"),
    ]
    if context.of_project:  # the rules of a user are not stored in a file
        head = "---\ndescription: The memory of this project\nalwaysApply: true\n---"
        rule = f"{head}\n\n<!-- {OURS} -->\n\n{context.instructions.strip()}\n"
        files.append(ClientFile(folder / "rules" / f"{SERVER}.mdc", (OwnedFile(rule),)))
    return files


_ROWS = (
    AgentProgram(
        "claude-code",
        "Claude Code",
        _claude_code,
        ".claude",
        lambda context: context.user_folder("CLAUDE_CONFIG_DIR", ".claude"),
        "mcpServers",
        {
            "session-start": HookEvent("SessionStart", _context),
            "prompt": HookEvent("UserPromptSubmit", _context),
            "pre-compact": HookEvent("PreCompact", _text),
            "stop": HookEvent("Stop", _BLOCK),
        },
        "restart Claude Code; of a project's server it asks once whether you trust it",
        server_root=".",
        hook_root="$CLAUDE_PROJECT_DIR",
        summary_reads_output=True,
        capture_events={
            "pre-compact": HookEvent("PreCompact", _text),
            "session-end": HookEvent("SessionEnd", _text),
        },
    ),
    AgentProgram(
        "codex",
        "Codex",
        _codex,
        ".codex",
        lambda context: context.user_folder("CODEX_HOME", ".codex"),
        "mcp_servers",
        {
            "session-start": HookEvent("SessionStart", _context),
            "prompt": HookEvent("UserPromptSubmit", _context),
            "pre-compact": HookEvent("PreCompact", _MESSAGE),
            "stop": HookEvent("Stop", _BLOCK),
        },
        "restart Codex; /hooks there lets the hooks run, and a project has to be trusted",
        capture_events={  # it has no hook at the end of a session, but one after each turn
            "pre-compact": HookEvent("PreCompact", _MESSAGE),
            "stop": HookEvent("Stop", _BLOCK),
        },
    ),
    AgentProgram(
        "opencode",
        "OpenCode",
        _opencode,
        ".opencode",
        _opencode_folder,
        "mcp",
        dict.fromkeys(get_args(Event), HookEvent("", _text)),  # its plugin passes the text on
        "restart opencode",
        summary_reads_output=True,
    ),
    AgentProgram(
        "gemini",
        "Gemini CLI",
        _gemini,
        ".gemini",
        lambda context: context.home / ".gemini",
        "mcpServers",
        {
            "session-start": HookEvent("SessionStart", _context),
            "prompt": HookEvent("BeforeAgent", _context),
            # It runs the hooks of automatic compression at every prompt, before it checks the size.
            "pre-compact": HookEvent("PreCompress", _MESSAGE, matcher="manual"),
            "session-end": HookEvent("SessionEnd", _MESSAGE),
        },
        "restart Gemini CLI; a project's servers, hooks and agents work in a trusted folder only",
        server_root=".",
        hook_root="$GEMINI_PROJECT_DIR",
        hook=_nested_hook_in_milliseconds,
        capture_events={
            "pre-compact": HookEvent("PreCompress", _MESSAGE, matcher="manual"),
            "session-end": HookEvent("SessionEnd", _MESSAGE),
        },
    ),
    AgentProgram(
        "cursor",
        "Cursor",
        _cursor,
        ".cursor",
        lambda context: context.home / ".cursor",
        "mcpServers",
        {
            "session-start": HookEvent("sessionStart", _fields("additional_context")),
            "prompt": HookEvent(
                "beforeSubmitPrompt", _fields("additional_context", **{"continue": True})
            ),
            "pre-compact": HookEvent("preCompact", _fields("user_message")),
        },
        "open a new chat; Cursor's settings switch the server memvault on",
        server_root="${workspaceFolder}",
        hook_root=".",  # it runs a project's hooks in the project's folder
        hook=_flat_hook,
    ),
)
PROGRAMS = {row.name: row for row in _ROWS}
"""The agent programs that memvault can set up, by name."""
