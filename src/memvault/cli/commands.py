"""Typer commands generated from tools: parse the flags, call the tool, print the result."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import typer
import typer.main

from memvault import sanitize
from memvault.arguments.parameters import Parameter, kebab, normal_key
from memvault.cli import output, results, spelling
from memvault.cli.options import GLOBAL_OPTIONS, GlobalOptions
from memvault.errors import Refused, UsageError
from memvault.tools.core.registry import Tool

_SHORT_FLAGS = {"--limit": "-n", "--type": "-t", "--tags": "-T"}
"""Single-letter forms of options, in every command that has the option."""
_FAILURE_KEYS = {"vault_doctor": "errors"}
"""Result keys of tools whose command exits with 1 when the key's value is not zero."""


def tool_command(tool: Tool, name: str, options: GlobalOptions) -> Any:
    """Build the Typer command of a tool."""
    parameters = tool.shell_parameters

    def callback(**values: Any) -> None:
        apply_global_options(options, values)
        spelling.assign_positionals(parameters, values)
        arguments = {}
        for parameter in parameters:
            value = _text_from_pipe(parameter, values, options)
            if value is None:
                value = _argument(parameter, values[parameter.name], options)
            if value is not None:
                arguments[parameter.name] = value
            elif parameter.required and parameters != tool.parameters:
                name = _kebab_upper(parameter.key)
                raise UsageError(f"memvault {tool.command} needs {name}", parameter.arg.help)
        run_tool(tool.name, tool.arguments(arguments), options)

    declared = {parameter.name: _typer_parameter(parameter) for parameter in parameters}
    declared |= spelling.positional_as_options(parameters)
    command = build_command(callback, name, tool.doc, declared, tool.command)
    command.keys = {normal_key(entry.key): spelling.option(entry) for entry in parameters}
    return command


def _text_from_pipe(
    parameter: Parameter, given: dict[str, Any], options: GlobalOptions
) -> str | None:
    """Return the text piped to standard input if a required text argument was not given."""
    arg = parameter.arg
    needed = arg.text and arg.positional and parameter.required and list not in parameter.types
    if not needed or given[parameter.name] is not None:
        return None
    from memvault.cli.stdin import piped

    return piped(_kebab_upper(parameter.key), arg.cli_optional, options.quiet)


def run_tool(name: str, arguments: dict[str, Any], options: GlobalOptions) -> None:
    """Run a tool on the vault selected by the options, and write its result."""
    from memvault.tools.core import invoke

    results.check(options)
    workspace = options.workspace()
    try:
        try:
            outcome = invoke.call(workspace, name, arguments, options.caller())
        except Refused as error:
            arguments = arguments | _confirm(error)
            outcome = invoke.call(workspace, name, arguments, options.caller())
        with outcome:
            query = arguments.get("query") or arguments.get("around") or ""
            results.print_result(options, name, outcome.result, str(query))
            output.flush()
            notes = outcome.settle()
        if not options.quiet:
            output.notes(notes)
    finally:
        workspace.close()
    if outcome.result.get(_FAILURE_KEYS.get(name, "")):
        raise typer.Exit(1)


def _confirm(error: Refused) -> dict[str, Any]:
    """Ask for confirmation at the terminal, and return the argument that confirms the call.

    Raises:
        Refused: ``error`` itself, if it needs no confirmation, there is no terminal, or the
            answer is no.
    """
    token, runs = error.details.get("confirmToken"), error.details.get("runs")
    if not token:
        raise error
    from memvault.cli import confirmation

    if not confirmation.has_terminal():
        raise error
    lines = [f"   {line}" for line in runs] if isinstance(runs, list) else []
    if not confirmation.agrees([error.message, *lines], "May it, on this machine, as you?"):
        raise error
    return {"confirm": token}


def long_text(value: str) -> str:
    """Resolve a text argument: ``-`` reads standard input, ``@file`` a file; ``@@`` escapes ``@``.

    Raises:
        UsageError: If the file cannot be read.
    """
    from memvault.vault import document

    if value == "-":
        return document.decode(sys.stdin.buffer.read()).text
    if value.startswith("@@"):
        return value[1:]
    if value.startswith("@") and len(value) > 1:
        try:
            return document.decode(Path(value[1:]).read_bytes()).text
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(
                f"{value[1:]} cannot be read: {reason}", "a text that begins with @ is written @@"
            ) from error
    return value


def shared_options() -> dict[str, tuple[Any, Any]]:
    """Return the type and the Typer declaration of each global option, by parameter name."""
    options: dict[str, tuple[Any, Any]] = {}
    for name, flag, takes, text in GLOBAL_OPTIONS:
        kind, default = (str | None, None) if takes else (bool, False)
        options[name] = kind, typer.Option(default, flag, metavar=takes or None, help=text)
    return options


def with_signature(callback: Callable[..., None], declared: dict[str, tuple[Any, Any]]) -> None:
    """Set the signature that Typer reads from a callback."""
    callback.__annotations__ = {key: kind for key, (kind, _) in declared.items()}
    callback.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read by inspect
        [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=info, annotation=kind)
            for key, (kind, info) in declared.items()
        ]
    )


def build_command(
    callback: Callable[..., None], name: str, doc: str, declared: dict[str, Any], words: str
) -> Any:
    """Build a Typer command from a callback, its declared parameters and the global options.

    ``words`` is the full name of the command, by which its examples are found.
    """
    with_signature(callback, {**declared, **shared_options()})
    application = typer.Typer(
        add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    settings = {"help_option_names": ["-h", "--help"]}
    application.command(name, cls=spelling.FlexibleCommand, help=doc, context_settings=settings)(
        callback
    )
    command = typer.main.get_command(application)
    original_help: Callable[[Any], str] = command.get_help

    def page(ctx: Any) -> str:
        from memvault.cli import help_pages

        ctx.max_content_width = help_pages.width()
        text = sanitize.escape_text(original_help(ctx))  # the help of a vault's tool is untrusted
        return help_pages.coloured(help_pages.with_examples(text, words))

    command.get_help = page  # type: ignore[method-assign]  # Typer creates the command
    for parameter in command.params:
        if parameter.param_type_name == "argument" and parameter.metavar is not None:
            # Typer puts optional arguments in brackets, and all are optional to it, since
            # memvault checks them. It creates them itself, so no subclass can override this.
            shown = partial(_fixed_metavar, parameter.metavar)
            parameter.make_metavar = shown  # type: ignore[method-assign]  # per argument
    return command


def _fixed_metavar(text: str, *_: Any, **__: Any) -> str:
    return text


def apply_global_options(options: GlobalOptions, given: dict[str, Any]) -> None:
    """Update the global options from the parameters of a command."""
    options.update(**{name: given[name] for name, *_ in GLOBAL_OPTIONS})


def _typer_parameter(parameter: Parameter) -> tuple[Any, Any]:
    """Return the type and the Typer declaration of a tool's parameter."""
    arg = parameter.arg
    metavar: str | None = _kebab_upper(parameter.key)
    kind: Any = str | None
    flag = parameter.flag
    if parameter.choices:
        metavar = sanitize.escape_line("|".join(map(str, parameter.choices)))
    if arg.positional:
        optional = not parameter.required or arg.cli_optional
        if list in parameter.types or arg.join_words:
            kind, metavar = list[str] | None, f"{metavar}..."
        shown = f"[{metavar}]" if optional else metavar
        return kind, typer.Argument(None, metavar=shown, help=_help(parameter), show_default=False)
    if list in parameter.types:
        kind = list[str] | None
    elif parameter.types == (bool,):
        kind, metavar = bool | None, None
        if (parameter.required or parameter.default) and "/" not in flag:  # needs a negative form
            flag += f"/--no-{flag.removeprefix('--')}"
    elif dict in parameter.types:
        metavar = "JSON"
    elif str not in parameter.types:
        kind = (int if int in parameter.types else float) | None
    return kind, typer.Option(
        None,
        *filter(None, (flag, arg.alias, _SHORT_FLAGS.get(flag))),
        metavar=metavar,
        help=_help(parameter),
        show_default=False,
    )


def _help(parameter: Parameter) -> str:
    """Return the help of a parameter, with its default unless that is empty."""
    default = parameter.known_default
    text = parameter.arg.help
    if parameter.arg.text:
        text += "; - reads standard input, @file a file"
        if parameter.required and parameter.arg.positional and list not in parameter.types:
            text += "; if missing, it is read from a pipe"
    if default in (None, False, "", 0.0):
        return sanitize.escape_line(text)
    return sanitize.escape_line(f"{text} (default {default})")


def _kebab_upper(key: str) -> str:
    return kebab(key).upper()


def _argument(parameter: Parameter, value: Any, options: GlobalOptions) -> Any:
    """Convert the value of a flag to the value of the tool's argument; None if not given."""
    if value is None or value == []:
        return "" if parameter.arg.cli_optional and parameter.required else None
    if isinstance(value, str):
        value = options.unescape(value)
    if isinstance(value, str) and parameter.arg.positional and str not in parameter.types:
        value = _number(value)
    if isinstance(value, str) and parameter.types == (dict,):
        return _from_json(parameter, value)
    if parameter.arg.join_words and isinstance(value, list | tuple):
        return " ".join(map(options.unescape, value))
    if isinstance(value, list | tuple):
        if parameter.anything and len(value) == 1 and value[0].lstrip().startswith("["):
            return _from_json(parameter, value[0])
        value = [options.unescape(entry) for entry in value]
        if parameter.arg.positional:
            return _resolve_pairs(value) if parameter.arg.text else value
        return [part for entry in value for part in parameter.entries(entry)]
    if isinstance(value, str) and parameter.arg.text:
        return long_text(value)
    return value


def _number(text: str) -> Any:
    """Convert a text to a number; return other texts unchanged for the validation to reject."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _from_json(parameter: Parameter, text: str) -> Any:
    """Parse a JSON argument, which is an object or a list.

    Raises:
        UsageError: If the text is not valid JSON.
    """
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{parameter.named} is not JSON: {error}", parameter.arg.help) from error


def _resolve_pairs(pairs: list[str]) -> list[str]:
    """Resolve the value of each ``KEY=VALUE``, which may be ``-`` or ``@file``.

    Raises:
        UsageError: If standard input is named twice, or a file cannot be read.
    """
    if sum(pair.partition("=")[2] == "-" for pair in pairs) > 1:
        raise UsageError("Standard input can only be read once", "give the other texts as @file")
    resolved = []
    for pair in pairs:
        key, sign, value = pair.partition("=")
        text = long_text(value)
        if text != value:  # drop the final newline that shells and editors add
            text = text.removesuffix("\n").removesuffix("\r")
        resolved.append(f"{key}{sign}{text}")
    return resolved
