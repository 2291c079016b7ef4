"""What a shell may complete: commands, their options and arguments, and what each can be.

``table`` is written to ``data/words.tsv`` by ``make docs`` from the tools and the
other commands, so that completing loads none of them; ``read`` reads it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from memvault.cli.options import GLOBAL_OPTIONS
from memvault.cli.overview import EXTRA_COMMANDS
from memvault.command_table import COMMANDS

FILE = Path(__file__).resolve().parents[1] / "data" / "words.tsv"
_NOTHING = ""
_KINDS = {
    "memoryType": "type",
    "tags": "tag",
    "memId": "memory",
    "memory": "memory",
    "id": "memory",
    "ids": "memory",
    "factId": "memory",
    "episodeId": "memory",
    "supersedes": "memory",
    "filePath": "memory",
    "agent": "agent",
    "spaceId": "space",
    "folder": "file",
    "under": "tag",
    "old": "tag",
}
"""What an argument of a name is one of."""
_MEMORIES = {"memory_compound": "query", "memory_forget": "query"}
"""Arguments that may be any words, and most often are a memory's name."""


class CompletionSpec(NamedTuple):
    """An option of a command, or one of its arguments.

    ``name`` is the option as it is typed, or the argument's place, from 0 on.
    ``value`` is what may stand there: a kind of name, words between ``|``, ``*``
    for anything, or nothing for an option that takes no value.
    """

    command: str
    name: str
    value: str
    help: str


def read() -> list[CompletionSpec]:
    """Return what ``table`` wrote."""
    lines = FILE.read_text("utf-8").splitlines()
    return [CompletionSpec(*line.split("\t")) for line in lines]


def table() -> str:
    """Return the options and arguments of every command."""
    words = [
        CompletionSpec(
            "", flag, {"--agent": "agent", "--vault": "file"}.get(flag, "*") if takes else "", text
        )
        for _, flag, takes, text in GLOBAL_OPTIONS
    ]
    for command in COMMANDS:
        if command.words not in EXTRA_COMMANDS:
            words += _of_tool(command.tool, command.words)
    for name in EXTRA_COMMANDS:
        words += _of_extra(name)
    return "".join("\t".join(word).replace("\n", " ") + "\n" for word in words)


def _of_tool(tool: str, command: str) -> list[CompletionSpec]:
    from memvault.tools.core import registry

    found, place = [], 0
    for parameter in registry.find(tool).shell_parameters:
        value = _KINDS.get(parameter.key, "*")
        if _MEMORIES.get(tool) == parameter.key:
            value = "memory"
        if parameter.choices:
            value = "|".join(parameter.choices)
        if parameter.arg.positional:
            name = f"{place}+" if list in parameter.types else str(place)
            found.append(CompletionSpec(command, name, value, parameter.arg.help))
            place += 1
            continue
        for flag in parameter.flag.split("/"):
            value = _NOTHING if parameter.types == (bool,) else value
            found.append(CompletionSpec(command, flag, value, parameter.arg.help))
    return found


def _of_extra(command: str) -> list[CompletionSpec]:
    from memvault.cli.extra import COMMANDS as EXTRA

    found, place = [], 0
    declared: dict[str, tuple[Any, Any]] = EXTRA[command][1]
    for key, (kind, info) in declared.items():
        flags = [flag for flag in getattr(info, "param_decls", None) or () if flag.startswith("-")]
        value = _NOTHING if kind is bool else _KINDS.get(key, "*")
        if "|" in (info.metavar or ""):
            value = info.metavar.strip("[]")
        if flags:
            found += [
                CompletionSpec(command, flag, value, info.help)
                for flag in flags
                if flag[:2] == "--"
            ]
        else:
            found.append(CompletionSpec(command, str(place), value, info.help))
            place += 1
    return found
