"""Parse a plain command line without importing Typer, which takes longer than many commands.

A plain line has the words of a command, positional arguments and full options: ``--flag``, ``--flag
value``, ``--flag=value``, ``-n 5`` and ``-n5``. Everything after ``--`` is positional. In a command
with a query that has filters, ``-word`` is part of the query (see ``is_excluded``). Everything
else, such as help, other spellings, a vault's own tools and errors, is left to Typer, so help and
error messages come from one place.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from memvault.arguments.parameters import Parameter
from memvault.cli import registry
from memvault.cli.options import GLOBAL_OPTIONS, decode
from memvault.cli.registry import ShellCommand
from memvault.named_tuple import NamedTuple

SHORT_FLAGS = {"--limit": "-n", "--type": "-t", "--tags": "-T"}
"""The short names of options, which every command with the option accepts."""


def option_names(parameter: Parameter) -> tuple[tuple[str, ...], str]:
    """Return the names of a parameter's option, and the name of its negative form.

    Only a boolean that is required, or true by default, has a negative form.
    """
    flag, _, negative = parameter.flag.partition("/")
    is_on = parameter.required or parameter.default
    if parameter.types == (bool,) and is_on and not negative:
        negative = f"--no-{flag.removeprefix('--')}"
    names = (flag, parameter.arg.option_alias, SHORT_FLAGS.get(flag, ""))
    return tuple(filter(None, names)), negative


def value_type(parameter: Parameter) -> type:
    """Return the type of a parameter's parsed value; list is a list of strings.

    Positional arguments and JSON are strings, regardless of the parameter's type.
    """
    types = parameter.types
    if list in types or (parameter.arg.positional and parameter.arg.join_words):
        return list
    if parameter.arg.positional or str in types or dict in types:
        return str
    if types == (bool,):
        return bool
    return int if int in types else float


def takes_filters(parameters: Iterable[Parameter]) -> bool:
    """Return whether a command has a query with filters, such as ``-word``."""
    return any(entry.arg.completes == "query" and entry.arg.positional for entry in parameters)


def is_excluded(word: str, options: Container[str]) -> bool:
    """Return whether a word on a command line is a filter such as ``-draft``.

    An option in ``SHORT_FLAGS`` with an attached value is not a filter. The value is a number for
    ``-n``, a built-in type for ``-t``, and any text for ``-T``.
    """
    first, second = word[1:2], word[2:3]
    if word[:1] != "-" or not first.isalpha() or not (second.isalnum() or second == "_"):
        return False
    return word[:2] not in options or not _is_value(first, word[2:])


def _is_value(letter: str, text: str) -> bool:
    """Return whether a string can be the attached value of a short option."""
    if letter == "n":
        return text.isdigit()
    if letter == "t":
        from memvault.settings.vault_settings import BUILTIN_TYPES

        return text.lower() in [entry.name for entry in BUILTIN_TYPES]
    return True


class CommandLine(NamedTuple):
    """A parsed command line.

    ``name`` is the last word of the command as typed. ``shared`` contains the values of the global
    options, and ``values`` are the values of the command's parameters. Both are keyed by parameter
    name, as in Typer's callbacks. A value that was not given is None or False.
    """

    command: ShellCommand
    name: str
    shared: dict[str, Any]
    values: dict[str, Any]


class _Option(NamedTuple):
    """The parameter that an option sets, its value's type, and the constant that a switch sets."""

    parameter: str
    type: type
    constant: bool | None = None


_SHARED = {
    flag: _Option(name, str) if takes else _Option(name, bool, True)
    for name, flag, takes, _ in GLOBAL_OPTIONS
}


def parse(arguments: list[str]) -> CommandLine | None:
    """Return the command of a command line and the values of its parameters.

    Returns None if the line is not plain, or is invalid.
    """
    argv = map(decode, arguments)
    shared = {name: None if takes else False for name, _, takes, _ in GLOBAL_OPTIONS}
    group = ""
    for word in argv:
        if word.startswith("-"):
            if not _read_option(word, argv, _SHARED, shared):
                return None
            continue
        command = registry.find_command(group + word)
        if command is not None:
            values = _command_values(argv, command.shell_parameters, shared)
            return None if values is None else CommandLine(command, word, shared, values)
        if not registry.is_group(group + word):
            return None
        group += f"{word} "
    return None


def _command_values(
    argv: Iterator[str], parameters: tuple[Parameter, ...], shared: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the values of a command's parameters, and store global options in ``shared``."""
    values: dict[str, Any] = dict.fromkeys(parameter.name for parameter in parameters)
    options = {**_options(parameters), **_SHARED}
    positional: list[str] = []
    has_query = takes_filters(parameters)
    for word in argv:
        if word == "--":
            positional += argv
        elif (has_query and is_excluded(word, options)) or not _is_option(word):
            positional.append(word)
        else:
            into = shared if _name(word) in _SHARED else values
            if not _read_option(word, argv, options, into):
                return None
    for parameter in parameters:
        if not parameter.arg.positional or not positional:
            continue
        if value_type(parameter) is list:  # A list is always the last positional.
            values[parameter.name], positional = positional, []
        else:
            values[parameter.name] = positional.pop(0)
    return None if positional else values


def _options(parameters: tuple[Parameter, ...]) -> dict[str, _Option]:
    """Return the options of a command by name, except global ones."""
    options = {}
    for parameter in parameters:
        if parameter.arg.positional:
            continue
        names, negative = option_names(parameter)
        kind = value_type(parameter)
        for name in names:
            options[name] = _Option(parameter.name, kind, True if kind is bool else None)
        if negative:
            options[negative] = _Option(parameter.name, kind, False)
    return options


def _read_option(
    word: str, argv: Iterator[str], options: Mapping[str, _Option], values: dict[str, Any]
) -> bool:
    """Set an option to its value, which may be the next word; return whether that succeeded."""
    option = options.get(_name(word))
    if option is None or (word[1] != "-" and word.split() != [word]):  # An argument such as "-n 5".
        return False
    text = _value(word)
    if option.constant is not None:
        is_contrary = values[option.parameter] is (not option.constant)
        values[option.parameter] = option.constant
        return text is None and (not is_contrary or _name(word) in _SHARED)
    if text is None:
        text = next(argv, None)
        if text is None or _is_option(text):
            return False
    try:
        value = text if option.type is list else option.type(text)
    except ValueError:
        return False
    if option.type is list:
        value = [*(values[option.parameter] or ()), value]
    values[option.parameter] = value
    return True


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _name(word: str) -> str:
    """Return the name in an option such as ``--flag=value`` or ``-n5``."""
    return word.partition("=")[0] if word.startswith("--") else word[:2]


def _value(word: str) -> str | None:
    """Return the value attached to an option, or None."""
    if not word.startswith("--"):
        return word[2:] or None
    _, equals, value = word.partition("=")
    return value if equals else None
