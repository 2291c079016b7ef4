"""Rewrite messages and descriptions for callers that have tools, not a shell.

Messages contain commands, options and arguments in backticks, as typed in a shell. For callers
over MCP and in Python, these become tool names and JSON keys. ``memvault call`` is typed in a
shell with JSON arguments, so its messages keep the commands::

    `memvault undo --list`    `memory_undo(list=true)`
    `--as-of`                 `asOf`
    `MEMORY`                  `memId`

Everything outside backticks is unchanged, and so are quoted names, memory content and the results
of a vault's own tools.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from memvault.arguments.parameters import Parameter, normal_key
from memvault.call import LOCAL, Caller
from memvault.errors import MemvaultError, Verbatim
from memvault.lazy_pattern import lazy_pattern
from memvault.tools.core import available, registry
from memvault.tools.core.registry import Tool

_SPAN = lazy_pattern(
    r"(?<!\w)(?P<quote>['\"])(?:(?!(?P=quote))[^\\]|\\.){0,300}+(?P=quote)(?!\w)"
    r"|`(?P<span>[^`\n]{1,500})`"
)
"""Matches a quoted name, which is skipped, or a span in backticks."""
_PART = lazy_pattern(r"(?:'[^']*'|\"[^\"]*\"|[^ '\"])+")
_PLACEHOLDER = lazy_pattern(r"[A-Z][A-Z-]*(?:\.\.\.)?")
_WORD = lazy_pattern(r"\S+")
_BEFORE_NAME = "([{\"'"
_BEHIND_NAME = lazy_pattern(r"[])}\"',;:.]{0,4}(?::\d+){0,2}[])}\"',;:.]{0,4}\Z")
"""Matches punctuation and line numbers that may follow a file's name in a message."""
_MAX_NAME_WORDS = 12
"""Maximum number of words around a span that are tested as parts of a file's name in the vault."""
_FOR_PEOPLE = ("model_use",)
"""Tools whose commands stay unchanged in messages, because only people run them."""
_TEXTS = ("message", "hint", "error", "warnings")
"""The keys of a result whose value is a message, or a list or object of messages."""


def render(text: str, tool: Tool | None, caller: Caller, root: Path | None = None) -> str:
    """Return a message with tools and keys in place of commands, options and arguments.

    An option or argument outside of a command belongs to the last tool in the message, or to
    ``tool``. A command that is not a tool of the caller is unchanged, and so are a ``Verbatim`` and
    the name of a file in the vault at ``root``.
    """
    if "`" not in text or isinstance(text, Verbatim):
        return text
    tools = [tool] if tool is not None else []

    def replacement(match: Any) -> str:
        span: str | None = match["span"]
        if span is None or (root is not None and _is_in_file_name(text, match.span(), root)):
            return str(match[0])
        parts = _PART.findall(span)
        if parts[:1] != ["memvault"]:
            return f"`{' '.join(_arguments(tools, parts)) or span}`"
        command, rest = _split_command(parts[1:], caller)
        if command is None:
            return str(match[0])
        positional = [entry for entry in command.shell_parameters if entry.arg.positional]
        arguments = _arguments([command], rest, positional)
        if rest and not arguments:
            return str(match[0])
        tools.insert(0, command)
        if caller.message_style == "keys":
            return str(match[0])
        return f"`{command.name}({', '.join(arguments)})`" if arguments else f"`{command.name}`"

    return _SPAN.sub(replacement, text)


def _is_in_file_name(text: str, span: tuple[int, int], root: Path) -> bool:
    """Return whether a span of text is part of the path of a file in the vault."""
    before, behind = text[: span[0]], text[span[1] :]
    words = [*_WORD.finditer(before)][-_MAX_NAME_WORDS:]
    starts = {match.start() for match in words} | {span[0]}
    starts |= {match.end() - len(match[0].lstrip(_BEFORE_NAME)) for match in words}
    ends = {0}
    for match in [*_WORD.finditer(behind)][:_MAX_NAME_WORDS]:
        punctuation = _BEHIND_NAME.search(behind[: match.end()])
        ends |= {match.end(), punctuation.start() if punctuation else 0}
    return any(
        os.path.lexists(f"{root}/{before[start:]}{text[slice(*span)]}{behind[:end]}")
        for start in starts
        for end in ends
    )


def _split_command(parts: list[str], caller: Caller) -> tuple[Tool | None, list[str]]:
    """Return the caller's tool for a command line, or None, and its arguments."""
    for count in (2, 1):
        tool = registry.lookup("_".join(parts[:count])) if len(parts) >= count else None
        if tool is not None:
            may_use = tool.name not in _FOR_PEOPLE and available.scope_allows(tool, caller)
            return (tool if may_use else None), parts[count:]
    return None, parts


def _arguments(
    tools: list[Tool], parts: list[str], positional: list[Parameter] | None = None
) -> list[str]:
    """Return a command line's arguments as ``key=value``, or an empty list if any has no key.

    Without ``positional``, the parts do not belong to a command.
    """
    rendered: list[str] = []
    rest = list(parts)
    while rest:
        part = rest.pop(0)
        parameter = _find(tools, part)
        if parameter is None and positional and not part.startswith("--"):
            shell = positional[0] if list in positional[0].types else positional.pop(0)
            parameter = _find(tools, shell.shell_name)
        if parameter is None:
            return []
        value = part
        if part.startswith("--") and bool in parameter.types:
            is_negated = part == parameter.flag.partition("/")[2]
            value = "" if positional is None else "false" if is_negated else "true"
        elif part.startswith("--"):
            value = rest.pop(0) if rest else ""
        is_named_only = not value or _PLACEHOLDER.fullmatch(value)
        rendered.append(parameter.key if is_named_only else f"{parameter.key}={value}")
    return rendered


def _find(tools: list[Tool], word: str) -> Parameter | None:
    """Return the first parameter with this option or this uppercase argument name."""
    for tool in tools:
        for entry in tool.parameters:
            for part in (entry, *entry.items):
                if word.startswith("--"):
                    if word in part.flag.split("/") or normal_key(word) == normal_key(part.key):
                        return part
                elif word == part.shell_name:
                    return part
    return None


@cache
def describe(text: str, name: str) -> str:
    """Return a description of a built-in tool, rewritten by ``render``."""
    return render(text, registry.find(name), LOCAL)


def render_result(
    result: Mapping[str, Any], tool: Tool | None, caller: Caller, root: Path | None = None
) -> dict[str, Any]:
    """Return a tool's result with its messages rendered, except names of files below ``root``.

    The result of a vault's own tool is unchanged, apart from memvault's warnings.
    """
    is_output = tool is not None and tool.own_parameters is not None
    paths = ("warnings",) if is_output else (*_TEXTS, *(tool.messages if tool else ()))
    rendered: Any = dict(result)
    for path in paths:
        rendered = _at(rendered, path.split("."), lambda text: render(text, tool, caller, root))
    return dict(rendered)


def _at(value: Any, path: list[str], change: Callable[[str], str]) -> Any:
    """Apply a function to the strings at a path of keys, descending into each entry in a list."""
    if isinstance(value, list):
        return [_at(entry, path, change) for entry in value]
    if isinstance(value, Mapping):
        keys = path[:1] or value
        rest = path[1:]
        return {**value, **{key: _at(value[key], rest, change) for key in keys if key in value}}
    return change(value) if isinstance(value, str) and not path else value


def render_error(error: MemvaultError, tool: Tool | None, caller: Caller, root: Path) -> None:
    """Render the message and the hint of a tool's error in the vault at ``root``."""
    error.message = render(error.message, tool, caller, root)
    error.hint = render(error.hint, tool, caller, root)
    error.args = (error.message,)
