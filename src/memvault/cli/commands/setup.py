"""The commands ``setup``, ``skill`` and ``hook``, which connect agent programs."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from memvault import sanitize
from memvault.arguments.parameters import Arg
from memvault.cli import hook, output
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import command
from memvault.command_table import TOOLS
from memvault.errors import INSTALL, Refused, UsageError, exclusive, suggestion
from memvault.integrations import NAMES
from memvault.tools.core import agent_guide, registry

if TYPE_CHECKING:
    from memvault.integrations.integration import Integration, SetupContext


_SDK_MISSING = f"`memvault mcp` needs the MCP SDK: {INSTALL} '.[mcp]'"


_IMPORTED = ("opencode",)
"""Programs whose sessions can be imported but not captured."""


@command(
    "setup",
    (
        "memvault setup claude-code",
        "memvault setup codex --user --dry-run",
        "memvault setup opencode --remove",
    ),
    group="programs",
)
def setup(
    options: GlobalOptions,
    program: Annotated[str, Arg("The program", positional=True, metavar="|".join(NAMES))],
    project: Annotated[bool, Arg("For this folder (default)")] = False,
    user: Annotated[bool, Arg("For all of your projects")] = False,
    dry_run: Annotated[bool, Arg("Show the changes without writing them")] = False,
    remove: Annotated[bool, Arg("Undo setup's changes")] = False,
    capture: Annotated[bool, Arg("Import each session as an episode")] = False,
    act: Annotated[
        bool,
        Arg("Recall memories about a file when it is edited, or a command when it runs or fails"),
    ] = False,
    yes: Annotated[bool, Arg("Write without asking")] = False,
) -> dict[str, Any] | None:
    """Set memvault up in an agent program, such as Claude Code.

    The program gets the MCP server, hooks that recall memories at the start of a session and at
    each prompt, the historian as a separate agent, and instructions. `--project`, the default, sets
    it up for this folder; `--user` for all your projects. It shows the changes and asks; without a
    terminal it changes nothing unless `--yes` is given. Your existing settings are kept. `--remove`
    undoes exactly these changes. docs/reference/agent-setup.md lists the files that are written.

    `--capture` adds hooks that import each session as an episode when it ends and before its
    context is compacted. `--act` adds hooks that recall a memory about a file before it is edited,
    about a command before it runs, and about the error after a command fails. Setup without them
    removes these hooks.
    """
    from memvault.integrations import setup as planning

    client = planning.find_integration(program)
    exclusive({"--project": project, "--user": user})
    exclusive({"--remove": remove, "--capture": capture})
    exclusive({"--remove": remove, "--act": act})
    if capture and not client.capture_events:
        raise UsageError(
            f"{client.title}'s hooks do not pass the session's transcript",
            "import its sessions with `memvault import`"
            if client.name in _IMPORTED
            else "omit `--capture`",
        )
    context = _setup_context(options, client, user, remove)
    context = context._replace(captures=capture or remove, acts=act or remove)
    changes = planning.plan_edits(client.files(context), context, remove)
    diffs = [planning.diff(change) for change in changes]
    question = f"Write {f'these {len(diffs)} files' if len(diffs) > 1 else 'this file'}?"
    lines = [line for text in diffs for line in text.splitlines()]
    agreed = bool(changes) and not dry_run and output.consent(yes, lines, question)
    if changes and agreed is False and not dry_run:
        raise Refused(
            "Nothing was changed",
            f"run `memvault setup {client.name} --dry-run` to see the changes",
        )
    written = bool(agreed)
    if written:
        # Write before printing, because a closed pipe ends the command.
        planning.write(changes)
    is_sdk_missing = not remove and importlib.util.find_spec("mcp") is None
    result: dict[str, Any] = {
        "program": client.name,
        "scope": context.scope,
        "changes": [
            {"path": str(change.path), "action": change.action, "diff": text}
            for change, text in zip(changes, diffs, strict=True)
        ],
        "written": written,
        "removed": remove and (written or not changes),
        "next": _next(client, bool(changes), written, remove),
        **({"warnings": [_SDK_MISSING]} if is_sdk_missing else {}),
    }
    if options.json:
        return result
    was_shown = written and not yes
    shown = [*([] if was_shown else diffs), _summary(client.title, result)]
    output.text("\n".join(shown), as_json=False)
    if not options.quiet:
        output.notes(result.get("warnings", ()))
    return None


def _next(client: Integration, has_changes: bool, written: bool, remove: bool) -> str:
    """Return the next step for the user."""
    if has_changes and not written:
        return "Pass `--yes` to write the changes"
    return "" if remove else client.next_step


def _summary(title: str, result: Mapping[str, Any]) -> str:
    """Return a summary of the changes and the next step, for people."""
    number = len(result["changes"])
    files = f"{number} file{'s' if number != 1 else ''}"
    if not number:
        return "Nothing to change"
    if not result["written"]:
        return f"Nothing was written; {files} would change. Pass `--yes` to write them"
    if result["removed"]:
        return f"Removed memvault from {title} ({files})"
    return f"Set up {title} ({files})\nNext: {result['next']}"


def _setup_context(
    options: GlobalOptions, client: Integration, user: bool, remove: bool
) -> SetupContext:
    """Return the context of a setup: scope, folders and vault; removal needs no vault.

    Raises:
        Refused: the folder is the user's home, or there is no home folder.
        VaultNotFound: there is no vault.
    """
    from memvault.integrations.integration import SetupContext

    try:
        home = Path.home()
    except RuntimeError as error:
        raise Refused("There is no home folder", "set HOME to your home folder") from error
    root = Path.cwd().resolve()
    if not user and root == home.resolve():
        hint = f"to set it up for all your projects, run `memvault setup {client.name} --user`"
        raise Refused("This is your home folder, not a project", hint)
    vault = root if remove else options.root()
    vault_option = "" if root.is_relative_to(vault) and not user else str(vault)
    if vault_option and not user and vault.is_relative_to(root):
        vault_option = vault.relative_to(root).as_posix()
    return SetupContext(
        "user" if user else "project",
        root,
        home,
        os.environ,
        _program(root),
        vault,
        agent_guide.instructions(sanitize.quote_argument(vault_option) if vault_option else ""),
        agent_guide.historian_prompt(),
        {
            entry.tool: entry.words
            for entry in TOOLS
            if entry.core and registry.find(entry.tool).read_only
        },
    )


def _program(root: Path) -> tuple[str, ...]:
    """Return the command that starts memvault: ``memvault``, or this interpreter if not on PATH."""
    from memvault import process

    try:
        process.find_program("memvault", root, process.environment(root))
    except UsageError:
        # With -P, Python does not import modules from the project's folder.
        return sys.executable, "-P", "-m", "memvault"
    return ("memvault",)


FORMS = {
    "agents": (agent_guide.agents_page, "AGENTS.md"),
    "claude": (agent_guide.claude_skill, f"{agent_guide.NAME}/SKILL.md"),
    "text": (agent_guide.plain_text, "memvault.txt"),
}
"""For each format, the function that builds its text, and the name of its file."""


@command(
    "skill",
    ("memvault skill", "memvault skill --as text", "memvault skill --as claude --out skills"),
    view="Wrote {file}",
    group="programs",
)
def print_guide(
    options: GlobalOptions,
    form: Annotated[str, Arg("The format", flag="--as", metavar="|".join(FORMS))] = "agents",
    out: Annotated[str, Arg("Write it to a file in this folder", metavar="DIR")] = "",
) -> dict[str, Any] | None:
    """Print the guide for agents: which tool to use when, and how.

    `--as agents` prints a page for AGENTS.md, `--as claude` prints a skill for Claude, and `--as
    text` prints plain text. `--out DIR` writes it to a file in that folder: AGENTS.md,
    memvault/SKILL.md or memvault.txt. An existing file is not overwritten.
    """
    if form not in FORMS:
        hint = suggestion(form, FORMS, f"use {', '.join(FORMS)}")
        raise UsageError(f"Unknown format {form!r}", hint)
    make, name = FORMS[form]
    if not out:
        output.text(make(), options.json)
        return None
    from memvault.files import atomic

    file = Path(out) / name
    if Path(out).exists() and not Path(out).is_dir():
        raise Refused(f"{out} is not a folder", "pass a folder")
    try:
        atomic.create(file, make().encode())
    except FileExistsError as error:
        raise Refused(
            f"{file} already exists", "move it elsewhere, or choose another folder"
        ) from error
    return {"file": str(file)}


@command(
    "hook",
    (
        """echo '{"prompt": "which database"}' | memvault hook prompt""",
        "memvault hook session-start --for claude-code < /dev/null",
    ),
    group="programs",
)
def run_hook(
    options: GlobalOptions,
    event: Annotated[
        str, Arg("The program's event", positional=True, metavar="|".join(hook.EVENTS))
    ],
    program: Annotated[
        str, Arg("Print in this program's format", flag="--for", metavar="|".join(NAMES))
    ] = "",
    capture: Annotated[bool, Arg("Also import the session")] = False,
) -> None:
    """Print context for a program's agent at an event; setup installs it there.

    The program runs it with JSON on standard input. EVENT is session-start (prints a summary of the
    memory), prompt (prints relevant memories), before-tool or after-tool (print a memory about the
    file or command), pre-compact, stop or session-end (print a reminder to save memories). It
    never fails: on any error it prints nothing and exits with 0. It ends within 5 seconds at
    session-start, and within one second at other events.
    """
    hook.answer(hook.HookInvocation(event, program, options.vault, options.agent, capture))
