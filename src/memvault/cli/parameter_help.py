"""Format a parameter's help for help pages and manual pages."""

from __future__ import annotations

from memvault import sanitize
from memvault.arguments.parameters import Parameter
from memvault.cli.command_line import value_type
from memvault.cli.run_command import metavar


def value_name(parameter: Parameter) -> str | None:
    """Return the name of a parameter's value, such as ``[QUERY...]``; None for a switch."""
    kind = value_type(parameter)
    name = metavar(parameter)
    if parameter.arg.positional:
        name = f"{name}..." if kind is list else name
        return f"[{name}]" if not parameter.required or parameter.arg.cli_optional else name
    if kind is bool:
        return None
    is_object = dict in parameter.types and list not in parameter.types
    return parameter.arg.metavar or "JSON" if is_object else name


def parameter_help(parameter: Parameter) -> str:
    """Return the help of a parameter with its limits and its default."""
    default = parameter.known_default
    text = parameter.arg.help
    if parameter.arg.text:
        text += "; `-` reads standard input, `@file` a file"
        if parameter.required and parameter.arg.positional and list not in parameter.types:
            text += "; omit it to read from a pipe"
            text += " or open your editor" * parameter.arg.cli_optional
    text += _limits(parameter)
    if default in (None, False, "", 0.0):
        return sanitize.escape_line(text)
    return sanitize.escape_line(f"{text} (default {default})")


def _limits(parameter: Parameter) -> str:
    """Return the minimum and maximum of a parameter, unless its help mentions them."""
    lowest, highest = (
        None if limit is None else f"{limit:,.15g}"
        for limit in (parameter.arg.minimum, parameter.arg.maximum)
    )
    if lowest is not None and highest is not None:
        both = f"{lowest} to {highest}"
        return "" if both in parameter.arg.help else f"; {both}"
    if lowest not in (None, "0", "1"):
        return f"; at least {lowest}"
    return "" if highest is None else f"; at most {highest}"
