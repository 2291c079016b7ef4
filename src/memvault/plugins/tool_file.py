"""Files of tools that a vault brings along, ``tools/<name>.md``: read, checked and written.

The header says what the tool is called, takes and runs; the body is for people.
Nothing here runs anything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from memvault import plain_files, schema
from memvault.arguments import bind
from memvault.errors import Conflict, MemvaultError, UsageError
from memvault.plain_files import SETTING
from memvault.plugins.definition import FOLDER, TIMEOUT, ToolDefinition, tool_definition
from memvault.schema import normal_name
from memvault.vault import codec, layout
from memvault.vault.deed import FileRef
from memvault.vault.private import private_folder
from memvault.vault.store import MemoryStore


class ToolFile(NamedTuple):
    """A tool's file: the bytes that were read, once, and what they say."""

    path: str
    data: bytes
    header: dict[str, Any]
    text: str
    definition: ToolDefinition


class ToolFiles(NamedTuple):
    """The tools of a vault by their normal names, and what to say of broken files.

    ``broken`` are the messages by the name that the file would give a tool, by
    its path where another file has the tool's name, and under no name where the
    folder cannot be read.
    """

    tools: dict[str, ToolFile]
    broken: dict[str, str]


def read_all(root: Path) -> ToolFiles:
    """Read every tool of a vault; links are not followed, and a broken file hides no other."""
    found = ToolFiles({}, {})
    try:
        layout.require_plain_folders(root, FOLDER)
        names = sorted(os.listdir(root / FOLDER))
    except FileNotFoundError:
        return found
    except (MemvaultError, OSError) as error:
        found.broken[""] = f"the tools of the vault were not looked at: {error}"
        return found
    for name in names:
        if name[0] == "." or not name.lower().endswith(".md"):
            continue
        path = f"{FOLDER}/{name}"
        try:
            kept = _read(root, path)
        except (MemvaultError, ValueError, OSError) as error:
            stem = normal_name(PurePosixPath(name).stem)
            reason = error.strerror if isinstance(error, OSError) else error
            found.broken[stem] = f"{codec.replace_surrogates(path)} is not a tool: {reason}"
            continue
        if kept is None:
            continue
        first = found.tools.setdefault(normal_name(kept.definition.name), kept)
        if first is not kept:
            path = codec.replace_surrogates(path)
            found.broken[path] = f"{path} is passed over: {first.path} has the same name"
    return found


def _read(root: Path, path: str) -> ToolFile | None:
    """Read one file; one without a header is a text about tools, and none itself."""
    data = plain_files.read(root / path, SETTING)
    header, text = codec.read_header(data)
    if header is None:
        return None
    given = _definition_keys({"name": PurePosixPath(path).stem, **header})
    definition = tool_definition(**bind(schema.parameters_of(tool_definition), given, "it"))
    return ToolFile(path, data, header, text, definition)


def _definition_keys(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a header says of a tool; in a command ``5`` and ``true`` are words."""
    known = [parameter.key for parameter in schema.parameters_of(tool_definition)]
    given = {key: header[key] for key in known if key in header}
    if isinstance(given.get("command"), list):
        given["command"] = [
            str(word).lower() if isinstance(word, bool | int) else word for word in given["command"]
        ]
    return given


def arguments(data: bytes) -> dict[str, Any]:
    """Return what ``register_tool`` is to be given for a file, markdown or JSON.

    Raises:
        UsageError: it is neither.
    """
    import json

    try:
        if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            given = json.loads(data.decode("utf-8-sig"))
            return {key: value for key, value in given.items() if value is not None}
        header, text = codec.read_header(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"The file is not a tool: {error}", "memvault tools register --help"
        ) from error
    if header is None:
        raise UsageError(
            "The file is not a tool: it is neither JSON nor markdown with front matter",
            "the front matter says name, description, parameters and command",
        )
    return {**_definition_keys(header), "documentation": text}


def put(store: MemoryStore, definition: ToolDefinition, text: str | None) -> tuple[str, str]:
    """Keep a tool's file, over the one of the same name where there is one.

    ``text`` is what the body says; None leaves the one that is there. Returns
    the path, and the revision that the earlier bytes are kept under, if any.

    Raises:
        Conflict: its name is that of a file that is not a tool, or almost another tool's.
        Refused: a link leads out of the vault, or the file cannot be patched.
        StorageError: the disk refused.
    """
    from memvault.vault.lock import FileLock

    header = {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.entries,
        "command": list(definition.command),
        "timeout": definition.timeout if definition.timeout != TIMEOUT else None,
    }
    with FileLock(private_folder(store.root) / "lock"):
        layout.require_plain_folders(store.root, FOLDER)
        old = read_all(store.root).tools.get(normal_name(definition.name))
        if old is not None and old.definition.name != definition.name:
            raise Conflict(
                f"{old.path} is a tool with almost the same name, {old.definition.name}",
                "choose another name, or remove that file",
            )
        if old is not None:
            return old.path, _rewritten(store, old, header, text)
        path = f"{FOLDER}/{definition.name}.md"
        given = {key: value for key, value in header.items() if value is not None}
        try:
            data = codec.encode_new(given, text or "")
            store.changes.create([path], data, _subject(path, definition.name))
        except FileExistsError as error:
            raise Conflict(
                f"{path} is there already and is not this tool", "fix or remove that file"
            ) from error
        return path, ""


def _rewritten(store: MemoryStore, old: ToolFile, header: dict[str, Any], text: str | None) -> str:
    """Change what differs in a tool's file; return the revision of before, if it did."""
    changes = {key: value for key, value in header.items() if old.header.get(key) != value}
    body = None if text is None or text.strip("\n") == old.text else f"\n{text.strip(chr(10))}\n"
    fresh = codec.edit(old.data, changes, body)
    if fresh == old.data:
        return ""
    subject = _subject(old.path, old.definition.name)
    return store.changes.replace(old.path, old.data, fresh, subject)


def _subject(path: str, name: str) -> FileRef:
    return FileRef(layout.derived_id(path), name)
