"""The six commands of Anthropic's memory tool, following its documentation.

Arguments and answers follow platform.claude.com/docs/en/agents-and-tools/tool-use/memory-tool as of
November 2026. A file is the text of a memory without its header, which Claude neither sees nor
changes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from functools import partial
from os import PathLike
from pathlib import PurePosixPath
from typing import Annotated, Any

from memvault import clock
from memvault.arguments import parameters
from memvault.arguments.parameters import Arg
from memvault.call import Call, Caller
from memvault.errors import Conflict, NotFound, UsageError
from memvault.model import FALLBACK_TYPE, Memory
from memvault.secrets.detector import SecretDetector
from memvault.tools.core import invoke
from memvault.tools.core.registry import Tool
from memvault.vault import naming, paths
from memvault.workspace import Workspace

TOP = "/memories"
_EXCLUDED = "node_modules"
_KNOWN_EXTENSIONS = frozenset(
    ".cfg .css .csv .html .ini .js .json .log .py .sh .sql .toml .tsv .txt .xml .yaml .yml".split()
)
"""Extensions of files to which the vault appends ``.md``; Claude does not see the ``.md``."""


class MemoryFolder:
    """The vault folder behind ``/memories``, and the type of new memories in it."""

    def __init__(self, folder: str, memory_type: str) -> None:
        self.folder = folder
        self.memory_type = memory_type

    def path(self, inside: str) -> str:
        """Return the path in the vault of a path relative to ``/memories``."""
        return "/".join(filter(None, (self.folder, inside)))

    def target(self, inside: str) -> str:
        """Return the path in the vault of a new file, with ``.md`` appended if needed.

        Raises:
            UsageError: a memory cannot have this path.
        """
        name = inside if inside.lower().endswith(".md") else f"{inside}.md"
        target = self.path(name)
        check(target)
        return target

    def file(self, call: Call, inside: str) -> Memory | None:
        """Return the memory at a path, with or without ``.md``, or None."""
        if not inside:
            return None
        for name in dict.fromkeys((self.path(inside), f"{self.path(inside)}.md")):
            if paths.is_memory_path(name) and (memory := call.reader.read_listed(name)):
                return memory
        return None

    def below(self, call: Call, inside: str) -> dict[str, int]:
        """Return the vault paths of the memories in a folder, with their sizes in bytes."""
        top = self.path(inside)
        start = f"{top}/" if top else ""
        sizes = {state.path: state.size for state in call.store.scan().files}
        return {
            path: sizes[path]
            for path in sorted(sizes)
            if path.startswith(start)
            and paths.is_memory_path(path)
            and _EXCLUDED not in path.split("/")
        }


def relative_path(path: str) -> str:
    """Return a path relative to ``/memories``; it is empty for ``/memories`` itself.

    Raises:
        UsageError: the path is outside ``/memories``, or a part of it is not allowed.
    """
    below = path.removeprefix(TOP)
    if path == below or below[:1] not in ("", "/"):
        raise UsageError(f"Error: The path {path} is not below {TOP}")
    parts = [part for part in below.split("/") if part]
    for part in parts:
        is_excluded = part.startswith(".") or part == _EXCLUDED
        if is_excluded or "\\" in part or "%" in part or part != part.strip():
            raise UsageError(f"Error: The path {path} is invalid: {part!r} is not a valid name")
        if not part.isprintable():
            raise UsageError("Error: The path is invalid: it contains invisible characters")
    return "/".join(parts)


def check(target: str) -> None:
    """Check that a memory can have this path in the vault.

    Raises:
        UsageError: the path is not allowed.
    """
    if not paths.is_memory_path(target):
        raise UsageError(f"Error: {target} is not a valid path for a memory: choose another folder")


def shown_name(name: str) -> str:
    """Return a file's name for Claude, without ``.md`` after another known extension."""
    stem = name[: -len(".md")]
    return stem if PurePosixPath(stem).suffix.lower() in _KNOWN_EXTENSIONS else name


_NUMBER_WIDTH = 6
_UNITS = ("B", "K", "M", "G")


def parts(memory: Memory) -> tuple[str, str]:
    """Split a memory's body into its leading blank lines and the text that Claude sees."""
    text = memory.body.lstrip("\r\n")
    return memory.body[: len(memory.body) - len(text)], text


def display_text(memory: Memory, detector: SecretDetector) -> str:
    """Return a file's text for a model, with secrets masked unless the memory allows them.

    Call this before adding line numbers, which would hide a secret that spans several lines.
    """
    return detector.masking(memory.metadata)(parts(memory)[1].replace("\r\n", "\n"))


def split_lines(text: str) -> list[str]:
    """Return a string's lines without their line endings."""
    lines = text.split("\n")
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def whole_lines(text: str) -> list[str]:
    """Return a string's lines with their line endings; only a line feed ends a line."""
    lines = text.split("\n")
    return [*(f"{line}\n" for line in lines[:-1]), *filter(None, lines[-1:])]


def numbered(text_lines: list[str], first: int, last: int) -> str:
    """Return the lines from ``first`` to ``last`` with their numbers, counted from 1."""
    lines = enumerate(text_lines[first - 1 : last], start=first)
    return "\n".join(f"{number:>{_NUMBER_WIDTH}}\t{line}" for number, line in lines)


def line_range(view_range: list[Any] | None, count: int) -> tuple[int, int]:
    """Return the first and last line of a ``view_range``, by default the entire file.

    Raises:
        UsageError: the range is not within the ``count`` lines.
    """
    if not view_range:
        return 1, count
    if len(view_range) == 2 and all(type(line) is int for line in view_range):
        first, last = view_range
        last = count if last == -1 else last
        if 1 <= first <= min(last, count):
            return first, last
    raise UsageError(
        f"Error: Invalid `view_range` parameter: {view_range}. It should be two lines of the file: "
        f"[1, {count}]"
    )


def occurrences(text: str, old: str) -> list[int]:
    """Return the offsets of every occurrence of ``old``, including overlapping ones."""
    offsets = []
    offset = text.find(old) if old else -1
    while offset >= 0:
        offsets.append(offset)
        offset = text.find(old, offset + 1)
    return offsets


def with_ends(memory: Memory, text: str) -> str:
    """Convert a string's line endings to those of a memory."""
    plain = text.replace("\r\n", "\n")
    return plain if memory.newline == "\n" else plain.replace("\n", memory.newline)


def format_size(count: float) -> str:
    """Format a number of bytes for people, such as ``1.5K``."""
    unit = _UNITS[0]
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:.1f}".removesuffix(".0") + unit


FOLDER = "memories"
"""The default folder in a vault for ``/memories``."""
_MAX_LINES = 999_999
_MAX_CHARACTERS = 16_000
"""The maximum number of characters in one view, from the tool's documentation."""
_CONTEXT_LINES = 2
"""The number of lines shown before and after a replaced text."""
_MAX_DEPTH = 2


class MemoryFiles:
    """The files below ``/memories`` in one vault, for one agent."""

    def __init__(
        self,
        vault: str | PathLike[str] | None = None,
        folder: str = FOLDER,
        agent: str = "claude",
        memory_type: str = "",
    ) -> None:
        """Open a vault.

        Raises:
            VaultNotFound: there is no vault.
            UsageError: the folder, agent or type is invalid.
        """
        from memvault.agents.address import address
        from memvault.settings.locate import find_vault

        address(agent)
        self._workspace = Workspace(
            find_vault(os.fspath(vault) if vault is not None else None), long_lived=True
        )
        self._caller = Caller(agent, may_run_programs=False, may_see_paths=False)
        memory_type_name = naming.normal_type(memory_type) if memory_type else FALLBACK_TYPE
        memory_folder = MemoryFolder(folder.strip("/"), memory_type_name)
        if folder and not paths.is_memory_path(memory_folder.path("x.md")):
            raise UsageError(f"{folder!r} is not a valid memory folder", "choose another folder")
        self._tools = {
            function.__name__: Tool(
                f"memory_tool_{function.__name__}",
                "",
                "anthropic",
                partial(function, memory_folder),
                read_only=function is view,
                destructive=function is not view,
                own_parameters=parameters.parameters_of(function),
            )
            for function in (view, create, str_replace, insert, delete, rename)
        }

    def run(self, command: str, arguments: Mapping[str, Any]) -> str:
        """Run a command and return the answer for Claude.

        Raises:
            MemvaultError: the command failed; return the message to Claude.
        """

        def find(_: Workspace, __: Caller, name: str) -> Tool:
            if name not in self._tools:
                raise UsageError(f"There is no command {name!r}", f"use {', '.join(self._tools)}")
            return self._tools[name]

        with invoke.call_json(
            self._workspace, command, arguments, self._caller, find=find
        ) as outcome:  # No command returns events, so ``outcome.leases`` is empty.
            result = outcome.result
        return "\n\n".join([result["text"], *(f"Note: {note}" for note in _notes(result))])

    def close(self) -> None:
        """Close open files."""
        self._workspace.close()


def _notes(result: Mapping[str, Any]) -> list[str]:
    """Return warnings for Claude about secrets in the text that it wrote."""
    return [note for note in result.get("warnings", ()) if "secret" in note]


_PATH = Arg("A path below /memories")


def view(
    memory_folder: MemoryFolder,
    call: Call,
    path: Annotated[str, _PATH],
    view_range: Annotated[list[Any] | None, Arg("First and last line, -1 for the end")] = None,
) -> dict[str, str]:
    """Return the listing of a folder, or the numbered lines of a file."""
    inside = relative_path(path)
    file = memory_folder.file(call, inside)
    if file is None:
        return {"text": _listing(memory_folder, call, path, inside)}
    lines = split_lines(display_text(file, call.settings.detector))
    if len(lines) > _MAX_LINES:
        raise UsageError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    first, last = line_range(view_range, len(lines))
    shown = numbered(lines, first, last)
    if len(shown) > _MAX_CHARACTERS:
        shown = shown[:_MAX_CHARACTERS].rpartition("\n")[0] or shown[:_MAX_CHARACTERS]
        rest = first + shown.count("\n") + 1
        shown += f"\n(cut; view_range [{rest}, {last}] shows the rest)"
    return {
        "text": f"Here's the content of {path} with line numbers:\n{shown}",
        "filePath": file.path,
    }


def create(
    memory_folder: MemoryFolder,
    call: Call,
    path: Annotated[str, _PATH],
    file_text: Annotated[str, Arg("The text")],
) -> dict[str, str]:
    """Create a memory; an existing file is never overwritten."""
    inside = relative_path(path)
    target = memory_folder.target(inside)
    if not inside or memory_folder.file(call, inside) or memory_folder.below(call, inside):
        raise Conflict(f"Error: File {path} already exists")
    mem_id = naming.new_id(PurePosixPath(inside).stem)
    header = {"id": mem_id, "memory_type": memory_folder.memory_type, "tags": []}
    times = dict.fromkeys(("created", "modified"), clock.iso())
    try:
        call.store.add_at(target, {**header, **times}, file_text)
    except FileExistsError as error:
        raise Conflict(f"Error: File {path} already exists") from error
    return {"text": f"File created successfully at: {path}"}


def str_replace(
    memory_folder: MemoryFolder,
    call: Call,
    path: Annotated[str, _PATH],
    old_str: Annotated[str, Arg("The text to replace")],
    new_str: Annotated[str, Arg("The replacement text")] = "",
) -> dict[str, str]:
    """Replace text that occurs exactly once in the file."""
    file = memory_folder.file(call, relative_path(path))
    if file is None:
        raise NotFound(f"Error: The path {path} does not exist. Please provide a valid path.")
    lead, text = parts(file)
    old, new = (with_ends(file, string) for string in (old_str, new_str))
    positions = occurrences(text, old)
    if not positions:
        raise UsageError(
            f"No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}."
        )
    if len(positions) > 1:
        lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in positions)
        raise UsageError(
            f"No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: "
            f"{lines}. Please ensure it is unique"
        )
    (at,) = positions
    changed = f"{text[:at]}{new}{text[at + len(old) :]}"
    written = _write(call, file, lead + changed)
    first = text.count("\n", 0, at) + 1
    shown = numbered(
        split_lines(display_text(written, call.settings.detector)),
        max(1, first - _CONTEXT_LINES),
        first + new.count("\n") + _CONTEXT_LINES,
    )
    return {"text": f"The memory file has been edited.\n{shown}", "filePath": written.path}


def insert(
    memory_folder: MemoryFolder,
    call: Call,
    path: Annotated[str, _PATH],
    insert_line: Annotated[int, Arg("The line after which to insert; 0 is the beginning")],
    insert_text: Annotated[str, Arg("The text")],
) -> dict[str, str]:
    """Insert text after a line."""
    file = memory_folder.file(call, relative_path(path))
    if file is None:
        raise NotFound(f"Error: The path {path} does not exist")
    lead, text = parts(file)
    lines = whole_lines(text)
    if not 0 <= insert_line <= len(lines):
        raise UsageError(
            f"Error: Invalid `insert_line` parameter: {insert_line}. It should be within the range "
            f"of lines of the file: [0, {len(lines)}]"
        )
    before, after = "".join(lines[:insert_line]), "".join(lines[insert_line:])
    if before and not before.endswith("\n"):
        before += file.newline
    added = with_ends(file, insert_text)
    end = "" if added.endswith("\n") else file.newline
    _write(call, file, f"{lead}{before}{added}{end}{after}")
    return {"text": f"The file {path} has been edited."}


def delete(memory_folder: MemoryFolder, call: Call, path: Annotated[str, _PATH]) -> dict[str, str]:
    """Move a file, or all files in a folder, to the trash."""
    from memvault.memories import delete as deleting

    inside = relative_path(path)
    if not inside:
        raise UsageError("Error: The /memories directory itself cannot be deleted")
    file = memory_folder.file(call, inside)
    memories = (
        [file] if file else [call.reader.read(entry) for entry in memory_folder.below(call, inside)]
    )
    if not memories:
        raise NotFound(f"Error: The path {path} does not exist")
    deleting.delete(call.store, memories)
    _remove_empty_folders(memory_folder, call, memories)
    return {"text": f"Successfully deleted {path}"}


def rename(
    memory_folder: MemoryFolder,
    call: Call,
    old_path: Annotated[str, _PATH],
    new_path: Annotated[str, _PATH],
) -> dict[str, str]:
    """Move a file or a folder to another path, without overwriting anything.

    If one file in a folder cannot be moved, the files moved before it are moved back.
    """
    old, new = relative_path(old_path), relative_path(new_path)
    if not old:
        raise UsageError("Error: The /memories directory itself cannot be renamed")
    file = memory_folder.file(call, old)
    below = {} if file else memory_folder.below(call, old)
    if not (file or below):
        raise NotFound(f"Error: The path {old_path} does not exist")
    if not new or memory_folder.file(call, new) or memory_folder.below(call, new):
        raise Conflict(f"Error: The destination {new_path} already exists")
    if file:
        moves = {file.path: memory_folder.target(new)}
    else:
        top = memory_folder.path(old)
        moves = {entry: memory_folder.path(new) + entry.removeprefix(top) for entry in below}
    if any(target.startswith(f"{source}/") for source, target in moves.items()) or (
        not file and f"{new}/".startswith(f"{old}/")
    ):
        raise UsageError(f"Error: {old_path} cannot be moved into itself")
    for target in moves.values():
        check(target)
    memories = [call.store.read(source) for source in moves]
    moved_memories: list[tuple[Memory, str]] = []
    try:
        for memory in memories:
            moved = call.store.rename(memory, moves[memory.path])
            moved_memories.append((moved.memory, memory.path))
    except BaseException:
        for memory, source in reversed(moved_memories):
            call.store.rename(memory, source)
        raise
    _remove_empty_folders(memory_folder, call, memories)
    return {"text": f"Successfully renamed {old_path} to {new_path}"}


def _listing(memory_folder: MemoryFolder, call: Call, path: str, inside: str) -> str:
    """Return the listing of a folder, two levels deep, with the sizes of files and folders."""
    files = memory_folder.below(call, inside)
    if inside and not files:
        raise NotFound(f"The path {path} does not exist. Please provide a valid path.")
    top = memory_folder.path(inside)
    sizes: dict[str, int] = {}
    for entry, size in files.items():
        parts = entry.removeprefix(top).strip("/").split("/")
        for depth in range(1, min(len(parts), _MAX_DEPTH) + 1):
            name = "/".join(parts[:depth])
            shown = shown_name(name) if depth == len(parts) else f"{name}/"
            sizes[shown] = sizes.get(shown, 0) + size
    head = f"Here're the files and directories up to {_MAX_DEPTH} levels deep in {path}, excluding "
    listed = [
        f"{format_size(size)}\t{path.rstrip('/')}/{name}" for name, size in sorted(sizes.items())
    ]
    whole = f"{format_size(sum(files.values()))}\t{path}"
    listing = [f"{head}hidden items and node_modules:", whole, *listed]
    return "\n".join(listing)


def _write(call: Call, memory: Memory, body: str) -> Memory:
    from memvault.memories.edit import modified_now

    return call.store.change(memory, modified_now(memory), body).memory


def _remove_empty_folders(memory_folder: MemoryFolder, call: Call, gone: list[Memory]) -> None:
    """Delete the folders that became empty when memories were moved or deleted."""
    top = call.root / memory_folder.folder
    for memory in gone:
        with contextlib.suppress(OSError):
            for folder in (call.root / memory.path).parents:
                if folder == top or top not in folder.parents:
                    break
                folder.rmdir()
