"""Run a command with parsed values: read missing content, run it, and print the result."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from memvault import sanitize
from memvault.arguments.binding import bind, read_input, read_json
from memvault.arguments.parameters import Parameter
from memvault.call import Call
from memvault.cli import output, print_result
from memvault.cli.daemon import client
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import CliCommand, ShellCommand
from memvault.cli.shutdown import Exit
from memvault.errors import Refused, UsageError
from memvault.tools.core.registry import OPEN, Tool
from memvault.tools.core.render import Template

Arguments = ParamSpec("Arguments")


def run_command(
    entry: ShellCommand, name: str, values: Mapping[str, Any], options: GlobalOptions
) -> None:
    """Run a command that was called as ``name`` with the parsed values of its parameters.

    A missing value is None.
    """
    parameters = entry.shell_parameters
    shell_values = {}
    with contextlib.ExitStack() as drafts:
        for parameter in parameters:
            value = _text_from_pipe(parameter, values, options)
            if value is None:
                value = _text_from_editor(parameter, values, options, drafts)
            if value is None:
                value = _argument(parameter, values[parameter.name], options)
            if parameter.arg.completes == "memory":
                value = _paths_in_vault(value, options)
            if value is None and parameter.arg.cli_optional and _only_changes_type(values):
                value = ""
            if value is not None:
                shell_values[parameter.name] = value
        command_name = entry.command if isinstance(entry, Tool) else entry.words
        if command_name in _PICKING and options.may_ask:
            shell_values |= _picked(command_name, parameters, shell_values, options, drafts)
        if isinstance(entry, Tool):
            _require(
                parameters, shell_values, f"`memvault {entry.command or name}`", entry.examples
            )
            arguments = entry.from_command_line(shell_values)
            if OPEN.name in shell_values:
                from memvault.cli import run_editor

                run_editor.open_entry(options, entry, arguments, int(shell_values[OPEN.name]))
            else:
                run_tool(entry.name, arguments, options, entry)
        else:
            _run_cli_command(entry, shell_values, options)


_PICKING = frozenset(("compound", "edit", "open", "show"))
"""Commands that let the user pick a memory on the screen if none is given."""


def _picked(
    command_name: str,
    parameters: tuple[Parameter, ...],
    values: Mapping[str, Any],
    options: GlobalOptions,
    drafts: contextlib.ExitStack,
) -> dict[str, Any]:
    """Return the memory that the user picks and, for ``compound``, the text from the editor."""
    parameter = next(entry for entry in parameters if entry.arg.completes == "memory")
    if values.get(parameter.name) or (command_name == "open" and values.get("address")):
        return {}
    from memvault.cli import run_editor
    from memvault.cli.browse import start

    chosen = start.pick(options)
    if chosen is None:
        return {}
    path, title = chosen
    picked_values: dict[str, Any] = {parameter.name: path}
    if command_name == "compound" and not values.get("modifications"):
        picked_values["modifications"] = drafts.enter_context(run_editor.addition(options, title))
    return picked_values


def _run_cli_command(
    declared: CliCommand, values: Mapping[str, Any], options: GlobalOptions
) -> None:
    """Run a handwritten command."""
    options.json = options.json or declared.always_json
    print_result.check(options)
    parameters = declared.shell_parameters
    filled = {name: value for name, value in values.items() if value != ""}
    _require(parameters, filled, f"`memvault {declared.words}`", declared.examples)
    for entry in parameters:
        if entry.arg.completes == "file" and values.get(entry.name) == "":
            raise UsageError(f"{metavar(entry)} is empty", "pass a path, or omit it")
    arguments = {entry.key: values[entry.name] for entry in parameters if entry.name in values}
    bound = bind(parameters, arguments, f"`memvault {declared.words}`")
    result = declared.function(options, **bound)
    if result is not None:
        if not declared.reveals:
            from memvault.secrets.detector import BUILTIN

            result = BUILTIN.masked_values(result)
        change = result.get("changeId")
        changed = (
            f"The change was made; to revert it, run `memvault undo {change}`" if change else ""
        )
        with output.reporting_change(lambda: changed):
            print_result.print_result(options, {"success": True, **result}, declared.view)


def _require(
    parameters: tuple[Parameter, ...],
    values: Mapping[str, Any],
    command: str,
    examples: tuple[str, ...],
) -> None:
    """Check that each required argument of a command is given.

    Raises:
        UsageError: an argument is missing; the hint is the command's first example.
    """
    for parameter in parameters:
        if parameter.required and parameter.name not in values:
            options = parameter.flag.replace("/", " or ")
            name = metavar(parameter) if parameter.arg.positional else options
            hint = f"`{examples[0]}`" if examples else parameter.arg.help
            raise UsageError(f"{command} needs `{name}`", hint)


def metavar(parameter: Parameter) -> str:
    """Return the placeholder for a parameter's value in the help: its choices, or its name."""
    if parameter.choices:
        return sanitize.escape_line("|".join(map(str, parameter.choices)))
    return parameter.metavar


def _text_from_pipe(
    parameter: Parameter, values: Mapping[str, Any], options: GlobalOptions
) -> str | None:
    """Return the text piped to standard input if a required text argument was not given."""
    if not _is_missing_text(parameter, values):
        return None
    from memvault.cli.stdin import piped

    return piped(parameter.metavar, parameter.arg.cli_optional, options.quiet)


def _text_from_editor(
    parameter: Parameter,
    values: Mapping[str, Any],
    options: GlobalOptions,
    drafts: contextlib.ExitStack,
) -> str | None:
    """Return the text that the user writes in an editor, if no text was given.

    The text becomes the content of a new memory, or is added to an existing one. A command that
    only changes a memory's type does not open an editor.
    """
    if not _is_missing_text(parameter, values) or not parameter.arg.cli_optional:
        return None
    memory, kind = values.get("query"), values.get("memory_type") or ""
    title = options.unescape(values.get("title") or values.get("name") or memory or "")
    if not title or _only_changes_type(values) or not options.may_ask:
        return None
    from memvault.cli import run_editor

    if memory:
        replaces = bool(values.get("section")) or values.get("mode") in ("replace", "section")
        named = _title_of(options, title, replaces)
        return drafts.enter_context(run_editor.addition(options, named))
    return drafts.enter_context(run_editor.text_from_editor(options, title, kind))


def _only_changes_type(values: Mapping[str, Any]) -> bool:
    """Return whether a command only changes the type of a memory and so needs no text."""
    return bool(values.get("query") and values.get("memory_type"))


def _title_of(options: GlobalOptions, name: str, replaces: bool) -> str:
    """Return the title of the memory to add text to, or with ``replaces`` to replace text in.

    Raises:
        Ambiguous: no result is clearly best, or text is replaced and no memory has this name.
        NotFound: no memory matches.
    """
    from memvault.cli import run_editor
    from memvault.memories.target import find_target

    with run_editor.open_call(options, name) as (call, within):
        return find_target(call.engine, within, call.notes, replaces).title


def _is_missing_text(parameter: Parameter, values: Mapping[str, Any]) -> bool:
    """Return whether a required text argument was not given."""
    arg = parameter.arg
    needed = arg.text and arg.positional and parameter.required and list not in parameter.types
    return needed and values[parameter.name] is None


def run_function(
    options: GlobalOptions,
    function: Callable[Concatenate[Call, Arguments], Mapping[str, Any]],
    /,
    *positional: Arguments.args,
    **named: Arguments.kwargs,
) -> None:
    """Run the tool implemented by a function; see ``run_tool``."""
    from memvault.tools.core import registry

    name, arguments = function.__name__, registry.arguments_by_name(function, positional, named)
    run_tool(name, arguments, options, registry.find(name))


def _vault_names(tool: Tool, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the vault names in ``--vaults`` or ``NAME:MEMORY``; the vaults may not exist."""
    for parameter in tool.parameters:
        value = arguments.get(parameter.name, arguments.get(parameter.key))
        texts = value if isinstance(value, list) else [value]
        for text in texts:
            if not isinstance(text, str):  # Refused later.
                continue
            if parameter.name == "vaults":
                yield from map(str.strip, text.split(","))
            elif parameter.arg.completes in ("memory", "trash") and ":" in text:
                yield text.partition(":")[0]


def run_tool(
    name: str,
    arguments: Mapping[str, Any],
    options: GlobalOptions,
    tool: Tool | None,
    by_tool_name: bool = False,
) -> None:
    """Run a tool on the vault selected by the options, and write its result.

    ``tool`` is its declaration, or None for a vault's own tool, whose result is printed according
    to the types of its values. With ``by_tool_name``, the arguments have JSON keys, which messages
    use instead of options.
    """
    from memvault.tools.core import invoke

    print_result.check(options)
    if tool and (vault_names := [*_vault_names(tool, arguments)]):
        options.use_named_vault(vault_names)
    workspace = options.workspace()
    caller = options.caller()._replace(message_style="keys" if by_tool_name else "shell")
    if name == "memory_recall" and options.may_ask and not options.quiet:
        caller = caller._replace(reads_early=True)
    call = invoke.call_json if by_tool_name else invoke.call
    query = str(arguments.get("query") or arguments.get("around") or "")
    view, writes = (tool.view, not tool.read_only) if tool else (Template(), True)
    try:
        try:
            outcome = call(workspace, name, arguments, caller)
        except Refused as error:
            confirmed = {**arguments, **_confirm(error)}
            outcome = call(workspace, name, confirmed, caller)
        token = outcome.result.get("confirmToken")
        if tool and token and "message" not in outcome.result and options.may_ask:
            preview = {**outcome.result, "confirmToken": None}
            print_result.print_result(options, preview, view, query)
            output.flush()
            if not output.confirm((), "Go ahead?"):
                raise Refused("Nothing was changed", f"answer y, or pass `--confirm {token}`")
            confirmed = {**arguments, "confirm": token}
            outcome = call(workspace, name, confirmed, caller)
        with outcome:
            with output.reporting_change(
                lambda: workspace.settings.detector.masked(outcome.changed)
            ):
                print_result.print_result(options, outcome.result, view, query, writes)
            notes = outcome.acknowledge()
        if not options.quiet:
            output.notes(notes)
        if caller.reads_early:
            workspace.finish_indexing()
    finally:
        workspace.release()
    if name == "memory_recall" and not workspace.is_cached and client.was_used_lately():
        from memvault.cli.daemon import process

        process.start_in_background()
    if tool and outcome.result.get(tool.fails_if):
        raise Exit(1)


def _confirm(error: Refused) -> dict[str, Any]:
    """Ask for confirmation at the terminal, and return the argument that confirms the call.

    Raises:
        Refused: ``error`` itself, if it needs no confirmation, there is no terminal, or the answer
        is no.
    """
    token, runs = error.details.get("confirmToken"), error.details.get("runs")
    if not token:
        raise error
    lines = [f"   {line}" for line in runs] if isinstance(runs, list) else []
    question = "Allow it to run here with your permissions?"
    if not output.consent(False, [error.message, *lines], question):
        raise error
    return {"confirm": token}


def long_text(value: str) -> str:
    """Resolve a content argument: ``-`` reads standard input, and ``@file`` reads a file.

    ``@@`` at the start stands for ``@``.

    Raises:
        UsageError: the file cannot be read.
    """
    from memvault.vault import decoding

    if value.startswith("@@"):
        return value[1:]
    if value == "-" or (value.startswith("@") and len(value) > 1):
        name = "./-" if value == "@-" else value.removeprefix("@")
        return decoding.decode(read_input(name, "escape a leading @ as @@")).text
    return value


def _argument(parameter: Parameter, value: Any, options: GlobalOptions) -> Any:
    """Convert an option's value to the value of the tool's argument; None if not given."""
    if value is None or value == []:
        return None
    if isinstance(value, str):
        value = options.unescape(value)
    if isinstance(value, str) and parameter.types == (dict,):
        return read_json(value, f"`{parameter.shell_name}` is", parameter.arg.help)
    if isinstance(value, str) and parameter.arg.positional and str not in parameter.types:
        value = _number(value)
    if parameter.arg.join_words and isinstance(value, list | tuple):
        return " ".join(map(options.unescape, value))
    if isinstance(value, list | tuple):
        if parameter.anything and len(value) == 1 and value[0].lstrip().startswith("["):
            return read_json(value[0], f"`{parameter.shell_name}` is", parameter.arg.help)
        value = [options.unescape(entry) for entry in value]
        if parameter.arg.positional and parameter.arg.text:
            return _resolve_pairs(value)
        return [part for entry in value for part in parameter.entries(entry)]
    if isinstance(value, str) and parameter.arg.text:
        return long_text(value)
    return value


def _paths_in_vault(value: Any, options: GlobalOptions) -> Any:
    """Convert absolute paths, and paths with ``..``, to paths in the vault.

    Other values, and paths of files outside the vault, are returned unchanged.
    """
    if isinstance(value, list):
        return [_paths_in_vault(entry, options) for entry in value]
    path = Path(value or "")
    if path.is_absolute() or path.parts[:1] == ("..",):
        with contextlib.suppress(OSError, ValueError):
            file = Path(os.path.realpath(path.parent, strict=True), path.name)
            return file.relative_to(options.root()).as_posix()
    return value


def _number(text: str) -> Any:
    """Convert a string to a number; return an invalid one unchanged for validation to reject."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _resolve_pairs(pairs: list[str]) -> list[str]:
    """Resolve the value of each ``KEY=VALUE``, which may be ``-`` or ``@file``.

    Raises:
        UsageError: standard input is used twice, or a file cannot be read.
    """
    if sum(pair.partition("=")[2] == "-" for pair in pairs) > 1:
        raise UsageError(
            "Standard input can only be read once", "pass the other arguments as `@file`"
        )
    resolved = []
    for pair in pairs:
        key, sign, value = pair.partition("=")
        text = long_text(value)
        if text != value:  # Drop the final newline that shells and editors add.
            text = text.removesuffix("\n").removesuffix("\r")
        resolved.append(f"{key}{sign}{text}")
    return resolved
