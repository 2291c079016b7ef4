"""Register tools; a tool is one typed function.

A generated table maps tools to modules, so a call imports only the module of its own tool.

A tool is defined by its signature, the ``Arg`` annotations of its parameters and its docstring. The
command line, the JSON schema and the reference are generated from these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from memvault.arguments import binding
from memvault.arguments.parameters import Arg, Parameter, in_file, normal_name, parameters_of
from memvault.call import Scope
from memvault.command_table import TOOLS, Command
from memvault.errors import UsageError
from memvault.named_tuple import NamedTuple
from memvault.tools.core.render import Template

Function = TypeVar("Function", bound=Callable[..., Mapping[str, Any]])
_CONFIRM = "confirm"
_TEXTS = ("content", "diff")
"""Result keys whose value is a string instead of a list."""


def _number(key: str, help_text: str) -> Parameter:
    return Parameter(
        key, key, f"--{key}", (int,), (), False, None, Arg(help_text, minimum=0, default=0)
    )


BUDGET = _number("budget", "Maximum tokens; 0: no limit")
BUDGET = BUDGET._replace(arg=BUDGET.arg._replace(default=None))
_OFFSET = _number("offset", "Entries to skip: next from the previous result")
_TEXT_OFFSET = _number("offset", "Characters to skip: next from the previous result")
_LENGTH = _number("length", "Maximum characters; 0: all")
OPEN = Parameter(
    "open_entry",
    "openEntry",
    "--open",
    (int,),
    (),
    False,
    None,
    Arg("Open the result with this number in your editor, at its line", minimum=1, metavar="N"),
)
"""A command-line option that is not an argument of the tool."""
YES = Parameter(
    "yes",
    "yes",
    "--yes",
    (bool,),
    (),
    False,
    None,
    Arg("Do not ask for confirmation; the same as `--confirm true`"),
)
"""An option of commands that ask for confirmation."""


class Tool(NamedTuple):
    """A tool: its exact name, its command, and the function that implements it.

    Attributes:
        command_line_form: Converts the command's parameters to the tool's arguments, if they are
            entirely different.
        read_only: Whether it changes nothing.
        destructive: Whether it may replace or remove something, not only add.
        open_world: Whether it may reach beyond the vault: the network, or other programs.
        idempotent: Whether a second call with the same arguments changes nothing more.
        own_scope: The minimum scope of a caller, if it does not follow from ``read_only``.
        works_without_files: Whether it also works on a vault that another machine published, whose
            files are not on this machine.
        core_args: Keys of the arguments in its short definition, each with a short description, or
            an empty string if the key is sufficient. MCP clients are offered the short definitions
            by default; the other arguments are accepted too. None if it is not offered by default.
        examples: Command lines that the help and the reference show.
        view: How its result is printed for people.
        takes_long: Whether it waits, checks or rebuilds the whole vault, or runs or looks up
            programs. The resident process does not run such a tool.
        paged_keys: Keys of the lists, or of the text, that may make its result long. The tool gets
            the arguments ``budget`` and, unless the function already has it, ``offset``, and for
            text ``length``. None if the result is always short.
        newest_last: Whether these lists are cut at their beginning.
        continuation_hint: How to read the part of its result omitted by a budget.
        fails_if: The command exits with 1 if this key of the result is true.
        flat_failures: Whether its failed results have the form of ``MemvaultError.is_flat``.
        reveals: Whether it returns text that the caller requested. In the shell and in Python,
            secrets in it are shown; in all other results, secrets are masked.
        openable_list: The list in its result whose entries can be opened with ``--open``.
        messages: Paths of keys to memvault's own messages below the first level of its result, such
            as ``findings.message``; ``messages.render`` renders them.
        writes_if: The name of the argument without which a call changes nothing.
        own_parameters: The parameters of a tool created at run time, in place of the function's
            signature.
        description: The description of such a tool, in place of the docstring.
    """

    name: str
    command: str
    group: str
    function: Callable[..., Mapping[str, Any]]
    read_only: bool = False
    destructive: bool = False
    command_line_form: Callable[..., Mapping[str, Any]] | None = None
    open_world: bool = False
    takes_long: bool = False
    own_parameters: tuple[Parameter, ...] | None = None
    description: str = ""
    idempotent: bool = False
    own_scope: Scope | None = None
    works_without_files: bool = False
    core_args: Mapping[str, str] | None = None
    examples: tuple[str, ...] = ()
    view: Template = Template()
    fails_if: str = ""
    paged_keys: tuple[str, ...] | None = None
    newest_last: bool = False
    continuation_hint: str = ""
    flat_failures: bool = False
    openable_list: str = ""
    messages: tuple[str, ...] = ()
    writes_if: str = ""
    reveals: bool = False

    @property
    def scope(self) -> Scope:
        """The minimum scope that a caller needs."""
        return self.own_scope or ("read" if self.read_only else "write")

    @property
    def title(self) -> str:
        """The display name."""
        return self.name.replace("_", " ").capitalize()

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The declared parameters, and the parameters added by ``paged_keys``."""
        return (*self._declared, *self.page_parameters)

    @property
    def _declared(self) -> tuple[Parameter, ...]:
        return parameters_of(self.function) if self.own_parameters is None else self.own_parameters

    @property
    def page_parameters(self) -> tuple[Parameter, ...]:
        """The parameters that select a part of the result; ``invoke`` handles them."""
        if self.paged_keys is None:
            return ()
        own_keys = {entry.key for entry in self._declared}
        is_text = self.paged_keys[:1] and self.paged_keys[0] in _TEXTS
        offset = (_TEXT_OFFSET, _LENGTH) if is_text else (_OFFSET,)
        pages = offset if self.paged_keys and "offset" not in own_keys else ()
        return (*pages, *([] if BUDGET.key in own_keys else [BUDGET]))

    @property
    def result_type(self) -> Any:
        """The ``TypedDict`` of the result, in the tool's module or ``memvault.results``.

        None for a vault's tool.
        """
        if self.own_parameters is not None:
            return None
        name = str(self.function.__annotations__.get("return"))
        if name in self.function.__globals__:
            return self.function.__globals__[name]
        from memvault import results

        named = name.removeprefix("results.")
        if not hasattr(results, named):
            raise TypeError(
                f"{self.name} returns {name}, which must be a TypedDict "
                f"in {self.function.__module__} or memvault.results"
            )
        return getattr(results, named)

    @property
    def shell_parameters(self) -> tuple[Parameter, ...]:
        """The command's parameters."""
        if self.command_line_form:
            return parameters_of(self.command_line_form)
        own_parameters = (part for entry in self.parameters for part in entry.on_command_line)
        confirms = any(entry.key == _CONFIRM for entry in self.parameters)
        return (
            *own_parameters,
            *([OPEN] if self.openable_list else []),
            *([YES] if confirms else []),
        )

    def from_command_line(self, cli_values: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the values of the command's parameters to the tool's arguments, by name.

        Raises:
            UsageError: a value cannot be parsed.
        """
        if self.command_line_form:
            return self.by_name(self.command_line_form(**cli_values))
        values = {entry.name: entry.parse_cli(cli_values) for entry in self.parameters}
        if cli_values.get(YES.name) and values.get(_CONFIRM) is None:
            values[_CONFIRM] = True
        return {name: value for name, value in values.items() if value is not None}

    def by_name(
        self, arguments: Mapping[str, Any], ignored: list[str] | None = None
    ) -> dict[str, Any]:
        """Return JSON arguments by parameter name; see ``binding.by_name``."""
        return binding.by_name(self._in_messages, arguments, f"`{self.name}`", ignored)

    def check(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """Validate arguments by parameter name; see ``binding.check``."""
        return binding.check(self._in_messages, named, f"`{self.name}`")

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Validate JSON arguments and return them by parameter name; see ``binding.bind``."""
        return self.check(self.by_name(arguments))

    @property
    def _in_messages(self) -> tuple[Parameter, ...]:
        """The parameters, with the names that messages use for them."""
        if not self.command_line_form:
            return self.parameters
        typed = {entry.shell_name for entry in self.shell_parameters}
        return tuple(  # The other arguments come from a file.
            entry if entry.items or entry.shell_name in typed else in_file((entry,))[0]
            for entry in self.parameters
        )

    @property
    def summary(self) -> str:
        """The first line of the docstring, without its period."""
        return self.doc.split("\n", 1)[0].strip().rstrip(".")

    @property
    def doc(self) -> str:
        """The description, or else the docstring of the function without indentation."""
        lines = (self.description or self.function.__doc__ or "").strip().splitlines()
        return "\n".join(line.strip() for line in lines)


if TYPE_CHECKING:

    class ToolOptions(TypedDict, total=False):
        """The fields of ``Tool`` that a decorator sets."""

        read_only: bool
        destructive: bool
        open_world: bool
        takes_long: bool
        idempotent: bool
        own_scope: Scope | None
        works_without_files: bool
        core_args: Mapping[str, str] | None
        examples: tuple[str, ...]
        fails_if: str
        paged_keys: tuple[str, ...] | None
        newest_last: bool
        continuation_hint: str
        flat_failures: bool
        openable_list: str
        messages: tuple[str, ...]
        writes_if: str
        reveals: bool


_TOOLS: dict[str, Tool] = {}


class ToolGroup(NamedTuple):
    """The tools of one module: the group's name, heading and position in listings.

    If a group has several modules, the first of them defines the heading.
    """

    name: str
    heading: str = ""
    place: int = 1_000

    def tool(
        self, command: str, view: str | Template = "", **options: Unpack[ToolOptions]
    ) -> Callable[[Function], Function]:
        """Return a decorator that registers a function as the tool of its name."""
        template = Template(view) if isinstance(view, str) else view
        options["idempotent"] = options.get("idempotent", False) or options.get("read_only", False)

        def enter(function: Function) -> Function:
            name = function.__name__
            _TOOLS[name] = Tool(name, command, self.name, function, view=template, **options)
            _GROUPS[function.__module__] = self
            return function

        return enter


_GROUPS: dict[str, ToolGroup] = {}


def command_line_form(name: str) -> Callable[[Function], Function]:
    """Return a decorator that registers the command-line form of a registered tool.

    The decorated function's parameters become the command's parameters; it returns the tool's
    arguments.
    """

    def enter(function: Function) -> Function:
        _TOOLS[name] = _TOOLS[name]._replace(command_line_form=function)
        return function

    return enter


def all_tools() -> list[Tool]:
    """Return all built-in tools, in the order of the reference."""
    return [_load(command) for command in TOOLS]


def lookup(name: str) -> Tool | None:
    """Return the built-in tool with an exact name or command, or None."""
    normalized = normal_name(name)
    for command in TOOLS:
        if normalized in (command.tool, command.words.replace(" ", "_")):
            return _load(command)
    return None


def _load(command: Command) -> Tool:
    name = f"memvault.{command.module}"
    try:
        import_module(name)
        return _TOOLS[command.tool]
    except (ModuleNotFoundError, KeyError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name != name:
            raise
        raise _stale(f"{command.tool} is not in {name}") from error


def check_table(name: str) -> None:
    """Report a tool missing from the table, given its name or its command's first words.

    This checks only source checkouts, where the table may be out of date.

    Raises:
        UsageError: the table lacks an existing tool.
    """
    if not (_CHECKOUT / "scripts" / "write_docs.py").is_file():
        return
    listed = {command.tool for command in TOOLS}
    for _, tool in load_all():
        is_named = name == tool.name or f"{tool.command} ".startswith(f"{name} ")
        if is_named and tool.name not in listed:
            raise _stale(f"{tool.name} is not in it")


def _stale(reason: str) -> UsageError:
    return UsageError(f"The table of commands is out of date: {reason}", "run `make docs`")


def find(name: str) -> Tool:
    """Return the built-in tool with a name, ignoring case and treating ``_`` and ``-`` as equal.

    Raises:
        UsageError: there is no such tool.
    """
    tool = lookup(name)
    if tool is None:
        raise unknown(name, [command.tool for command in TOOLS])
    return tool


_CHECKOUT = Path(__file__).parents[4]
_MAX_NAME = 100
"""Maximum length of an unknown name that is compared with tool names and shown."""
LIST_TOOLS = "run `memvault tools list` to list all tools"
"""The hint for an unknown tool name without a suggestion."""


def unknown(name: str, names: list[str]) -> UsageError:
    """Return the error for an unknown tool name, with suggestions."""
    from memvault.tools.core.suggestions import suggest_tools

    check_table(normal_name(name))
    name = name[:_MAX_NAME]
    hint = f"did you mean {' or '.join(suggest_tools(name, names))}?"
    if hint == "did you mean ?":
        hint = LIST_TOOLS
    return UsageError(f"There is no tool {name!r}", hint)


def arguments_by_name(
    function: Callable[..., Any], positional: Sequence[object], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a tool's function by parameter name."""
    names = [parameter.name for parameter in parameters_of(function)]
    return {**dict(zip(names, positional, strict=False)), **named}


def load_all() -> list[tuple[ToolGroup, Tool]]:
    """Import all tool modules; return their groups and tools, in the order of the help."""
    import pkgutil

    import memvault.tools

    for entry in pkgutil.iter_modules(memvault.tools.__path__):
        if not entry.ispkg:
            import_module(f"memvault.tools.{entry.name}")
    entries = [(_GROUPS[tool.function.__module__], tool) for tool in _TOOLS.values()]
    return sorted(entries, key=lambda pair: pair[0].place)
