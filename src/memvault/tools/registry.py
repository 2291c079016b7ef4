"""A tool is one typed function; this is where it is entered and found.

The signature, the ``Arg`` notes in its annotations and the docstring are all
that a tool says of itself. Command line, JSON schema and reference are made
from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from memvault.errors import UsageError

if TYPE_CHECKING:
    from memvault.tools.schema import Parameter

__all__ = ["Arg", "Tool", "all_tools", "find", "known", "normal", "shell", "tool", "unknown"]

_MODULES = (
    "historian",
    "changes",
    "brain",
    "longterm",
    "context",
    "episodes",
    "experience",
    "skills",
    "state",
    "consolidate",
    "talk",
    "spaces",
    "vault",
    "catalogue",
    "world",
)

Function = TypeVar("Function", bound=Callable[..., Mapping[str, Any]])


class Arg(NamedTuple):
    """What an argument's type does not say.

    ``key`` is its JSON name where that is not the parameter's in camelCase;
    ``flag`` its option where that is not the key in kebab-case; ``positional``
    makes it a command-line argument; ``text`` lets ``-`` and ``@file`` stand
    for a text; ``assumed`` is what the schema names as the default where the
    function decides it; ``whole`` keeps a list's entries on the command line
    from being split at commas; ``also`` is another spelling of its option;
    ``open`` lets the objects in a list hold further keys.
    """

    help: str
    key: str = ""
    flag: str = ""
    positional: bool = False
    cli_optional: bool = False
    text: bool = False
    least: float | None = None
    most: float | None = None
    assumed: object = None
    whole: bool = False
    also: str = ""
    open: bool = False


class Tool(NamedTuple):
    """A tool: its exact name, its command's words, and the function that does it.

    ``shell`` turns what is convenient on a command line into the arguments,
    where those are no flat values. ``destructive`` says that it may replace or
    take away something, and not only add. ``open_world`` says that it may reach beyond
    the vault: the network, or a program of someone else's. A tool that is made
    at run time says itself what a function's signature and docstring say
    otherwise: ``own`` and ``told``.
    """

    name: str
    command: str
    group: str
    function: Callable[..., Mapping[str, Any]]
    read_only: bool
    destructive: bool
    shell: Callable[..., Mapping[str, Any]] | None = None
    open_world: bool = False
    own: tuple[Parameter, ...] | None = None
    told: str = ""

    @property
    def summary(self) -> str:
        """The first sentence of the docstring, without its full stop."""
        return self.doc.split("\n", 1)[0].strip().rstrip(".")

    @property
    def doc(self) -> str:
        """The docstring without indentation, or what is told in its place."""
        lines = (self.told or self.function.__doc__ or "").strip().splitlines()
        return "\n".join(line.strip() for line in lines)


_TOOLS: dict[str, Tool] = {}


def tool(
    name: str,
    command: str,
    group: str,
    read_only: bool = False,
    destructive: bool = False,
    open_world: bool = False,
) -> Callable[[Function], Function]:
    """Enter a function as a tool under its exact name and its command's words."""

    def enter(function: Function) -> Function:
        _TOOLS[name] = Tool(
            name, command, group, function, read_only, destructive, open_world=open_world
        )
        return function

    return enter


def shell(name: str) -> Callable[[Function], Function]:
    """Enter a function as the command-line form of the tool entered before it.

    Its parameters become the command's; it returns the tool's arguments.
    """

    def enter(function: Function) -> Function:
        _TOOLS[name] = _TOOLS[name]._replace(shell=function)
        return function

    return enter


def all_tools() -> list[Tool]:
    """Return every tool, in the order in which the reference shows them."""
    for module in _MODULES:
        import_module(f"memvault.tools.{module}")
    return list(_TOOLS.values())


def normal(name: str) -> str:
    """Return a tool's name in the spelling under which it is looked for."""
    return name.strip().lower().replace("-", "_")


def known(name: str) -> Tool | None:
    """Return the program's own tool of an exact name or a command's words, if there is one."""
    wanted = normal(name)
    for entry in all_tools():
        if wanted == entry.name or wanted == entry.command.replace(" ", "_"):
            return entry
    return None


def find(name: str) -> Tool:
    """Return the tool of an exact name, spelled with any case and either of ``_`` and ``-``.

    Raises:
        UsageError: there is none.
    """
    found = known(name)
    if found is None:
        raise unknown(name, [entry.name for entry in all_tools()])
    return found


def unknown(name: str, names: list[str]) -> UsageError:
    """Return the error for a name that no tool has, with the nearest that one has."""
    from difflib import get_close_matches

    near = get_close_matches(normal(name), names, n=1)
    return UsageError(
        f"There is no tool {name!r}",
        f"did you mean {near[0]}?" if near else "memvault --help lists them",
    )
