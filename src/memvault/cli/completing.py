"""What may stand where the cursor is, for a shell that asks at each key.

Nothing that a vault holds reaches the command line but what is safe to type
there unquoted; titles are shown beside it and typed by nobody.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from memvault import visible
from memvault.cli.overview import EXTRA_COMMANDS
from memvault.cli.shell_words import CompletionSpec, read
from memvault.command_table import COMMANDS
from memvault.errors import MemvaultError

_SAFE = re.compile(r"[\w@%+=:,./-]+")
"""What no shell reads as anything but a word."""
_MOST = 200
_HELP = CompletionSpec("", "--help", "", "Show what the command takes")


class CompletionItem(NamedTuple):
    """A word that fits, and what is to be said of it."""

    word: str
    about: str = ""


def main(arguments: list[str]) -> int:
    """Print what fits, a line each: ``SHELL INDEX WORD...``, the words from ``memvault`` on.

    A tab parts a word from what is said of it, which bash does not show.
    """
    with contextlib.suppress(MemvaultError, OSError, ValueError, IndexError):
        shell, index, *words = arguments
        before, typed = words[1 : int(index)], (words[int(index) :] or [""])[0]
        if shell == "bash":  # to which = is a word of its own
            before, typed = [word for word in before if word != "="], typed.removeprefix("=")
        for choice in candidates(before, typed):
            about = visible.escape_line(choice.about).replace("\t", " ")
            print(choice.word if shell == "bash" or not about else f"{choice.word}\t{about}")
    return 0


def candidates(before: list[str], typed: str) -> list[CompletionItem]:
    """Return the words that may follow others, and begin as what is typed."""
    words = read()
    flags = {word.name: word for word in words if not word.command}
    command, place, vault, pending = _parse_line(before, words, flags)
    own = [word for word in words if word.command == command]
    if pending is None and "=" in typed and typed.startswith("--"):
        name, _, value = typed.partition("=")
        pending = {**flags, **{word.name: word for word in own}}.get(name)
        head, typed = f"{name}=", value
    else:
        head = ""
    if pending is not None:
        return _matching(_values(pending.value, typed, vault), typed, head)
    if typed.startswith("-"):
        options = [word for word in (*own, *flags.values(), _HELP) if word.name.startswith("-")]
        return _matching((CompletionItem(word.name, word.help) for word in options), typed)
    deeper = [] if place else _next_words(command)
    values: list[CompletionItem] = []
    for word in own:
        many = word.name.endswith("+") and place >= int(word.name[:-1])
        if word.name == str(place) or many:
            values = _values(word.value, typed, vault)
    return _matching([*deeper, *values], typed)


def _parse_line(
    before: list[str], words: list[CompletionSpec], shared: dict[str, CompletionSpec]
) -> tuple[str, int, str, CompletionSpec | None]:
    """Return the command, how many arguments it has, the vault, and the option that waits."""
    command, place, vault = "", 0, ""
    pending: CompletionSpec | None = None
    names = _names()
    flags = dict(shared)
    for text in before:
        if pending is not None:
            vault = text if pending.name == "--vault" else vault
            pending = None
        elif text.startswith("-"):
            name, equals, value = text.partition("=")
            found = flags.get(name)
            vault = value if name == "--vault" and equals else vault
            pending = found if found is not None and found.value and not equals else None
        elif not place and (longer := f"{command} {text}".strip()) in names:
            command = longer
            flags = {**shared, **{word.name: word for word in words if word.command == command}}
        else:
            place += 1
    return command, place, vault, pending


def _names() -> dict[str, str]:
    """Return every command and every beginning of one, with what it does."""
    every = {command.words: command.summary for command in COMMANDS} | EXTRA_COMMANDS
    groups = {name.split(" ")[0]: "" for name in every if " " in name}
    return {**groups, **every}


def _next_words(command: str) -> list[CompletionItem]:
    start = f"{command} " if command else ""
    found: dict[str, str] = {}
    for name, about in _names().items():
        if name.startswith(start) and name != command:
            word, _, more = name.removeprefix(start).partition(" ")
            found.setdefault(word, "" if more else about)
    return [CompletionItem(word, about) for word, about in found.items()]


def _values(value: str, typed: str, vault: str) -> list[CompletionItem]:
    if "|" in value:
        return [CompletionItem(word) for word in value.split("|")]
    look = _NAMES.get(value)
    if look is None:
        return []
    from memvault.locate import find_vault

    root = find_vault(vault or None)
    if value != "tag":
        return list(look(root, typed))
    head, comma, _ = typed.rpartition(",")
    return [CompletionItem(f"{head}{comma}{tag}", about) for tag, about in look(root, typed)]


def _memories(root: Path, typed: str) -> Iterable[CompletionItem]:
    from memvault.index import glance

    return [CompletionItem(*entry) for entry in glance.memories(root, typed, _MOST)]


def _types(root: Path, _: str) -> Iterable[CompletionItem]:
    from memvault import config
    from memvault.index import glance

    known = {entry.name: entry.description for entry in config.load_settings(root).types}
    return [
        CompletionItem(name, known.get(name, ""))
        for name in dict.fromkeys([*known, *glance.types(root)])
    ]


def _tags(root: Path, _: str) -> Iterable[CompletionItem]:
    from memvault.index import glance

    found = glance.tags(root)
    ordered = sorted(found, key=lambda tag: (-found[tag], tag))
    return [CompletionItem(tag, f"{found[tag]}") for tag in ordered]


def _folders(name: str) -> Callable[[Path, str], Iterable[CompletionItem]]:
    """Return what names the folders and notes in one of the vault's."""

    def look(root: Path, _: str) -> Iterable[CompletionItem]:
        found = set()
        for base in (root / name, root / ".memvault" / name):
            with contextlib.suppress(OSError):
                found |= {entry.removesuffix(".md") for entry in os.listdir(base)}
        return [CompletionItem(entry) for entry in sorted(found)]

    return look


_NAMES: dict[str, Callable[[Path, str], Iterable[CompletionItem]]] = {
    "memory": _memories,
    "type": _types,
    "tag": _tags,
    "agent": _folders("agents"),
    "space": _folders("spaces"),
}
"""How the names of each kind are found."""


def _matching(
    choices: Iterable[CompletionItem], typed: str, head: str = ""
) -> list[CompletionItem]:
    """Return what begins as typed and is safe to type, each once."""
    found: dict[str, CompletionItem] = {}
    for choice in choices:
        if choice.word.startswith(typed) and _SAFE.fullmatch(choice.word):
            found.setdefault(choice.word, CompletionItem(f"{head}{choice.word}", choice.about))
    return list(found.values())[:_MOST]
