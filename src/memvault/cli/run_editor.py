"""Edit memories and drafts in the user's editor, and record what changed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault import process, sanitize
from memvault.cli import output, print_result
from memvault.cli.options import GlobalOptions
from memvault.errors import MemvaultError, NotFound, Refused, UsageError
from memvault.tools.core.render import Template

if TYPE_CHECKING:
    from memvault.call import Call
    from memvault.files.attributes import Attributes
    from memvault.model import Memory
    from memvault.store.journal import JournalEntry
    from memvault.tools.core.registry import Tool

_EDITORS = ("sensible-editor", "nano", "vim", "vi", "notepad")
_LINE_ARGUMENTS = {
    "+{line} {file}": "sensible-editor vi vim nvim gvim view nano pico emacs emacsclient micro kak "
    "joe jed mg ne mcedit gedit gnome-text-editor kwrite vis",
    "--goto {file}:{line}": "code code-insiders codium vscodium cursor windsurf",
    "{file}:{line}": "hx helix subl sublime_text zed zeditor atom",
    "--line {line} {file}": "kate idea pycharm webstorm goland rider fleet mate",
    "-n{line} {file}": "notepad++",
}
"""Arguments that open a file at a line, and the editors that accept them."""
EDITED_VIEW = """
    {title}  {memId}  {filePath}  {gone:no longer exists|}
       {added:line|lines} added  {removed:line|lines} removed
       problem: {problem}"""
EDITED = Template(EDITED_VIEW)
"""The view for the result of an edit."""


def open_entry(
    options: GlobalOptions, tool: Tool, arguments: Mapping[str, Any], number: int
) -> None:
    """Run a tool, and open one of its results in the editor, at its line.

    Raises:
        UsageError: the number is less than 1, or larger than the limit.
        NotFound: there is no result with that number.
        Refused: the editor could not be started, or failed.
    """
    from memvault.tools.core import invoke

    print_result.check(options)
    if number < 1:
        raise UsageError(
            f"`--open` must be at least 1, not {number}", "open the first result with `--open 1`"
        )
    limit = int(arguments.get("limit") or 0)
    if 0 < limit < number:
        raise UsageError(
            f"`--open {number}` is beyond `--limit {limit}`",
            f"open a result from 1 to {limit}, or omit `--limit`",
        )
    output.require_terminal()
    workspace = options.workspace()
    shown = {key: value for key, value in arguments.items() if key not in ("brief", "budget")}
    shown["limit"] = max(number, limit)
    try:
        # Masked file names could not be opened.
        caller = options.caller()._replace(secrets="shown")
        with invoke.call(workspace, tool.name, shown, caller) as outcome:
            entries = list(outcome.result[tool.openable_list])
    finally:
        workspace.release()
    if number > len(entries):
        results = "1 result" if len(entries) == 1 else f"{len(entries):,} results"
        raise NotFound(
            f"There is no result {number}; the search found {results}", "omit `--open` to list them"
        )
    entry = entries[number - 1]
    if "unmergedBranch" in entry:
        raise Refused(
            f"{entry['title']} is from {entry['unmergedBranch']}, which is not merged",
            f"run `memvault restore {entry['memId']}` to copy it to this worktree",
        )
    name = f"{entry['vault']}:{entry['memId']}" if "vault" in entry else entry["filePath"]
    with open_call(options, name) as (call, path):
        edited = edit_memory(call, call.resolve(path, writes=True), entry.get("line", 1))
    print_result.print_result(options, {"success": True, **edited}, EDITED, writes=True)


@contextlib.contextmanager
def text_from_editor(options: GlobalOptions, title: str, memory_type: str) -> Iterator[str]:
    """Let the user write a new memory in an editor, starting from its type's template.

    It also sets ``options.template``, whose header is added to the new memory.

    The draft is deleted after the body of the ``with`` statement; if the body fails, the draft is
    kept, and the error contains its path.

    Raises:
        Refused: nothing was written, or the editor failed.
    """
    from memvault.memories import create, templates
    from memvault.vault.naming import normal_type

    name, kind = create.clean_title(title), normal_type(memory_type) if memory_type else ""
    with open_call(options) as (call, _):
        root = call.root
        filled = templates.fill_template(root, kind, name, is_required=False)
    with draft(root, name, filled.body, "remember TITLE") as text:
        options.template = filled
        yield text


@contextlib.contextmanager
def addition(options: GlobalOptions, title: str) -> Iterator[str]:
    """Let the user write an addition to a memory; otherwise like ``text_from_editor``."""
    with open_call(options) as (call, _):
        root = call.root
    with draft(root, title, "", f"compound {sanitize.quote_argument(title)}") as text:
        yield text


@contextlib.contextmanager
def draft(root: Path, title: str, template: str, command: str) -> Iterator[str]:
    """Open a draft in the editor, and yield its text; otherwise like ``text_from_editor``.

    ``command`` is the command that messages suggest for a draft that was not used.
    """
    from memvault import clock
    from memvault.files import atomic, plain_files
    from memvault.secrets.detector import masked
    from memvault.vault import decoding
    from memvault.vault.naming import slug
    from memvault.vault.private_folder import private_folder

    name = f"{slug(masked(title))}-{clock.random_id()}.md"
    file = private_folder(root, "drafts") / name
    with atomic.map_os_errors(file):
        atomic.create(file, f"{template}\n".encode() if template else b"")
    problem = None
    try:
        _run_editor(root, file)
    except Refused as error:
        problem = error
    try:
        text = decoding.decode(plain_files.read(file)).text
    except OSError:
        text = ""
    if text.strip() in ("", template.strip()):
        file.unlink(missing_ok=True)
        what = "the template was not changed" if text.strip() else "the text is empty"
        hint = "save the text before closing the editor; VS Code needs `code --wait`"
        raise problem or Refused(f"Nothing was remembered: {what}", hint)
    shown = sanitize.quote_argument(f"@{file}")
    saved_hint = f"your text was saved in {file}; to use it, run `memvault {command} {shown}`"
    try:
        if problem is not None:
            raise problem
        yield text
    except MemvaultError as error:
        error.hint = "; ".join(filter(None, (error.hint, saved_hint)))
        raise
    except BaseException:  # for example, Ctrl-C
        output.notes([saved_hint])
        raise
    file.unlink(missing_ok=True)


@contextlib.contextmanager
def open_call(
    options: GlobalOptions, memory: str = "", tool: str = "edit"
) -> Iterator[tuple[Call, str]]:
    """Open the vault for a command that is not a tool; yield the call and the memory's name.

    The memory may be ``NAME:MEMORY``, which opens the vault of that name instead. ``tool`` is the
    name of the command for the log.
    """
    from memvault.call import Call
    from memvault.tools.core import invoke

    if ":" in memory:
        options.use_named_vault([memory.partition(":")[0]])
    workspace = options.workspace()
    try:
        caller = options.caller()
        root, name = invoke.split_vault_prefix(memory, caller, workspace.root)
        call = Call(workspace.open_other(root), caller, tool=tool, read_only=True)
        invoke.require_local_files(call, "this command")
        yield call, name
    finally:
        workspace.release()


def add_warnings(call: Call, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with the call's warnings, in the format of a tool's result."""
    from memvault.tools.core.invoke import truncate_warnings

    notes = list(dict.fromkeys((*call.settings.warnings, *call.all_notes())))
    return {**result, "warnings": truncate_warnings(notes)} if notes else dict(result)


def _is_at_a_terminal() -> bool:
    streams = (sys.stdin, sys.stdout)
    return all(stream is not None and stream.isatty() for stream in streams)


def obsidian_url(file: Path) -> str:
    """Return the Obsidian URL that opens a file by path (see obsidian.md/help/uri)."""
    from urllib.parse import quote

    return f"obsidian://open?path={quote(str(file), safe='')}"


def edit_memory(call: Call, memory: Memory, line: int = 1) -> dict[str, Any]:
    """Run the editor on a memory's file, at a line, and return what changed.

    Raises:
        Refused: the file is a document, or the editor could not be started or failed.
    """
    from memvault.files import atomic
    from memvault.history import log
    from memvault.store.memory_store import require_memory

    require_memory(memory.path)
    output.flush()
    before, _ = call.store.read_bytes(memory.path)
    with atomic.map_os_errors(memory.path):
        from memvault.files.attributes import Attributes

        attributes = Attributes.of(call.root / memory.path)
    last = next(call.store.changes.journal.changes(), None)
    problem = None
    try:
        _run_editor(call.root, call.root / memory.path, line)
    except Refused as error:
        problem = error
    before = _record_edit(call, memory, before, last, attributes)
    if problem is not None:
        problem.hint = (
            problem.hint or f"the saved text is in {sanitize.quote_argument(memory.path)}"
        )
        raise problem
    result: dict[str, Any] = {"filePath": memory.path}
    try:
        after, state = call.store.read_bytes(memory.path)
    except NotFound:
        result["gone"] = True
    else:
        now = call.store.parse(after, state)
        changed = log.difference(before, after, "before", "now", call.settings.encoding)
        result |= {"memId": now.mem_id, "title": now.title, **changed}
        if now.problem:
            result["problem"] = now.problem
    return add_warnings(call, result)


def _record_edit(
    call: Call, memory: Memory, before: bytes, last: JournalEntry | None, attributes: Attributes
) -> bytes:
    """Record an editor's change to a file in the journal; return the bytes from before it.

    ``last`` is the last change before the editor was started, and ``attributes`` are the file's
    attributes at that time. Changes by other processes while the editor was open are already in the
    journal; if the editor has overwritten one, a note reports it.
    """
    from memvault.store.change_set import FileRef
    from memvault.tools.core import invoke
    from memvault.vault import document

    store = call.store
    try:
        with store.lock():
            try:
                after, _ = store.read_bytes(memory.path)
            except NotFound:
                after = None
            tag = document.etag(after) if after is not None else ""
            for change in store.changes.journal.changes():
                if last is not None and change.change_id == last.change_id:
                    break
                entries = [entry for entry in change.files if entry.path == memory.path]
                if entries and entries[-1].etag_after == tag:
                    return before if after is None else after
                if entries:
                    call.notes.append(
                        f"{memory.path} was changed by {change.tool} while it was open, and the "
                        "editor has overwritten that change"
                    )
                    break
            if after != before:
                subject = FileRef(memory.mem_id, memory.title)
                store.changes.record_edit(memory.path, before, after, subject, attributes)
    except MemvaultError as error:
        call.notes.append(f"this edit cannot be undone: {error.message}")
    invoke.autocommit(call)
    return before


def _run_editor(root: Path, file: Path, line: int = 1) -> None:
    """Open a file in the user's editor, at a line if the editor is known to support that.

    Raises:
        Refused: there is no editor, or it could not be started, or failed.
    """
    environment = process.environment(root)
    command = _editor(environment)
    try:
        code = process.run_interactive([*command, *_place(command[0], file, line)], environment)
    except UsageError as error:
        raise Refused(
            f"The editor could not be started: {error.message}", "set VISUAL or EDITOR"
        ) from error
    if code:
        raise Refused(f"The editor {command[0]} failed with exit code {code}")


def _place(program: str, file: Path, line: int) -> list[str]:
    """Return the arguments with which an editor opens a file at a line."""
    name = Path(program).name.lower().removesuffix(".exe").removesuffix(".cmd")
    for form, names in _LINE_ARGUMENTS.items():
        if line > 1 and name in names.split():
            return [part.format(file=file, line=line) for part in form.split()]
    return [str(file)]


def _editor(environment: dict[str, str]) -> list[str]:
    """Return the user's editor command; programs inside the vault are not used.

    Raises:
        Refused: there is no editor.
    """
    for name in ("VISUAL", "EDITOR"):
        argv = process.words_of(environment.get(name, ""), name)
        if argv:
            return argv
    program = process.find_first(_EDITORS, environment) if _is_at_a_terminal() else None
    if program is None:
        raise Refused("No editor found", "set VISUAL or EDITOR")
    return [program]
