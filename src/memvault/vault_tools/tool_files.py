"""Files that define a vault's own tools: reading, validating and writing them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

from memvault.arguments import parameters
from memvault.arguments.binding import bind, check_type
from memvault.arguments.parameters import JSON_NAMES, Arg, Parameter, kebab, normal_key, normal_name
from memvault.command_table import COMMANDS
from memvault.errors import Conflict, MemvaultError, UsageError
from memvault.files.plain_files import SETTING
from memvault.sanitize import replace_surrogates
from memvault.store.change_set import FileRef
from memvault.store.memory_store import MemoryStore
from memvault.vault import document, paths
from memvault.vault.reader import read_header_files


class ToolFile(NamedTuple):
    """A tool's file: its bytes as read once, and the parsed content."""

    path: str
    data: bytes
    header: dict[str, Any]
    text: str
    definition: ToolDefinition


class ToolFiles(NamedTuple):
    """The tools of a vault by normalized name, and messages about broken files.

    The keys of ``broken`` are the name that the file would give a tool, its path if another file
    has the tool's name, or an empty string if the folder cannot be read.
    """

    tools: dict[str, ToolFile]
    broken: dict[str, str]


def read_all(root: Path) -> ToolFiles:
    """Read all tools of a vault; links are not followed, and broken files are reported."""
    found = ToolFiles({}, {})

    def skip(path: str, reason: str) -> None:
        stem = normal_name(PurePosixPath(path).stem)
        found.broken[stem] = f"{path} is not a tool: {reason}"

    try:
        for file in read_header_files(root, FOLDER, skip, SETTING):
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
            first = found.tools.setdefault(normal_name(definition.name), tool)
            if first is not tool:
                found.broken[shown] = f"{shown} is skipped: {first.path} has the same name"
    except MemvaultError as error:
        found.broken[""] = f"the tools of the vault could not be read: {error}"
    return found


def _definition(header: Mapping[str, Any]) -> ToolDefinition:
    given = _definition_keys(header)
    expected = parameters.in_file(parameters.parameters_of(tool_definition))
    return tool_definition(**bind(expected, given, "it"))


def _definition_keys(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the header's keys that define a tool; ``5`` and ``true`` in a command become text."""
    known = [parameter.key for parameter in parameters.parameters_of(tool_definition)]
    given = {key: header[key] for key in known if key in header}
    if isinstance(given.get("command"), list):
        given["command"] = [
            str(word).lower() if isinstance(word, bool | int) else word for word in given["command"]
        ]
    return given


def arguments(data: bytes) -> dict[str, Any]:
    """Return the arguments of ``register_tool`` from a file in markdown or JSON.

    Raises:
        UsageError: it is neither.
    """
    import json

    try:
        if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            given = json.loads(data.decode("utf-8-sig"))
            return {key: value for key, value in given.items() if value is not None}
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"The file is not a tool: {error}", "memvault tools register --help"
        ) from error
    file = document.Document.parse(data)
    if file.header is None:
        problem = file.problem or "it is neither JSON nor markdown with front matter"
        raise UsageError(
            f"The file is not a tool: {problem}",
            "the front matter says name, description, parameters and command",
        )
    return {**_definition_keys(file.header), "documentation": file.text}


def put(store: MemoryStore, definition: ToolDefinition, text: str | None) -> tuple[str, str]:
    """Write a tool's file, replacing an existing one of the same name.

    ``text`` is the body; None keeps the existing one. Return the path, and the revision that holds
    the earlier bytes, if any.

    Raises:
        Conflict: its name is that of a file that is not a tool, or almost another tool's.
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
        given = {key: value for key, value in header.items() if value is not None}
        try:
            data = document.encode_new(given, text or "")
            store.changes.create([path], data, FileRef.at(path, definition.name))
        except FileExistsError as error:
            raise Conflict(
                f"{path} is there already and is not this tool", "fix or remove that file"
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


FOLDER = "tools"
"""The folder of a vault's tools."""
TIMEOUT = 60.0
"""The default time limit of a tool, in seconds."""
_TYPES_BY_NAME = {name: kind for kind, name in JSON_NAMES.items()}
_ENUM_TYPES = (str, float, int)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")
_RESERVED_FLAGS = ("agent", "help", "json", "quiet", "vault")
_MAX_PARAMETERS = 100
_MAX_COMMAND = 4_000
_MAX_DESCRIPTION = 1_000


class ToolParameter(TypedDict):
    """One parameter of a registered tool."""

    name: Annotated[str, Arg("Letters, digits, underscores and hyphens")]
    type: Annotated[
        Literal["string", "number", "integer", "boolean", "array", "object"], Arg("Its JSON type")
    ]
    description: NotRequired[Annotated[str, Arg("What it means")]]
    required: NotRequired[Annotated[bool, Arg("Else true, unless there is a default")]]
    default: NotRequired[
        Annotated[
            str | int | float | bool | list[Any] | dict[str, Any],
            Arg("What the tool gets by default"),
        ]
    ]
    enum: NotRequired[Annotated[list[Any], Arg("The values that it may have")]]


ToolName = Annotated[str, Arg("What it is called by: letters, digits, underscores, hyphens")]
ToolDescription = Annotated[str, Arg("What it does, for those who choose a tool")]
ToolCommand = Annotated[
    str | list[str], Arg("The program and its arguments; one text is split as a shell does")
]
ToolParameters = Annotated[list[ToolParameter] | None, Arg("What it takes")]
ToolTimeout = Annotated[
    float | None, Arg("Seconds that it may run", minimum=0.1, maximum=3_600, default=60)
]


class ToolDefinition(NamedTuple):
    """The validated definition of a tool; ``entries`` are its parameters as written."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    entries: list[dict[str, Any]]
    command: tuple[str, ...]
    timeout: float


def tool_definition(
    name: ToolName,
    description: ToolDescription,
    command: ToolCommand,
    parameters: ToolParameters = None,
    timeout: ToolTimeout = None,
) -> ToolDefinition:
    """Validate the definition of a tool and return it.

    Raises:
        UsageError: a part of it is invalid.
    """
    _check_tool_name(name)
    description = _description(description, f"tool {name}")
    if not description:
        raise UsageError(f"The tool {name} has no description", "say what it does")
    entries: list[Any] = parameters or []
    if len(entries) > _MAX_PARAMETERS:
        raise UsageError(f"The tool {name} has more than {_MAX_PARAMETERS} parameters", "use fewer")
    checked = tuple(_parameter(entry) for entry in entries)
    keys = [normal_key(entry.key) for entry in checked]
    for names in (keys, [entry.flag for entry in checked]):
        for twice in names:
            if names.count(twice) > 1:
                raise UsageError(
                    f"The tool {name} has two parameters that are spelled {twice}",
                    "case, underscores and hyphens make no difference; rename one",
                )
    return ToolDefinition(
        name, description, checked, entries, _command(command), timeout or TIMEOUT
    )


def _description(text: str, whose: str) -> str:
    """Return a description, which is limited because every model with the tool reads it."""
    if len(text) > _MAX_DESCRIPTION:
        raise UsageError(
            f"The description of the {whose} is longer than {_MAX_DESCRIPTION:,} characters",
            "say in short what it is for; the rest goes into the documentation",
        )
    return document.plain_text(text).strip()


def _check_tool_name(name: str) -> None:
    _check_name(name, "a tool", paths.slug(name) == f"{name.lower()}-memory")
    reserved_names = {"help", "version"}
    for command in COMMANDS:
        words = command.words
        reserved_names |= {command.tool, words.split()[0], normal_name(words.replace(" ", "_"))}
    if normal_name(name) in reserved_names:
        raise UsageError(f"{name} is a name of memvault's own", "choose another name")


def _check_name(name: str, whose: str, reserved: bool = False) -> None:
    if reserved or not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:60]!r} cannot be the name of {whose}",
            "use up to 60 letters, digits, underscores and hyphens, a letter first",
        )


def _parameter(entry: Mapping[str, Any]) -> Parameter:
    name = entry["name"]
    _check_name(name, "a parameter")
    kind = entry["type"]
    flag = kebab(name).replace("_", "-").lstrip("-")
    parameter = Parameter(
        f"{name.replace('-', '_')}_",  # never a Python keyword, nor the name of a common option
        name,
        f"--its-{flag}" if flag in _RESERVED_FLAGS else f"--{flag}",
        (_TYPES_BY_NAME[kind],),
        (),
        entry.get("required", "default" not in entry),
        None,
        Arg(_description(entry.get("description", ""), f"parameter {name}") or f"Any {kind}"),
        anything=True,
    )
    if "enum" in entry:
        if not entry["enum"] or parameter.types[0] not in _ENUM_TYPES:
            raise UsageError(
                f"The parameter {name} cannot have this enum",
                "name one value or more, of a string, number or integer",
            )
        parameter = parameter._replace(
            choices=tuple(_converted(parameter, value, "enum") for value in entry["enum"])
        )
    if "default" in entry:
        default = _converted(parameter, entry["default"], "default")
        parameter = parameter._replace(default=default)
    return parameter


def _converted(parameter: Parameter, value: Any, what: str) -> Any:
    """Return a value converted to the parameter's type."""
    try:
        typed = check_type(parameter, value)
        return bind(parameters.in_file((parameter,)), {parameter.key: typed}, parameter.name)[
            parameter.name
        ]
    except UsageError as error:
        raise UsageError(
            f"The {what} of the parameter {parameter.name} does not fit: {error.message}",
            f"correct type or {what}",
        ) from error


def _command(given: list[str] | str) -> tuple[str, ...]:
    words = given
    if isinstance(words, str):
        import shlex

        try:
            words = shlex.split(words)
        except ValueError as error:
            raise UsageError(
                f"The command cannot be split into words: {error}", "write it as a list of texts"
            ) from error
    if not words or not words[0].strip() or any("\0" in word for word in words):
        raise UsageError("The command is empty", "name a program, then its arguments")
    if sum(len(word) + 1 for word in words) > _MAX_COMMAND:
        raise UsageError(
            f"The command is longer than {_MAX_COMMAND:,} characters",
            f"put it into a script in {FOLDER}/",
        )
    return tuple(words)
