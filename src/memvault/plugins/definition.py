"""What a tool of a vault's own is said to be, checked; nothing here reads a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

from memvault import schema
from memvault.arguments import bind, check_type
from memvault.command_table import COMMANDS
from memvault.errors import UsageError
from memvault.schema import Arg, Parameter, normal_name
from memvault.vault import codec, layout

FOLDER = "tools"
"""Where a vault's tools lie."""
TIMEOUT = 60.0
"""Seconds that a tool may run where it does not say otherwise."""
_KINDS = {name: kind for kind, name in schema.JSON_NAMES.items()}
_CHOSEN = (str, float, int)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")
_TAKEN = ("agent", "help", "json", "quiet", "vault")
_MOST_PARAMETERS = 100
_LONGEST_COMMAND = 4_000
_LONGEST_DESCRIPTION = 1_000
_ALSO_OURS = frozenset({"call", "help", "init", "mcp", "version"})


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
    """What a tool is, checked; ``entries`` are its parameters as they were written."""

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
    """Check what a tool is said to be.

    Raises:
        UsageError: something of it makes no sense.
    """
    _check_tool_name(name)
    description = _description(description, f"tool {name}")
    if not description:
        raise UsageError(f"The tool {name} has no description", "say what it does")
    entries: list[Any] = parameters or []
    if len(entries) > _MOST_PARAMETERS:
        raise UsageError(
            f"The tool {name} has more than {_MOST_PARAMETERS} parameters", "use fewer"
        )
    checked = tuple(_parameter(entry) for entry in entries)
    keys = [schema.normal_key(entry.key) for entry in checked]
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
    """Return a description, which every model that may call the tool has to read."""
    if len(text) > _LONGEST_DESCRIPTION:
        raise UsageError(
            f"The description of the {whose} is longer than {_LONGEST_DESCRIPTION:,} characters",
            "say in short what it is for; the rest goes into the documentation",
        )
    return codec.plain_text(text).strip()


def _check_tool_name(name: str) -> None:
    _check_name(name, "a tool", layout.slug(name) == f"{name.lower()}-memory")
    wanted = normal_name(name)
    ours = {command.tool for command in COMMANDS}
    ours.update(command.words.replace(" ", "_") for command in COMMANDS)
    ours.update(command.words.split()[0] for command in COMMANDS)
    if wanted in ours or wanted in _ALSO_OURS:
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
    flag = schema.kebab(name).replace("_", "-").lstrip("-")
    parameter = Parameter(
        f"{name.replace('-', '_')}_",  # never a word of Python's, nor a common option's name
        name,
        f"--its-{flag}" if flag in _TAKEN else f"--{flag}",
        (_KINDS[kind],),
        (),
        entry.get("required", "default" not in entry),
        None,
        Arg(_description(entry.get("description", ""), f"parameter {name}") or f"Any {kind}"),
        anything=True,
    )
    if "enum" in entry:
        if not entry["enum"] or parameter.types[0] not in _CHOSEN:
            raise UsageError(
                f"The parameter {name} cannot have this enum",
                "name one value or more, of a string, number or integer",
            )
        parameter = parameter._replace(
            choices=tuple(_fitting(parameter, value, "enum") for value in entry["enum"])
        )
    if "default" in entry:
        default = _fitting(parameter, entry["default"], "default")
        parameter = parameter._replace(default=default)
    return parameter


def _fitting(parameter: Parameter, value: Any, what: str) -> Any:
    """Return a value as the parameter takes it."""
    try:
        typed = check_type(parameter, value)
        return bind((parameter,), {parameter.key: typed}, parameter.name)[parameter.name]
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
    if sum(len(word) + 1 for word in words) > _LONGEST_COMMAND:
        raise UsageError(
            f"The command is longer than {_LONGEST_COMMAND:,} characters",
            f"put it into a script in {FOLDER}/",
        )
    return tuple(words)
