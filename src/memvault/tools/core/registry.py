"""A tool is one typed function; this is where it is entered and found.

Which module holds which tool is known from a generated table, so that a call
loads its own module only.

The signature, the ``Arg`` notes in its annotations and the docstring are all
that a tool says of itself. Command line, JSON schema and reference are made
from them.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from memvault.arguments.binding import bind
from memvault.arguments.parameters import Parameter, normal_name, parameters_of
from memvault.call import Scope
from memvault.command_table import COMMANDS, Command
from memvault.errors import UsageError

Function = TypeVar("Function", bound=Callable[..., Mapping[str, Any]])


class Tool(NamedTuple):
    """A tool: its exact name, its command's words, and the function that does it.

    ``shell`` turns what its command takes into the arguments, where that is
    something else altogether. ``destructive`` says that it may replace or
    take away something, and not only add. ``open_world`` says that it may reach beyond
    the vault: the network, or a program of someone else's. ``idempotent`` says that
    a second call with the same arguments changes nothing more. ``own_scope`` is the least
    that a caller needs to run it, where that is not to read or to write. One for ``sent``
    vaults needs no files, so it works on what another machine has sent too. A tool that is made
    at run time says itself what a function's signature and docstring say
    otherwise: ``own_parameters`` and ``description``.
    """

    name: str
    command: str
    group: str
    function: Callable[..., Mapping[str, Any]]
    read_only: bool
    destructive: bool
    command_line_form: Callable[..., Mapping[str, Any]] | None = None
    open_world: bool = False
    own_parameters: tuple[Parameter, ...] | None = None
    description: str = ""
    idempotent: bool = False
    own_scope: Scope | None = None
    works_without_files: bool = False

    @property
    def scope(self) -> Scope:
        """The least scope that a caller needs."""
        return self.own_scope or ("read" if self.read_only else "write")

    @property
    def title(self) -> str:
        """The name as people are shown it."""
        return self.name.replace("_", " ").capitalize()

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The arguments, read off the function unless the tool names its own."""
        return parameters_of(self.function) if self.own_parameters is None else self.own_parameters

    @property
    def shell_parameters(self) -> tuple[Parameter, ...]:
        """What the command takes."""
        if self.command_line_form:
            return parameters_of(self.command_line_form)
        return tuple(part for entry in self.parameters for part in entry.on_command_line)

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments made of what the command was given, by its parameters' names.

        Raises:
            UsageError: something cannot be read.
        """
        if self.command_line_form:
            return dict(self.command_line_form(**given))
        made = {entry.key: entry.parse_cli(given) for entry in self.parameters}
        return {key: value for key, value in made.items() if value is not None}

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Check arguments and name them as the function does; errors as for ``arguments.bind``."""
        return bind(self.parameters, arguments, self.name)

    @property
    def summary(self) -> str:
        """The first sentence of the docstring, without its full stop."""
        return self.doc.split("\n", 1)[0].strip().rstrip(".")

    @property
    def doc(self) -> str:
        """The docstring without indentation, or the description given in its place."""
        lines = (self.description or self.function.__doc__ or "").strip().splitlines()
        return "\n".join(line.strip() for line in lines)


_TOOLS: dict[str, Tool] = {}


class ToolGroup(NamedTuple):
    """The tools of one module: their group, its heading, and where they are listed.

    Where a group has several modules, the first of them gives the heading.
    """

    name: str
    heading: str = ""
    place: int = 1_000

    def tool(
        self,
        name: str,
        command: str,
        read_only: bool = False,
        destructive: bool = False,
        open_world: bool = False,
        idempotent: bool = False,
        scope: Scope | None = None,
        sent: bool = False,
    ) -> Callable[[Function], Function]:
        """Enter a function as a tool under its exact name and its command's words."""

        def enter(function: Function) -> Function:
            _TOOLS[name] = Tool(
                name,
                command,
                self.name,
                function,
                read_only,
                destructive,
                open_world=open_world,
                idempotent=idempotent or read_only,
                own_scope=scope,
                works_without_files=sent,
            )
            _GROUPS[function.__module__] = self
            return function

        return enter


_GROUPS: dict[str, ToolGroup] = {}


def command_line_form(name: str) -> Callable[[Function], Function]:
    """Enter a function as the command-line form of the tool entered before it.

    Its parameters become the command's; it returns the tool's arguments.
    """

    def enter(function: Function) -> Function:
        _TOOLS[name] = _TOOLS[name]._replace(command_line_form=function)
        return function

    return enter


def all_tools() -> list[Tool]:
    """Return every tool, in the order in which the reference shows them."""
    return [_loaded(command) for command in COMMANDS]


def lookup(name: str) -> Tool | None:
    """Return the program's own tool of an exact name or a command's words, if there is one."""
    wanted = normal_name(name)
    for command in COMMANDS:
        if wanted in (command.tool, command.words.replace(" ", "_")):
            return _loaded(command)
    return None


def _loaded(command: Command) -> Tool:
    import_module(f"memvault.tools.{command.module}")
    return _TOOLS[command.tool]


def find(name: str) -> Tool:
    """Return the tool of an exact name, spelled with any case and either of ``_`` and ``-``.

    Raises:
        UsageError: there is none.
    """
    found = lookup(name)
    if found is None:
        raise unknown(name, [command.tool for command in COMMANDS])
    return found


_LONGEST_NAME = 100
"""Characters of an unknown name that are compared with those of the tools, and told."""


def unknown(name: str, names: list[str]) -> UsageError:
    """Return the error for a name that no tool has, with the nearest that one has."""
    from difflib import get_close_matches

    name = name[:_LONGEST_NAME]
    near = get_close_matches(normal_name(name), names, n=1)
    return UsageError(
        f"There is no tool {name!r}",
        f"did you mean {near[0]}?" if near else "memvault --help lists them",
    )


def load_all() -> list[tuple[ToolGroup, Tool]]:
    """Import every module of tools; return what they enter, in the order of the help."""
    import memvault.tools

    for entry in pkgutil.iter_modules(memvault.tools.__path__):
        if not entry.ispkg:
            import_module(f"memvault.tools.{entry.name}")
    found = [(_GROUPS[tool.function.__module__], tool) for tool in _TOOLS.values()]
    return sorted(found, key=lambda pair: pair[0].place)
