"""Commands that work on a memory's file directly: edit, open, path, new."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault import process, sanitize
from memvault.cli import output, results
from memvault.cli.options import GlobalOptions
from memvault.errors import NotFound, Refused, UsageError

if TYPE_CHECKING:
    from memvault.call import Call
    from memvault.model import Memory

_EDITORS = ("sensible-editor", "nano", "vim", "vi", "notepad")
_OPENERS = ("open",) if sys.platform == "darwin" else ("xdg-open", "wslview")
"""Programs that open a URL with the desktop's default application."""


def path(options: GlobalOptions, memory: str) -> None:
    """Print the path of a memory's file, or of the vault if no memory is given.

    For use with other programs: vim "$(memvault path deploy-notes)".
    """
    with _call(options, memory) as (call, name):
        whole = call.root / call.engine.resolve(name).path if name else call.root
        _show(options, call, "path", {"path": str(whole)})


def edit(options: GlobalOptions, memory: str) -> None:
    """Open a memory in your editor, and show what changed when you close it.

    The editor is VISUAL, else EDITOR. The edit counts as made by hand, as in any
    program: it takes effect at once, and memvault undo does not revert it.
    """
    if not memory:
        raise UsageError("The memory is missing", "memvault edit MEMORY")
    with _call(options, memory) as (call, name):
        _edit(options, call, call.engine.resolve(name))


def open_memory(options: GlobalOptions, memory: str, where: str, address: bool) -> None:
    """Open a memory in Obsidian if the vault is an Obsidian vault, else in your editor.

    --print prints the Obsidian URL and opens nothing. Without a memory it opens the
    vault.
    """
    if where not in ("", "obsidian", "editor"):
        raise UsageError(f"There is no {where!r} to open it in", "take obsidian or editor")
    with _call(options, memory) as (call, name):
        found = call.engine.resolve(name) if name else None
        whole = _address(call.root / found.path if found is not None else call.root)
        if address:
            _show(options, call, "open", {"address": whole})
        elif where == "editor" or (not where and not (call.root / ".obsidian").is_dir()):
            if found is None:
                raise UsageError(
                    "The memory is missing", "an editor opens one: memvault open MEMORY"
                )
            _edit(options, call, found)
        else:
            _open(whole, call.root)


def new(options: GlobalOptions, title: str, template: str, memory_type: str, no_edit: bool) -> None:
    """Create a memory from a template of the vault, and open it in your editor.

    Templates are the files in the vault's templates folder. {{title}}, {{date}} and
    {{time}} are filled in, as in Obsidian. The default template is the one with the
    name of the type.
    """
    from memvault.memories import create
    from memvault.tools.core import invoke
    from memvault.vault.paths import normal_type

    if not title:
        raise UsageError("The title is missing", 'memvault new "A title" --template NAME')
    with _call(options) as (call, _):
        usual = normal_type(memory_type) if memory_type else ""
        filled = create.filled(call.root, template or usual, title, bool(template))
        arguments: dict[str, Any] = {"title": title, "content": filled.body or " "}
        arguments["memoryType"] = memory_type or filled.memory_type or template
        if filled.tags:
            arguments["tags"] = filled.tags
        found = invoke.call_nested(call, "memory_remember", arguments)
        invoke.autocommit(call)
        if no_edit or not _is_at_a_terminal():
            _show(options, call, "memory_remember", found)
        else:
            _edit(options, call, call.store.read(found["filePath"]))


@contextlib.contextmanager
def _call(options: GlobalOptions, memory: str = "") -> Iterator[tuple[Call, str]]:
    """Open the vault for a command that is not a tool; yield the call and the memory's name.

    The memory may be ``NAME:MEMORY``, which opens the vault of that name instead.
    """
    from memvault.call import Call
    from memvault.tools.core import invoke

    results.check(options)
    workspace = options.workspace()
    try:
        caller = options.caller()
        root, name = invoke.split_vault_prefix(memory, caller, workspace.root)
        call = Call(workspace.open_other(root), caller)
        call.only_reads = True
        invoke.require_local_files(call, "this command")
        yield call, name
    finally:
        workspace.close()


def _show(options: GlobalOptions, call: Call, name: str, found: Mapping[str, Any]) -> None:
    """Write a result with its warnings, in the form of a tool's result."""
    notes = [*call.settings.warnings, *call.all_notes()]
    warnings = {"warnings": list(dict.fromkeys(notes))} if notes else {}
    results.print_result(options, name, {"success": True, **found, **warnings})


def _is_at_a_terminal() -> bool:
    streams = (sys.stdin, sys.stdout)
    return all(stream is not None and stream.isatty() for stream in streams)


def _address(file: Path) -> str:
    """Return the Obsidian URL that opens a file by path (see obsidian.md/help/uri)."""
    from urllib.parse import quote

    return f"obsidian://open?path={quote(str(file), safe='')}"


def _open(address: str, root: Path) -> None:
    """Open a URL with the desktop's default application.

    Raises:
        Refused: If there is no program to open it, or the program failed.
    """
    hint = "memvault open --print prints the address"
    if sys.platform == "win32":
        os.startfile(address)  # noqa: S606  # a URL built by memvault
        return
    environment = process.environment(root)
    opener = _first(_OPENERS, environment)
    if opener is None:
        raise Refused("There is no program here that opens Obsidian's addresses", hint)
    code = process.run_interactive([opener, address], environment)
    if code:
        raise Refused(f"{Path(opener).name} could not open it: it ended with {code}", hint)


def _edit(options: GlobalOptions, call: Call, memory: Memory) -> None:
    """Run the editor on a memory's file, and print what changed.

    Raises:
        Refused: If the editor could not be started, or failed.
    """
    from memvault.history import log

    output.flush()
    before, _ = call.store.read_bytes(memory.path)
    environment = process.environment(call.root)
    command = _editor(environment)
    try:
        code = process.run_interactive([*command, str(call.root / memory.path)], environment)
    except UsageError as error:
        raise Refused(
            f"The editor could not be started: {error.message}", "set VISUAL or EDITOR to one"
        ) from error
    if code:
        raise Refused(
            f"The editor {command[0]} ended with {code}",
            f"what it saved is in {sanitize.quote_argument(memory.path)}",
        )
    found: dict[str, Any] = {"filePath": memory.path}
    try:
        after, state = call.store.read_bytes(memory.path)
    except NotFound:
        found["gone"] = True
    else:
        now = call.store.parse(after, state)
        changed = log.difference(before, after, "before", "now")
        found |= {"memId": now.mem_id, "title": now.title, **changed}
        if now.problem:
            found["problem"] = now.problem
    _show(options, call, "edit", found)


def _editor(environment: dict[str, str]) -> list[str]:
    """Return the command of the user's editor; programs inside the vault are not used.

    Raises:
        Refused: If there is no editor.
    """
    for name in ("VISUAL", "EDITOR"):
        words = process.words_of(environment.get(name, ""), name)
        if words:
            return words
    found = _first(_EDITORS, environment) if _is_at_a_terminal() else None
    if found is None:
        raise Refused("No editor is known", "set VISUAL or EDITOR to one")
    return [found]


def _first(names: tuple[str, ...], environment: dict[str, str]) -> str | None:
    """Return the path of the first program that exists, or None."""
    for name in names:
        with contextlib.suppress(UsageError):
            return process.find_program(name, None, environment)
    return None
