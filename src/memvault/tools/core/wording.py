"""Wording of messages and descriptions for callers that have tools, not a shell.

They are written with commands and options. For a caller that ``speaks`` tools (over MCP, in
Python or of ``call``), ``invoke.call`` replaces a command that is one of its tools by the tool's
name, and an option by the argument's key. Texts of memories and of a vault's tool are not changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from memvault.arguments.parameters import normal_key
from memvault.call import LOCAL, Caller
from memvault.command_table import TOOLS
from memvault.errors import MemvaultError, Verbatim
from memvault.tools.core import available, registry
from memvault.tools.core.registry import Tool

_FOR_PEOPLE = ("model_use",)
"""Tools whose commands stay in messages, because a person decides about them."""
_TEXTS = frozenset(("message", "hint", "error"))
"""The keys of a result that hold texts for the caller, or an object of texts."""
_LISTS = frozenset(("warnings", "todo"))
"""The keys of a result that hold lists of such texts."""


@cache
def _pattern() -> re.Pattern[str]:
    """Return the pattern of a quoted value, a command, an option, and options in parentheses."""
    words = sorted((entry.words for entry in TOOLS if entry.tool not in _FOR_PEOPLE), reverse=True)
    return re.compile(
        r"(?<!\w)(?P<quote>['\"])(?:(?!(?P=quote))[^\\]|\\.){0,300}+(?P=quote)(?!\w)"
        rf"|\bmemvault (?P<words>{'|'.join(words)})(?![\w-])(?! --fix)"
        r"|\bmemvault (?P<other>[a-z]+)"
        r"| \(--[a-z/-]+\)"
        r"|(?P<blank> ?)(?<![\w-])--(?P<option>[a-z][a-z-]*)"
    )


def without_shell(text: str, tool: Tool | None, caller: Caller) -> str:
    """Return a message with the caller's tools and arguments in place of commands and options.

    ``tool`` is the one whose options are meant where the text contains no command. Commands
    that are not tools of the caller are unchanged, with their options. So are quoted parts, such
    as a name, and a ``Verbatim`` text; every result is one.
    """
    if isinstance(text, Verbatim):
        return text
    if "memvault " not in text and "--" not in text:
        return Verbatim(text)
    named, is_first = tool, False

    def replacement(found: re.Match[str]) -> str:
        nonlocal named, is_first
        if found["quote"]:
            return found[0]
        if found["words"]:
            named = registry.lookup(found["words"].replace(" ", "_"))
            named = named if named is not None and available.is_within(named, caller) else None
            is_first = named is not None
            return named.name if named else found[0]
        if found["other"]:
            named = None
            return found[0]
        if found["option"]:
            key = _key(named, found["option"]) if named else ""
            joined = "with " * is_first
            is_first = False
            return f"{found['blank']}{joined}{key}" if key else found[0]
        return "" if named else found[0]

    return Verbatim(_pattern().sub(replacement, text))


def _key(tool: Tool, option: str) -> str:
    """Return the key of the argument of an option, or an empty text."""
    for entry in tool.parameters:
        for part in (entry, *entry.items):
            if f"--{option}" in part.flag.split("/") or normal_key(option) == normal_key(part.key):
                return part.key
    return ""


@cache
def describe(text: str, name: str) -> str:
    """Return a description of a built-in tool in the words of ``without_shell``."""
    return without_shell(text, registry.find(name), LOCAL)


def for_tools(result: Mapping[str, Any], tool: Tool | None, caller: Caller) -> dict[str, Any]:
    """Return the result of a tool with its messages in the words of ``without_shell``.

    Of a vault's tool these are the warnings only: all else is its output.
    """
    is_output = tool is not None and tool.own_parameters is not None

    def worded(value: Any) -> Any:
        return without_shell(value, tool, caller) if isinstance(value, str) else value

    found = dict(result)
    for key in () if is_output else _TEXTS & found.keys():
        value = found[key]
        found[key] = (
            {part: worded(text) for part, text in value.items()}
            if isinstance(value, Mapping)
            else worded(value)
        )
    for key in ({"warnings"} if is_output else _LISTS) & found.keys():
        if isinstance(found[key], list):
            found[key] = [worded(text) for text in found[key]]
    for path in tool.messages if tool is not None else ():
        found = _at(found, path.split("."), worded)
    return found


def _at(value: Any, path: list[str], change: Callable[[Any], Any]) -> Any:
    """Return a value with what is at a path of keys changed, in each entry of the lists there."""
    if isinstance(value, list):
        return [_at(entry, path, change) for entry in value]
    if not path:
        return change(value)
    if not isinstance(value, Mapping) or path[0] not in value:
        return value
    return {**value, path[0]: _at(value[path[0]], path[1:], change)}


def reword(error: MemvaultError, tool: Tool | None, caller: Caller) -> None:
    """Put the message and the hint of a tool's error in the words of ``without_shell``."""
    error.message = without_shell(error.message, tool, caller)
    error.hint = without_shell(error.hint, tool, caller)
    error.args = (error.message,)
