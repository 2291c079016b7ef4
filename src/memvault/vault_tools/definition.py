"""Define and validate a vault's own tools."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from memvault.arguments import parameters
from memvault.arguments.binding import bind, check_type
from memvault.arguments.parameters import JSON_NAMES, Arg, Parameter, kebab, normal_key, normal_name
from memvault.command_table import COMMANDS
from memvault.errors import UsageError
from memvault.named_tuple import NamedTuple
from memvault.vault import document, naming

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

    name: Annotated[str, Arg("Its name: letters, digits, underscores and hyphens")]
    type: Annotated[
        Literal["string", "number", "integer", "boolean", "array", "object"], Arg("Its JSON type")
    ]
    description: NotRequired[Annotated[str, Arg("Its description")]]
    required: NotRequired[
        Annotated[bool, Arg("Whether it is required; true unless it has a default")]
    ]
    default: NotRequired[
        Annotated[
            str | int | float | bool | list[Any] | dict[str, Any],
            Arg("Its default value"),
        ]
    ]
    enum: NotRequired[Annotated[list[Any], Arg("The allowed values")]]


ToolName = Annotated[str, Arg("Its name: letters, digits, underscores and hyphens")]
ToolDescription = Annotated[str, Arg("Its description, which models use to choose a tool")]
ToolCommand = Annotated[
    str | list[str], Arg("The program and its arguments; a string is split as in a shell")
]
ToolParameters = Annotated[list[ToolParameter] | None, Arg("Its parameters")]
ToolTimeout = Annotated[
    float | None, Arg("Its time limit in seconds", minimum=0.1, maximum=3_600, default=60)
]


class ToolDefinition(NamedTuple):
    """The validated definition of a tool; ``entries`` has its parameters in their original form."""

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
        raise UsageError(f"The tool {name} has no description", "add a description of what it does")
    entries: list[Any] = parameters or []
    if len(entries) > _MAX_PARAMETERS:
        raise UsageError(f"The tool {name} has more than {_MAX_PARAMETERS} parameters", "use fewer")
    checked = tuple(_parameter(entry) for entry in entries)
    keys = [normal_key(entry.key) for entry in checked]
    for names in (keys, [entry.flag for entry in checked]):
        for twice in names:
            if names.count(twice) > 1:
                raise UsageError(
                    f"The tool {name} has two parameters spelled {twice}",
                    "rename one; case, underscores and hyphens are ignored",
                )
    return ToolDefinition(
        name, description, checked, entries, _command(command), timeout or TIMEOUT
    )


def _description(text: str, owner: str) -> str:
    """Return a description after checking its length, because models read it in every session."""
    if len(text) > _MAX_DESCRIPTION:
        raise UsageError(
            f"The description of the {owner} is longer than {_MAX_DESCRIPTION:,} characters",
            "shorten it, and move details to the documentation",
        )
    return document.plain_text(text).strip()


def _check_tool_name(name: str) -> None:
    _check_name(name, "tool", naming.slug(name) == f"{name.lower()}-memory")
    reserved_names = {"help", "version"}
    for command in COMMANDS:
        command_words = command.words
        reserved_names |= {
            command.tool,
            command_words.split()[0],
            normal_name(command_words.replace(" ", "_")),
        }
    if normal_name(name) in reserved_names:
        raise UsageError(f"{name} is reserved by memvault", "choose another name")


def _check_name(name: str, kind: str, reserved: bool = False) -> None:
    if reserved or not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:60]!r} is not a valid {kind} name",
            "use up to 60 letters, digits, underscores and hyphens, starting with a letter",
        )


def _parameter(entry: Mapping[str, Any]) -> Parameter:
    name = entry["name"]
    _check_name(name, "parameter")
    kind = entry["type"]
    flag = kebab(name).replace("_", "-").lstrip("-")
    parameter = Parameter(
        # A Python keyword or the name of a common option is not allowed.
        f"{name.replace('-', '_')}_",
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
                "list at least one string, number or integer",
            )
        parameter = parameter._replace(
            choices=tuple(_converted(parameter, value, "enum") for value in entry["enum"])
        )
    if "default" in entry:
        default = _converted(parameter, entry["default"], "default")
        parameter = parameter._replace(default=default)
    return parameter


def _converted(parameter: Parameter, value: Any, label: str) -> Any:
    """Return a value converted to the parameter's type."""
    try:
        typed = check_type(parameter, value)
        return bind(parameters.in_file((parameter,)), {parameter.key: typed}, parameter.name)[
            parameter.name
        ]
    except UsageError as error:
        raise UsageError(
            f"The {label} of the parameter {parameter.name} does not match: {error.message}",
            f"correct the type or the {label}",
        ) from error


def _command(command: list[str] | str) -> tuple[str, ...]:
    arguments = command
    if isinstance(arguments, str):
        import shlex

        try:
            arguments = shlex.split(arguments)
        except ValueError as error:
            raise UsageError(
                f"The command cannot be parsed: {error}", "write it as a list of strings"
            ) from error
    if not arguments or not arguments[0].strip() or any("\0" in word for word in arguments):
        raise UsageError("The command is empty", "pass a program and its arguments")
    if sum(len(word) + 1 for word in arguments) > _MAX_COMMAND:
        raise UsageError(
            f"The command is longer than {_MAX_COMMAND:,} characters",
            f"move it to a script in {FOLDER}/",
        )
    return tuple(arguments)
