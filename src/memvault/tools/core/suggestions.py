"""Suggest a command or a tool for an unknown name, by its words and its spelling."""

from __future__ import annotations

from collections.abc import Collection

from memvault.arguments.parameters import normal_name
from memvault.command_table import TOOLS
from memvault.errors import closest

SYNONYMS = {
    ("remember", "set", "store", "register"): "add create insert new note put save write",
    ("recall",): "ask find grep lookup query search",
    ("forget", "delete", "untrust", "empty"): "del delete erase remove rm",
    ("show", "get", "read", "observe"): "cat fetch get open print read view",
    ("list", "get", "recent", "read", "peek", "categories"): "all dir list ls",
    ("links", "backlinks"): "connections graph references refs related",
    ("compound", "update", "set"): "append change edit extend modify update",
    ("log",): "changes history",
    ("undo",): "revert rollback",
    ("status",): "info stat stats",
    ("doctor",): "check fix lint validate verify",
    ("reindex",): "index rebuild refresh",
    ("active",): "held loaded",
    ("git sync",): "commit pull push sync",
    ("talk user", "send"): "message say tell",
    ("help",): "man usage",
}
"""Words that other programs use for commands and tools.

A key lists the candidates; the first that exists is suggested.
"""
_MIN_SIMILARITY = 0.75
"""Minimum similarity of a suggestion, because a list of names is better than a wrong guess."""
_MAX_TOOLS = 3


def suggest_command(name: str, names: Collection[str]) -> str | None:
    """Return the most likely command for an unknown name, or None."""
    for canonical, synonyms in SYNONYMS.items():
        available = [command for command in canonical if command in names]
        if available and name.lower() in synonyms.split():
            return available[0]
    return closest(name.lower(), names, _MIN_SIMILARITY) or None


def suggest_tools(name: str, names: Collection[str]) -> list[str]:
    """Return the tools that an unknown name may mean, the most likely first.

    They have the same words in another order, a synonym for one of them, or else a similar name.
    """
    tools = {tool: [_words(tool)] for tool in names}
    for command in TOOLS:
        if command.tool in tools:
            tools[command.tool].append(_words(command.words.replace(" ", "_")))

    def of_words(name_words: frozenset[str]) -> list[str]:
        candidates = (name_words, name_words | {"memory"})
        return [
            tool
            for tool, tool_words in tools.items()
            if any(entry in candidates for entry in tool_words)
        ]

    name_words = _words(normal_name(name))
    tool_names = of_words(name_words)
    for canonical, synonyms in SYNONYMS.items():
        for word in name_words & {*synonyms.split(), *canonical}:
            matches = (of_words(name_words - {word} | {*choice.split()}) for choice in canonical)
            tool_names += next(filter(None, matches), [])
    if not tool_names:
        tool_names = [*filter(None, [closest(normal_name(name), names, _MIN_SIMILARITY)])]
    return list(dict.fromkeys(tool_names))[:_MAX_TOOLS]


def _words(name: str) -> frozenset[str]:
    """Return the words of a tool's name in the singular."""
    singulars = (f"{word[:-3]}y" if word.endswith("ies") else word for word in name.split("_"))
    return frozenset(word.removesuffix("s") for word in singulars)
