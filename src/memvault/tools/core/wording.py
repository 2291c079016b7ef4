"""Wording of messages and descriptions for callers that have tools, not a shell.

They are written with commands, options, arguments in capitals and ids in words: ``memvault show
MEMORY --section``, ``memory id``. For a caller that ``speaks`` tools (over MCP, in Python or of
``call``), ``invoke.call`` replaces a command that is one of its tools by the tool's name, an option
or argument by its key, and an id by the key of that id. Texts of memories and of a vault's tool are
not changed.
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
from memvault.lazy_pattern import lazy_pattern
from memvault.tools.core import available, registry
from memvault.tools.core.registry import Tool

_REPLACED = lazy_pattern(r"memvault |--|[A-Z]{2}|[a-z] ids?\b")
_FOR_PEOPLE = ("model_use",)
"""Tools whose commands stay in messages, because a person decides about them."""
_TEXTS = frozenset(("message", "hint", "error"))
"""The keys of a result that hold texts for the caller, or an object of texts."""
_LISTS = frozenset(("warnings", "todo"))
"""The keys of a result that hold lists of such texts."""


@cache
def _pattern() -> re.Pattern[str]:
    """Return the pattern of a quoted value and of what ``without_shell`` replaces."""
    words = sorted((entry.words for entry in TOOLS if entry.tool not in _FOR_PEOPLE), reverse=True)
    return re.compile(
        r"(?<!\w)(?P<quote>['\"])(?:(?!(?P=quote))[^\\]|\\.){0,300}+(?P=quote)(?!\w)"
        rf"|\bmemvault (?P<words>{'|'.join(words)})(?![\w-])(?! --fix)"
        r"|\bmemvault (?P<other>[a-z]+)"
        r"| \(--[a-z/-]+\)"
        r"|\b(?P<id>[Mm]emory|[Tt]alk|[Ss]kill|[Cc]hange) id(?P<plural>s?)\b"
        r"|(?P<blank> ?)(?:(?<![\w-])--(?P<option>[a-z][a-z-]*)"
        r"|(?<![\w/:@=-])(?P<argument>[A-Z][A-Z-]*[A-Z])(?![\w/:@=-]|\.\w))"
    )


def without_shell(text: str, tool: Tool | None, caller: Caller) -> str:
    """Return a message with the caller's tools and arguments in place of commands and options.

    ``tool`` is the one whose options are meant where the text contains no command. Commands
    that are not tools of the caller are unchanged, with their options. So are quoted parts, such
    as a name, and a ``Verbatim`` text; every result is one.
    """
    if isinstance(text, Verbatim):
        return text
    if not _REPLACED.search(text):
        return Verbatim(text)
    named, end, link = tool, -1, ""

    def replacement(found: re.Match[str]) -> str:
        nonlocal named, end, link
        if found["quote"]:
            return found[0]
        if found["id"]:
            kind = found["id"].lower()
            return f"{'mem' if kind == 'memory' else kind}Id{found['plural']}"
        if found["words"]:
            named = registry.lookup(found["words"].replace(" ", "_"))
            named = named if named is not None and available.is_within(named, caller) else None
            end, link = found.end(), "with "
            return named.name if named else found[0]
        if found["other"]:
            named = None
            return found[0]
        if found["option"] or found["argument"]:
            asked = found["option"] or "", found["argument"] or ""
            key = next(
                filter(None, (_key(one, *asked) for one in (named, tool) if named and one)), ""
            )
            if not key:
                return found[0]
            is_first = bool(found["option"]) and link == "with "
            joined = link if is_first or found.start() == end else ""
            end, link = found.end(), "and "
            return f"{found['blank']}{joined}{key}"
        return "" if named else found[0]

    return Verbatim(_pattern().sub(replacement, text))


def _key(tool: Tool, option: str, argument: str) -> str:
    """Return the key of an option or of an argument in capitals, or an empty text."""
    for entry in tool.parameters:
        for part in (entry, *entry.items):
            is_named = argument == part.shell_name and part.arg.positional and not part.arg.metavar
            if (
                is_named
                or (option and f"--{option}" in part.flag.split("/"))
                or (option and normal_key(option) == normal_key(part.key))
            ):
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
