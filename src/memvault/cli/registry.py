"""Register the handwritten commands, such as ``init`` and ``mcp``.

A command is declared like a tool: as a function with annotated parameters, under ``@command``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from memvault.arguments.parameters import Parameter, parameters_of
from memvault.command_table import COMMANDS, TOOLS, Command
from memvault.named_tuple import NamedTuple
from memvault.tools.core import registry
from memvault.tools.core.registry import Tool
from memvault.tools.core.render import Template

Function = TypeVar("Function", bound=Callable[..., Mapping[str, Any] | None])


class CliCommand(NamedTuple):
    """A command: its words, and the function that implements it.

    The function takes the ``GlobalOptions`` and its declared arguments. It returns its result,
    which is then printed by ``view``, or None if it has printed everything itself. With
    ``always_json``, the result and errors are JSON, as with the option ``--json``. Secrets in the
    result are masked unless it ``reveals`` the requested text.
    """

    words: str
    group: str
    function: Callable[..., Mapping[str, Any] | None]
    examples: tuple[str, ...]
    view: Template
    always_json: bool = False
    reveals: bool = False

    @property
    def shell_parameters(self) -> tuple[Parameter, ...]:
        """The function's parameters."""
        return parameters_of(self.function)

    @property
    def doc(self) -> str:
        """The help text: the function's docstring without indentation."""
        from inspect import cleandoc

        return cleandoc(self.function.__doc__ or "")


ShellCommand = Tool | CliCommand
"""A handwritten command, or a command generated from a tool."""
_COMMANDS: dict[str, CliCommand] = {}
_HEADINGS = {
    "moving": "Import, export and web pages",
    "programs": "Agent programs and servers",
    "setup": "Vaults, settings and the shell",
}
"""The headings of the groups without tools."""


def command(
    command_name: str,
    examples: tuple[str, ...],
    view: str | Template = "",
    group: str = "vault",
    always_json: bool = False,
    reveals: bool = False,
) -> Callable[[Function], Function]:
    """Return a decorator that registers a function as a command.

    Args:
        command_name: The words of the command.
        examples: Two or three command lines for the help.
        view: How its result is printed for people; by default according to the types of its values.
        group: The group of tools, or of ``_HEADINGS``, that lists the command in the help.
        always_json: Whether it prints only JSON.
        reveals: Whether its result is the requested text, including secrets.
    """

    def enter(function: Function) -> Function:
        shown = Template(view) if isinstance(view, str) else view
        _COMMANDS[command_name] = CliCommand(
            command_name, group, function, examples, shown, always_json, reveals
        )
        return function

    return enter


def find(entry: Command) -> CliCommand:
    """Return the handwritten command for a row of the command table."""
    import_module(f"memvault.{entry.module}")
    return _COMMANDS[entry.words]


def find_command(command_name: str) -> ShellCommand | None:
    """Return the command with the given words or tool name, or None.

    A handwritten command replaces a generated one with the same words.
    """
    command_name = next(
        (entry.words for entry in TOOLS if entry.tool == command_name), command_name
    )
    for entry in COMMANDS:
        if entry.words == command_name:
            return registry.find(entry.tool) if entry.tool else find(entry)
    return None


def is_group(group_name: str) -> bool:
    """Return whether the given words name a group of commands."""
    return any(entry.words.startswith(f"{group_name} ") for entry in COMMANDS)


def all_commands() -> list[CliCommand]:
    """Return all handwritten commands, in the order of the help."""
    return [find(entry) for entry in COMMANDS if not entry.tool]


def command_table() -> list[Command]:
    """Return the rows of ``memvault.command_table`` for handwritten commands, by their words."""
    import pkgutil

    for module in pkgutil.iter_modules([str(Path(__file__).with_name("commands"))]):
        import_module(f"memvault.cli.commands.{module.name}")
    return [
        Command(
            "",
            entry.words,
            entry.function.__module__.removeprefix("memvault."),
            entry.group,
            _HEADINGS.get(entry.group, ""),
            "",
            entry.doc.partition("\n")[0].rstrip("."),
        )
        for entry in sorted(_COMMANDS.values())
    ]
