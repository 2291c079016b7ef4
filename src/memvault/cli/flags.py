"""The options and positional arguments that the declared parameters of a command have."""

from __future__ import annotations

from memvault import sanitize
from memvault.arguments.parameters import Parameter, kebab

SHORT_FLAGS = {"--limit": "-n", "--type": "-t", "--tags": "-T"}
"""Single-letter forms of options, in every command that has the option."""


def option_names(parameter: Parameter) -> tuple[tuple[str, ...], str]:
    """Return the names of a parameter's option, and the name of its negative form.

    Only a boolean that has to be given, or that is true by default, has a negative form.
    """
    flag, _, negative = parameter.flag.partition("/")
    is_on = parameter.required or parameter.default
    if parameter.types == (bool,) and is_on and not negative:
        negative = f"--no-{flag.removeprefix('--')}"
    names = (flag, parameter.arg.alias, SHORT_FLAGS.get(flag, ""))
    return tuple(filter(None, names)), negative


def value_type(parameter: Parameter) -> type:
    """Return the type of a parameter's value as parsed; list is one of texts, and takes several.

    What is positional is a text here, whatever the parameter's type, and so is JSON.
    """
    types = parameter.types
    if list in types or (parameter.arg.positional and parameter.arg.join_words):
        return list
    if parameter.arg.positional or str in types or dict in types:
        return str
    if types == (bool,):
        return bool
    return int if int in types else float


def metavar(parameter: Parameter) -> str:
    """Return what the help shows for a parameter's value: its choices, or its name."""
    if parameter.choices:
        return sanitize.escape_line("|".join(map(str, parameter.choices)))
    return parameter.arg.metavar or key_in_capitals(parameter.key)


def key_in_capitals(key: str) -> str:
    """Return a key as the help names an argument, such as ``RUN-AFTER``."""
    return kebab(key).upper()
