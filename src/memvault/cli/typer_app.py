"""Build the Typer application, for help, mistakes, and lines that ``command_line`` rejects.

Commands are built on demand from their declared parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import typer
import typer.core
import typer.main

from memvault import __version__, sanitize
from memvault.arguments.parameters import Parameter, normal_key
from memvault.cli import spelling
from memvault.cli.command_line import CommandLine, option_names, takes_filters, value_type
from memvault.cli.options import GLOBAL_OPTIONS, GlobalOptions
from memvault.cli.parameter_help import parameter_help, value_name
from memvault.cli.registry import CliCommand, ShellCommand, find_command, is_group
from memvault.command_table import COMMANDS, TOOLS
from memvault.errors import MemvaultError, UsageError, VaultNotFound
from memvault.tools.core.registry import Tool

_ALIASES = {"mv": "rename"}
"""Names of shell commands that are accepted as aliases."""


def canonical_name(name: str, names: Collection[str]) -> str | None:
    """Return the command name for an alias, a plural or a singular, or None."""
    if _ALIASES.get(name) in names:
        return _ALIASES[name]
    forms = {f"{name}s", name.removesuffix("s")}
    if name.endswith("y"):
        forms.add(f"{name[:-1]}ies")
    if name.endswith("ies"):
        forms.add(f"{name[:-3]}y")
    return next((candidate for candidate in names if candidate in forms), None)


def parse(arguments: list[str], options: GlobalOptions) -> CommandLine | None:
    """Return a parsed command line; None if help or the version was printed.

    Raises:
        Exception: the line is wrong; Typer's own errors have the method ``format_message``.
    """
    group = _group(options, "", None)
    # Typer returns what the command's callback returns, or the exit code of a typer.Exit.
    line = group(
        args=options.escape_dash_values(arguments), prog_name="memvault", standalone_mode=False
    )
    return line if isinstance(line, CommandLine) else None


class CommandGroup(typer.core.TyperGroup):
    """A Typer group that looks commands up in the registry and builds them one at a time."""

    options: GlobalOptions
    prefix: str

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # Typer's signature
        """List the names of the visible commands."""
        return list(dict.fromkeys(name.split(" ")[0] for name in self._command_names()))

    def _command_names(self) -> list[str]:
        """Return the names of the group's commands, without the group's prefix."""
        names = dict.fromkeys(command.words for command in COMMANDS)
        return [name.removeprefix(self.prefix) for name in names if name.startswith(self.prefix)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Build a command, given its words or the exact name of its tool.

        Raises:
            UsageError: there is no such command.
        """
        cmd_name = self.options.unescape(cmd_name)
        full_name = self.prefix + cmd_name
        entry = find_command(full_name)
        if entry is not None:
            return build_command(entry, cmd_name, self.options)
        if is_group(full_name):
            return _group(self.options, f"{full_name} ", cmd_name)
        if cmd_name.startswith("-"):
            return None
        plugin = None if self.prefix else _plugin_tool(cmd_name, self.options)
        if plugin is not None:
            return build_command(plugin, cmd_name, self.options)

        names = self.list_commands(ctx)
        alias = canonical_name(cmd_name, names)
        if alias is not None:
            return self.get_command(ctx, alias)
        from memvault.tools.core.registry import check_table
        from memvault.tools.core.suggestions import suggest_command, suggest_tools

        check_table(full_name)
        all_names = [*names, *self._command_names()]
        suggestion = suggest_command(cmd_name, all_names)
        if "_" in cmd_name and not self.prefix:  # The user probably meant a tool name.
            suggestion = " or ".join(suggest_tools(cmd_name, [tool.tool for tool in TOOLS]))
        help_page = f"{self.prefix}--help" if self.prefix else "help --all"
        hint = f"run `memvault {help_page}` to list the commands"
        if self.prefix:
            tool_name = full_name.replace(" ", "_")  # such as tag_list, whose command is `tags`
            other = next((tool.words for tool in TOOLS if tool.tool == tool_name), cmd_name)
            if other in (command.words for command in COMMANDS):
                hint = f"did you mean `memvault {other}`?"
        raise UsageError(
            f"memvault {self.prefix}has no command {cmd_name!r}"
            if self.prefix
            else f"There is no command {cmd_name!r}",
            f"did you mean {self.prefix}{suggestion}?" if suggestion else hint,
        )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve the command of a command line; ``help COMMAND`` shows that command's help."""
        if args[0] == "help":
            if not args[1:]:
                print(ctx.get_help())
                raise typer.Exit
            args = [*args[1:], "--help"]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the group's commands with their complete summaries."""
        names = self.list_commands(ctx)
        summaries = {entry.words: entry.summary for entry in COMMANDS}
        with formatter.section("Commands"):
            formatter.write_dl([(name, summaries.get(self.prefix + name, "")) for name in names])

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the overview page, which is also printed without loading Typer."""
        if self.prefix:
            super().format_help(ctx, formatter)
        else:
            from memvault.cli.help_pages import colored, overview

            formatter.write(colored(overview()))


def _plugin_tool(name: str, options: GlobalOptions) -> Tool | None:
    """Return a tool defined in the vault; None if there is no vault or no such tool.

    Raises:
        VaultNotFound: an explicitly selected vault does not exist.
    """
    from memvault.call import LOCAL
    from memvault.tools.core import available

    try:
        return available.find_tool(options.named_workspace(), LOCAL, name)
    except VaultNotFound:
        if options.has_explicit_vault:
            raise
        return None
    except MemvaultError:
        return None


def _group(options: GlobalOptions, prefix: str, name: str | None) -> Any:
    attributes = {"options": options, "prefix": prefix}
    bound = type("Commands", (CommandGroup,), attributes)
    application = typer.Typer(
        name=name,
        cls=bound,
        invoke_without_command=bool(prefix),  # A group without a command shows its help.
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def show_version(value: bool) -> None:
        if value:
            print(f"memvault {__version__}")
            raise typer.Exit

    def root(ctx: typer.Context, **values: Any) -> None:
        values.pop("version")
        options.update(**values)
        if ctx.invoked_subcommand is None:
            print(ctx.get_help())

    version = typer.Option(
        False, "--version", "-V", is_eager=True, callback=show_version, help="Show the version"
    )
    shared = {**_shared_options(), "version": (bool, version)}
    _with_signature(root, {"ctx": (typer.Context, inspect.Parameter.empty), **shared})
    application.callback()(root)
    return typer.main.get_command(application)


def build_command(entry: ShellCommand, name: str, options: GlobalOptions) -> Any:
    """Build the Typer command for a tool or a handwritten command."""
    parameters = entry.shell_parameters
    if isinstance(entry, CliCommand):
        options.json = options.json or entry.always_json

    def callback(**values: Any) -> CommandLine:
        shared = {name: values[name] for name, *_ in GLOBAL_OPTIONS}
        spelling.assign_positionals(parameters, values)
        return CommandLine(entry, name, shared, values)

    command_parameters = {parameter.name: _typer_parameter(parameter) for parameter in parameters}
    _with_signature(
        callback,
        {**command_parameters, **spelling.positional_as_options(parameters), **_shared_options()},
    )
    application = typer.Typer(
        add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    settings = {"help_option_names": ["-h", "--help"]}
    application.command(
        name, cls=spelling.FlexibleCommand, help=entry.doc, context_settings=settings
    )(callback)
    command: Any = typer.main.get_command(application)
    command.keys = {
        normal_key(alias): spelling.option(entry)
        for entry in parameters
        for alias in entry.arg.json_aliases
    } | {normal_key(entry.key): spelling.option(entry) for entry in parameters}
    command.escape = options.escape if takes_filters(parameters) else None
    original_help: Callable[[Any], str] = command.get_help

    def page(ctx: Any) -> str:
        from memvault.cli import help_pages

        ctx.max_content_width = help_pages.width()
        text = sanitize.escape_text(original_help(ctx))  # Help from a vault's tool is untrusted.
        return help_pages.colored(help_pages.with_footer(text, entry.examples))

    command.get_help = page
    for parameter in command.params:
        if parameter.param_type_name == "argument" and parameter.metavar is not None:
            # Typer shows optional arguments in brackets. Here all arguments are optional for
            # Typer, because memvault checks them itself, so set the shown names directly. Typer
            # creates the parameters itself, so a subclass cannot override this.
            parameter.make_metavar = partial(_fixed_metavar, parameter.metavar)
    return command


def _shared_options() -> dict[str, tuple[Any, Any]]:
    """Return the type and the Typer declaration of each global option, by parameter name.

    Only the page of all commands lists these options.
    """
    options: dict[str, tuple[Any, Any]] = {}
    for name, flag, takes, _ in GLOBAL_OPTIONS:
        kind, default = (str | None, None) if takes else (bool, False)
        options[name] = kind, typer.Option(default, flag, metavar=takes or None, hidden=True)
    return options


def _with_signature(callback: Callable[..., Any], declared: dict[str, tuple[Any, Any]]) -> None:
    """Set the signature that Typer reads from a callback."""
    callback.__annotations__ = {key: kind for key, (kind, _) in declared.items()}
    callback.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read by inspect
        [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=info, annotation=kind)
            for key, (kind, info) in declared.items()
        ]
    )


def _fixed_metavar(text: str, *_: Any, **__: Any) -> str:
    return text


def _typer_parameter(parameter: Parameter) -> tuple[Any, Any]:
    """Return the type and the Typer declaration of a parameter."""
    kind = value_type(parameter)
    declared: Any = (list[str] if kind is list else kind) | None
    shown, text = value_name(parameter), parameter_help(parameter)
    if parameter.arg.positional:
        return declared, typer.Argument(None, metavar=shown, help=text, show_default=False)
    (flag, *others), negative = option_names(parameter)
    names = [f"{flag}/{negative}" if negative else flag, *others]
    return declared, typer.Option(None, *names, metavar=shown, help=text, show_default=False)
