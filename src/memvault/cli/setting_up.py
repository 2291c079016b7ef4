"""The command ``setup``: memvault in the programs that people talk to agents in."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault import visible
from memvault.cli import asking, output, showing
from memvault.cli.options import GlobalOptions
from memvault.errors import Refused, UsageError
from memvault.upkeep.clients import NAMES

_LACKING = "memvault mcp needs the MCP SDK: install memvault with the extra mcp"

if TYPE_CHECKING:
    from memvault.upkeep.clients.client import SetupContext
    from memvault.upkeep.clients.setup import FileEdit


def setup(
    options: GlobalOptions,
    program: str,
    project: bool,
    user: bool,
    dry_run: bool,
    remove: bool,
    yes: bool,
) -> None:
    """Set memvault up in Claude Code, Codex, OpenCode, Gemini CLI or Cursor.

    The program gets the MCP server, hooks that recall at a session's start and
    at each prompt, the historian as an agent of its own, and instructions.
    --project, the default, sets it up in this folder; --user for all of yours.
    It shows what it changes and asks at a terminal; what is there stays as it
    is. --remove takes back exactly that. docs/agents.md says what goes where.
    """
    from memvault.upkeep.clients import setup as planning

    if not program:
        raise UsageError("The program is missing", f"name {', '.join(NAMES)}")
    client = planning.client(program)
    if project and user:
        raise UsageError("--project and --user cannot be combined", "choose one of them")
    place = _place(options, user, remove)
    changes = planning.plan_edits(client.files(place), place, remove)
    diffs = [planning.diff(change) for change in changes]
    if not options.json and diffs:
        output.text("\n".join(diffs), as_json=False)
    if changes and not dry_run:
        if not yes:
            _ask(changes)
        planning.write(changes)
    lacking = not remove and importlib.util.find_spec("mcp") is None
    found: dict[str, Any] = {
        "success": True,
        "program": client.name,
        "scope": place.scope,
        "changes": [
            {"path": str(change.path), "action": change.action, "diff": text}
            for change, text in zip(changes, diffs, strict=True)
        ],
        "written": bool(changes) and not dry_run,
        "removed": remove,
        "next": "" if remove else client.next_step,
        **({"warnings": [_LACKING]} if lacking else {}),
    }
    if options.json:
        showing.print_result(options, "setup", found)
        return
    output.text(_summary(client.title, found), as_json=False)
    if not options.quiet:
        output.notes(found.get("warnings", ()))


def _summary(title: str, found: Mapping[str, Any]) -> str:
    """Return for people what was done, and what is to be done next."""
    number = len(found["changes"])
    files = f"{number} file{'s' if number != 1 else ''}"
    if not number:
        return "There is nothing to change"
    if not found["written"]:
        return f"Nothing is written yet: {files} would be"
    if found["removed"]:
        return f"Took memvault out of {title}: {files}"
    return f"Set {title} up: {files}\nNext: {found['next']}"


def _place(options: GlobalOptions, user: bool, remove: bool) -> SetupContext:
    """Return where to set up, and the vault to name there, which removing does not need.

    Raises:
        Refused: the folder is the user's home, or there is none.
        VaultNotFound: there is no vault.
    """
    from memvault.locate import find_vault
    from memvault.tools.core import skill
    from memvault.upkeep.clients.client import SetupContext

    try:
        home = Path.home()
    except RuntimeError as error:
        raise Refused("There is no home folder", "set HOME to yours") from error
    root = Path.cwd().resolve()
    if not user and root == home.resolve():
        raise Refused("This folder is your home, and no project", "memvault setup PROGRAM --user")
    vault = root if remove else find_vault(options.vault)
    named = "" if root.is_relative_to(vault) and not user else str(vault)
    if named and not user and vault.is_relative_to(root):
        named = vault.relative_to(root).as_posix()
    return SetupContext(
        "user" if user else "project",
        root,
        home,
        os.environ,
        _program(root),
        vault,
        skill.instructions(visible.quote_argument(named) if named else ""),
        skill.historian_prompt(),
    )


def _program(root: Path) -> tuple[str, ...]:
    """Return how memvault is started: by its name, or where that is not found by its path."""
    from memvault import process

    try:
        process.find_program("memvault", root, process.environment(root))
    except UsageError:
        # -P: a module in a project's folder is none of memvault's.
        return sys.executable, "-P", "-m", "memvault"
    return ("memvault",)


def _ask(changes: Sequence[FileEdit]) -> None:
    """Ask the person at the terminal, if there is one.

    Raises:
        Refused: the answer is no.
    """
    count = f"these {len(changes)} files" if len(changes) > 1 else "this file"
    if asking.has_terminal() and not asking.agrees([], f"Write {count}?"):
        raise Refused("Nothing was changed", "memvault setup PROGRAM --dry-run only shows it")
