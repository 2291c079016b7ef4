"""Read and write the files that define a vault's own tools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from memvault.arguments import parameters
from memvault.arguments.binding import bind
from memvault.arguments.parameters import normal_name
from memvault.errors import Conflict, MemvaultError, UsageError
from memvault.files.plain_files import MAX_SETTING_BYTES
from memvault.named_tuple import NamedTuple
from memvault.sanitize import replace_surrogates
from memvault.store.change_set import FileRef
from memvault.store.memory_store import MemoryStore
from memvault.vault import document, paths
from memvault.vault.header_files import read_header_files
from memvault.vault_tools.definition import FOLDER, TIMEOUT, ToolDefinition, tool_definition


class ToolFile(NamedTuple):
    """A tool's file: its bytes when it was read, and the parsed content."""

    path: str
    data: bytes
    header: dict[str, Any]
    text: str
    definition: ToolDefinition


class ToolFiles(NamedTuple):
    """A vault's tools by normalized name, and messages about broken files.

    ``broken`` contains the messages. The keys are the tool names in the broken files. A key is a
    file's path if another file has the same tool name, or an empty string if the folder cannot be
    read.
    """

    tools: dict[str, ToolFile]
    broken: dict[str, str]


def read_all(root: Path) -> ToolFiles:
    """Read all tools in a vault; links are not followed, and broken files are reported."""
    result = ToolFiles({}, {})

    def skip(path: str, reason: str) -> None:
        stem = normal_name(PurePosixPath(path).stem)
        result.broken[stem] = f"{path} is not a tool: {reason}"

    try:
        for file in read_header_files(root, FOLDER, skip, MAX_SETTING_BYTES):
            header = file.document.header
            shown = replace_surrogates(file.path)
            if header is None:  # documentation
                continue
            try:
                definition = _definition({"name": PurePosixPath(file.path).stem, **header})
            except MemvaultError as error:
                skip(shown, error.message)
                continue
            tool = ToolFile(file.path, file.data, header, file.document.text, definition)
            first = result.tools.setdefault(normal_name(definition.name), tool)
            if first is not tool:
                result.broken[shown] = f"{shown} is skipped: {first.path} has the same name"
    except MemvaultError as error:
        result.broken[""] = f"the vault's tools could not be read: {error}"
    return result


def _definition(header: Mapping[str, Any]) -> ToolDefinition:
    values = _definition_keys(header)
    expected = parameters.in_file(parameters.parameters_of(tool_definition))
    return tool_definition(**bind(expected, values, "it"))


def _definition_keys(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the header's keys that define a tool, with the words of the command as strings."""
    keys = [parameter.key for parameter in parameters.parameters_of(tool_definition)]
    values = {key: header[key] for key in keys if key in header}
    if isinstance(values.get("command"), list):
        values["command"] = [
            str(word).lower() if isinstance(word, bool | int) else word
            for word in values["command"]
        ]
    return values


def arguments(data: bytes) -> dict[str, Any]:
    """Return the arguments of ``register_tool`` from a file in markdown or JSON.

    Raises:
        UsageError: the file is in neither format.
    """
    import json

    try:
        if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            values = json.loads(data.decode("utf-8-sig"))
            return {key: value for key, value in values.items() if value is not None}
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"The file is not a tool: {error}",
            "run `memvault tools register --help` to see the format",
        ) from error
    file = document.Document.parse(data)
    if file.header is None:
        problem = file.problem or "it is neither JSON nor markdown with front matter"
        raise UsageError(
            f"The file is not a tool: {problem}",
            "add name, description, parameters and command to the front matter",
        )
    return {**_definition_keys(file.header), "documentation": file.text}


def put(store: MemoryStore, definition: ToolDefinition, text: str | None) -> tuple[str, str]:
    """Write a tool's file, replacing an existing one of the same name.

    ``text`` is the body; None keeps the existing one. Returns the path, and the revision of the
    earlier bytes, if any.

    Raises:
        Conflict: a file with its name is not a tool, or another tool has almost the same name.
        Refused: a link leads out of the vault, or the file cannot be patched.
        StorageError: the disk cannot be written.
    """
    header = {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.entries,
        "command": list(definition.command),
        "timeout": definition.timeout if definition.timeout != TIMEOUT else None,
    }
    with store.lock():
        paths.require_plain_folders(store.root, FOLDER)
        old = read_all(store.root).tools.get(normal_name(definition.name))
        if old is not None and old.definition.name != definition.name:
            raise Conflict(
                f"{old.path} is a tool with almost the same name, {old.definition.name}",
                "choose another name, or remove that file",
            )
        if old is not None:
            return old.path, _rewrite(store, old, header, text)
        path = f"{FOLDER}/{definition.name}.md"
        set_values = {key: value for key, value in header.items() if value is not None}
        try:
            data = document.encode_new(set_values, text or "")
            store.changes.create([path], data, FileRef.at(path, definition.name))
        except FileExistsError as error:
            raise Conflict(
                f"{path} already exists and is not this tool", "fix or remove that file"
            ) from error
        return path, ""


def _rewrite(store: MemoryStore, old: ToolFile, header: dict[str, Any], text: str | None) -> str:
    """Update a tool's file; return the revision of the earlier bytes, empty if nothing changed."""
    changes = {key: value for key, value in header.items() if old.header.get(key) != value}
    body = None if text is None or text.strip("\n") == old.text else f"\n{text.strip(chr(10))}\n"
    fresh = document.edit(old.data, changes, body)
    if fresh == old.data:
        return ""
    subject = FileRef.at(old.path, old.definition.name)
    return store.changes.replace(old.path, old.data, fresh, subject)
