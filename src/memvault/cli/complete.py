"""Compute the shell completions at the cursor.

Only names from a vault that are safe to type unquoted are offered; titles are shown as descriptions
and never inserted.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from memvault import sanitize
from memvault.cli.options import GLOBAL_OPTIONS, scan
from memvault.command_table import COMMANDS, TOOLS
from memvault.errors import MemvaultError
from memvault.named_tuple import NamedTuple

if TYPE_CHECKING:
    from memvault.arguments.parameters import Parameter

FILE = Path(__file__).resolve().parents[1] / "data" / "words.tsv"


class CompletionSpec(NamedTuple):
    """An option or a positional argument of a command.

    ``name`` is the option as typed, or the position of the argument, counted from 0. ``value`` is
    its accepted value: a kind of name, words separated by ``|``, ``*`` for anything, or empty for
    an option without a value.
    """

    command: str
    name: str
    value: str
    help: str


def read() -> list[CompletionSpec]:
    """Read the data file, which contains the specifications from ``table``."""
    lines = FILE.read_text("utf-8").splitlines()
    return [CompletionSpec(*line.split("\t")) for line in lines]


def table() -> str:
    """Return the options and arguments of every command as tab-separated lines."""
    from memvault.cli.command_line import SHORT_FLAGS
    from memvault.cli.registry import find
    from memvault.tools.core import registry

    specs = [
        CompletionSpec(
            "", flag, {"--agent": "agent", "--vault": "file"}.get(flag, "*") if takes else "", text
        )
        for _, flag, takes, text in GLOBAL_OPTIONS
    ]
    cli_commands = {entry.words for entry in COMMANDS if not entry.tool}
    for entry in COMMANDS:
        if not entry.tool:
            specs += _specs(entry.words, find(entry).shell_parameters, SHORT_FLAGS)
        elif entry.words not in cli_commands:
            parameters = registry.find(entry.tool).shell_parameters
            specs += _specs(entry.words, parameters, SHORT_FLAGS)
    return "".join("\t".join(word).replace("\n", " ") + "\n" for word in specs)


def _specs(
    command: str, parameters: Iterable[Parameter], short_flags: Mapping[str, str]
) -> Iterator[CompletionSpec]:
    position = 0
    for parameter in parameters:
        arg = parameter.arg
        choices = "|".join(parameter.choices) or (arg.metavar if "|" in arg.metavar else "")
        value = choices or arg.completes or "*"
        if arg.positional:
            name = f"{position}+" if list in parameter.types else str(position)
            yield CompletionSpec(command, name, value, arg.help)
            position += 1
            continue
        short = short_flags.get(parameter.flag, "")
        for flag in filter(None, (*parameter.flag.split("/"), arg.option_alias, short)):
            is_switch = parameter.types == (bool,)
            yield CompletionSpec(command, flag, "" if is_switch else value, arg.help)


_SAFE = re.compile(r"[\w@%+=:,./-]+")
"""Matches text that every shell parses as one plain word."""
_MAX_CANDIDATES = 200
_HELP = CompletionSpec("", "--help", "", "Show help for the command")


class CompletionItem(NamedTuple):
    """A completion and its description."""

    word: str
    about: str = ""


def main(arguments: list[str]) -> int:
    """Print the completions, one per line, for the arguments ``SHELL INDEX WORD...``.

    The words begin with ``memvault``. A tab separates a word from its description. bash does not
    support descriptions, so it gets plain words. If COMP_TYPE (as in ``bash:63``) requests a list
    of words, each word is followed by its description in parentheses.
    """
    with contextlib.suppress(MemvaultError, OSError, ValueError, IndexError):
        shell, index, *argv = arguments
        shell, _, kind = shell.partition(":")
        before, typed = argv[1 : int(index)], (argv[int(index) :] or [""])[0]
        if shell == "bash":  # bash splits words at =.
            before, typed = [word for word in before if word != "="], typed.removeprefix("=")
        choices = candidates(before, typed)
        for choice in choices:
            about = sanitize.escape_line(choice.about).replace("\t", " ")
            if shell == "bash" and kind in _LISTING and len(choices) > 1 and about:
                print(_fit(f"{choice.word}  ({about})"))
            else:
                print(choice.word if shell == "bash" or not about else f"{choice.word}\t{about}")
    return 0


_LISTING = ("63", "33", "64")
"""Values of COMP_TYPE for which bash lists the words and inserts their common prefix."""


def _fit(line: str) -> str:
    """Shorten a line to the width of the terminal, because bash lists one item per line."""
    width = max(20, shutil.get_terminal_size().columns - 2)
    return line if len(line) <= width else f"{line[: width - 2]}…)"


def candidates(before: list[str], typed: str) -> list[CompletionItem]:
    """Return the completions that can follow the words ``before`` and start with ``typed``."""
    specs = read()
    flags = {word.name: word for word in specs if not word.command}
    if before[:1] == ["help"]:
        return _matching(_next_words(" ".join(before[1:])), typed)
    command, position, vault, pending = _parse_line(before, specs, flags)
    command_specs = [word for word in specs if word.command == command]
    if pending is None and "=" in typed and typed.startswith("--"):
        name, _, value = typed.partition("=")
        pending = {**flags, **{word.name: word for word in command_specs}}.get(name)
        head, typed = f"{name}=", value
    else:
        head = ""
    if pending is not None:
        return _matching(_values(pending.value, typed, vault), typed, head)
    if typed.startswith("-"):
        options = [
            word for word in (*command_specs, *flags.values(), _HELP) if word.name.startswith("-")
        ]
        return _matching((CompletionItem(word.name, word.help) for word in options), typed)
    subcommands = [] if position else _next_words(command)
    values: list[CompletionItem] = []
    for word in command_specs:
        repeats = word.name.endswith("+") and position >= int(word.name[:-1])
        if word.name == str(position) or repeats:
            values = _values(word.value, typed, vault)
    return _matching([*subcommands, *values], typed)


def _parse_line(
    before: list[str], specs: list[CompletionSpec], shared: dict[str, CompletionSpec]
) -> tuple[str, int, str, CompletionSpec | None]:
    """Parse the words before the cursor.

    Returns the command, the number of its positional arguments so far, the vault, and
    the option whose value is next, if any.
    """
    names = _names()
    positionals = scan(before).words  # Only global options can precede the command.
    count = next(
        n
        for n in range(min(len(positionals), 2), -1, -1)
        if n == 0 or " ".join(positionals[:n]) in names
    )
    command = " ".join(positionals[:count])
    flags = {**shared, **{word.name: word for word in specs if word.command == command}}
    options, positionals, pending = scan(before, {flag for flag in flags if flags[flag].value})
    vault = options.get("--vault", "")
    return command, len(positionals) - count, vault, flags.get(pending)


def _names() -> dict[str, str]:
    """Return the summaries of all commands and command groups by name."""
    summaries = {entry.words: entry.summary for entry in (*TOOLS, *COMMANDS)}
    groups = {name.split(" ")[0]: "" for name in summaries if " " in name}
    return {**groups, **summaries, "help": "Show help for a command"}


def _next_words(command: str) -> list[CompletionItem]:
    start = f"{command} " if command else ""
    summaries: dict[str, str] = {}
    for name, about in _names().items():
        if name.startswith(start) and name != command:
            word, _, rest = name.removeprefix(start).partition(" ")
            summaries.setdefault(word, "" if rest else about)
    return [CompletionItem(word, about) for word, about in summaries.items()]


def _values(value: str, typed: str, vault: str) -> list[CompletionItem]:
    if "|" in value:
        return [CompletionItem(word) for word in value.split("|")]
    lister = _LISTERS.get(value)
    if lister is None:
        return []
    from memvault.secrets.detector import masked
    from memvault.settings.locate import find_vault

    root = find_vault(vault or None, lambda *_: None)
    head, comma, start = typed.rpartition(",") if value == "tag" else ("", "", typed)
    return [
        CompletionItem(f"{head}{comma}{word}", masked(about))
        for word, about in lister(root, typed)
        if word.startswith(start) and masked(word) == word
    ]


def _memories(root: Path, typed: str) -> Iterable[CompletionItem]:
    from memvault.index import completion_names

    return [
        CompletionItem(*entry) for entry in completion_names.memories(root, typed, _MAX_CANDIDATES)
    ]


def _restorable(root: Path, typed: str) -> Iterable[CompletionItem]:
    """Yield the memories in the trash, last deleted first, then all others."""
    from memvault.memories import trash
    from memvault.workspace import Workspace

    for entry in trash.list_trash(Workspace(root).store):
        yield CompletionItem(entry.mem_id, entry.title)
    yield from _memories(root, typed)


def _changes(root: Path, _: str) -> Iterable[CompletionItem]:
    """Yield the changes that were not undone, newest first."""
    from memvault.store.journal import Journal

    for change in islice(Journal(root).changes(), _MAX_CANDIDATES):
        if not change.reverted_by:
            names = ", ".join(entry.title or entry.path for entry in change.files)
            yield CompletionItem(change.change_id, f"{change.tool} {names}")


def _templates(root: Path, _: str) -> Iterable[CompletionItem]:
    from memvault.memories import templates

    return map(CompletionItem, templates.template_names(root))


def _types(root: Path, _: str) -> Iterable[CompletionItem]:
    from memvault.index import completion_names
    from memvault.settings import vault_settings

    descriptions = {
        entry.name: entry.description for entry in vault_settings.load_settings(root).types
    }
    return [
        CompletionItem(name, descriptions.get(name, ""))
        for name in dict.fromkeys([*descriptions, *completion_names.types(root)])
    ]


def _tags(root: Path, _: str) -> Iterable[CompletionItem]:
    from memvault.index import completion_names

    counts = completion_names.tags(root)
    ordered = sorted(counts, key=lambda tag: (-counts[tag], tag))
    return [CompletionItem(tag, f"{counts[tag]}") for tag in ordered]


def _searches(root: Path, _: str) -> Iterable[CompletionItem]:
    from memvault.settings.vault_settings import load_settings

    searches = load_settings(root).searches
    return [CompletionItem(f"@{name}", searches[name].get("query", "")) for name in searches]


def _folders(name: str) -> Callable[[Path, str], Iterable[CompletionItem]]:
    """Return a function that yields the subfolders and notes of one folder in the vault."""

    def list_names(root: Path, _: str) -> Iterable[CompletionItem]:
        names = set()
        for base in (root / name, root / ".memvault" / name):
            with contextlib.suppress(OSError):
                names |= {entry.removesuffix(".md") for entry in os.listdir(base)}
        return [CompletionItem(entry) for entry in sorted(names)]

    return list_names


_LISTERS: dict[str, Callable[[Path, str], Iterable[CompletionItem]]] = {
    "memory": _memories,
    "trash": _restorable,
    "change": _changes,
    "template": _templates,
    "type": _types,
    "tag": _tags,
    "search": _searches,
    "query": _searches,
    "agent": _folders("agents"),
    "space": _folders("spaces"),
}
"""The functions that list names, by kind."""


def _matching(
    choices: Iterable[CompletionItem], typed: str, head: str = ""
) -> list[CompletionItem]:
    """Return the distinct choices that start with ``typed`` and are safe to type unquoted."""
    unique: dict[str, CompletionItem] = {}
    for choice in choices:
        if choice.word.startswith(typed) and _SAFE.fullmatch(choice.word):
            unique.setdefault(choice.word, CompletionItem(f"{head}{choice.word}", choice.about))
    return list(unique.values())[:_MAX_CANDIDATES]
