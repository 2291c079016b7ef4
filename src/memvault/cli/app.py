"""The Typer application: builds commands on demand and handles all errors in one place."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Collection
from typing import Any

import typer
import typer.core
import typer.main

from memvault import __version__
from memvault.cli import commands, output
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import find
from memvault.cli.shutdown import OutputError, termination_requested
from memvault.command_table import COMMANDS, TOOLS
from memvault.errors import MemvaultError, UsageError, VaultNotFound, to_memvault_error
from memvault.tools.core import registry
from memvault.tools.core.registry import Tool

_ALIASES = {"mv": "rename"}
"""Shell commands that are accepted as aliases of a command."""


def canonical_name(name: str, names: Collection[str]) -> str | None:
    """Return the name that ``name`` is an alias, plural or singular of, or None."""
    if _ALIASES.get(name) in names:
        return _ALIASES[name]
    forms = {f"{name}s", name.removesuffix("s")}
    if name.endswith("y"):
        forms.add(f"{name[:-1]}ies")
    if name.endswith("ies"):
        forms.add(f"{name[:-3]}y")
    return next((known for known in names if known in forms), None)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code.

    Every error except ``OutputError`` is handled here.
    """
    options = GlobalOptions.from_environment()
    try:
        code = _application(options)(  # Typer returns the exit code of a typer.Exit
            args=options.escape_dash_values(arguments), prog_name="memvault", standalone_mode=False
        )
    except typer.Exit as stop:
        return stop.exit_code
    except MemvaultError as error:
        return _report_failure(error, arguments, options)
    except OutputError:
        raise
    except OSError as error:
        return _report_failure(to_memvault_error(error), arguments, options)
    except Exception as error:
        if termination_requested():
            raise
        return _report_failure(_as_memvault_error(error, options), arguments, options)
    return code if isinstance(code, int) else 0


def _report_failure(error: MemvaultError, arguments: list[str], options: GlobalOptions) -> int:
    # An invalid option may have stopped the parser before it reached --json.
    as_json = options.json or "--json" in arguments
    with contextlib.suppress(OutputError):
        output.failure(error, as_json)
    return error.exit_code


def _as_memvault_error(error: Exception, options: GlobalOptions) -> MemvaultError:
    """Convert errors raised by Typer to usage errors, and all others to internal errors.

    With MEMVAULT_DEBUG set, an error that is not Typer's is raised again unchanged.
    """
    message = getattr(error, "format_message", None)
    if callable(message):
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "memvault"
        text = options.unescape_message(str(message())).strip().rstrip(".").replace("\n", " ")
        page = "help --all lists the options" if path == "memvault" else "--help says what it takes"
        hint = f"{path} {page}"
        if text.startswith("No such option"):
            hint += "; a text that begins with - is written behind --"
        return UsageError(text, hint)
    if os.environ.get("MEMVAULT_DEBUG"):
        raise error
    return to_memvault_error(error)


class CommandGroup(typer.core.TyperGroup):
    """A Typer group that looks commands up in the registry and builds them one at a time."""

    options: GlobalOptions
    prefix: str = ""

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
            UsageError: If there is no such command.
        """
        cmd_name = self.options.unescape(cmd_name)
        full_name = self.prefix + cmd_name
        if not self.prefix:
            full_name = next((e.words for e in TOOLS if e.tool == full_name), full_name)
        for entry in COMMANDS:
            if entry.words == full_name and entry.tool:
                return commands.tool_command(registry.find(entry.tool), cmd_name, self.options)
            if entry.words == full_name:
                return commands.cli_command(find(entry), cmd_name, self.options)
        if any(entry.words.startswith(f"{full_name} ") for entry in COMMANDS):
            return _group(self.options, f"{full_name} ", cmd_name)
        if cmd_name.startswith("-"):
            return None
        plugin = None if self.prefix else _plugin_tool(cmd_name, self.options)
        if plugin is not None:
            return commands.tool_command(plugin, cmd_name, self.options)

        names = self.list_commands(ctx)
        alias = canonical_name(cmd_name, names)
        if alias is not None:
            return self.get_command(ctx, alias)
        from memvault.tools.core.suggestions import suggest_command

        all_names = [*names, *self._command_names()]
        suggestion = suggest_command(cmd_name, all_names)
        help_page = f"{self.prefix}--help" if self.prefix else "help --all"
        raise UsageError(
            f"memvault {self.prefix}has no command {cmd_name!r}"
            if self.prefix
            else f"There is no command {cmd_name!r}",
            f"did you mean {self.prefix}{suggestion}?"
            if suggestion
            else f"memvault {help_page} lists the commands",
        )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve the command of a command line; ``help COMMAND`` shows that command's help."""
        if args[0] == "help":
            if not args[1:]:
                print(ctx.get_help())
                raise typer.Exit
            args = [*args[1:], "--help"]
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the same overview page as the one that is shown without loading Typer."""
        if self.prefix:
            super().format_help(ctx, formatter)
        else:
            from memvault.cli.help_pages import coloured, overview

            formatter.write(coloured(overview()))


def _plugin_tool(name: str, options: GlobalOptions) -> Tool | None:
    """Return a tool defined in the vault, or None if there is no vault or no such tool.

    Raises:
        VaultNotFound: If a vault was named explicitly and does not exist.
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
    bound = type("Commands", (CommandGroup,), {"options": options, "prefix": prefix})
    application = typer.Typer(
        name=name,
        cls=bound,
        invoke_without_command=bool(prefix),  # a group without a command shows its help
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
    shared = {**commands.shared_options(), "version": (bool, version)}
    commands.with_signature(root, {"ctx": (typer.Context, inspect.Parameter.empty), **shared})
    application.callback()(root)
    return typer.main.get_command(application)


def _application(options: GlobalOptions) -> Any:
    return _group(options, "", None)
