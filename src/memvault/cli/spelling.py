"""Accept alternative spellings of options, and positional arguments given as options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice, takewhile
from types import MappingProxyType
from typing import Any

import typer
import typer.core

from memvault.arguments.parameters import Parameter, normal_key
from memvault.cli.command_line import is_excluded
from memvault.errors import UsageError, exclusive

_OPTION_SUFFIX = "_by_name"
"""Suffix of the parameter names of options for positional arguments."""


class FlexibleCommand(typer.core.TyperCommand):
    """A command whose options may be spelled like JSON keys: ``--memoryType``, ``--RUN_AFTER``.

    ``keys`` maps normalized keys to options, for keys whose option has another name. In a command
    with a query that has filters, ``escape`` replaces words such as ``-draft``, which are not
    options, with placeholders.
    """

    keys: Mapping[str, str] = MappingProxyType({})
    escape: Callable[[str], str] | None = None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a command line after normalizing the spelling of its options.

        Raises:
            UsageError: an option is combined with its negative form.
        """
        normalized = self._normalize_options(args)
        before_separator = [*takewhile("--".__ne__, normalized)]
        for entry in self.params:
            if entry.secondary_opts:
                exclusive({name: name in before_separator for name in _names(entry)})
        return super().parse_args(ctx, normalized)

    def _normalize_options(self, args: list[str]) -> list[str]:
        options = {name: entry for entry in self.params for name in _names(entry)}
        option_names = {normal_key(name): name for name in options if name.startswith("--")}
        option_names = {**self.keys, **option_names}
        normalized: list[str] = []
        argv = iter(args)
        for word in argv:
            if word == "--":
                return [*normalized, word, *argv]
            if self.escape is not None and is_excluded(word, options):
                normalized.append(self.escape(word))
                continue
            name, equals, value = word.partition("=")
            if name.startswith("--") and name not in options:
                name = option_names.get(normal_key(name), name)
            normalized.append(f"{name}{equals}{value}")
            takes = name in options and not getattr(options[name], "is_flag", False)
            if takes and not equals:  # The next word is its value, even if it starts with a dash.
                normalized += islice(argv, 1)
        return normalized


def _names(parameter: Any) -> list[str]:
    """Return all spellings of a Typer option; an argument has none."""
    if parameter.param_type_name == "argument":
        return []
    return [*parameter.opts, *parameter.secondary_opts]


def option(parameter: Parameter) -> str:
    """Return the option of a parameter; for a boolean, the positive form."""
    return parameter.flag.partition("/")[0]


def positional_as_options(parameters: tuple[Parameter, ...]) -> dict[str, tuple[Any, Any]]:
    """Return a hidden option for each positional argument, for callers who pass it by key."""
    taken = {option(entry) for entry in parameters if not entry.arg.positional}
    return {
        f"{entry.name}{_OPTION_SUFFIX}": (
            (list[str] if list in entry.types else str) | None,
            typer.Option(None, entry.flag, hidden=True, metavar=entry.key),
        )
        for entry in parameters
        if entry.arg.positional and entry.flag not in taken
    }


def assign_positionals(parameters: tuple[Parameter, ...], values: dict[str, Any]) -> None:
    """Assign the positional values to the arguments that were not given by name.

    Raises:
        UsageError: there are more positional values than remaining arguments.
    """
    ordered = [entry for entry in parameters if entry.arg.positional]
    named = {entry.name: values.get(f"{entry.name}{_OPTION_SUFFIX}") for entry in ordered}
    named = {name: value for name, value in named.items() if value not in (None, [])}
    if not named:
        return
    rest = [values[entry.name] for entry in ordered if values[entry.name] not in (None, [])]
    for entry in ordered:
        if entry.name in named:
            values[entry.name] = named[entry.name]
        else:
            values[entry.name] = rest.pop(0) if rest else None
    if rest:
        name = next(entry.shell_name for entry in ordered if entry.name in named)
        raise UsageError(f"`{name}` is given twice", "pass it only once")
